//! Single sign-on by identity providers that are not what they should be, and browsers that bring what they did not fetch.

use super::caller::{Answer, Caller};
use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use common::account::SecretHash;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tests::cluster::{Cluster, until};
use tests::tokens::{Signer, now};
use tokio::net::TcpListener;

/// An identity provider that answers as a test wants it to.
#[derive(Clone)]
struct Provider(Arc<Mutex<Answers>>);

struct Answers {
    signer: Signer,
    /// The key that it shows, which need not be the one that it signs with.
    keys: Value,
    issuer: String,
    discovery: Value,
    /// The header and the claims of tokens, over those that are right.
    header: Value,
    claims: Value,
    user_info: Value,
    /// The number of requests for its configuration.
    described: u32,
    /// The nonce of the login that is under way.
    nonce: String,
    asked: Vec<(Option<String>, BTreeMap<String, String>)>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let signer = Signer::new();
        let [header, claims] = [json!({"alg": "ES256", "kid": "one"}), json!({})];
        let (keys, discovery) = (signer.keys(), json!({}));
        let user_info = json!({"sub": "7", "groups": ["admins"]});
        let (described, nonce, asked) = (0, String::new(), Vec::new());
        let answers = Answers { signer, keys, issuer, discovery, header, claims, user_info, described, nonce, asked };
        let provider = Self(Arc::new(Mutex::new(answers)));
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(async |State(it): State<Self>| Json(it.discovery())))
            .route("/keys", get(async |State(it): State<Self>| Json(it.lock().keys.clone())))
            .route("/me", get(async |State(it): State<Self>| Json(it.lock().user_info.clone())))
            .route("/token", post(token))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        provider
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap()
    }

    fn discovery(&self) -> Value {
        let mut it = self.lock();
        it.described += 1;
        let at = |path: &str| format!("{}{path}", it.issuer);
        let [authorization_endpoint, token_endpoint] = ["/authorize", "/token"].map(at);
        let [jwks_uri, userinfo_endpoint] = ["/keys", "/me"].map(at);
        over(
            json!({
                "issuer": it.issuer, "authorization_endpoint": authorization_endpoint, "token_endpoint": token_endpoint,
                "jwks_uri": jwks_uri, "userinfo_endpoint": userinfo_endpoint,
            }),
            &it.discovery,
        )
    }
}

/// An object with these fields instead, and without those that are `null`.
fn over(mut object: Value, other: &Value) -> Value {
    let fields = object.as_object_mut().unwrap();
    fields.extend(other.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    object
}

async fn token(
    State(provider): State<Provider>,
    headers: HeaderMap,
    Form(form): Form<BTreeMap<String, String>>,
) -> (StatusCode, Json<Value>) {
    let mut it = provider.lock();
    let basic = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let is_good = form.get("code").is_some_and(|code| code == "good");
    it.asked.push((basic, form));
    if !is_good {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"})));
    }
    let claims = json!({
        "iss": it.issuer, "aud": "console", "sub": "7", "exp": now() + 600, "iat": now(), "nonce": it.nonce,
        "groups": ["staff", "operators"], "email": "jane@example.com",
    });
    let token = it.signer.signed(&it.header, &over(claims, &it.claims));
    (StatusCode::OK, Json(json!({"id_token": token, "access_token": "a", "token_type": "Bearer"})))
}

/// A cluster whose first console knows that provider, and somebody who asks it.
async fn console(provider: &Provider, flags: &[(&str, &str)]) -> (Cluster, Caller) {
    let mut cluster = Cluster::new().unwrap();
    let issuer = provider.lock().issuer.clone();
    let at = cluster.masters[0].daemon.http;
    let own = [
        ("--oidc-issuer", issuer.as_str()),
        ("--oidc-client-id", "console"),
        ("--oidc-roles", "admins=admin,operators=operator,staff=viewer"),
        ("--console-url", &format!("http://{at}")),
    ];
    for (flag, value) in own.iter().chain(flags) {
        cluster.masters[0].daemon.set(flag, value);
    }
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    (cluster, Caller::nobody(at))
}

/// Begins a login: the query that went to the provider, and the caller with the cookie.
async fn begun(caller: &Caller) -> (BTreeMap<String, String>, Caller) {
    let answer = caller.get("/login/sso?next=/leases").await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let cookie = answer.header("set-cookie");
    assert!(cookie.contains("; Path=/login/sso;") && cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
    let query = answer.header("location").split_once('?').unwrap().1;
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
    let query = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (query, caller.with("cookie", cookie.split(';').next().unwrap()))
}

/// A whole login, with a code of the provider.
async fn come_in(provider: &Provider, caller: &Caller) -> Answer {
    let (query, caller) = begun(caller).await;
    provider.lock().nonce.clone_from(&query["nonce"]);
    caller.get(&format!("/login/sso/callback?code=good&state={}", query["state"])).await
}

/// The caller with the login of an answer that let it in.
fn let_in(caller: &Caller, answer: &Answer) -> Caller {
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().map(|it| it.to_str().unwrap()).collect();
    assert!(cookies.len() == 2 && cookies[0].contains("SameSite=Strict") && cookies[1].contains("Max-Age=0"));
    caller.with("cookie", cookies[0].split(';').next().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_the_console_only_to_the_browser_that_fetched_it() {
    let provider = Provider::start().await;
    let (_cluster, nobody) = console(&provider, &[]).await;
    let entered = come_in(&provider, &nobody).await;
    assert!(entered.body.contains("0; url=/leases\""), "{}", entered.body);
    let jane = let_in(&nobody, &entered);
    let me = jane.get("/api/me").await.json();
    assert_eq!((me["name"].as_str(), me["role"].as_str()), (Some("sso jane@example.com"), Some("operator")));
    // As RFC 7636 has it, and without a secret by the form alone.
    let (query, caller) = begun(&nobody).await;
    assert_eq!((query["code_challenge_method"].as_str(), query["response_type"].as_str()), ("S256", "code"));
    assert_eq!(query["scope"], "openid+profile+email");
    let (basic, form) = provider.lock().asked.pop().unwrap();
    assert!(basic.is_none() && form["client_id"] == "console" && form["code_verifier"].len() == 64);
    assert_eq!(form["redirect_uri"], format!("http://{}/login/sso/callback", nobody.console));

    // Another browser, another login, none at all; a code that is used or made up; what the provider says itself.
    let callback = |code: &str, state: &str| format!("/login/sso/callback?code={code}&state={state}");
    let state = &query["state"];
    provider.lock().nonce.clone_from(&query["nonce"]);
    let other = begun(&nobody).await.1;
    let name = caller.headers.iter().find(|(name, _)| *name == "cookie").unwrap().1.split('=').next().unwrap();
    let empty = nobody.with("cookie", format!("{name}=./leases"));
    for (caller, path) in [
        (&nobody, callback("good", state)),
        // What follows from nothing is known to everybody.
        (&nobody, callback("good", "927489cb2fcdb32e302713f6a720397868b71dd2128c734181983f367d622c24")),
        (&empty, callback("good", "927489cb2fcdb32e302713f6a720397868b71dd2128c734181983f367d622c24")),
        (&caller, callback("", state)),
        (&other, callback("good", state)),
        (&caller, callback("good", "")),
        (&caller, callback("good", &"0".repeat(64))),
        (&caller, callback("bad", state)),
        (&caller, "/login/sso/callback".to_owned()),
        (&caller, format!("/login/sso/callback?state={state}&error=access_denied")),
        (&caller, format!("{}&iss=https%3A%2F%2Fother.example", callback("good", state))),
        (&caller, format!("{}&code=again", callback("good", state))),
    ] {
        let answer = caller.get(&path).await;
        assert_eq!(answer.status, 401, "{path} {answer:?}");
        assert!(answer.body.contains("did not let you in") && !answer.headers.contains_key("set-cookie"), "{path}");
    }
    // Its nonce would be known as well, so that the token of the provider would be of that login.
    provider.lock().nonce = SecretHash::of(b"nonce\n").to_string();
    for caller in [&nobody, &empty] {
        let state = SecretHash::of(b"state\n");
        assert_eq!(caller.get(&callback("good", &state.to_string())).await.status, 401);
    }
    // Nobody is led elsewhere, and a change still needs the page's token.
    let answer = nobody.get("/login/sso?next=https://evil.example/").await;
    assert!(answer.header("set-cookie").contains("./;"), "{answer:?}");
    assert_eq!(jane.ask("DELETE", "/api/whitelist/10.0.0.0%2F8", &json!({})).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_are_not_right_and_people_without_a_role_open_nothing() {
    let provider = Provider::start().await;
    let (cluster, nobody) = console(&provider, &[]).await;
    let wrong = [
        json!({"aud": "other"}),
        json!({"aud": ["console", "other"]}),
        json!({"azp": "other"}),
        json!({"iss": "https://evil.example"}),
        json!({"exp": now() - 600}),
        json!({"exp": null}),
        json!({"nonce": "another"}),
        json!({"nonce": null}),
        json!({"sub": null}),
        json!({"sub": "x".repeat(256)}),
        json!({"sub": "a\u{202e}b"}),
    ];
    for claims in wrong {
        provider.lock().claims.clone_from(&claims);
        let answer = come_in(&provider, &nobody).await;
        assert!([401, 503].contains(&answer.status), "{claims} {answer:?}");
        assert!(!answer.headers.contains_key("set-cookie"), "{claims}");
    }
    provider.lock().claims = json!({});
    provider.lock().header = json!({"alg": "HS256", "kid": "one"});
    assert_eq!(come_in(&provider, &nobody).await.status, 503, "signed by the public key");
    for header in [json!({"alg": "none"}), json!({"alg": "ES256", "kid": "two"})] {
        provider.lock().header.clone_from(&header);
        assert_eq!(come_in(&provider, &nobody).await.status, 503, "{header}");
    }
    provider.lock().header = json!({"alg": "ES256", "kid": "one"});
    let other = Signer::new();
    let own = std::mem::replace(&mut provider.lock().signer, other);
    assert_eq!(come_in(&provider, &nobody).await.status, 503, "another signer");
    provider.lock().signer = own;

    // Groups may be one text, elsewhere, or apart from the token; of others they count for nobody.
    for (claims, user_info, role) in [
        (json!({"groups": "staff"}), json!({}), Some("viewer")),
        (json!({"groups": ["none"]}), json!({"sub": "7", "groups": ["admins"]}), None),
        (json!({"groups": null}), json!({"sub": "7", "groups": ["admins"]}), Some("admin")),
        (json!({"groups": null}), json!({"sub": "8", "groups": ["admins"]}), None),
        (json!({"groups": null}), json!({"groups": ["admins"]}), None),
        (json!({"groups": null}), json!({"sub": "7"}), None),
        (json!({"groups": null, "realm": {}}), json!({"sub": "7", "realm": {"groups": ["admins"]}}), None),
        (json!({"groups": {"admins": true}}), json!({}), None),
    ] {
        {
            let mut it = provider.lock();
            it.claims.clone_from(&claims);
            it.user_info = user_info;
        }
        let answer = come_in(&provider, &nobody).await;
        match role {
            Some(role) => assert_eq!(let_in(&nobody, &answer).get("/api/me").await.json()["role"], role),
            None => assert!([401, 503].contains(&answer.status), "{claims} {answer:?}"),
        }
    }
    // Anybody can say that an address is theirs.
    for unverified in [json!(false), json!("false")] {
        {
            let mut it = provider.lock();
            it.claims = json!({"email_verified": unverified});
            it.user_info = json!({"sub": "7"});
        }
        let answer = come_in(&provider, &nobody).await;
        assert_eq!(let_in(&nobody, &answer).get("/api/me").await.json()["name"], "sso 7");
    }
    // The first refusal is in the audit at once, and no token of those who failed.
    let admin = super::admin(&cluster, 0).await;
    let refused = || async {
        let lines = admin.get("/api/audit?action=access.refuse").await.json();
        lines.as_array()?.iter().find(|line| line["subject"] == "login").map(Value::to_string)
    };
    let (line, _) = until("a refused login is told", refused).await.unwrap();
    assert!(line.contains("single sign-on"), "{line}");
    assert!(!line.contains("eyJ"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_not_what_it_should_be_gets_no_secret_and_lets_nobody_in() {
    let provider = Provider::start().await;
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "s+ \n").unwrap();
    let flags = [("--oidc-client-secret-file", secret.to_str().unwrap()), ("--oidc-role-claim", "/realm/roles")];
    let (mut cluster, nobody) = console(&provider, &flags).await;
    // Longer than an answer may be. Whoever asks again meanwhile makes this master ask nobody.
    provider.lock().discovery = json!({"padding": "x".repeat(2 << 20)});
    for _ in 0..3 {
        let answer = nobody.get("/login/sso").await;
        assert_eq!((answer.status, answer.header("set-cookie")), (503, ""), "{answer:?}");
    }
    assert_eq!(std::mem::take(&mut provider.lock().described), 1);
    provider.lock().discovery = json!({"token_endpoint_auth_methods_supported": ["client_secret_basic"]});
    provider.lock().claims = json!({"realm": {"roles": ["admins"]}});
    let asked = || async { (nobody.get("/login/sso").await.status == 303).then_some(()) };
    until("the provider is asked again", asked).await.unwrap();
    let entered = come_in(&provider, &nobody).await;
    let jane = let_in(&nobody, &entered);
    assert_eq!(jane.get("/api/me").await.json()["role"], "admin");
    let (basic, form) = provider.lock().asked.pop().unwrap();
    // RFC 6749, section 2.3.1: escaped, and then in base64.
    assert_eq!(basic.as_deref(), Some("Basic Y29uc29sZTpzJTJC"));
    assert!(!form.contains_key("client_secret") && !form.contains_key("client_id"), "{form:?}");
    // A login outlives a restart, and no other settings.
    let daemon = &mut cluster.masters[0].daemon;
    assert!(daemon.terminate().await.unwrap().0.success());
    daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    assert_eq!(jane.get("/api/me").await.json()["role"], "admin");
    let daemon = &mut cluster.masters[0].daemon;
    assert!(daemon.terminate().await.unwrap().0.success());
    daemon.set("--oidc-roles", "admins=viewer");
    daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    assert_eq!(jane.get("/api/me").await.status, 401);
    // Where there is none, there is none.
    let other = Caller::nobody(cluster.masters[1].daemon.http);
    assert_eq!(other.get("/login/sso").await.status, 404);
    assert_eq!(other.get("/login/sso/callback?code=good&state=x").await.status, 404);
    assert!(!other.get("/login").await.body.contains("/login/sso"));
}

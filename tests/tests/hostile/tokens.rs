//! Pods that get their certificates by the tokens of their service accounts, and everybody who should get none by one.

use super::invitations::{Console, Invited};
use net::enroll::{EnrollError, Invitation, TlsFolder};
use net::rpc::enroll::EnrollRefusal;
use net::tls::{Role, Tls};
use serde_json::{Value, json};
use std::path::PathBuf;
use tests::tokens::{Signer, now};

/// Claims as a projected volume has them, and these instead.
fn claims(other: &Value) -> Value {
    let mut claims = json!({
        "aud": ["uniq"],
        "iss": "https://kubernetes.default.svc.cluster.local",
        "exp": now() + 3_600,
        "iat": now(),
        "nbf": now(),
        "sub": "system:serviceaccount:shop:orders",
        "kubernetes.io": {
            "namespace": "shop",
            "serviceaccount": {"name": "orders", "uid": "1"},
            "pod": {"name": "orders-0", "uid": "2"},
        },
    });
    claims.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    claims
}

struct Pods {
    invited: Invited,
    token: PathBuf,
    invitation: Invitation,
}

impl Pods {
    /// A cluster that believes this API server, and an invitation by tokens, which is made once.
    async fn of(server: &Signer) -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        let [keys, token] = ["keys.json", "token"].map(|name| dir.join(name));
        std::fs::write(&keys, server.keys().to_string()).unwrap();
        let accounts = "shop/orders=agent@orders.shop.svc,shop/web=client";
        let flags = [("--token-keys", keys.to_str().unwrap()), ("--token-account", accounts)];
        let invited = Invited::begin(&flags).await;
        let invitation = invited.invite(0, &["agent", "--invite-token-file", token.to_str().unwrap()]);
        Self { invited, token, invitation }
    }

    async fn ask_with(&self, token: &str) -> Result<Role, EnrollError> {
        std::fs::write(&self.token, token).unwrap();
        self.invited.redeem(&self.invitation).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_gets_the_certificate_of_its_name_by_its_token_and_nobody_else_does() {
    let server = Signer::new();
    let mut pods = Pods::of(&server).await;
    assert!(pods.invitation.to_string().contains("/agent?ca="), "{}", pods.invitation);
    // Asked twice, because its first answer was lost.
    let good = server.token(&claims(&json!({})));
    for _ in 0..2 {
        let role = pods.ask_with(&format!("{good}\n")).await.unwrap();
        assert_eq!(role, Role::of_path("agent/shop.orders-0").unwrap());
    }
    let names = pods.invited.folder("redeemed").names();
    assert!(names.contains(&"orders.shop.svc".to_owned()) && names.contains(&"127.0.0.1".to_owned()), "{names:?}");
    // A client's account makes a client, which an agent's invitation does not take.
    let web = json!({"namespace": "shop", "serviceaccount": {"name": "web"}, "pod": {"name": "web-7f"}});
    let web = server.token(&claims(&json!({"kubernetes.io": web})));
    assert!(matches!(pods.ask_with(&web).await, Err(EnrollError::Unkept { .. })));
    let (other, header) = (Signer::new(), json!({"alg": "ES256", "kid": "one"}));
    let bound = |namespace: &str, account: &str, pod: Value| json!({"kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account}, "pod": pod}});
    let pod = json!({"name": "orders-0"});
    for (token, why) in [
        (other.token(&claims(&json!({}))), "InvalidSignature"),
        (server.signed(&json!({"alg": "ES256", "kid": "two"}), &claims(&json!({}))), "kid two"),
        (server.signed(&json!({"alg": "HS256", "kid": "one"}), &claims(&json!({}))), "HS256"),
        (server.signed(&json!({"alg": "none", "kid": "one"}), &claims(&json!({}))), "none"),
        (server.signed(&json!({"alg": "RS256", "kid": "one"}), &claims(&json!({}))), "InvalidSignature"),
        ("x.y.z".to_owned(), "Base64"),
        (server.token(&claims(&json!({"aud": ["other"]}))), "InvalidAudience"),
        (server.token(&claims(&json!({"aud": null}))), "aud"),
        (server.token(&claims(&json!({"iss": "https://evil.example"}))), "InvalidIssuer"),
        (server.token(&claims(&json!({"exp": now() - 3_600}))), "ExpiredSignature"),
        (server.token(&claims(&json!({"exp": "never"}))), ""),
        (server.token(&claims(&json!({"nbf": now() + 3_600}))), "ImmatureSignature"),
        (server.token(&claims(&json!({"kubernetes.io": null}))), "not bound to a pod"),
        (server.token(&claims(&bound("shop", "orders", Value::Null))), "not bound to a pod"),
        (server.token(&claims(&bound("shop", "other", pod.clone()))), "pods of shop/other"),
        (server.token(&claims(&bound("stage", "orders", pod))), "pods of stage/orders"),
        (server.token(&claims(&bound("shop", "orders", json!({"name": "x".repeat(64)})))), "the name of the pod"),
        (server.signed(&header, &json!({})), ""),
    ] {
        match pods.ask_with(&token).await {
            Err(EnrollError::Refused(EnrollRefusal::Token(said))) => assert!(said.contains(why), "{said}: {why}"),
            other => panic!("{token}: {other:?}"),
        }
    }
    // What is no token goes to nobody, whatever file an invitation names.
    let cut = good.rsplit_once('.').unwrap().0;
    for token in [String::new(), format!("x.y.{}", "x".repeat(9 << 10)), format!("{cut}."), "root:x:0:0".to_owned()] {
        assert!(matches!(pods.ask_with(&token).await, Err(EnrollError::Token { .. })));
    }
    let tls = Tls::load(pods.invited.folder("redeemed").files()).unwrap();
    assert_eq!(pods.invited.counted(&tls, "uniq_master_certificates_issued_total").await, 3);
    // An agent of the pod, from its serial file on. Once it has its certificate it needs no token.
    std::fs::write(&pods.token, &good).unwrap();
    let second = pods.invited.format_second(&pods.invited.invite(0, &["master"]));
    assert_eq!(second.status, Some(0), "{second:?}");
    pods.invited.cluster.masters[1].daemon.start().unwrap();
    let agent = pods.invited.add_agent(&pods.invitation, &["--renew-interval", "1s"]);
    std::fs::remove_file(&pods.token).unwrap();
    pods.invited.becomes_ready(agent, &tls).await;
    // After a revocation an older token of the pod opens nothing.
    let console = Console::log_in(&pods.invited, &tls).await;
    let holder = json!({"role": "agent", "name": "shop.orders-0"}).to_string();
    assert_eq!(console.ask("POST /api/revocations", &holder).await.0, "201");
    let is_too_old = async |token: &str| match pods.ask_with(token).await {
        Err(EnrollError::Refused(EnrollRefusal::Token(why))) => why.contains("older than the revocation"),
        other => panic!("{other:?}"),
    };
    assert!(is_too_old(&good).await);
    let good = server.token(&claims(&json!({})));
    assert!(pods.ask_with(&good).await.is_ok());
    // Nor does one after a line in the master's file.
    let folder = TlsFolder::new(pods.invited.cluster.masters[0].data_dir.join("tls"));
    let cas = std::fs::read_to_string(folder.cas_file()).unwrap();
    folder.save_cas(&format!("Revoked: agent/shop.orders-0 2099-01-01T00:00:00Z\n{cas}")).unwrap();
    assert!(is_too_old(&good).await);
    folder.save_cas(&cas).unwrap();
    // Without keys there is nothing to believe, and nobody gets in.
    let keys = pods.token.with_file_name("keys.json");
    std::fs::write(&keys, "{").unwrap();
    assert!(matches!(pods.ask_with(&good).await, Err(EnrollError::Refused(EnrollRefusal::Token(_)))));
    std::fs::write(&keys, server.keys().to_string()).unwrap();
    assert!(pods.ask_with(&good).await.is_ok(), "the file is read anew");
    std::fs::remove_dir_all(pods.token.parent().unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invitation_of_a_network_opens_nothing_to_others_and_is_not_used_up_by_them() {
    let invited = Invited::begin(&[]).await;
    let elsewhere = invited.invite(0, &["client/billing", "--invite-from", "10.0.0.0/8,fd00::/8"]);
    match invited.redeem(&elsewhere).await {
        Err(EnrollError::Refused(EnrollRefusal::Network(from))) => assert!(from.is_loopback()),
        other => panic!("{other:?}"),
    }
    let here = invited.invite(0, &["agent", "--invite-from", "10.0.0.0/8,127.0.0.0/8", "--invite-uses", "2"]);
    assert!(invited.redeem(&here).await.is_ok() && invited.redeem(&here).await.is_ok());
    assert!(matches!(invited.redeem(&here).await, Err(EnrollError::Refused(EnrollRefusal::Unknown))));
    for flags in [
        &["agent/orders-1", "--invite-token-file", "/token"][..],
        &["agent@10.0.0.1", "--invite-token-file", "/token"],
        &["master", "--invite-token-file", "/token"],
        &["agent", "--invite-token-file", "token"],
        &["agent", "--invite-token-file", "/token", "--invite-from", "10.0.0.0/8"],
        &["agent", "--invite-from", "10.0.0.0/33"],
    ] {
        assert_eq!(invited.try_invite(0, flags).status, Some(2), "{flags:?}");
    }
}

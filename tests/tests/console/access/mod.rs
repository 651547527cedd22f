//! Access to the console, at two real masters: who is let in, what they may do, and that everybody else changes nothing.

mod caller;
mod fuzz;
mod hostile;
mod matrix;
mod sso;

use caller::{Caller, form};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use tests::client::ADMIN_PASSWORD;
use tests::cluster::{Cluster, until, until_status};

/// The first admin at a master.
async fn admin(cluster: &Cluster, master: usize) -> Caller {
    Caller::nobody(cluster.masters[master].daemon.http).log_in("admin", ADMIN_PASSWORD).await.unwrap()
}

/// The `uint2` token of the first agent.
async fn token_of(cluster: &Cluster) -> String {
    cluster.agent_status(0).await.unwrap().token("uint2").unwrap().to_owned()
}

/// Both masters, one agent, and the first admin's record at both.
async fn cluster() -> Cluster {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    for master in [0, 1] {
        admin_is_known(&cluster, master).await;
    }
    cluster
}

async fn admin_is_known(cluster: &Cluster, master: usize) {
    let console = cluster.masters[master].daemon.http;
    let known = || async {
        let audit =
            cluster.client.console(console, "/api/audit?action=user.change&about=admin").await.ok()?.json().ok()?;
        (!audit.as_array()?.is_empty()).then_some(())
    };
    until("both masters hold the first admin", known).await.unwrap();
}

/// The actions in a master's audit about somebody or something, the newest first.
async fn told(caller: &Caller, about: &str) -> Vec<String> {
    let rows = caller.get(&format!("/api/audit?about={about}")).await.json();
    let told = |row: &Value| format!("{} {} {}", row["who"], row["action"], row["detail"]).replace('"', "");
    rows.as_array().unwrap().iter().map(told).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_changes_nothing() {
    let cluster = cluster().await;
    let agent = Caller::nobody(cluster.agents[0].daemon.http);
    let asked = matrix::walk(&admin(&cluster, 0).await, &agent, &token_of(&cluster).await).await;
    println!("{asked} requests, each answered as it must be");
    assert!(asked > 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_from_outside_is_ever_markup() {
    let cluster = cluster().await;
    let shown = hostile::walk(&admin(&cluster, 0).await, &token_of(&cluster).await).await;
    println!("{shown} answers to hostile texts, none of them with one as markup");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_description_allows_is_answered_as_it_says() {
    let mut cluster = cluster().await;
    let admin = admin(&cluster, 0).await;
    let key = admin.ask("POST", "/api/keys", &json!({"name": "fuzz", "role": "admin"})).await.json();
    // The agent first: what an admin does at random may well end its lease.
    fuzz::walk(&Caller::nobody(cluster.agents[0].daemon.http)).await;
    fuzz::walk(&Caller::nobody(admin.console).key(key["key"].as_str().unwrap())).await;
    let client = cluster.client.clone();
    for nth in [0, 1] {
        until_status(&client, &mut cluster.master(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_first_admin_and_logins_survive_restarts() {
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        master.daemon.unset("--admin-password-file");
    }
    let client = cluster.client.clone();
    // A master that has never met the other lets its admin look around, and change nothing.
    cluster.master(0).unwrap().daemon.start().unwrap();
    until_status(&client, &mut cluster.master(0).unwrap().daemon, "/healthz", 200).await.unwrap();
    let file = cluster.masters[0].data_dir.join("admin-password");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let password = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    let consoles: Vec<_> = cluster.masters.iter().map(|master| master.daemon.http).collect();
    let lone = Caller::nobody(consoles[0]).log_in("admin", &password).await.unwrap();
    let refused = lone.ask("POST", "/api/keys", &json!({"name": "early", "role": "admin"})).await;
    assert_eq!((refused.status, refused.code()), (503, "masters_unavailable".to_owned()));

    cluster.master(1).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let at_two = || async { Caller::nobody(consoles[1]).log_in("admin", &password).await.ok() };
    // Five tries in a quarter of an hour: look only when it can be there.
    let known =
        || async { (!told(&lone, "admin").await.iter().all(|line| !line.contains("new, admin"))).then_some(()) };
    until("the first admin is confirmed", known).await.unwrap();
    let (two, _) = until("master 2 knows it too", at_two).await.unwrap();
    assert!(!cluster.masters[1].data_dir.join("admin-password").exists());
    for caller in [&lone, &two] {
        let admin = json!([{"name": "admin", "role": "admin", "second_factor": false}]);
        assert_eq!(caller.get("/api/users").await.json(), admin);
        let told = told(caller, "admin").await;
        assert_eq!(told.iter().filter(|line| line.contains("new, admin")).count(), 1, "{told:?}");
    }

    // The cookie of one is none of the other's.
    assert_eq!(lone.at(consoles[1]).get("/api/me").await.status, 401);
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.kill_9();
    }
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    for caller in [&lone, &two] {
        assert_eq!(caller.get("/api/me").await.json()["name"], "admin", "the login is still good");
    }

    // Another password ends them all, at both.
    let change = json!({"password": "something else entirely", "current": password});
    let wrong = json!({"password": "something else entirely", "current": "wrong"});
    let refused = lone.ask("POST", "/api/users/admin/password", &wrong).await;
    assert_eq!((refused.status, refused.code()), (403, "wrong_password".to_owned()));
    assert_eq!(lone.ask("POST", "/api/users/admin/password", &change).await.status, 200);
    for caller in [&lone, &two] {
        let ended = || async { (caller.get("/api/me").await.status == 401).then_some(()) };
        until("the login ends", ended).await.unwrap();
    }
    let again = Caller::nobody(consoles[1]).log_in("admin", "something else entirely").await.unwrap();
    for secret in ["argon2", "$v=19", &password] {
        assert!(!again.get("/api/audit?n=1000").await.body.contains(secret), "{secret} is in the audit");
        assert!(!again.get("/api/users").await.body.contains(secret));
    }
    assert_eq!(again.get("/api/audit/verify").await.json()["whole"], true);
    assert_eq!(again.post_form("/logout", String::new()).await.status, 303);
    assert_eq!(again.get("/api/me").await.status, 401);
}

/// Starts a master anew with `--reset-admin`, and waits until its log has said what became of that.
async fn reset_admin(cluster: &mut Cluster, nth: usize, told: &str) {
    let daemon = &mut cluster.master(nth).unwrap().daemon;
    if daemon.running() {
        daemon.terminate().await.unwrap();
    }
    if !daemon.args.iter().any(|arg| arg == "--reset-admin") {
        daemon.args.push("--reset-admin".to_owned());
    }
    daemon.start().unwrap();
    log_tells(cluster, nth, told).await;
}

async fn log_tells(cluster: &Cluster, nth: usize, told: &str) {
    let log = || async { cluster.masters[nth].daemon.log_text().contains(told).then_some(()) };
    until(&format!("the log says '{told}'"), log).await.unwrap();
}

/// The lines of the audit by which the admin got a password from the machine.
async fn resets(caller: &Caller) -> usize {
    let rows = caller.get("/api/audit?action=user.change&about=admin").await.json();
    let own = |row: &&Value| row["who"] == "operator" && row["from"] == "uniq_master --reset-admin";
    let own: Vec<_> = rows.as_array().unwrap().iter().filter(own).collect();
    assert!(own.iter().all(|row| row["detail"] == "new password"), "{own:?}");
    own.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_the_admins_password_gets_in_again_on_the_machine() {
    let mut cluster = cluster().await;
    let (one, two) = (admin(&cluster, 0).await, admin(&cluster, 1).await);
    let bob = json!({"name": "bob", "password": "bob's own word", "role": "operator"});
    assert_eq!(one.ask("POST", "/api/users", &bob).await.status, 201);
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.terminate().await.unwrap();
    }
    // Master 2, which proposes no users itself, and first without the other one.
    cluster.master(1).unwrap().daemon.unset("--admin-password-file");
    reset_admin(&mut cluster, 1, "tries again until it has").await;
    let file = cluster.masters[1].data_dir.join("admin-password");
    assert!(!file.exists(), "a password was drawn before anybody could be asked to confirm it");
    cluster.master(0).unwrap().daemon.start().unwrap();
    log_tells(&cluster, 1, "has a new password, and it is in ").await;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let drawn = std::fs::read_to_string(&file).unwrap().trim().to_owned();

    let mut inside = Vec::new();
    for old in [&one, &two] {
        let outside = Caller::nobody(old.console);
        let over = || async { (old.get("/api/me").await.status == 401).then_some(()) };
        until("a login from before is over", over).await.unwrap();
        assert_eq!(outside.log_in("admin", ADMIN_PASSWORD).await.unwrap_err().status, 401);
        let bob = outside.log_in("bob", "bob's own word").await.unwrap();
        assert_eq!(bob.get("/api/me").await.json()["role"], "operator");
        let again = outside.log_in("admin", &drawn).await.unwrap();
        assert_eq!(again.get("/api/me").await.json()["role"], "admin");
        assert_eq!(resets(&again).await, 1);
        inside.push(again);
    }
    assert!(!cluster.masters[1].daemon.log_text().contains(&drawn), "the password is in the log");

    // The flag was left where it is.
    reset_admin(&mut cluster, 1, "is the one in ").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), drawn);
    for again in &inside {
        assert_eq!((again.get("/api/me").await.status, resets(again).await), (200, 1), "nothing changed");
    }

    // The same with a password of the operator's own.
    let given = cluster.dir().join("given-password");
    std::fs::write(&given, "a word of one's own\n").unwrap();
    cluster.master(0).unwrap().daemon.set("--admin-password-file", given.to_str().unwrap());
    reset_admin(&mut cluster, 0, "has a new password, and it is in ").await;
    reset_admin(&mut cluster, 0, "is the one in ").await;
    let again = Caller::nobody(one.console).log_in("admin", "a word of one's own").await.unwrap();
    assert_eq!((resets(&again).await, inside[0].get("/api/me").await.status), (2, 401));
    assert_eq!(again.get("/api/audit/verify").await.json()["whole"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_passwords_lock_out_and_say_nothing_of_who_exists() {
    let cluster = cluster().await;
    let inside = admin(&cluster, 0).await;
    let console = inside.console;
    let key = inside.ask("POST", "/api/keys", &json!({"name": "ci", "role": "viewer"})).await.json();
    let outside = Caller::nobody(console);
    let mut answers = Vec::new();
    for user in ["admin", "nobody-of-that-name", "", "<b>", "a", "b", "admin"] {
        answers.push(outside.log_in(user, "wrong password").await.unwrap_err());
    }
    for answer in &answers {
        assert_eq!(answer.status, 401);
        assert!(answer.headers.get("set-cookie").is_none());
        matrix::assert_headers(answer, "a failed login");
    }
    let said = |nth: usize| answers[nth].body.replace("nobody-of-that-name", "admin");
    assert_eq!(said(0), said(1), "a known and an unknown name are told the same");
    // Now the right one is too late, from this address for anybody who has not logged in from it before.
    for user in ["nobody-of-that-name", "another"] {
        let locked = outside.log_in(user, ADMIN_PASSWORD).await.unwrap_err();
        assert_eq!(locked.status, 429);
        assert!(locked.header("retry-after").parse::<u32>().unwrap() <= 16 * 60);
    }
    outside.log_in("admin", ADMIN_PASSWORD).await.unwrap();
    assert!(
        told(&inside, "admin").await.iter().all(|line| !line.contains("login.lockout")),
        "the address, not the name"
    );
    assert_eq!(inside.get("/api/me").await.status, 200, "who is in stays in");
    assert_eq!(outside.key(key["key"].as_str().unwrap()).get("/api/me").await.json()["name"], "key ci");
    let other = admin(&cluster, 1).await;
    assert_eq!(other.get("/api/me").await.status, 200, "the other master counts for itself");
    for _ in 0..5 {
        assert_eq!(outside.at(other.console).log_in("admin", "wrong password").await.unwrap_err().status, 401);
    }
    let noted =
        || async { told(&other, "admin").await.iter().any(|line| line.contains("login.lockout")).then_some(()) };
    until("the audit tells of the lockout", noted).await.unwrap();
    let locked = outside.at(other.console).log_in("admin", ADMIN_PASSWORD).await.unwrap_err();
    assert_eq!(locked.status, 429, "there, too, nobody guesses for ever");
}

/// Gives what the cookie of a login from a page at `origin` says beside its name and value.
async fn cookie_of(caller: &Caller, origin: &str) -> String {
    let login = form(&[("user", "admin"), ("password", ADMIN_PASSWORD), ("next", "/leases?type=uint2")]);
    let answer = caller.with("origin", origin).post_form("/login", login).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/leases?type=uint2"), "{answer:?}");
    answer.header("set-cookie").split_once("; ").unwrap().1.to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_keys_come_and_go_at_both() {
    let cluster = cluster().await;
    let (one, two) = (admin(&cluster, 0).await, admin(&cluster, 1).await);
    let outside = Caller::nobody(one.console);
    let plain = "Path=/; Max-Age=86400; HttpOnly; SameSite=Strict";
    assert_eq!(cookie_of(&outside, &format!("http://{}", one.console)).await, plain);
    // A proxy with TLS stands before it.
    assert_eq!(cookie_of(&outside, &format!("https://{}", one.console)).await, format!("{plain}; Secure"));
    let olga = json!({"name": "olga", "password": "olga's own word", "role": "viewer"});
    assert_eq!(one.ask("POST", "/api/users", &olga).await.status, 201);
    let taken = two.ask("POST", "/api/users", &olga).await;
    assert_eq!((taken.status, taken.code()), (409, "name_taken".to_owned()));
    a_second_factor_comes_and_goes(&one, &two).await;
    let outside = Caller::nobody(two.console);
    let person = outside.log_in("olga", "olga's own word").await.unwrap();
    assert_eq!(person.get("/api/me").await.json()["role"], "viewer");
    for (path, body, status, code) in [
        ("/api/users/olga/role", json!({"role": "root"}), 400, "bad_parameter"),
        ("/api/users/nobody/role", json!({"role": "admin"}), 404, "not_found"),
        ("/api/users/admin/role", json!({"role": "viewer"}), 409, "last_admin"),
        ("/api/users", json!({"name": "Olga", "password": "olga's own word", "role": "viewer"}), 400, "bad_parameter"),
        ("/api/users", json!({"name": "weak", "password": "short", "role": "viewer"}), 400, "bad_parameter"),
        (
            "/api/users",
            json!({"name": "extra", "password": "correct horse", "role": "viewer", "x": 1}),
            400,
            "bad_parameter",
        ),
    ] {
        let answer = one.ask("POST", path, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path} {body}: {answer:?}");
    }
    assert_eq!(one.ask("DELETE", "/api/users/admin", &Value::Null).await.code(), "last_admin");

    assert_eq!(one.ask("POST", "/api/users/olga/role", &json!({"role": "operator"})).await.status, 200);
    let ended = || async { (person.get("/api/me").await.status == 401).then_some(()) };
    until("another role ends the login at the other master", ended).await.unwrap();
    let person = outside.log_in("olga", "olga's own word").await.unwrap();
    assert_eq!(one.ask("DELETE", "/api/users/olga", &Value::Null).await.status, 204);
    let ended = || async { (person.get("/api/me").await.status == 401).then_some(()) };
    until("who is removed is thrown out at the other master", ended).await.unwrap();

    a_key_comes_and_goes(&one, &two).await;
    for caller in [&one, &two] {
        #[rustfmt::skip]
        assert_eq!(
            told(caller, "olga").await.iter().filter(|line| line.contains("user.change")).collect::<Vec<_>>(),
            [
                "admin user.change removed",
                "admin user.change operator, was viewer",
                "admin user.change logins need no one-time code any more",
                "olga user.change logins need a one-time code",
                "admin user.change new, viewer",
            ]
        );
    }
}

/// Set up at one master, asked for at both, removed at the other.
async fn a_second_factor_comes_and_goes(one: &Caller, two: &Caller) {
    const PASSWORD: &str = "olga's own word";
    let own = Caller::nobody(one.console).log_in("olga", PASSWORD).await.unwrap();
    let codes = totp_rs::Builder::new().with_secret(totp_rs::Secret::new_stack([7; 20])).build_noncompliant();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (address, code) = ("/api/users/olga/second-factor", codes.generate(now).to_string());
    let form = json!({"secret": "A4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYH", "code": code, "current": PASSWORD});
    let set = own.ask("PUT", address, &form).await;
    assert_eq!((set.status, &set.json()["second_factor"]), (200, &json!(true)), "{set:?}");
    for outside in [one, two].map(|at| Caller::nobody(at.console)) {
        let refused = || async { outside.log_in("olga", PASSWORD).await.err().filter(|answer| answer.status == 401) };
        until("the password alone opens nothing", refused).await.unwrap();
        let inside = outside.log_in_with_code("olga", PASSWORD, &code).await.unwrap();
        assert_eq!(inside.get("/api/me").await.status, 200);
    }
    assert_eq!(two.ask("DELETE", address, &Value::Null).await.status, 204);
    let alone = || async { Caller::nobody(one.console).log_in("olga", PASSWORD).await.ok() };
    until("the password alone opens again", alone).await.unwrap();
}

/// Made and replaced at one master, removed at the other.
async fn a_key_comes_and_goes(one: &Caller, two: &Caller) {
    let outside = Caller::nobody(one.console);
    let first = two.ask("POST", "/api/keys", &json!({"name": "ci", "role": "operator"})).await.json();
    let script = outside.key(first["key"].as_str().unwrap());
    let known = || async { (script.get("/api/me").await.status == 200).then_some(()) };
    until("the key opens both", known).await.unwrap();
    let second = two.ask("POST", "/api/keys/ci/rotate", &json!({"keep_hours": 1})).await.json();
    let changed = outside.key(second["key"].as_str().unwrap());
    let known = || async { (changed.get("/api/me").await.status == 200).then_some(()) };
    until("the new key opens both", known).await.unwrap();
    assert_eq!(script.get("/api/me").await.json()["name"], "key ci", "the one before goes on");
    assert_eq!(one.ask("DELETE", "/api/keys/ci", &Value::Null).await.status, 204);
    assert_eq!((script.get("/api/me").await.status, changed.get("/api/me").await.status), (401, 401));
    let former = second["former_until"].as_str().unwrap();
    for caller in [one, two] {
        let heard = || async { (told(caller, "ci").await.len() == 3).then_some(()) };
        until("both audits tell of the key", heard).await.unwrap();
        let replaced = format!("admin key.change replaced, the one before ends {former}");
        let lines = ["admin key.change removed", replaced.as_str(), "admin key.change new, operator"];
        assert_eq!(told(caller, "ci").await, lines);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_act_at_either_master_and_not_while_one_is_away() {
    let mut cluster = cluster().await;
    let (one, two) = (admin(&cluster, 0).await, admin(&cluster, 1).await);
    let token = token_of(&cluster).await;
    let lease = format!("/api/leases/uint2/{token}");
    let renewed = one.ask("POST", &format!("{lease}/renew"), &Value::Null).await;
    assert_eq!((renewed.status, &renewed.json()["state"]), (200, &json!("held")), "{renewed:?}");
    for (path, body, status, code) in [
        (format!("{lease}/terminate"), Value::Null, 400, "bad_parameter"),
        (format!("{lease}/terminate"), json!({"confirm": "uint2/x"}), 400, "bad_parameter"),
        ("/api/leases/uint9/1/renew".to_owned(), Value::Null, 400, "bad_parameter"),
        ("/api/leases/uint2/99999999999/renew".to_owned(), Value::Null, 400, "bad_parameter"),
        ("/api/leases/uint1/77/renew".to_owned(), Value::Null, 404, "not_found"),
        ("/api/whitelist".to_owned(), json!({"range": "10.0.0.0/99"}), 400, "bad_parameter"),
        (
            "/api/namespaces".to_owned(),
            json!({"name": "x", "kind": "string", "template": "{token}"}),
            400,
            "bad_parameter",
        ),
    ] {
        let answer = two.ask("POST", &path, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path} {body}: {answer:?}");
    }
    let orders = json!({"name": "orders", "kind": "uniq64", "scope": "own", "everyday_reset": true});
    for (body, status) in [(&orders, 201), (&orders, 200), (&json!({"name": "orders", "kind": "uniq64"}), 409)] {
        assert_eq!(one.ask("POST", "/api/namespaces", body).await.status, status, "{body}");
    }
    // By the definition that agents take, at either master.
    let invoices = json!({"kind": "string", "template": "INV-{date:%Y%m%d}{token}{serial:6}"});
    let others = json!({"kind": "string", "template": "INV-{date:%Y%m%d}{token}{serial:7}"});
    for (caller, path, body, status, code) in [
        (&two, "invoices", &invoices, 201, ""),
        // The other master may be a moment behind, and registers it together with this one.
        (&two, "invoices", &invoices, 200, ""),
        (&one, "invoices", &others, 409, "generator_exists"),
        (&two, "bills", &invoices, 409, "generator_conflict"),
        (&two, "Bills", &invoices, 400, "bad_parameter"),
        (&two, "bills", &json!({"kind": "string"}), 400, "bad_parameter"),
    ] {
        let answer = caller.ask("PUT", &format!("/api/generators/{path}"), body).await;
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        assert!(status < 400 || answer.code() == code, "{path} {body}: {answer:?}");
    }
    for caller in [&one, &two] {
        let heard = || async {
            told(caller, "invoices").await.iter().any(|line| line.starts_with("admin namespace.define")).then_some(())
        };
        until("the audit of both names who registered it", heard).await.unwrap();
    }
    let allowed = one.ask("POST", "/api/whitelist", &json!({"range": "10.1.2.3/8"})).await;
    assert!(allowed.status == 200 && allowed.body.contains("10.0.0.0/8"), "{allowed:?}");
    let heard = || async { two.get("/api/whitelist").await.body.contains("10.0.0.0/8").then_some(()) };
    until("the other master, which may be a moment behind, has the network", heard).await.unwrap();
    let beside = two.ask("DELETE", "/api/whitelist?range=10.0.0.0/8", &json!({"range": "127.0.0.0/8"})).await;
    assert_eq!((beside.status, beside.code()), (400, "bad_parameter".to_owned()), "{beside:?}");
    let looked = two.ask("DELETE", "/api/whitelist?range=10.0.0.0/8&dry_run=true", &Value::Null).await;
    assert!(looked.status == 200 && looked.body.contains("10.0.0.0/8"), "{looked:?}");
    assert_eq!(looked.json()["agents"], 0, "another network has this agent: {looked:?}");
    let home = json!({"range": "127.0.0.0/8"});
    let unconfirmed = two.ask("DELETE", "/api/whitelist", &home).await;
    assert_eq!((unconfirmed.status, unconfirmed.code()), (400, "bad_parameter".to_owned()), "{unconfirmed:?}");
    assert!(unconfirmed.body.contains("confirm: 1 agent with "), "{unconfirmed:?}");
    let looked = two.ask("DELETE", "/api/whitelist?range=127.0.0.0/8&dry_run=true", &Value::Null).await.json();
    assert_eq!((&looked["agents"], &looked["cut_off"][0]["agent_id"]), (&json!(1), &json!("agent-1")), "{looked}");
    assert!(looked["leases"].as_u64().unwrap() > 0 && one.get("/api/whitelist").await.body.contains("127.0.0.0/8"));
    let without = two.ask("DELETE", "/api/whitelist?range=10.0.0.0/8", &Value::Null).await;
    assert!(without.status == 200 && !without.body.contains("10.0.0.0/8"), "{without:?}");
    assert_eq!(two.ask("DELETE", "/api/whitelist", &json!({"range": "10.0.0.0/8"})).await.code(), "not_found");

    let end = json!({"confirm": format!("uint2/{token}")});
    let ended = one.ask("POST", &format!("{lease}/terminate"), &end).await;
    assert_eq!((ended.status, &ended.json()["state"]), (200, &json!("ending")), "{ended:?}");
    assert!(ended.json()["reuse_at"].as_str().unwrap() > ended.json()["until"].as_str().unwrap());
    assert_eq!(one.ask("POST", &format!("{lease}/terminate"), &end).await.code(), "no_lease");
    let subject = format!("uint2%20{token}");
    let heard = || async {
        told(&two, &subject).await.iter().any(|line| line.starts_with("admin lease.terminate")).then_some(())
    };
    until("the other master's audit names the operator", heard).await.unwrap();
    assert_eq!(two.get("/api/leases?agent=agent-1&state=ending").await.json()[0]["token"], json!(token));

    cluster.master(1).unwrap().daemon.terminate().await.unwrap();
    let range = json!({"range": "10.0.0.0/8"});
    let away = || async {
        let refused = one.ask("POST", "/api/whitelist", &range).await;
        (refused.status == 503 && refused.body.contains("start the other master")).then_some(())
    };
    until("the other master is known to be away", away).await.unwrap();
    for (method, path, body) in [
        ("POST", "/api/whitelist", range),
        ("POST", "/api/users", json!({"name": "late", "password": "correct horse", "role": "viewer"})),
        ("POST", "/api/keys", json!({"name": "late", "role": "viewer"})),
        ("POST", "/api/namespaces", json!({"name": "late", "kind": "uniq64"})),
    ] {
        let refused = one.ask(method, path, &body).await;
        assert_eq!((refused.status, refused.code()), (503, "masters_unavailable".to_owned()), "{path}: {refused:?}");
        assert!(refused.json()["detail"].as_str().unwrap().contains("start the other master"), "{refused:?}");
    }
    let login = one.post_form("/login", form(&[("user", "admin"), ("password", ADMIN_PASSWORD)])).await;
    assert_eq!(login.status, 303, "a lone master still lets people in");
}

//! Lines of the audit about changes of settings. Never a password, a key, or a hash of one.

use ids::about::About;
use ids::account::{AccountName, User};
use ids::api_key::ApiKey;
use ids::audit::Action;
use ids::certificate::{Revocation, Role as Holder};
use ids::namespace::Scope;
use ids::segment::{Axis, Extent};
use ids::setting::{Credentials, Setting, SettingKey, SettingValue};
use ids::time::WallMs;

/// A line: what was done, to what, and how.
pub(crate) type Line = (Action, String, String);

/// The lines for a setting that follows `known`.
pub(crate) fn lines(known: Option<&SettingValue>, setting: &Setting) -> Vec<Line> {
    let subject = setting.key.to_string();
    match &setting.value {
        SettingValue::Whitelist(networks) => {
            let texts: Vec<String> = match known {
                Some(SettingValue::Whitelist(before)) => {
                    let added = networks.iter().filter(|network| !before.contains(network)).map(|it| format!("+{it}"));
                    let removed =
                        before.iter().filter(|network| !networks.contains(network)).map(|it| format!("-{it}"));
                    added.chain(removed).collect()
                }
                _ => networks.iter().map(ToString::to_string).collect(),
            };
            vec![(Action::Whitelist, subject, texts.join(" "))]
        }
        // Nothing is decided: who retired a name is told already.
        SettingValue::RetiredNames(_) => Vec::new(),
        SettingValue::Retired(_) => vec![(Action::Retire, subject, String::new())],
        SettingValue::Free => vec![(Action::Retire, subject, "it was never in use, and is free again".to_owned())],
        // What was registered before says nothing new; who used it first is nobody's decision.
        SettingValue::Namespace(_) if matches!(known, Some(SettingValue::Unused(_))) => Vec::new(),
        SettingValue::Namespace(namespace) | SettingValue::Unused(namespace) => {
            let template = namespace.template().map_or("", |template| template.source());
            let reset = if namespace.everyday_reset() { " everyday_reset" } else { "" };
            let own = if namespace.scope() == Scope::Own { " scope own" } else { "" };
            let token = namespace.token_type().map_or("", |token_type| token_type.name());
            let detail = format!("{} {token}{reset}{own} {template}", namespace.kind());
            vec![(Action::Define, subject, detail)]
        }
        SettingValue::Axis(axis) => match axis.last {
            Some(Extent { master, span, .. }) => {
                let last = span.to.saturating_sub(1);
                vec![(Action::Extend, subject, format!("places {} to {last} to master {master}", span.from))]
            }
            None => by_operators(known, axis, &subject),
        },
        SettingValue::About(about) => {
            let subject = match &setting.key {
                SettingKey::About(name) => name.to_string(),
                _ => subject,
            };
            vec![(Action::About, subject, noted(about))]
        }
        SettingValue::Users(users) => {
            let before = match known {
                Some(SettingValue::Users(before)) => before.as_slice(),
                _ => &[],
            };
            differences(Action::User, before, users, |user| &user.name, AccountName::to_string, user_change)
        }
        SettingValue::Credentials(Credentials { keys, revoked }) => {
            let none = Credentials::default();
            let before = match known {
                Some(SettingValue::Credentials(before)) => before,
                _ => &none,
            };
            let keys =
                differences(Action::Key, &before.keys, keys, |key| &key.name, AccountName::to_string, key_change);
            let (known, change) = (&before.revoked, revocation_change);
            let revoked = differences(Action::Revoke, known, revoked, |one| &one.role, Holder::path, change);
            keys.into_iter().chain(revoked).collect()
        }
    }
}

/// Operators' changes of an axis since `known`, which may lie several versions back.
fn by_operators(known: Option<&SettingValue>, axis: &Axis, subject: &str) -> Vec<Line> {
    let before = match known {
        Some(SettingValue::Axis(before)) => Some(&**before),
        _ => None,
    };
    let dismissed = axis.dismissed > before.map_or(0, |before| before.dismissed);
    let raised = before.map_or(!dismissed, |before| axis.floor > before.floor);
    let raise = || (Action::Raise, subject.to_owned(), format!("nothing below place {}", axis.floor));
    let last = axis.dismissed.saturating_sub(1);
    let dismissal = || (Action::Dismiss, subject.to_owned(), format!("no agent was granted places up to {last}"));
    raised.then(raise).into_iter().chain(dismissed.then(dismissal)).collect()
}

/// The parts of a note, the shortest first: a line has an end.
fn noted(about: &About) -> String {
    let named = [("application", about.application()), ("owner", about.owner())]
        .map(|(what, text)| format!("{what} \"{text}\""));
    let labels = about.labels().iter().map(|(key, value)| format!("{key}={value}"));
    let description = [format!("description \"{}\"", about.description())];
    named.into_iter().chain(labels).chain(description).collect::<Vec<_>>().join(" ")
}

/// One line for each name whose value differs from before.
fn differences<T, K: PartialEq>(
    action: Action,
    before: &[T],
    after: &[T],
    name: impl Fn(&T) -> &K,
    shown: impl Fn(&K) -> String,
    change: impl Fn(Option<&T>, &T) -> Option<String>,
) -> Vec<Line> {
    let find = |all: &'_ [T], wanted: &K| all.iter().position(|one| name(one) == wanted);
    let removed = if action == Action::Revoke { "taken back" } else { "removed" };
    let gone = before.iter().filter(|one| find(after, name(one)).is_none());
    let mut lines: Vec<Line> = gone.map(|one| (action, shown(name(one)), removed.to_owned())).collect();
    for one in after {
        let old = find(before, name(one)).and_then(|at| before.get(at));
        if let Some(detail) = change(old, one) {
            lines.push((action, shown(name(one)), detail));
        }
    }
    lines
}

fn user_change(before: Option<&User>, after: &User) -> Option<String> {
    let Some(before) = before else { return Some(format!("new, {}", after.role)) };
    let mut changes = Vec::new();
    if before.role != after.role {
        changes.push(format!("{}, was {}", after.role, before.role));
    }
    if before.phc != after.phc {
        changes.push("new password".to_owned());
    }
    match (before.totp, after.totp) {
        (None, Some(_)) => changes.push("logins need a one-time code".to_owned()),
        (Some(_), None) => changes.push("logins need no one-time code any more".to_owned()),
        (before, after) if before != after => changes.push("one-time codes of another secret".to_owned()),
        _ => {}
    }
    (!changes.is_empty()).then(|| changes.join("; "))
}

fn key_change(before: Option<&ApiKey>, after: &ApiKey) -> Option<String> {
    if before == Some(after) {
        return None;
    }
    let end = |at: WallMs, verb: &str| format!(", {verb} {at}");
    if let (Some(before), Some(former)) = (before, after.former)
        && before.hash != after.hash
    {
        return Some(format!("replaced{}", end(former.until, "the one before ends")));
    }
    Some(format!("new, {}{}", after.scope, after.until.map_or(String::new(), |at| end(at, "ends"))))
}

fn revocation_change(before: Option<&Revocation>, after: &Revocation) -> Option<String> {
    (before != Some(after)).then(|| format!("all that is valid from before {}", after.before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::about::AboutSource;
    use ids::account::{Role, SecretHash};
    use ids::api_key::KeyScope;
    use ids::audit::Actor;

    fn user(name: &str, role: Role, phc: &str) -> User {
        User { name: name.parse().unwrap(), role, phc: format!("$argon2id${phc}"), totp: None }
    }

    fn told(before: &[User], after: &[User]) -> Vec<String> {
        let value = SettingValue::Users(after.to_vec());
        let actor = Actor::new("a", "");
        let setting = Setting { key: SettingKey::Users, version: 2, value, actor, at: WallMs(0) };
        let known = SettingValue::Users(before.to_vec());
        lines(Some(&known), &setting).into_iter().map(|(_, subject, detail)| format!("{subject}: {detail}")).collect()
    }

    #[test]
    fn each_user_that_changed_has_a_line_without_secrets() {
        let before = [user("a", Role::Admin, "1"), user("b", Role::Viewer, "2"), user("c", Role::Viewer, "3")];
        let after = [user("a", Role::Admin, "9"), user("b", Role::Operator, "2"), user("d", Role::Viewer, "4")];
        assert_eq!(
            told(&before, &after),
            ["c: removed", "a: new password", "b: operator, was viewer", "d: new, viewer"]
        );
        assert!(told(&after, &after).is_empty());
    }

    #[test]
    fn what_is_noted_about_a_name_is_told_whole() {
        let labels = [("env".to_owned(), "prod".to_owned()), ("tier".to_owned(), "1".to_owned())].into();
        let source = AboutSource { application: "shop".to_owned(), labels, ..AboutSource::default() };
        let about = |source| {
            let (key, value) = (SettingKey::About("orders".parse().unwrap()), SettingValue::About(Box::new(source)));
            Setting { key, version: 1, value, actor: Actor::new("a", ""), at: WallMs(0) }
        };
        let told = "application \"shop\" owner \"\" env=prod tier=1 description \"\"";
        assert_eq!(
            lines(None, &about(About::new(source).unwrap())),
            [(Action::About, "orders".to_owned(), told.to_owned())]
        );
    }

    #[test]
    fn each_key_has_a_line() {
        let key = ApiKey::new("ci".parse().unwrap(), KeyScope::Console(Role::Operator), SecretHash([7; 32]));
        let setting = |keys: Vec<ApiKey>| {
            let value = SettingValue::Credentials(Credentials { keys, revoked: Vec::new() });
            Setting { key: SettingKey::Credentials, version: 1, value, actor: Actor::new("a", ""), at: WallMs(0) }
        };
        let new = setting(vec![key]);
        assert_eq!(lines(None, &new), [(Action::Key, "ci".to_owned(), "new, operator".to_owned())]);
        let gone = lines(Some(&new.value), &setting(Vec::new()));
        assert_eq!(gone, [(Action::Key, "ci".to_owned(), "removed".to_owned())]);
    }
}

//! The form in which scripts print writes, messages and replies.

use super::script::DAY_0;
use common::lease::{Caution, Floor};
use common::namespace::Scope;
use common::segment::Axis;
use common::sequence::{Route, SectionBound, SectionRecord};
use common::setting::{Credentials, Setting, SettingValue};
use common::time::{DAY_MS, SECOND_MS, WallMs};
use master::lease::{Reply, Write};
use net::rpc::lease::Rent;
use net::rpc::peer::{JoinReply, PeerMessage};
use net::rpc::ranges::{HeldSections, RaisedSections};

pub(crate) fn days(t: WallMs) -> String {
    let ms = (t - DAY_0).0;
    let seconds = ms.rem_euclid(DAY_MS) / SECOND_MS;
    let (h, m, s) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let time = if seconds == 0 { String::new() } else { format!("+{h:02}:{m:02}:{s:02}") };
    format!("d{}{time}", ms.div_euclid(DAY_MS))
}

pub(crate) fn span(from: WallMs, until: WallMs) -> String {
    format!("[{}, {})", days(from), days(until))
}

pub(crate) fn show_write(write: &Write) -> String {
    match write {
        Write::Lease(key, lease) => {
            let deny = if lease.deny { " denied" } else { "" };
            format!("{key} g{} {:?} {} {}{deny}", lease.g, lease.state, lease.agent_id, span(lease.from, lease.until))
        }
        Write::Prep(prep) => format!("{} g{} proposal to {}", prep.key, prep.g, prep.agent_id),
        Write::DropPrep(key) => format!("{key} no proposal"),
        Write::Identity(identity) => format!("cluster {:?}", identity.cluster.map(|c| c.0)),
        Write::PermitOut(permit) => format!("permit to the other: {}", permit.map_or("none".to_owned(), days)),
        Write::Caution(caution) => format!("caution {caution:?}"),
        Write::PeerObservations(observed) => {
            let permit = observed.permit_in.map_or("none".to_owned(), days);
            format!("permit {permit}, the other at {}, clock {}", observed.peer_lsn, days(observed.clock_high))
        }
        Write::Lives(lives) => {
            let own: Vec<u64> = lives.own.iter().map(|life| life.start).collect();
            format!("starts: own {own:?}, the other's {:?}", lives.peer.map(|life| life.start))
        }
        Write::Setting(setting) => show_setting(setting),
        Write::DropSetting(key) => format!("DropSetting {key}"),
        Write::SettingPrep(setting) => format!("proposal of {}", show_setting(setting)),
        Write::DropSettingPrep(key) => format!("{key} no proposal"),
        Write::Run(run) => format!("run {:?}", run.map(|run| run.0)),
        Write::Cursor { name, spans, .. } => {
            let spans: Vec<String> = spans.iter().map(|span| format!("{}..{}", span.from, span.to)).collect();
            format!("{name} has {}", spans.join(" "))
        }
        Write::Login(_, login) => format!("login {:?}", login.as_ref().map(|login| login.person.to_string())),
        Write::Sections { gone, rows } => {
            let rows = rows.iter().map(|(record, held)| format!("{}, held to {held}", show_section(record)));
            gone.iter().map(|key| format!("{key} no record")).chain(rows).collect::<Vec<_>>().join(" and ")
        }
        Write::SectionPreps { gone, rows } => {
            let rows = rows.iter().map(|prep| format!("proposal of {}", show_section(prep)));
            gone.iter().map(|key| format!("{key} no proposal")).chain(rows).collect::<Vec<_>>().join(" and ")
        }
        Write::SectionsCut(cut) => format!("sections cut: {cut}"),
        Write::Audit(entry) => {
            let from =
                if entry.actor.from().is_empty() { String::new() } else { format!(" at {}", entry.actor.from()) };
            format!("audit: {}{from} {} {}: {}", entry.actor.who(), entry.action, entry.subject, entry.detail)
        }
    }
}

fn show_section(record: &SectionRecord) -> String {
    format!("{} g{} {} max_seq {}", record.range, record.g, record.owner.agent_id, record.max_seq)
}

fn show_sections(records: &[SectionRecord]) -> String {
    records.iter().map(show_section).collect::<Vec<_>>().join(", ")
}

fn show_bounds(bounds: &[SectionBound]) -> String {
    let bounds = bounds.iter().map(|bound| format!("{} g{} {}", bound.range, bound.g, bound.max_seq));
    bounds.collect::<Vec<_>>().join(", ")
}

fn show_raised(raised: &RaisedSections) -> String {
    match raised.outcome {
        Ok(raised) => format!("{} to {}", raised.from, raised.max_seq),
        Err(why) => why.to_string(),
    }
}

pub(crate) fn show_floor(floor: Floor) -> String {
    let until = days(floor.until);
    floor.above.map_or_else(
        || format!("nothing before {until}"),
        |above| format!("only values above {} before {until}", above.0),
    )
}

/// Shows what keeps a replacement from granting; nothing if nothing does.
fn show_caution(caution: &Caution) -> String {
    let quiet = caution.quiet.then(|| "quiet".to_owned());
    let frozen = caution.reverted.then(|| "frozen".to_owned());
    let all: Vec<String> = quiet.into_iter().chain(frozen).chain(caution.floor.map(show_floor)).collect();
    if all.is_empty() { String::new() } else { format!(" and grants: {}", all.join(", ")) }
}

pub(crate) fn show_setting(setting: &Setting) -> String {
    let value = match &setting.value {
        SettingValue::Whitelist(networks) => format!("{networks:?}"),
        SettingValue::Namespace(namespace) | SettingValue::Unused(namespace) => {
            let template = namespace.template().map_or(String::new(), |template| format!(" {}", template.source()));
            let own = if namespace.scope() == Scope::Own { " scope own" } else { "" };
            let unused = if matches!(setting.value, SettingValue::Unused(_)) { " unused" } else { "" };
            format!("{}{own}{template}{unused}", namespace.kind())
        }
        SettingValue::Retired(_) => "retired".to_owned(),
        SettingValue::Free => "free".to_owned(),
        SettingValue::RetiredNames(names) => format!("{} names", names.len()),
        SettingValue::Axis(axis) => show_axis(axis),
        SettingValue::About(about) if about.is_empty() => "nothing".to_owned(),
        SettingValue::About(about) => about.description().to_owned(),
        SettingValue::Users(users) => format!("{users:?}"),
        SettingValue::Credentials(Credentials { keys, revoked }) => {
            let keys = keys.iter().map(|key| format!("{} {}", key.name, key.scope));
            keys.chain(revoked.iter().map(|one| format!("revoked {one}"))).collect::<Vec<_>>().join(", ")
        }
    };
    format!("{} v{} {value} by {}", setting.key, setting.version, setting.actor.who())
}

pub(crate) fn show_message(message: &PeerMessage) -> String {
    match message {
        PeerMessage::Hello(hello) => format!("Hello{}", if hello.answer { "?" } else { "" }),
        PeerMessage::Heartbeat { mode, permit, .. } => {
            format!("Heartbeat {mode}{}", permit.map_or(String::new(), |t| format!(", permit {}", days(t))))
        }
        PeerMessage::Pull { after, .. } => format!("Pull after {after:?}"),
        PeerMessage::Page { records, last, .. } => {
            format!("Page of {}{}", records.len(), if *last { ", last" } else { "" })
        }
        PeerMessage::Sync { records, .. } => {
            let all = records.iter().map(|(key, l)| format!("{key} g{} {:?} until {}", l.g, l.state, days(l.until)));
            format!("Sync {}", all.collect::<Vec<_>>().join(", "))
        }
        PeerMessage::Propose { prep } => format!("Propose {} g{} {}", prep.key, prep.g, prep.agent_id),
        PeerMessage::Confirm { prep } => format!("Confirm {} g{} {}", prep.key, prep.g, prep.agent_id),
        PeerMessage::Reject { key, record } => {
            let record = record.as_ref().map(|l| format!("g{} {:?} until {}", l.g, l.state, days(l.until)));
            format!("Reject {key} {}", record.unwrap_or("unknown".to_owned()))
        }
        PeerMessage::Close { key, g, until } => format!("Close {key} g{g} until {}", days(*until)),
        PeerMessage::Closed { key, g, until } => format!("Closed {key} g{g} until {}", days(*until)),
        PeerMessage::Ask { agent_id, token_type, lower, .. } => {
            format!("Ask {}{token_type} for {agent_id}", if *lower { "lower " } else { "" })
        }
        PeerMessage::NoneFree { token_type, why, .. } => format!("NoneFree {token_type}: {why}"),
        PeerMessage::AskSetting { change, .. } => format!("AskSetting {}", change.key()),
        PeerMessage::ProposeSetting { setting } => format!("ProposeSetting {}", show_setting(setting)),
        PeerMessage::ConfirmSetting { setting } => format!("ConfirmSetting {}", show_setting(setting)),
        PeerMessage::NumbersShown { shown } => {
            let each = shown.iter().map(|(name, seen)| format!("{name} before {seen}"));
            format!("NumbersShown {}", each.collect::<Vec<_>>().join(", "))
        }
        PeerMessage::SegmentsUsed { uses } => format!("SegmentsUsed {uses:?}"),
        PeerMessage::Allows { networks } => format!("Allows {networks:?}"),
        PeerMessage::Allocators { lease_ms, seen, .. } => format!("Allocators {} of {lease_ms} ms", seen.len()),
        PeerMessage::ProposeSections { proposals } => format!("ProposeSections {}", show_sections(proposals)),
        PeerMessage::ConfirmSections { records } => format!("ConfirmSections {}", show_sections(records)),
        PeerMessage::KnownSections { records } => format!("KnownSections {}", show_sections(records)),
        PeerMessage::RaisedSections { bounds } => format!("RaisedSections {}", show_bounds(bounds)),
        PeerMessage::HeldBounds { bounds } => format!("HeldBounds {}", show_bounds(bounds)),
        PeerMessage::AskSections { name, sections } => {
            format!("AskSections {name} {:?}", sections.iter().map(|section| section.0).collect::<Vec<_>>())
        }
        PeerMessage::AskMove { key, to } => format!("AskMove {key} to {to}"),
        PeerMessage::PullSettings { after, .. } => format!("PullSettings after {after}"),
        PeerMessage::SettingsPage { settings, more, .. } => {
            format!("SettingsPage of {}{}", settings.len(), if *more { "" } else { ", last" })
        }
        PeerMessage::PullSections { .. } => "PullSections".to_owned(),
        PeerMessage::SectionPage { records, proposals, last, .. } => {
            let last = if *last { ", last" } else { "" };
            format!("SectionPage of {} and {} proposals{last}", records.len(), proposals.len())
        }
        PeerMessage::Settings { records } => {
            format!("Settings {}", records.iter().map(show_setting).collect::<Vec<_>>().join(", "))
        }
    }
}

pub(crate) fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Token(Ok(grant)) => format!("granted {} g{} {}", grant.key, grant.g, span(grant.from, grant.until)),
        Reply::Rent(Ok(Rent::Success { until, .. })) => format!("Success until {}", days(*until)),
        Reply::Rent(Ok(other)) => format!("{other:?}"),
        Reply::Terminate(Ok(())) => "done".to_owned(),
        Reply::List(Ok(rows)) => {
            let rows = rows.iter().map(|row| format!("{} g{} held={}", row.grant.key, row.grant.g, row.held));
            format!("has {}", rows.collect::<Vec<_>>().join(", "))
        }
        Reply::Join(Ok(reply)) => match reply {
            JoinReply::Begun(begun) => format!("joins pairing {}{}", begun.pair_epoch, show_caution(&begun.caution)),
            JoinReply::Page { records, .. } => format!("takes {} records", records.len()),
            JoinReply::Settings { settings, .. } => format!("takes {} settings", settings.len()),
            JoinReply::Sections { records, .. } => format!("takes sections: {}", show_sections(records)),
            JoinReply::Done => "has joined".to_owned(),
        },
        Reply::Greeted(messages) => format!("{} messages", messages.len()),
        Reply::Change(Ok(changed)) => format!("{changed:?}"),
        Reply::Kept => "kept".to_owned(),
        Reply::Commanded(Ok(lease)) => {
            let deny = if lease.deny { " denied" } else { "" };
            format!("{} {}{deny}", lease.agent_id, span(lease.from, lease.until))
        }
        Reply::Segment(Ok(segment)) => format!("segment {}..{}", segment.span.from, segment.span.to),
        Reply::Keep(Ok(reply)) => {
            let of = |held: &HeldSections| format!("{} {}..{} g{}", held.name, held.from.0, held.to.0, held.g);
            let all: Vec<String> = reply.sections.iter().map(of).collect();
            format!(
                "serves for {} ms: {}",
                reply.lease_ms,
                if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
            )
        }
        Reply::Raise(Ok(raised)) => raised.iter().flatten().map(show_raised).collect::<Vec<_>>().join(", "),
        Reply::Routes(Ok(reply)) => {
            let of = |route: &Route| format!("{}..{} g{} {}", route.from.0, route.to.0, route.g, route.address.http);
            let unserved = reply.unserved.iter().map(|why| format!(" ({why})")).collect::<String>();
            format!("routes {}{unserved}", reply.routes.iter().map(of).collect::<Vec<_>>().join(", "))
        }
        Reply::Ordered(Ok(())) => "begun".to_owned(),
        Reply::Segment(Err(e))
        | Reply::Keep(Err(e))
        | Reply::Raise(Err(e))
        | Reply::Routes(Err(e))
        | Reply::Ordered(Err(e))
        | Reply::Token(Err(e))
        | Reply::Rent(Err(e))
        | Reply::Terminate(Err(e))
        | Reply::List(Err(e))
        | Reply::Change(Err(e))
        | Reply::Commanded(Err(e))
        | Reply::Join(Err(e)) => {
            format!("refused: {e}")
        }
    }
}

/// An axis: how far it is granted, and to whom last.
pub(crate) fn show_axis(axis: &Axis) -> String {
    let last = axis.last.as_ref().map_or_else(
        || format!("floor {}", axis.floor),
        |extent| format!("{}..{} to {}", extent.span.from, extent.span.to, extent.master),
    );
    format!("granted {} ({last})", axis.granted)
}

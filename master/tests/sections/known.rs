//! Knowledge that all masters of a run begin with: names, and the leases that let sessions serve sections.

use super::world::{ALLOWANCE, STEP};
use common::audit::Actor;
use common::lease::{Generation, Lease, LeaseState};
use common::namespace::{Definition, GeneratorName, Namespace, SegmentSpec, SequenceSpec};
use common::parameters::SessionId;
use common::setting::{Setting, SettingKey, SettingValue};
use common::time::WallMs;
use common::token::{TokenFamily, TokenKey, TokenType, TokenValue};
use master::lease::Write;

pub(super) fn axis() -> Setting {
    let name: GeneratorName = "orders".parse().unwrap();
    let namespace = Namespace::define(name.clone(), &Definition::Segment(SegmentSpec::default())).unwrap();
    let (key, value) = (SettingKey::Namespace(name), SettingValue::Namespace(Box::new(namespace)));
    Setting { key, version: 1, value, actor: Actor::new("olga", ""), at: WallMs(0) }
}

/// Sessions that allocators may have, each of which holds a lease that outlives every run: the even ones are of one, the odd ones of the other.
pub(super) const SESSIONS: u128 = 12;

/// The lease that lets such a session serve sections.
pub(super) fn lease(session: u128) -> Write {
    let agent_id = format!("a{}", 2 - session % 2).parse().unwrap();
    let value = TokenValue(u32::try_from(session).unwrap());
    let lease = Lease {
        g: Generation(1),
        state: LeaseState::Held,
        token_type: TokenType::Uint2,
        agent_id,
        session: SessionId(session),
        address: "10.0.0.1:1".to_owned(),
        granted: WallMs(0),
        renewed: WallMs(0),
        from: WallMs(0),
        until: WallMs(30_000 * 86_400_000),
        deny: false,
        rseq: 1,
        attempt: 1,
    };
    Write::Lease(TokenKey { family: TokenFamily::Uint, value }, lease)
}

/// The name of a section.
pub(super) fn name_of(section: u32) -> GeneratorName {
    let name = if section < 3 { "seq-2" } else { "seq-1" };
    name.parse().unwrap()
}

pub(super) fn sequence(section: u32) -> Setting {
    let said = SequenceSpec { step: Some(STEP), solo_allowance: Some(ALLOWANCE), ..SequenceSpec::default() };
    let namespace = Namespace::define(name_of(section), &Definition::Sequence(said)).unwrap();
    Setting {
        key: SettingKey::Namespace(name_of(section)),
        version: 1,
        value: SettingValue::Namespace(Box::new(namespace)),
        actor: Actor::new("olga", ""),
        at: WallMs(0),
    }
}

//! Counts of the places of axes that sessions and networks were granted within the hour: without them one caller uses up an axis of 31
//! bits in seconds, for ever.
//!
//! Only in memory: a master that starts counts anew. What is counted is bounded; beyond that whoever has taken the least is forgotten.

use ids::namespace::GeneratorName;
use ids::parameters::SessionId;
use ids::segment::SegmentDefinition;
use ids::time::{BootMs, HOUR_MS, SECOND_MS, SpanMs};
use ipnet::IpNet;
use std::collections::BTreeMap;
use wire::lease::Refusal;

/// Span over which places are counted.
const HOUR: SpanMs = SpanMs(HOUR_MS);
/// Pairs of a name and a session, or a network, that are counted at once.
const TAKERS_MAX: usize = 16_384;

/// The session that asks, and the network that it asks from, as far as that is known.
pub type Asker = (SessionId, Option<IpNet>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Taker {
    Session(SessionId),
    Network(IpNet),
}

/// Places that each of them has taken since the hour began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Takings {
    since: BootMs,
    taken: BTreeMap<(GeneratorName, Taker), u64>,
}

/// The bounds of a name for whoever asks; none where a session may have the whole axis.
fn bounds(definition: &SegmentDefinition, (session, network): Asker) -> impl Iterator<Item = (Taker, u64)> {
    let session = (Taker::Session(session), definition.session_quota());
    let network = network.map(|network| (Taker::Network(network), definition.network_quota()));
    let all = definition.session_quota() < definition.axis().len();
    std::iter::once(session).chain(network).filter(move |_| all)
}

impl Takings {
    /// Counts the places of a name that whoever asks may still be granted now.
    ///
    /// # Errors
    /// [`Refusal::PlacesAnHour`] if that is none.
    pub fn left(
        &mut self,
        name: &GeneratorName,
        definition: &SegmentDefinition,
        asker: Asker,
        now: BootMs,
    ) -> Result<u64, Refusal> {
        if now - self.since >= HOUR {
            *self = Self { since: now, taken: BTreeMap::new() };
        }
        let mut left = u64::MAX;
        for (taker, max) in bounds(definition, asker) {
            let taken = self.taken.get(&(name.clone(), taker)).copied().unwrap_or_default();
            left = left.min(max.saturating_sub(taken));
            if left == 0 {
                let wait = HOUR.0.saturating_sub((now - self.since).0) / SECOND_MS;
                let wait_s = u32::try_from(wait).unwrap_or(u32::MAX).saturating_add(1);
                let network = matches!(taker, Taker::Network(_));
                return Err(Refusal::PlacesAnHour { name: name.clone(), network, max, wait_s });
            }
        }
        Ok(left)
    }

    /// Notes that so many places of a name are granted to whoever asked.
    pub fn take(&mut self, name: &GeneratorName, definition: &SegmentDefinition, asker: Asker, places: u64) {
        for (taker, _) in bounds(definition, asker) {
            let key = (name.clone(), taker);
            if !self.taken.contains_key(&key) && self.taken.len() >= TAKERS_MAX {
                let least = self.taken.iter().min_by_key(|(_, taken)| **taken).map(|(key, _)| key.clone());
                least.map(|key| self.taken.remove(&key));
            }
            let taken = self.taken.entry(key).or_default();
            *taken = taken.saturating_add(places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::segment::SegmentSpec;

    fn definition(last: Option<u64>, step: Option<u32>) -> SegmentDefinition {
        SegmentDefinition::new(&SegmentSpec { last, step, ..SegmentSpec::default() }).unwrap()
    }

    fn asker(session: u128) -> Asker {
        (SessionId(session), Some("10.0.0.1/32".parse().unwrap()))
    }

    #[test]
    fn a_session_gets_its_part_within_an_hour_and_its_network_twice_that() {
        let (name, narrow) = ("a".parse().unwrap(), definition(Some((1 << 31) - 1), None));
        let (of_session, of_network) = (narrow.session_quota(), narrow.network_quota());
        let mut takings = Takings::default();
        for session in [1, 2] {
            assert_eq!(takings.left(&name, &narrow, asker(session), BootMs(5)), Ok(of_session));
            takings.take(&name, &narrow, asker(session), of_session);
        }
        let refused = |network, max| Err(Refusal::PlacesAnHour { name: name.clone(), network, max, wait_s: 3_600 });
        assert_eq!(takings.left(&name, &narrow, asker(1), BootMs(1_000)), refused(false, of_session));
        assert_eq!(takings.left(&name, &narrow, asker(3), BootMs(1_000)), refused(true, of_network));
        let elsewhere = (SessionId(3), Some("10.0.0.2/32".parse().unwrap()));
        assert_eq!(takings.left(&name, &narrow, elsewhere, BootMs(1_000)), Ok(of_session), "another network");
        assert_eq!(takings.left(&"b".parse().unwrap(), &narrow, asker(1), BootMs(1_000)), Ok(of_session));
        assert_eq!(takings.left(&name, &narrow, asker(1), BootMs(HOUR_MS)), Ok(of_session), "the next hour");
    }

    #[test]
    fn an_axis_that_a_session_may_have_whole_is_not_counted_and_of_others_no_more_than_there_is_room_for() {
        let (name, short) = ("a".parse().unwrap(), definition(Some(5), Some(1)));
        let mut takings = Takings::default();
        takings.take(&name, &short, asker(1), 5);
        assert!(takings.taken.is_empty());
        assert_eq!(takings.left(&name, &short, asker(1), BootMs(0)), Ok(u64::MAX));
        let wide = definition(None, None);
        takings.take(&name, &wide, asker(0), 1_000);
        for session in 1..=TAKERS_MAX as u128 {
            takings.take(&name, &wide, asker(session), 7);
        }
        assert_eq!(takings.taken.len(), TAKERS_MAX);
        let left = takings.left(&name, &wide, asker(0), BootMs(0)).unwrap();
        assert_eq!(left, wide.session_quota() - 1_000, "who has taken the most is known on");
    }
}

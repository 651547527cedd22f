//! Limits that keep one caller from taking all there is: bounds for a name and for a network, and a part of each pool that
//! is kept for who is known.

use super::{Policy, rules};
use crate::lease::usage::RATE_SPAN;
use crate::setting::SettingsTable;
use ids::audit::Actor;
use ids::namespace::Namespace;
use ids::parameters::{AgentId, ClusterParameters};
use ids::setting::{Change, NAME_EACH, NAMES_AT_ONCE, Setting, SettingKey};
use ids::time::{Now, SECOND_MS, SpanMs, WallMs};
use ids::token::{TokenKey, TokenType, TokenValue};
use wire::lease::Refusal;

/// Span over which the names that a network registered are counted.
const NAMES_SPAN: SpanMs = SpanMs(NAME_EACH.0 * NAMES_AT_ONCE as i64);

impl Policy<'_> {
    /// Tells whether a name may be registered for whoever asks from there: not what uses up what all names have together, and not too many. One
    /// that is known is not counted: programs say it again at each start.
    pub(crate) fn may_register(
        &self,
        now: Now,
        settings: &SettingsTable,
        change: &Change,
        actor: &Actor,
    ) -> Result<(), Refusal> {
        let (Change::Define(namespace) | Change::Restore { namespace, .. }) = change else { return Ok(()) };
        let limits = self.table.usage().limits();
        if is_known(settings, &change.key(), namespace) {
            return Ok(());
        }
        rules::by_anybody(namespace)?;
        let (Some(network), name) = (limits.network(actor.from()), namespace.name()) else { return Ok(()) };
        let its = |actor: &Actor| limits.network(actor.from()) == Some(network);
        let count = u32::try_from(settings.registered_lately(now.wall, NAMES_SPAN, name, its)).unwrap_or(u32::MAX);
        if count < NAMES_AT_ONCE {
            return Ok(());
        }
        let span_s = u32::try_from(NAMES_SPAN.0 / SECOND_MS).unwrap_or(u32::MAX);
        Err(Refusal::NamesRate { network: network.to_string(), count, span_s })
    }

    /// Tells whether this agent, and the network it asks from, may have one more lease of a type.
    pub(crate) fn within_limits(
        &self,
        now: Now,
        agent_id: &AgentId,
        address: &str,
        token_type: TokenType,
    ) -> Result<(), Refusal> {
        self.within_budget(agent_id, address, token_type)?;
        let usage = self.table.usage();
        let limits = usage.limits();
        let Some(network) = limits.network(address) else { return Ok(()) };
        let open = usage.open_of(network, token_type);
        if open >= limits.share_of(token_type.size(self.parameters.uint2_max())) {
            return Err(Refusal::NetworkShare { network: network.to_string(), open, token_type });
        }
        let (count, since) = (limits.grants_per_hour, WallMs(now.wall.0.saturating_sub(RATE_SPAN.0)));
        if count > 0 && usage.were_granted(network, token_type, since, count) {
            return Err(Refusal::NetworkRate { network: network.to_string(), count, token_type });
        }
        Ok(())
    }

    /// Tells whether an agent is below the bounds of open leases and of denied ones: what an agent gives up is not in the way
    /// of what it needs, and yet no agent empties the pool by giving up again and again. What others took elsewhere under the
    /// same name counts for them.
    fn within_budget(&self, agent_id: &AgentId, address: &str, token_type: TokenType) -> Result<(), Refusal> {
        let denied =
            |key: TokenKey| self.table.prep(key).is_none() && self.table.lease(key).is_some_and(|lease| lease.deny);
        let limits = self.table.usage().limits();
        let network = limits.network(address);
        let of_network = |key: TokenKey| {
            let prep = self.table.prep(key).map(|prep| prep.address.as_str());
            let at = prep.or_else(|| self.table.lease(key).map(|lease| lease.address.as_str()));
            at.is_some_and(|at| limits.network(at) == network)
        };
        let of_type = self.table.of_agent(agent_id).filter(|(kind, key)| *kind == token_type && of_network(*key));
        let (ended, open): (Vec<_>, Vec<_>) = of_type.partition(|(_, key)| denied(*key));
        if open.len() < usize::from(ClusterParameters::BUDGET) && ended.len() < usize::from(ClusterParameters::DENIED) {
            return Ok(());
        }
        let open = u32::try_from(open.len() + ended.len()).unwrap_or(u32::MAX);
        Err(Refusal::Budget { agent_id: agent_id.clone(), open })
    }

    /// The narrower type whose values must not be taken for a lease of `token_type`: those that this agent would not get
    /// under that type either.
    ///
    /// # Errors
    /// None of this type either: what is free here is kept for others.
    pub(super) fn spared(
        &self,
        agent_id: &AgentId,
        address: &str,
        token_type: TokenType,
        today: WallMs,
    ) -> Result<Option<TokenType>, ()> {
        let uint2_max = self.parameters.uint2_max();
        let usage = self.table.usage();
        let network = usage.limits().network(address);
        let kept = |kind: TokenType| !usage.knows(agent_id, network) && self.table.is_nearly_empty(kind, today);
        let full = |kind: TokenType| {
            let share = usage.limits().share_of(kind.size(uint2_max));
            network.is_some_and(|network| usage.open_of(network, kind) >= share)
        };
        if kept(token_type) {
            return Err(());
        }
        let narrower = |kind: &TokenType| {
            kind.family() == token_type.family() && kind.size(uint2_max) < token_type.size(uint2_max)
        };
        // Of those that are parts of each other the widest one spares the others' values too.
        let spared = TokenType::ALL.into_iter().filter(narrower).filter(|kind| kept(*kind) || full(*kind));
        Ok(spared.max_by_key(|kind| kind.size(uint2_max)))
    }

    /// Tells whether a value may be granted today: not one that somebody of a lost ledger may have, nor one that is spared.
    pub(super) fn is_allowed(&self, value: TokenValue, spared: Option<TokenType>, today: WallMs) -> bool {
        let uint2_max = self.parameters.uint2_max();
        let floor = self.caution.floor;
        floor.is_none_or(|floor| floor.allows(value, today))
            && !spared.is_some_and(|kind| kind.admits(value, uint2_max))
    }
}

/// Tells whether a name stands for something already, or this very definition is proposed: the other master may have confirmed it a moment
/// before this one, and who registered it there says it again here.
fn is_known(settings: &SettingsTable, key: &SettingKey, namespace: &Namespace) -> bool {
    let name_at = |setting: Option<&Setting>| setting.and_then(|known| known.value.namespace().cloned());
    name_at(settings.get(key)).is_some() || name_at(settings.prep(key)).as_ref() == Some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::namespace::{Definition, SequenceSpec};
    use ids::setting::Outcome;

    #[test]
    fn a_name_is_known_as_soon_as_this_definition_of_it_is_proposed() {
        let mut settings = SettingsTable::default();
        let [small, other] = [Some(10), None].map(|keys_per_section| {
            let sequence = Definition::Sequence(SequenceSpec { keys_per_section, ..SequenceSpec::default() });
            Namespace::define("orders".parse().unwrap(), &sequence).unwrap()
        });
        let change = Change::Define(Box::new(small.clone()));
        let known = |settings: &SettingsTable, namespace| is_known(settings, &change.key(), namespace);
        assert!(!known(&settings, &small));
        let Outcome::Becomes(value) = settings.outcome(&change) else { panic!() };
        let setting = Setting { key: change.key(), version: 1, value, actor: Actor::new("olga", ""), at: WallMs(9) };
        settings.put_prep(setting.clone());
        assert!(known(&settings, &small) && !known(&settings, &other), "nobody else takes its place meanwhile");
        settings.put(setting);
        assert!(known(&settings, &small) && known(&settings, &other), "what is registered is compared later");
    }
}

//! Registering what a name stands for.

use super::Catalog;
use crate::masters::{Ask, First, Lane};
use crate::plugin::Caller;
use crate::refusal::Refusal;
use common::namespace::Namespace;
use net::rpc::lease::{Changed, DefineReply, Refusal as Said};
use net::rpc::mint::MintCode;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

impl Catalog {
    /// Registers what a name stands for with the masters, or with `dry_run` only says what would come of that. `true` if it is new. A caller
    /// of another process may register so many names at once and no more; one that there is does not count: programs register at each start.
    ///
    /// # Errors
    /// [`Refusal::GeneratorExists`] if it stands for something else; [`Refusal::NotRegistered`] if it may give what
    /// another name gives, or was retired; [`Refusal::GeneratorConflict`] if this agent knew it as something else;
    /// [`Refusal::TooManyNames`]; [`Refusal::MastersUnavailable`] if the two masters could not confirm it, or do so in time: ask again.
    pub async fn define(&self, caller: Caller<'_>, namespace: &Namespace, dry_run: bool) -> Result<bool, Refusal> {
        let is_counted = !matches!(caller, Caller::Label(_)) && !self.is_met(namespace);
        let counted = is_counted.then_some(caller);
        counted.map_or(Ok(()), |caller| self.rate.count(caller, Instant::now(), dry_run))?;
        let is_new = self.judged(caller, namespace, dry_run).await;
        if dry_run {
            return is_new;
        }
        if let Some(caller) = counted.filter(|_| is_new != Ok(true)) {
            self.rate.give_back(caller);
        }
        let never = namespace.token_type().and_then(|token_type| self.minter.grants().never_leases(token_type));
        if let Some(why) = never.filter(|_| is_new.is_ok()) {
            tracing::warn!(name = %namespace.name(), "registered, but {why}");
        }
        is_new
    }

    /// Tells whether the name is new, as the masters and this agent see it.
    async fn judged(&self, caller: Caller<'_>, namespace: &Namespace, dry_run: bool) -> Result<bool, Refusal> {
        // What is registered goes on as long as it lasts, and programs say it again at each start.
        if let Err(why) = namespace.check_new(self.minter.time().wall())
            && !self.is_met(namespace)
        {
            let asked = self.find(BTreeMap::from([(namespace.name().clone(), None)])).await;
            if !asked.is_empty() || !self.is_met(namespace) {
                return Err(Refusal::BadParameter(why.to_string()));
            }
        }
        let changed = self.define_somewhere(caller, namespace, dry_run).await?;
        let generator = self.minter.names().generator(namespace.kind(), namespace.name().as_str());
        match generator {
            Err(conflict @ Refusal::GeneratorConflict { .. }) => Err(conflict),
            _ => Ok(changed == Changed::Done),
        }
    }

    /// Tells whether the name is known to stand for that already.
    fn is_met(&self, namespace: &Namespace) -> bool {
        let known = self.minter.names().definition(namespace.kind(), namespace.name());
        known.is_some_and(|known| namespace.is_met_by(&known))
    }

    /// The first answer that one of the masters gives; a refusal that the other one would repeat is an answer. It says what the name stands
    /// for as the masters hold it, which may differ in what makes no difference to IDs, and as something else than this agent knows.
    async fn define_somewhere(
        &self,
        caller: Caller<'_>,
        namespace: &Namespace,
        dry_run: bool,
    ) -> Result<Changed, Refusal> {
        let turns = if dry_run { &self.tries } else { &self.defines };
        let (name, _turn) = (namespace.name(), turns.acquire().await);
        let asked = self.masters.ask(Ask::new(Lane::Lists, First::Last(&self.defined)), |line| async move {
            let DefineReply { outcome, known } = line.define(caller.to_string(), namespace.clone(), dry_run).await?;
            let answer = match outcome {
                Ok(changed) => Ok(changed),
                Err(Said::NameTaken) => Err(Refusal::GeneratorExists { name: name.clone() }),
                Err(refusal) => match code_of(&refusal) {
                    Some(code) => Err(Refusal::NotRegistered { code, why: refusal.to_string() }),
                    None => return Err(line.refused(refusal)),
                },
            };
            // What is not learned now is asked about when it is wanted.
            let _ = self.hear(BTreeSet::from([name.clone()]), known).await;
            Ok(Some(answer))
        });
        asked.await.unwrap_or_else(|none| Err(Refusal::MastersUnavailable(none.why())))
    }
}

/// The code by which callers are told that a definition is refused, whichever master is asked.
fn code_of(refusal: &Said) -> Option<MintCode> {
    match refusal {
        Said::TooMany { .. } | Said::SmallSections { .. } | Said::BroadTemplate { .. } => Some(MintCode::BadParameter),
        Said::Collides { .. } => Some(MintCode::GeneratorConflict),
        Said::NameRetired => Some(MintCode::GeneratorExists),
        Said::NamesRate { .. } => Some(MintCode::QuotaExceeded),
        _ => None,
    }
}

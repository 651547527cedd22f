//! Registering what a name stands for.

use super::Catalog;
use crate::masters::{Ask, First, Lane};
use crate::refusal::Refusal;
use common::namespace::Namespace;
use common::rpc::lease::{Changed, DefineReply, Refusal as Said};
use common::rpc::mint::MintCode;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

impl Catalog {
    /// As [`define`](Self::define), for a caller from that address, which may register so many names at once and no more.
    ///
    /// # Errors
    /// [`Refusal::TooManyNames`], and as [`define`](Self::define).
    pub async fn define_for(&self, from: Option<IpAddr>, namespace: Namespace) -> Result<bool, Refusal> {
        let Some(from) = from.filter(|_| self.counts(&namespace)) else { return self.define(namespace).await };
        self.rate.count(from, Instant::now())?;
        let defined = self.define(namespace).await;
        if defined != Ok(true) {
            self.rate.give_back(from);
        }
        defined
    }

    /// The answer that [`define_for`](Self::define_for) would give now; nothing is registered or counted.
    ///
    /// # Errors
    /// As [`define_for`](Self::define_for).
    pub async fn try_for(&self, from: Option<IpAddr>, namespace: &Namespace) -> Result<bool, Refusal> {
        if let Some(from) = from.filter(|_| self.counts(namespace)) {
            self.rate.check(from, Instant::now())?;
        }
        self.judged(namespace, true).await
    }

    /// Tells whether a registration counts; one of what there is does not: programs register at each start.
    fn counts(&self, namespace: &Namespace) -> bool {
        let known = self.definition(namespace.kind(), namespace.name());
        known.is_none_or(|known| !namespace.is_met_by(&known))
    }

    /// Registers what a name stands for with the masters, and serves it from then on. `true` if it is new.
    ///
    /// # Errors
    /// [`Refusal::GeneratorExists`] if it stands for something else; [`Refusal::NotRegistered`] if it may give what
    /// another name gives, or was retired; [`Refusal::GeneratorConflict`] if this agent knew it as something else;
    /// [`Refusal::MastersUnavailable`] if the two masters could not confirm it, or do so in time: ask again.
    pub async fn define(&self, namespace: Namespace) -> Result<bool, Refusal> {
        let is_new = self.judged(&namespace, false).await?;
        if let Some(why) = namespace.token_type().and_then(|token_type| self.minter.never_leases(token_type)) {
            tracing::warn!(name = %namespace.name(), "registered, but {why}");
        }
        Ok(is_new)
    }

    /// Tells whether the name is new, as the masters and this agent see it; registers it then unless `dry_run`.
    async fn judged(&self, namespace: &Namespace, dry_run: bool) -> Result<bool, Refusal> {
        // What is registered goes on as long as it lasts, and programs say it again at each start.
        if let Err(why) = namespace.check_new(self.minter.wall())
            && !self.is_registered(namespace).await
        {
            return Err(Refusal::BadParameter(why.to_string()));
        }
        let changed = self.define_somewhere(namespace, dry_run).await?;
        let generator = self.minter.generator(namespace.kind(), namespace.name().as_str());
        match generator {
            Err(conflict @ Refusal::GeneratorConflict { .. }) => Err(conflict),
            _ => Ok(changed == Changed::Done),
        }
    }

    /// Whether the name stands for that already; the masters may have to be asked.
    async fn is_registered(&self, namespace: &Namespace) -> bool {
        let known = || self.definition(namespace.kind(), namespace.name());
        let is_met = || known().is_some_and(|known| namespace.is_met_by(&known));
        is_met() || self.find(BTreeMap::from([(namespace.name().clone(), None)])).await.is_ok() && is_met()
    }

    /// The first answer that one of the masters gives; a refusal that the other one would repeat is an answer. It says what the name stands
    /// for as the masters hold it, which may differ in what makes no difference to IDs, and as something else than this agent knows.
    async fn define_somewhere(&self, namespace: &Namespace, dry_run: bool) -> Result<Changed, Refusal> {
        let turns = if dry_run { &self.tries } else { &self.defines };
        let (name, _turn) = (namespace.name(), turns.acquire().await);
        let asked = self.masters.ask(Ask::new(Lane::Lists, First::Last(&self.defined)), |line| async move {
            let DefineReply { outcome, known } = line.define(namespace.clone(), dry_run).await?;
            let answer = match outcome {
                Ok(changed) => Ok(changed),
                Err(Said::NameTaken) => Err(Refusal::GeneratorExists { name: name.clone() }),
                Err(refusal) => match code_of(&refusal) {
                    Some(code) => Err(Refusal::NotRegistered { code, why: refusal.to_string() }),
                    None => return Err(line.refused(refusal)),
                },
            };
            self.hear(&BTreeSet::from([name.clone()]), known).await;
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

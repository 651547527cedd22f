//! Whether IDs can be minted now, as far as can be told without minting.

use super::Minter;
use super::series::Series;
use crate::engine::TICK_WAIT_MAX;
use crate::gate::gate_ticks;
use crate::refusal::Refusal;
use common::time::{SpanMs, WallMs};
use common::token::TokenType;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

impl Minter {
    /// Tells whether IDs of every wanted type can be minted now, by every name that this agent serves. Types that only a name has
    /// asked for do not count: where the masters have no such token left, the other names go on.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self) -> Result<(), Refusal> {
        if let Some(why) = self.gone_why.get() {
            return Err(Refusal::SerialFileIo(why.clone()));
        }
        if !self.file_works.load(Ordering::Relaxed) {
            return Err(Refusal::SerialFileIo("its last write failed; the log says why".to_owned()));
        }
        self.may_give(|_| true)?;
        let wall = self.wall();
        let demanded = self.demanded();
        let wanted: BTreeSet<TokenType> =
            self.published.load().leases.keys().filter(|kind| !demanded.contains(kind)).copied().collect();
        for token_type in &wanted {
            let (grant, _) = self.lease(*token_type)?;
            if wall >= grant.until {
                return Err(Refusal::LeaseExpired { token_type: *token_type, until: grant.until, why: self.why() });
            }
            if wall < grant.from {
                let behind = grant.from - wall;
                return Err(Refusal::ClockBehind { behind, retry: behind });
            }
        }
        self.in_time(&wanted, wall)?;
        let defaults = self.generators.iter().filter(|generator| generator.namespace().name().is_default());
        defaults.filter_map(|generator| generator.series.serials()).try_for_each(|series| {
            let retry = WallMs(series.exhausted_until.load(Ordering::Relaxed)) - wall;
            let (unit, capacity) = (series.layout.unit().name(), series.layout.rules(false).capacity);
            if retry > SpanMs(0) { Err(Refusal::SerialExhausted { unit, capacity, left: 0, retry }) } else { Ok(()) }
        })
    }

    /// Tells whether the clock has come near enough to the time that the next ID of each name would carry.
    fn in_time(&self, wanted: &BTreeSet<TokenType>, wall: WallMs) -> Result<(), Refusal> {
        for generator in self.generators.iter().filter(|generator| !generator.has_ended()) {
            let Some(token_type) = generator.namespace().token_type().filter(|kind| wanted.contains(kind)) else {
                continue;
            };
            let (lease, offset) = self.lease(token_type)?;
            match &generator.series {
                Series::Ticks(series) => {
                    let ticks = series.definition.layout().ticks(offset);
                    let waits = if ticks.spanning { TICK_WAIT_MAX.0.saturating_mul(self.scale().into()) } else { 0 };
                    let ahead_max = SpanMs(series.reach().ahead_max.0.saturating_add(waits));
                    gate_ticks(&ticks, &lease, series.window().reached(), wall, ahead_max).map(drop)?;
                }
                Series::Serials(series) => {
                    series.layout.gate(offset, &lease, series.last_bucket(), wall).map(drop)?;
                }
            }
        }
        Ok(())
    }

    /// Tells the operator once if what was minted before lies ahead of the clock.
    pub(super) fn tell_if_ahead(&self) {
        let ahead = self.ready().err().filter(|refusal| matches!(refusal, Refusal::ClockBehind { .. }));
        if self.ahead.swap(ahead.is_some(), Ordering::Relaxed) {
            return;
        }
        if let Some(refusal) = ahead {
            tracing::error!(%refusal, "this agent is not ready: the times of its last IDs lie ahead of the clock");
        }
    }
}

//! Remedies that an operator applies to a stopped master so that it goes on: after both disks were put back, after both stores were lost,
//! after both calendars were wrong.

use crate::config::Args;
use crate::lease::remedy::{self, floor_of};
use crate::lease::{Caution, Loaded, Write};
use crate::store::{self, Store as _, StoreError};
use common::audit::{Action, Actor, Entry};
use common::lease::Floor;
use common::parameters::ClusterParameters;
use common::time::WallMs;
use common::token::TokenValue;

/// The words that confirm `--after-revert`.
pub const CONFIRM_REVERT: &str = "both ledgers are old";
/// The words that confirm `--forget-clock`.
pub const CONFIRM_CLOCK: &str = "the calendars are right now";

/// The reason why a remedy was not applied.
#[derive(Debug, thiserror::Error)]
pub enum RemedyError {
    /// The operator has not confirmed it.
    #[error("{does}. If that is intended, confirm it with --confirm \"{words}\"")]
    Unconfirmed {
        /// The effect that it would have.
        does: String,
        words: &'static str,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A replacement may have joined, so this master would go on beside it.
    #[error(transparent)]
    MayHaveJoined(#[from] remedy::MayHaveJoined),
}

fn confirmed(args: &Args, words: &'static str, does: &str) -> Result<(), RemedyError> {
    if args.confirm.as_deref() == Some(words) {
        return Ok(());
    }
    Err(RemedyError::Unconfirmed { does: does.to_owned(), words })
}

/// Describes for the operator what is granted by a floor.
fn granted(floor: &Floor) -> String {
    match floor.above {
        None => format!("nothing is granted before {}", floor.until),
        Some(above) => format!("only values above {} are granted before {}", above.0, floor.until),
    }
}

/// The writes of a store that is formatted after both stores of its cluster were lost, and what they mean.
pub fn total_loss(args: &Args, parameters: &ClusterParameters) -> (Vec<Write>, String) {
    let now = args.flags.clock().wall();
    let floor = floor_of(parameters, now, args.above.map(TokenValue));
    let actor = Actor::new("operator", "uniq_master --format --after-total-loss");
    let said = granted(&floor);
    let line = Entry::new(now, actor, Action::AfterRevert, "the ledger before this one", &said);
    (vec![Write::Caution(Caution { floor: Some(floor), ..Caution::default() }), Write::Audit(line)], said)
}

/// `--after-revert`: both ledgers were put back. Returns what is granted from now on.
///
/// # Errors
/// [`RemedyError::Unconfirmed`] without the words; [`RemedyError::MayHaveJoined`]; the store's.
pub fn revert(args: &Args) -> Result<String, RemedyError> {
    let does = "both masters' ledgers were put back to an earlier state, and agents may hold leases that they do not know of: \
                this lets them grant again, but nothing that such an agent may hold, before all of it is over";
    confirmed(args, CONFIRM_REVERT, does)?;
    let (mut store, mut loaded) = store::open(&args.data_dir)?;
    let now = args.flags.clock().wall();
    let mut writes = Vec::new();
    if args.vouch_untouched {
        let actor = Actor::new("operator", "uniq_master --vouch-untouched");
        writes = remedy::vouch(&loaded, actor, now).unwrap_or_default();
        loaded.proven = Ok(());
    }
    // A calendar that stands behind what it once showed would make the floor too low.
    let from = now.max(loaded.observed.clock_high);
    let floor = floor_of(&loaded.identity.parameters, from, args.above.map(TokenValue));
    let actor = Actor::new("operator", "uniq_master --after-revert");
    let skip = args.skip_numbers.unwrap_or(0);
    writes.extend(remedy::after_revert(&loaded, floor, skip, actor, now)?);
    store.commit(&writes, loaded.lsn.saturating_add(1))?;
    Ok(format!("{}.\n{}", granted(&floor), ranges_left(&loaded, skip)))
}

/// Describes what the operator still has to do about numbers that come from ranges, which have no date that one could wait for.
fn ranges_left(loaded: &Loaded, skip: u64) -> String {
    let namespaces = || loaded.settings.iter().filter_map(|setting| setting.value.namespace());
    let axes = namespaces().filter(|namespace| namespace.segments().is_some()).count();
    let sequences = namespaces().filter(|namespace| namespace.sequences().is_some()).count();
    let mut left = Vec::new();
    if axes > 0 {
        left.push(format!("Raise the axes of {axes} names of kind segment above everything that was granted (the last uniq_master_axis_granted, and a margin), before any agent can ask."));
    }
    if sequences > 0 {
        let how_far = match skip {
            0 => "their solo_allowance of".to_owned(),
            skip => format!("{skip} (at least their solo_allowance of)"),
        };
        left.push(format!(
            "The {} sections that this store knows, of {sequences} names of kind sequence, skip {how_far} numbers: say --skip-numbers N \
             if a section may have given more since the backup. Sections that were first used since are not known.",
            loaded.sections.iter().map(|(record, _)| u64::from(record.range.len())).sum::<u64>()
        ));
    }
    left.push(
        "Names that were registered since are not known, and agents bring them back: of those of kind segment and sequence nothing is raised \
         or skipped, so let nobody use them any more, and retire them. See docs/operate/runbook/disks-put-back.md."
            .to_owned(),
    );
    left.join("\n")
}

/// `--forget-clock`: the latest time that both calendars ever showed was wrong. Returns it.
///
/// # Errors
/// [`RemedyError::Unconfirmed`] without the words; the store's.
pub fn forget_clock(args: &Args) -> Result<WallMs, RemedyError> {
    let does = "this lets the master forget the latest time that both calendars ever showed, because it was wrong; leases that \
                were promised by it keep their ends";
    confirmed(args, CONFIRM_CLOCK, does)?;
    let (mut store, loaded) = store::open(&args.data_dir)?;
    let (now, was) = (args.flags.clock().wall(), loaded.observed.clock_high);
    let actor = Actor::new("operator", "uniq_master --forget-clock");
    store.commit(&remedy::forget_clock(&loaded, actor, now), loaded.lsn)?;
    Ok(was)
}

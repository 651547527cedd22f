//! Decides what becomes of a name when it is registered, used first, or shown by who used it.

use super::{Outcome, SettingValue};
use crate::kind::Kind;
use crate::namespace::{Namespace, Scope};
use crate::template::Overlap;

pub(super) fn define(wanted: &Namespace, known: Option<&SettingValue>) -> Outcome {
    if wanted.name().is_default() {
        if !Kind::PREDEFINED.contains(&wanted.kind()) {
            return Outcome::Taken;
        }
        let same = wanted.same_ids(&Namespace::default_of(wanted.kind()));
        return if same { Outcome::AlreadySo } else { Outcome::Taken };
    }
    match known {
        Some(SettingValue::Namespace(known) | SettingValue::Unused(known)) if wanted.is_met_by(known) => {
            Outcome::AlreadySo
        }
        Some(SettingValue::Retired(_)) => Outcome::Retired,
        None | Some(SettingValue::Free) => Outcome::Becomes(SettingValue::Unused(Box::new(wanted.clone()))),
        Some(_) => Outcome::Taken,
    }
}

pub(super) fn used(wanted: &Namespace, known: Option<&SettingValue>) -> Outcome {
    match known {
        Some(SettingValue::Unused(known)) if wanted.is_met_by(known) => {
            Outcome::Becomes(SettingValue::Namespace(known.clone()))
        }
        Some(SettingValue::Namespace(known)) if wanted.is_met_by(known) => Outcome::AlreadySo,
        Some(SettingValue::Retired(_)) => Outcome::Retired,
        None | Some(SettingValue::Free) => Outcome::NoSuchName,
        Some(_) => Outcome::Taken,
    }
}

pub(super) fn restored(shown: &Namespace, retired: bool, proved: bool, known: Option<&SettingValue>) -> Outcome {
    let becomes = |namespace: &Namespace| {
        let value = if retired { SettingValue::Retired } else { SettingValue::Namespace };
        Outcome::Becomes(value(Box::new(namespace.clone())))
    };
    match known {
        _ if shown.name().is_default() => Outcome::Taken,
        Some(SettingValue::Retired(_)) if retired => Outcome::AlreadySo,
        Some(SettingValue::Retired(_)) => Outcome::Retired,
        Some(SettingValue::Namespace(known)) if shown.is_met_by(known) && !retired => Outcome::AlreadySo,
        Some(SettingValue::Namespace(known) | SettingValue::Unused(known)) if shown.is_met_by(known) => becomes(known),
        None | Some(SettingValue::Free) => becomes(shown),
        // Nobody has given an ID by what stands there now.
        Some(SettingValue::Unused(_)) if proved => becomes(shown),
        Some(_) => Outcome::Taken,
    }
}

/// A refusal of a new name that may give what one of the `others` gives, or a name that always exists, unless its scope is its own.
pub fn collision<'a>(wanted: &Namespace, others: impl IntoIterator<Item = &'a Namespace>) -> Option<Outcome> {
    if wanted.scope() == Scope::Own || wanted.kind() != Kind::String {
        return None;
    }
    let default = Namespace::default_of(Kind::String);
    let compare = |other: &'a Namespace| Some((other, wanted.overlap(other)?));
    let found = wanted.overlap(&default).map(|overlap| (&default, overlap));
    let (other, overlap) = found.or_else(|| others.into_iter().find_map(compare))?;
    let example = match overlap {
        Overlap::Common(example) => example,
        Overlap::Disjoint | Overlap::Unproved => String::new(),
    };
    let template = other.template().map_or("", |template| template.source()).to_owned();
    Some(Outcome::Collides { name: other.name().clone(), template, example })
}

/// The names that exist without being registered.
pub fn predefined() -> impl Iterator<Item = Namespace> {
    Kind::PREDEFINED.into_iter().filter(|kind| kind.spec().definition.is_some()).map(Namespace::default_of)
}

#[cfg(test)]
mod tests {
    use super::super::Change;
    use super::*;
    use crate::namespace::{Definition, Uniq64Spec};

    fn orders(step: u32, reset: bool) -> Box<Namespace> {
        let scope = Scope::Own;
        let definition = Definition::Uniq64(Uniq64Spec {
            everyday_reset: Some(reset),
            step: Some(step),
            scope: Some(scope),
            ..Uniq64Spec::default()
        });
        Box::new(Namespace::define("orders".parse().unwrap(), &definition).unwrap())
    }

    #[test]
    fn a_name_is_defined_once_and_for_all() {
        let Outcome::Becomes(unused) = Change::Define(orders(1_000, false)).outcome(None, &[]) else { panic!() };
        assert_eq!(Change::Define(orders(1_000, false)).outcome(Some(&unused), &[]), Outcome::AlreadySo);
        let in_use = Change::Use(orders(1_000, false));
        let Outcome::Becomes(known) = in_use.outcome(Some(&unused), &[]) else { panic!() };
        assert_eq!(in_use.outcome(Some(&known), &[]), Outcome::AlreadySo);
        assert_eq!(Change::Use(orders(1_000, true)).outcome(Some(&unused), &[]), Outcome::Taken);
        assert_eq!(in_use.outcome(None, &[]), Outcome::NoSuchName);
        assert_eq!(Change::Define(orders(1_000, false)).outcome(Some(&known), &[]), Outcome::AlreadySo);
        // The step says how often the file is written, not which IDs come out.
        assert_eq!(Change::Define(orders(2_000, false)).outcome(Some(&known), &[]), Outcome::AlreadySo);
        assert_eq!(Change::Define(orders(1_000, true)).outcome(Some(&known), &[]), Outcome::Taken);
        let retire = Change::Retire("orders".parse().unwrap());
        let Outcome::Becomes(retired) = retire.outcome(Some(&known), &[]) else { panic!() };
        assert_eq!(retired.namespace(), known.namespace());
        assert_eq!(retire.outcome(Some(&retired), &[]), Outcome::AlreadySo);
        assert_eq!(retire.outcome(None, &[]), Outcome::NoSuchName);
        for again in [Change::Define(orders(1_000, false)), in_use.clone()] {
            assert_eq!(again.outcome(Some(&retired), &[]), Outcome::Retired);
        }
        let free = SettingValue::Free;
        assert_eq!(retire.outcome(Some(&unused), &[]), Outcome::Becomes(free.clone()));
        assert_eq!(retire.outcome(Some(&free), &[]), Outcome::AlreadySo);
        assert_eq!(in_use.outcome(Some(&free), &[]), Outcome::NoSuchName);
        assert!(matches!(Change::Define(orders(1_000, true)).outcome(Some(&free), &[]), Outcome::Becomes(_)));
        let shown = |retired, proved| Change::Restore { namespace: orders(1_000, false), retired, proved };
        let restore = |retired| shown(retired, false);
        let other = SettingValue::Unused(orders(1_000, true));
        for (before, served, was_retired) in [
            (None, Outcome::Becomes(known.clone()), Outcome::Becomes(retired.clone())),
            (Some(&free), Outcome::Becomes(known.clone()), Outcome::Becomes(retired.clone())),
            (Some(&unused), Outcome::Becomes(known.clone()), Outcome::Becomes(retired.clone())),
            (Some(&known), Outcome::AlreadySo, Outcome::Becomes(retired.clone())),
            (Some(&retired), Outcome::Retired, Outcome::AlreadySo),
            (Some(&other), Outcome::Taken, Outcome::Taken),
        ] {
            assert_eq!(restore(false).outcome(before, &[]), served, "{before:?}");
            assert_eq!(restore(true).outcome(before, &[]), was_retired, "{before:?}");
        }
        assert_eq!(shown(false, true).outcome(Some(&other), &[]), Outcome::Becomes(known.clone()));
        assert_eq!(shown(true, true).outcome(Some(&other), &[]), Outcome::Becomes(retired.clone()));
        let other = SettingValue::Namespace(orders(1_000, true));
        assert_eq!(shown(false, true).outcome(Some(&other), &[]), Outcome::Taken);
        for namespace in predefined() {
            assert_eq!(Change::Define(Box::new(namespace)).outcome(None, &[]), Outcome::AlreadySo);
        }
    }
}

//! Warns of names whose IDs one caller can use up.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::Namespace;
use crate::kind::Form;

/// Of an hour's or a day's IDs the last ones are given to callers in shares if there are as many as this; fewer are used up in some calls,
/// whoever makes them.
pub const SHARED_MIN: u64 = 1_000_000;
/// The plugin that keeps callers of such names apart.
const QUOTA: &str = "quota";

impl Namespace {
    /// The reason why one caller may use up, within a day, what all callers have, if it is so.
    pub fn used_up_in_a_day(&self) -> Option<String> {
        let (capacity, unit) = (self.capacity(), self.kind().spec().unit.name());
        if let Some(definition) = self.segments() {
            let hours = definition.hours_at_least()?.saturating_add(1);
            return Some(format!(
                "callers of one network can use up all {capacity} numbers in {hours} hours, for ever: take a larger `last`"
            ));
        }
        let has_buckets = matches!(self.kind().spec().form, Form::Number { .. } | Form::Template { .. });
        if !has_buckets || capacity >= SHARED_MIN || self.plugins().iter().any(|it| it.plugin.as_str() == QUOTA) {
            return None;
        }
        Some(format!(
            "one caller can use up the {capacity} IDs that an agent has in a {unit}, and all others get none until the next one: with a longer \
             serial ({SHARED_MIN} IDs) nobody takes the last ones alone, and the plugin `quota` by caller says how many each gets"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(json: &str) -> Option<String> {
        Namespace::define("orders".parse().unwrap(), &serde_json::from_str(json).unwrap()).unwrap().used_up_in_a_day()
    }

    #[test]
    fn what_one_caller_can_use_up_is_said() {
        let day = warning(r#"{"kind":"string","template":"{date:%Y%m%d}{token}{serial:5}"}"#).unwrap();
        assert!(day.contains("100000 IDs") && day.contains("a day") && day.contains("quota"), "{day}");
        let quota = r#""plugins":[{"plugin":"quota","per_day":10,"by":"caller"}]"#;
        assert_eq!(
            warning(&format!(r#"{{"kind":"string","template":"{{date:%Y%m%d}}{{token}}{{serial:5}}",{quota}}}"#)),
            None
        );
        assert_eq!(warning(r#"{"kind":"string","template":"{date:%Y%m%d}{token}{serial:6}"}"#), None);
        for kind in ["uniq64", "segment", "sequence"] {
            assert_eq!(warning(&format!(r#"{{"kind":"{kind}"}}"#)), None, "{kind}");
        }
        assert_eq!(warning(r#"{"kind":"sequence","width":32}"#), None);
        assert_eq!(warning(r#"{"kind":"layout","layout":"snowflake"}"#), None);
        let small = warning(r#"{"kind":"segment","last":100000}"#).unwrap();
        assert!(small.contains("hours, for ever"), "{small}");
    }
}

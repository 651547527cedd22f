//! Warns of names whose IDs one caller can use up.

use super::Namespace;
use crate::layout::Mark;

/// IDs of an hour or a day from which on the last ones are given to callers in shares; fewer are used up in some calls, whoever makes them.
pub const SHARED_MIN: u64 = 1_000_000;
/// The plugin that keeps callers of such names apart.
const QUOTA: &str = "quota";

impl Namespace {
    /// Tells whether it counts serials within an hour, a day or another long tick, of which it has no more until that is over.
    pub fn has_serials(&self) -> bool {
        self.numbers().map_or(self.template().is_some(), |it| it.layout().mark() == Mark::Serial)
    }

    /// The reason why one caller may use up, within a day, what all callers have, if it is so.
    pub fn used_up_in_a_day(&self) -> Option<String> {
        let (capacity, unit) = (self.capacity(), self.kind().spec().unit.name());
        if let Some(definition) = self.segments() {
            let hours = definition.hours_at_least()?.saturating_add(1);
            return Some(format!(
                "callers of one network can use up all {capacity} numbers in {hours} hours, for ever: take a larger `last`, or longer texts"
            ));
        }
        if !self.has_serials() || capacity >= SHARED_MIN || self.plugins().iter().any(|it| it.plugin.as_str() == QUOTA)
        {
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
        let minutes =
            r#""bits":63,"epoch":"2024-01-01T00:00:00Z","unit_ms":60000,"fields":["time:31","token:16","serial:16"]"#;
        let minute = warning(&format!(r#"{{"kind":"layout",{minutes}}}"#)).unwrap();
        assert!(minute.contains("65536 IDs") && minute.contains("a tick"), "{minute}");
        let small = warning(r#"{"kind":"segment","last":100000}"#).unwrap();
        assert!(small.contains("hours, for ever"), "{small}");
    }
}

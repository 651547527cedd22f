//! `plugins` of a definition: which plugins a name has, in which order, with which parameters. Masters and the console look at
//! their form only; what the parameters mean, and whether there is such a plugin, the agent knows that makes it.
//!
//! ```json
//! [{"plugin":"quota","order":10,"per_second":100,"per_day":10000,"by":"caller"}, {"plugin":"history"}, {"plugin":"stats"}]
//! ```

use crate::quota::IdQuota;
use core::fmt;
use core::ops::RangeInclusive;
use serde::de::value::{Error as ValueError, MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// Plugins that one name may have.
pub const PLUGINS_MAX: usize = 8;
/// Bytes that the plugins of one name take at most, as JSON: a definition is kept by masters and agents, and sent with others.
pub const PLUGINS_LEN_MAX: usize = 384;
/// The range of `order`.
pub const ORDERS: RangeInclusive<i32> = -1_000..=1_000;
/// Parameters that one plugin may have.
const PARAMETERS_MAX: usize = 16;
/// Bytes that a parameter's name may have.
const KEY_LEN_MAX: usize = 32;
/// Bytes that a text may have.
const TEXT_LEN_MAX: usize = 256;
/// Texts that a list may have.
const LIST_LEN_MAX: usize = 16;
/// The range of the number of callers that a quota tells apart.
const CALLERS: RangeInclusive<u32> = 1..=65_536;
/// Callers that a quota tells apart unless it says otherwise.
const CALLERS_DEFAULT: u32 = 4_096;

/// The fault of a list of plugins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugins: {0}")]
pub struct SpecError(String);

impl SpecError {
    /// An error with that reason.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// An error with that reason, about one plugin.
    pub fn of(plugin: &PluginName, why: impl fmt::Display) -> Self {
        Self(format!("{plugin}: {why}"))
    }
}

/// The name of a plugin in definitions: 1 to 32 of a-z 0-9 _ -.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginName(String);

impl PluginName {
    /// The longest name, in bytes.
    pub const LEN_MAX: usize = 32;

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl core::str::FromStr for PluginName {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let fits = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if (1..=Self::LEN_MAX).contains(&text.len()) && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(Self::LEN_MAX).flat_map(char::escape_default).collect();
        Err(SpecError(format!("'{shown}' is not a plugin's name: write 1 to {} of a-z 0-9 _ -", Self::LEN_MAX)))
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum Parameter {
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// A text of at most 256 bytes.
    Text(String),
    /// A list of at most 16 such texts.
    List(Vec<String>),
}

struct ParameterVisitor;

impl<'de> Visitor<'de> for ParameterVisitor {
    type Value = Parameter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, a whole number, a text or a list of texts")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Parameter, E> {
        Ok(Parameter::Flag(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Parameter, E> {
        Ok(Parameter::Whole(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Parameter, E> {
        i64::try_from(number).map(Parameter::Whole).map_err(|_| E::custom(format!("{number} is too large")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Parameter, E> {
        if text.len() > TEXT_LEN_MAX {
            return Err(E::custom(format!("a text of {} bytes is too long: at most {TEXT_LEN_MAX}", text.len())));
        }
        Ok(Parameter::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut given: A) -> Result<Parameter, A::Error> {
        let mut texts = Vec::new();
        while let Some(parameter) = given.next_element::<Parameter>()? {
            match parameter {
                Parameter::Text(text) if texts.len() < LIST_LEN_MAX => texts.push(text),
                Parameter::Text(_) => {
                    return Err(de::Error::custom(format!("a list has at most {LIST_LEN_MAX} texts")));
                }
                _ => return Err(de::Error::custom("a list is of texts")),
            }
        }
        Ok(Parameter::List(texts))
    }
}

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParameterVisitor)
    }
}

impl IntoDeserializer<'_, ValueError> for Parameter {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Parameter {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            Self::Flag(flag) => visitor.visit_bool(flag),
            Self::Whole(number) => visitor.visit_i64(number),
            Self::Text(text) => visitor.visit_string(text),
            Self::List(texts) => visitor.visit_seq(SeqDeserializer::new(texts.into_iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match self {
            Self::Text(text) => Deserializer::deserialize_enum(
                IntoDeserializer::<ValueError>::into_deserializer(text),
                name,
                variants,
                visitor,
            ),
            _ => Err(de::Error::custom(format!("it is one of {}", variants.join(", ")))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// The parameters that a definition gives to one plugin, beside its name and order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parameters(BTreeMap<String, Parameter>);

impl Parameters {
    /// The value of one of them.
    pub fn get(&self, key: &str) -> Option<&Parameter> {
        self.0.get(key)
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, parameter: Parameter) -> Self {
        self.0.insert(key.into(), parameter);
        self
    }

    /// Takes one in that stands in a definition; `true` if there was one of that key.
    fn take_in<'de, A: MapAccess<'de>>(&mut self, key: String, given: &mut A) -> Result<bool, A::Error> {
        if key.is_empty() || key.len() > KEY_LEN_MAX {
            return Err(de::Error::custom(format!("a parameter's name has 1 to {KEY_LEN_MAX} bytes")));
        }
        let twice = self.0.insert(key, given.next_value()?).is_some();
        if self.0.len() > PARAMETERS_MAX {
            return Err(de::Error::custom(format!("there are at most {PARAMETERS_MAX} parameters")));
        }
        Ok(twice)
    }

    /// Reads all of them as a type with fields of those names; `#[serde(deny_unknown_fields)]` refuses what it does not
    /// know.
    ///
    /// # Errors
    /// [`SpecError`], worded for whoever wrote the definition.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, SpecError> {
        let all = self.0.iter().map(|(key, parameter)| (key.as_str(), parameter.clone()));
        T::deserialize(MapDeserializer::<_, ValueError>::new(all)).map_err(|e| SpecError(e.to_string()))
    }
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

struct ParametersVisitor;

impl<'de> Visitor<'de> for ParametersVisitor {
    type Value = Parameters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"parameters, such as {"prefix":"A"}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Parameters, A::Error> {
        let mut parameters = Parameters::default();
        while let Some(key) = given.next_key::<String>()? {
            let shown = key.clone();
            if parameters.take_in(key, &mut given)? {
                return Err(de::Error::custom(format!("'{shown}' stands there twice")));
            }
        }
        Ok(parameters)
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ParametersVisitor)
    }
}

/// One plugin of a name, as a person writes it in JSON. As a record of bincode it does not read back: keep the JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginSpec {
    /// The plugin's name.
    pub plugin: PluginName,
    /// The place among the plugins: lower ones run first. Left out, the plugin's own default.
    pub order: Option<i32>,
    /// The plugin's parameters.
    pub parameters: Parameters,
}

impl PluginSpec {
    /// A plugin of which nothing else is said.
    pub fn new(plugin: PluginName) -> Self {
        Self { plugin, order: None, parameters: Parameters::default() }
    }

    /// Sets the order, within [`ORDERS`]; definitions with others are refused.
    #[must_use]
    pub fn order(self, order: i32) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(self, key: impl Into<String>, parameter: Parameter) -> Self {
        Self { parameters: self.parameters.with(key, parameter), ..self }
    }
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = PluginSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a plugin, such as {"plugin":"quota","per_second":100}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<PluginSpec, A::Error> {
        let (mut plugin, mut order, mut parameters) = (None, None, Parameters::default());
        while let Some(key) = given.next_key::<String>()? {
            let twice = match key.as_str() {
                "plugin" => plugin.replace(given.next_value::<String>()?.parse().map_err(de::Error::custom)?).is_some(),
                "order" => order.replace(given.next_value::<i32>()?).is_some(),
                _ => parameters.take_in(key.clone(), &mut given)?,
            };
            if twice {
                return Err(de::Error::custom(format!("'{key}' stands there twice")));
            }
        }
        if order.is_some_and(|order| !ORDERS.contains(&order)) {
            return Err(de::Error::custom(format!("order is a number from {} to {}", ORDERS.start(), ORDERS.end())));
        }
        let plugin = plugin.ok_or_else(|| de::Error::missing_field("plugin"))?;
        Ok(PluginSpec { plugin, order, parameters })
    }
}

impl<'de> Deserialize<'de> for PluginSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SpecVisitor)
    }
}

impl Serialize for PluginSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = 1 + usize::from(self.order.is_some()) + self.parameters.0.len();
        let mut map = serializer.serialize_map(Some(len))?;
        map.serialize_entry("plugin", self.plugin.as_str())?;
        if let Some(order) = self.order {
            map.serialize_entry("order", &order)?;
        }
        for (key, parameter) in &self.parameters.0 {
            map.serialize_entry(key, parameter)?;
        }
        map.end()
    }
}

/// The callers that draw from one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// One account for the calls of everybody.
    #[default]
    Name,
    /// Each caller's: an address, of IPv6 the network of 64 bits.
    Caller,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuota {
    per_second: Option<u64>,
    per_day: Option<u64>,
    #[serde(default)]
    by: By,
    callers_max: Option<u32>,
}

/// The parameters of `quota`. Built only by checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "RawQuota")]
pub struct QuotaSpec {
    quota: IdQuota,
    by: By,
    callers_max: u32,
}

impl TryFrom<RawQuota> for QuotaSpec {
    type Error = String;
    fn try_from(raw: RawQuota) -> Result<Self, String> {
        let RawQuota { per_second, per_day, by, callers_max } = raw;
        let quota = IdQuota::new(per_second, per_day)?;
        if callers_max.is_some() && by == By::Name {
            return Err("callers_max goes with \"by\":\"caller\"".to_owned());
        }
        let callers_max = callers_max.unwrap_or(CALLERS_DEFAULT);
        if !CALLERS.contains(&callers_max) {
            return Err(format!("callers_max is a number from {} to {}", CALLERS.start(), CALLERS.end()));
        }
        Ok(Self { quota, by, callers_max })
    }
}

impl QuotaSpec {
    /// The most IDs of one account.
    pub fn quota(&self) -> IdQuota {
        self.quota
    }

    /// The callers that draw from one account.
    pub fn by(&self) -> By {
        self.by
    }

    /// Callers that have accounts of their own at once, 1 to 65,536; more share one.
    pub fn callers_max(&self) -> u32 {
        self.callers_max
    }
}

/// The way in which `history` treats a call that it cannot write down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Refuses the call.
    #[default]
    Required,
    /// Lets it pass, and counts it.
    BestEffort,
}

/// The parameters of `history`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistorySpec {
    /// The way in which it treats a call that cannot be written down.
    #[serde(default)]
    pub mode: Mode,
}

/// The parameters of `stats`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatsSpec {}

/// Checks a list of plugins, whatever the plugins are.
///
/// # Errors
/// [`SpecError`] if there are more than [`PLUGINS_MAX`], or they are longer than [`PLUGINS_LEN_MAX`].
pub fn check(specs: &[PluginSpec]) -> Result<(), SpecError> {
    if specs.len() > PLUGINS_MAX {
        return Err(SpecError::new(format!("a name has at most {PLUGINS_MAX}")));
    }
    let json = serde_json::to_string(specs).map_err(|e| SpecError::new(e.to_string()))?;
    if json.len() > PLUGINS_LEN_MAX {
        return Err(SpecError::new(format!("they have at most {PLUGINS_LEN_MAX} bytes as JSON")));
    }
    // What a program put together has the bounds of what a person writes.
    let again: Vec<PluginSpec> = serde_json::from_str(&json).map_err(|e| SpecError::new(e.to_string()))?;
    if again != specs {
        return Err(SpecError::new("they do not read back as they were given"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<PluginSpec>, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    fn quota(parameters: &str) -> Result<QuotaSpec, String> {
        let json = format!(r#"[{{"plugin":"quota"{parameters}}}]"#);
        let specs = read(&json)?;
        specs[0].parameters.read().map_err(|e| e.to_string())
    }

    #[test]
    fn what_a_person_writes_reads_back() {
        let json = concat!(
            r#"[{"plugin":"quota","order":10,"by":"caller","per_day":10000,"per_second":100},{"plugin":"history"},"#,
            r#"{"plugin":"mine","order":-3,"deep":true,"less":-1,"who":["a","b"]}]"#
        );
        let specs = read(json).unwrap();
        assert_eq!(serde_json::to_string(&specs).unwrap(), json);
        let orders: Vec<_> = specs.iter().map(|spec| (spec.plugin.as_str(), spec.order)).collect();
        assert_eq!(orders, [("quota", Some(10)), ("history", None), ("mine", Some(-3))]);
        let spec: QuotaSpec = specs[0].parameters.read().unwrap();
        assert_eq!(
            (spec.quota(), spec.by(), spec.callers_max()),
            (IdQuota::new(Some(100), Some(10_000)).unwrap(), By::Caller, CALLERS_DEFAULT)
        );
        assert_eq!(specs[2].parameters.get("less"), Some(&Parameter::Whole(-1)));
        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Mine {
            deep: Option<bool>,
            less: i8,
            who: Vec<String>,
        }
        let mine: Mine = specs[2].parameters.read().unwrap();
        assert_eq!(mine, Mine { deep: Some(true), less: -1, who: vec!["a".to_owned(), "b".to_owned()] });
        let mode = |mode: &str| {
            let specs = read(&format!(r#"[{{"plugin":"history","mode":{mode}}}]"#)).unwrap();
            specs[0].parameters.read::<HistorySpec>().map(|spec| spec.mode)
        };
        assert_eq!(mode(r#""best-effort""#), Ok(Mode::BestEffort));
        assert!(mode("1").unwrap_err().to_string().contains("required, best-effort"));
        assert!(mode(r#""never""#).unwrap_err().to_string().contains("best-effort"));
    }

    #[test]
    fn hostile_lists_are_refused_with_the_reason() {
        let many = (0..=PARAMETERS_MAX).map(|n| format!(r#","p{n}":{n}"#)).collect::<String>();
        let long = "x".repeat(TEXT_LEN_MAX + 1);
        let list = vec![r#""a""#; LIST_LEN_MAX + 1].join(",");
        for (parameters, reason) in [
            (r#","order":1001"#.to_owned(), "-1000 to 1000"),
            (r#","order":99999999999"#.to_owned(), "i32"),
            (r#","order":1,"order":2"#.to_owned(), "twice"),
            (r#","plugin":"stats""#.to_owned(), "twice"),
            (r#","a":1,"a":1"#.to_owned(), "twice"),
            (r#","a":1.5"#.to_owned(), "a whole number"),
            (r#","a":null"#.to_owned(), "a whole number"),
            (r#","a":{"b":1}"#.to_owned(), "a whole number"),
            (r#","a":[[["b"]]]"#.to_owned(), "a list is of texts"),
            (r#","a":18446744073709551615"#.to_owned(), "too large"),
            (format!(r#","a":"{long}""#), "at most 256"),
            (format!(r#","a":[{list}]"#), "at most 16 texts"),
            (format!(r#","{}":1"#, "k".repeat(KEY_LEN_MAX + 1)), "1 to 32 bytes"),
            (r#","":1"#.to_owned(), "1 to 32 bytes"),
            (many, "at most 16 parameters"),
        ] {
            let refusal = read(&format!(r#"[{{"plugin":"x"{parameters}}}]"#)).unwrap_err();
            assert!(refusal.contains(reason), "{parameters}: {refusal}");
        }
        for bad in ["", "Quota", "a b", "ä", "\\u0000", &"x".repeat(33)] {
            let refusal = read(&format!(r#"[{{"plugin":"{bad}"}}]"#)).unwrap_err();
            assert!(refusal.contains("1 to 32 of a-z 0-9 _ -"), "{refusal}");
        }
        assert!(read(r#"[{"order":1}]"#).unwrap_err().contains("plugin"));
        assert!(read(r#"["quota"]"#).unwrap_err().contains("such as"));
        let deep = "[".repeat(100_000);
        assert!(read(&format!(r#"[{{"plugin":"x","a":{deep}"#)).is_err());
    }

    #[test]
    fn a_quota_makes_sense() {
        for (parameters, reason) in [
            ("", "per_second, per_day or both"),
            (r#","per_second":0"#, "1 to 1000000000"),
            (r#","per_day":1000000001"#, "per_day is a number from 1"),
            (r#","per_second":-1"#, "invalid value"),
            (r#","per_second":"5""#, "invalid type"),
            (r#","per_secnd":5"#, "unknown field `per_secnd`"),
            (r#","per_day":5,"by":"everyone""#, "`name` or `caller`"),
            (r#","per_day":5,"by":7"#, "name, caller"),
            (r#","per_day":5,"callers_max":5"#, "by\":\"caller"),
            (r#","per_day":5,"by":"caller","callers_max":65537"#, "1 to 65536"),
            (r#","per_day":5,"by":"caller","callers_max":0"#, "1 to 65536"),
        ] {
            let refusal = quota(parameters).unwrap_err();
            assert!(refusal.contains(reason), "{parameters}: {refusal}");
        }
        assert_eq!(quota(r#","per_day":1000000000"#).map(|spec| spec.by()), Ok(By::Name));
        assert_eq!(
            quota(r#","per_second":1,"by":"caller","callers_max":65536"#).map(|spec| spec.callers_max()),
            Ok(65_536)
        );
    }
}

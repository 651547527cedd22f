//! A template as it stands in a form, and the facts about it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::calendar::UtcOffset;
use common::kind::{Known, explain};
use common::namespace::{At, Definition, GeneratorName, Namespace, Preview, Scope, StringSpec};
use common::setting::{Change, collision};
use common::template::{PartKind, Template};
use common::time::WallMs;
use common::token::TokenType;
use net::rpc::lease::Refusal;
use net::rpc::names::refusal;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The template that a page begins with.
const FIRST: &str = "INV-{date:%Y%m%d}-{token}{serial:6}";
/// Characters that one parameter may have.
const TEXT_MAX: usize = 512;
/// The token type where none is said, as definitions have it.
const USUAL: TokenType = TokenType::String2IncludeLetter;

/// A template, and what a name has besides it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TemplateDraft {
    /// The template: `INV-{date:%Y%m%d}-{token}{serial:6}`.
    pub(crate) template: Option<String>,
    /// The token type, one of the `string` types.
    pub(crate) token_type: Option<String>,
    /// Among which IDs its own are to be unique: `kind` or `own`.
    #[param(value_type = Option<String>)]
    pub(crate) scope: Option<Scope>,
    /// A text to be written behind the template, as the form's buttons do.
    add: Option<String>,
}

/// A part of an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TextPart {
    /// `literal`, `date`, `biz`, `custom`, `token`, `serial` or `check`.
    #[schema(value_type = String)]
    pub(crate) part: PartKind,
    /// Its characters in the first example.
    pub(crate) text: String,
}

/// All that there is to say of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TemplateFacts {
    /// The definition that a name is registered with.
    pub(crate) definition: Definition,
    /// The number of characters of each ID.
    pub(crate) length: usize,
    /// The parts of an ID in their order.
    pub(crate) parts: Vec<TextPart>,
    /// Three IDs of now, the first two of one agent; the caller's parts are letters.
    pub(crate) examples: Vec<String>,
    /// The number of agents that can mint it at once.
    pub(crate) agents: u32,
    /// IDs that one token gives in the unit of time.
    pub(crate) capacity: u64,
    /// The unit of time: `day`.
    pub(crate) per: String,
    /// IDs that one token gives in a day.
    #[serde(with = "common::json::whole")]
    #[schema(value_type = Option<String>)]
    pub(crate) per_day: Option<u64>,
    /// The last day that its IDs can carry, by the cluster's offset.
    pub(crate) last_day: Option<String>,
    /// The reason for which masters would not register it beside the names that there are; `null` if there is none.
    pub(crate) collides: Option<String>,
    /// The kinds of IDs that its first example can be read as.
    pub(crate) reads_as: Vec<&'static str>,
    /// The warnings.
    pub(crate) warnings: Vec<String>,
}

impl TemplateDraft {
    /// Fields that can be written behind a template.
    pub(crate) const FIELDS: [(PartKind, &str); 6] = [
        (PartKind::Date, "{date:%Y%m%d}"),
        (PartKind::Biz, "{biz:4}"),
        (PartKind::Token, "{token}"),
        (PartKind::Serial, "{serial:8}"),
        (PartKind::Custom, "{custom:2}"),
        (PartKind::Check, "{check:luhn}"),
    ];

    /// The draft with what is to be added; one that is too long is refused.
    pub(crate) fn read(mut self) -> Result<Self, String> {
        for (name, said) in [("template", &self.template), ("token_type", &self.token_type), ("add", &self.add)] {
            if said.as_ref().is_some_and(|said| said.len() > TEXT_MAX) {
                return Err(format!("{name}: at most {TEXT_MAX} characters"));
            }
        }
        if let Some(add) = self.add.take() {
            self.template.get_or_insert_default().push_str(&add);
        }
        Ok(self)
    }

    /// The template, or that which a page begins with.
    pub(crate) fn source(&self) -> &str {
        self.template.as_deref().unwrap_or(FIRST)
    }

    /// The name of the token type.
    pub(crate) fn token_type(&self) -> &str {
        self.token_type.as_deref().unwrap_or(USUAL.name())
    }

    /// The parts of its text with their characters, and how far it can be read.
    pub(crate) fn sketch(&self) -> (Vec<(PartKind, usize)>, usize) {
        Template::sketch(self.source(), self.token_type().parse().unwrap_or(USUAL).family())
    }

    /// The facts beside the `names` that there are, or the fault for which no name can have it.
    pub(crate) fn facts(&self, names: &[&Namespace], now: WallMs, offset: UtcOffset) -> Result<TemplateFacts, String> {
        let (token_type, scope) = (self.token_type.clone(), self.scope);
        let said = Definition::String(StringSpec { token_type, scope, ..StringSpec::of(self.source()) });
        // Which name it will be makes no difference to what is said here.
        let namespace = Namespace::define(GeneratorName::default(), &said).map_err(|e| e.to_string())?;
        namespace.check_new(now).map_err(|e| e.to_string())?;
        let template = namespace.template().ok_or("it has no template")?;
        let Preview { definition, examples, capacity, per, per_day, last_day, warning, .. } =
            namespace.preview(&At::keyless(now, offset));
        let first = examples.first().map_or("", String::as_str);
        let parts = template.take_apart(first).unwrap_or_default().into_iter();
        let mut reads_as: Vec<_> = explain(first, &Known { names, now, ..Known::NONE }).map_or_else(
            |_| Vec::new(),
            |read| std::iter::once(read.reading).chain(read.also).map(|reading| reading.kind.name()).collect(),
        );
        reads_as.sort_unstable();
        reads_as.dedup();
        let broad = template.broad().map(|(open, len)| Refusal::BroadTemplate { open, len }.to_string());
        let collides = collision(&namespace, names.iter().copied());
        let collides = collides.and_then(|outcome| refusal(outcome, &Change::Define(Box::new(namespace.clone()))));
        Ok(TemplateFacts {
            definition,
            length: template.len(),
            parts: parts.map(|part| TextPart { part: part.part, text: part.text }).collect(),
            agents: namespace.token_type().map_or(0, |token_type| token_type.size(u16::MAX)),
            examples,
            capacity,
            per,
            per_day,
            last_day,
            collides: collides.map(|why| why.to_string()),
            reads_as,
            warnings: warning.into_iter().chain(broad).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T13:05:06Z.
    const NOW: WallMs = WallMs(1_795_179_906_000);

    fn draft(template: &str) -> TemplateDraft {
        TemplateDraft { template: Some(template.to_owned()), ..TemplateDraft::default() }
    }

    fn facts(draft: &TemplateDraft) -> Result<TemplateFacts, String> {
        draft.facts(&[], NOW, UtcOffset::default())
    }

    #[test]
    fn a_template_is_what_its_definition_will_be() {
        let facts = facts(&TemplateDraft::default()).unwrap();
        assert_eq!(
            (facts.length, facts.agents, facts.capacity, facts.per_day),
            (21, 1_296, 1_000_000, Some(1_000_000))
        );
        assert_eq!(facts.examples, ["INV-20261120-12000042", "INV-20261120-12000043", "INV-20261120-13000042"]);
        let parts: Vec<_> = facts.parts.iter().map(|part| (part.part.to_string(), part.text.as_str())).collect();
        let parts: Vec<_> = parts.iter().map(|(part, text)| (part.as_str(), *text)).collect();
        let whole =
            [("literal", "INV-"), ("date", "20261120"), ("literal", "-"), ("token", "12"), ("serial", "000042")];
        assert_eq!(parts, whole);
        assert_eq!((facts.last_day.as_deref(), facts.per.as_str()), (Some("9999-12-31"), "day"));
        assert_eq!((facts.collides, facts.reads_as.len(), facts.warnings.len()), (None, 0, 0));
        let numbers = TemplateDraft { token_type: Some("string3-only-number".to_owned()), ..TemplateDraft::default() };
        assert_eq!(numbers.facts(&[], NOW, UtcOffset::default()).unwrap().agents, 1_000);
    }

    #[test]
    fn collisions_and_doubtful_texts_are_told() {
        let usual = common::template::DEFAULT_TEMPLATE;
        assert!(facts(&draft(usual)).unwrap().collides.unwrap().contains("that of 'default'"));
        let own = TemplateDraft { scope: Some(Scope::Own), ..draft(usual) };
        assert_eq!(facts(&own).unwrap().collides, None);
        let other = Namespace::define("bills".parse().unwrap(), &Definition::string(FIRST)).unwrap();
        let beside = |template| draft(template).facts(&[&other], NOW, UtcOffset::default()).unwrap();
        let collides = beside("INV-{date:%Y%m%d}-{serial:6}{token}").collides.unwrap();
        assert!(collides.contains("'bills'") && collides.contains("give it another length"), "{collides}");
        assert_eq!(beside("ORD-{date:%Y%m%d}-{serial:6}{token}").collides, None);
        assert_eq!(facts(&draft("{date:%Y%m%d}{token}{serial:6}")).unwrap().reads_as, ["uniq64"]);
        let broad = facts(&draft("{date:%Y%m%d}{token}{serial:3:36}{biz:5}")).unwrap().warnings;
        assert!(
            broad[0].contains("one caller can use up") && broad[1].contains("letters as well as digits"),
            "{broad:?}"
        );
    }

    #[test]
    fn drafts_are_bounded_and_may_be_written_on() {
        let add = |template: Option<&str>, add: &str| {
            let draft = TemplateDraft { add: Some(add.to_owned()), ..TemplateDraft::default() };
            TemplateDraft { template: template.map(str::to_owned), ..draft }
                .read()
                .map(|draft| draft.source().to_owned())
        };
        assert_eq!(add(Some("A"), "{token}").unwrap(), "A{token}");
        assert_eq!(add(None, "{token}").unwrap(), "{token}");
        assert!(add(Some(&"x".repeat(513)), "").unwrap_err().starts_with("template: at most 512"));
        assert!(add(None, &"x".repeat(513)).unwrap_err().starts_with("add: at most 512"));
        let written: String = TemplateDraft::FIELDS.iter().map(|(_, text)| *text).collect();
        let kinds: Vec<_> = draft(&written).sketch().0.into_iter().map(|(part, _)| part).collect();
        assert_eq!(kinds, TemplateDraft::FIELDS.map(|(part, _)| part));
        assert!(facts(&draft(&written)).is_ok());
        let nobody = TemplateDraft { token_type: Some("uint2".to_owned()), ..TemplateDraft::default() };
        assert!(facts(&nobody).unwrap_err().contains("cannot use uint2 tokens"));
    }
}

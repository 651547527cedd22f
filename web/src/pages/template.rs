//! The designer of templates: a form, a picture of what stands where, what comes of it, and its definition.

use super::bits::{FieldPiece, Picture, text_picture};
use super::{Context, Static, Visitor, designer, rows, still_frame};
use crate::design::{TemplateDraft, TemplateFacts};
use crate::masters::Masters;
use crate::preferences::Choice;
use crate::problem::Problem;
use crate::text::grouped;
use crate::words::{Lang, Words, fill};
use askama::Template;
use common::namespace::{Namespace, Scope};
use common::token::TokenType;

/// `/designer/template`: what the query says, or a template to begin with.
pub(crate) async fn template_designer(
    context: &Context<'_>,
    visitor: &Visitor,
    draft: TemplateDraft,
) -> Result<String, Problem> {
    let (part, refused) = template_part(context.masters, draft, visitor.preferences.lang).await?;
    let frame = still_frame(context, visitor, Static::Templates).await?;
    let hint = frame.w.template_designer_hint;
    designer::page(frame, hint, part, refused)
}

/// The part of the page that changes with the query, and whether it is refused.
pub(crate) async fn template_part(
    masters: &dyn Masters,
    draft: TemplateDraft,
    lang: Lang,
) -> Result<(String, bool), Problem> {
    let draft = draft.read().map_err(Problem::bad_parameter)?;
    let part = Part::new(&draft, template_facts(masters, &draft).await?, lang.words());
    Ok((part.render()?, part.definition.is_none()))
}

/// The facts about a template beside the names that there are, or its fault.
pub(crate) async fn template_facts(
    masters: &dyn Masters,
    draft: &TemplateDraft,
) -> Result<Result<TemplateFacts, String>, Problem> {
    let known = rows(masters.namespaces()).await?;
    let offset = rows(masters.settings()).await?.utc_offset.parse().unwrap_or_default();
    let names: Vec<&Namespace> = known.iter().map(|row| &row.namespace).collect();
    Ok(draft.facts(&names, masters.now(), offset))
}

#[derive(Template)]
#[template(path = "template_part.html")]
struct Part {
    w: &'static Words,
    source: String,
    /// The part of it that can be read, and the rest; none if all can.
    fault_at: Option<(String, String)>,
    fault: Option<String>,
    types: Vec<Choice>,
    scopes: Vec<Choice>,
    /// Names of fields, and how they are written.
    fields: Vec<(&'static str, &'static str)>,
    picture: Picture,
    facts: Option<Shown>,
    definition: Option<String>,
}

struct Shown {
    length: usize,
    per_day: String,
    agents: String,
    last_day: String,
    examples: Vec<String>,
    warnings: Vec<String>,
}

impl Part {
    fn new(draft: &TemplateDraft, facts: Result<TemplateFacts, String>, w: &'static Words) -> Self {
        let (source, (parts, end)) = (draft.source(), draft.sketch());
        let (facts, refused) = facts.map_or_else(|why| (None, Some(why)), |facts| (Some(facts), None));
        let fault = refused.or_else(|| facts.as_ref()?.collides.clone());
        let definition = facts.as_ref().filter(|_| fault.is_none());
        let definition = definition.and_then(|facts| serde_json::to_string(&facts.definition).ok());
        let choice = |value, name, chosen| Choice { value, name, chosen };
        let types = TokenType::ALL.into_iter().filter(|kind| kind.family().width().is_some()).map(TokenType::name);
        let scopes = [(Scope::Kind, w.scope_kind), (Scope::Own, w.scope_own)];
        let said = draft.scope.unwrap_or_default();
        let field = |(part, text)| (FieldPiece::of_text(part, 0, w).name, text);
        Self {
            w,
            source: source.to_owned(),
            fault_at: source
                .split_at_checked(end)
                .filter(|(_, rest)| !rest.is_empty())
                .map(|(read, rest)| (read.to_owned(), rest.to_owned())),
            fault,
            types: types.map(|name| choice(name, name, name == draft.token_type())).collect(),
            scopes: scopes.map(|(scope, name)| choice(scope.name(), name, scope == said)).into(),
            fields: TemplateDraft::FIELDS.map(field).into(),
            picture: text_picture(&parts, facts.as_ref().map_or(&[], |facts| &facts.parts), w),
            facts: facts.map(|facts| Shown::new(facts, w)),
            definition,
        }
    }
}

impl Shown {
    fn new(facts: TemplateFacts, w: &'static Words) -> Self {
        let reads_as = Some(facts.reads_as.join(", ")).filter(|kinds| !kinds.is_empty());
        let reads_as = reads_as.map(|kinds| fill(w.warn_reads_as, &[&kinds]));
        Self {
            length: facts.length,
            per_day: grouped(facts.per_day.unwrap_or(facts.capacity)),
            agents: grouped(facts.agents.into()),
            last_day: facts.last_day.unwrap_or_default(),
            examples: facts.examples,
            warnings: facts.warnings.into_iter().chain(reads_as).collect(),
        }
    }
}

//! The designer of layouts: a form, a picture of what it says, what comes of it, and its definition.

use super::bits::{FieldPiece, drawing, layout_picture};
use super::{Context, Frame, Static, Visitor, still_frame};
use crate::design::{Draft, Facts, Fault, FormField, Row, Warning, definition_of, example_of};
use crate::problem::Problem;
use crate::text::grouped;
use crate::words::{Lang, Words, fill};
use askama::Template;
use common::layout::{AHEAD_MAX_LIMIT, Preset, WIDTHS};
use common::namespace::Definition;
use common::time::WallMs;

/// The layout that a new page begins with.
const FIRST: Preset = Preset::Snowflake;

const _: () = assert!(common::namespace::GeneratorName::LEN_MAX == 63, "as the forms' maxlength and pattern say");

#[derive(Template)]
#[template(path = "designer.html")]
struct Page {
    frame: Frame,
    hint: &'static str,
    part: String,
    refused: bool,
}

/// The page of a designer: a hint, the part that follows what is typed, and the form that gives it a name unless it is refused.
pub(super) fn page(frame: Frame, hint: &'static str, part: String, refused: bool) -> Result<String, Problem> {
    Ok(Page { frame, hint, part, refused }.render()?)
}

/// `/designer`: what the query says, or a snowflake.
pub(crate) async fn designer(
    context: &Context<'_>,
    visitor: &Visitor,
    query: Vec<(String, String)>,
) -> Result<String, Problem> {
    let draft = draft(query)?;
    let frame = still_frame(context, visitor, Static::Designer).await?;
    let part = Part::new(&draft, context.masters.now(), frame.w);
    let refused = part.definition.is_none();
    let hint = frame.w.designer_hint;
    page(frame, hint, part.render()?, refused)
}

/// The part of the page that changes with the query.
pub(crate) fn designer_part(query: Vec<(String, String)>, now: WallMs, lang: Lang) -> Result<String, Problem> {
    Ok(Part::new(&draft(query)?, now, lang.words()).render()?)
}

fn draft(query: Vec<(String, String)>) -> Result<Draft, Problem> {
    let read = Draft::read(query).and_then(|draft| draft.map_or_else(|| Draft::of_preset(FIRST), Ok));
    read.map_err(Problem::bad_parameter)
}

#[derive(Template)]
#[template(path = "designer_part.html")]
struct Part {
    w: &'static Words,
    presets: Vec<Choice>,
    widths: Vec<Choice>,
    /// The preset that the form is made from; empty if none.
    was: &'static str,
    epoch: String,
    unit_ms: String,
    ahead_max_ms: String,
    ahead_max_limit: i64,
    encodings: Vec<Choice>,
    rows: Vec<RowShown>,
    borders: Vec<Border>,
    parts: Vec<Choice>,
    /// Bits of all fields, of how many.
    sum: String,
    drawing: String,
    /// The legend with the values of an example; empty if it is no layout.
    legend: String,
    facts: Option<FactsShown>,
    fault: Option<Fault>,
    definition: Option<String>,
}

struct Choice {
    value: String,
    name: String,
    chosen: bool,
}

/// A field in the form.
struct RowShown {
    nth: usize,
    kind: &'static str,
    parts: Vec<Choice>,
    width: String,
    /// `None` if it has none.
    value: Option<String>,
    fault: Option<String>,
    what_label: String,
    width_label: String,
    value_label: String,
    /// Empty where it cannot go further.
    up_label: String,
    down_label: String,
    remove_label: String,
}

/// The border between a field and the next one.
struct Border {
    nth: usize,
    label: String,
    left: &'static str,
    right: &'static str,
    /// Bits on its left and on its right.
    value: u32,
    rest: u32,
    max: u32,
}

struct FactsShown {
    agents: String,
    per_second: String,
    per_second_all: String,
    last_day: String,
    sorted: &'static str,
    javascript: &'static str,
    bigint: &'static str,
    /// Names of forms, and the example in them.
    example: Vec<(&'static str, String)>,
    warnings: Vec<&'static str>,
}

impl Part {
    fn new(draft: &Draft, now: WallMs, w: &'static Words) -> Self {
        let pieces: Vec<FieldPiece> =
            draft.rows.iter().map(|row| FieldPiece::of_part(&row.part, row.drawn(), w)).collect();
        let sum: u32 = draft.rows.iter().map(Row::drawn).sum();
        let layout = draft.layout();
        let lives = layout
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|layout| layout.check_life(now).map_err(|refused| draft.fault(&refused)));
        let said = layout.as_ref().map_err(Clone::clone).and_then(|layout| draft.definition(layout));
        let fault = lives.err().or_else(|| said.as_ref().err().cloned());
        let layout = layout.ok();
        let preset = layout.as_ref().and_then(|layout| draft.preset_of(layout));
        let facts = layout.as_ref().map(|layout| {
            let said = said.unwrap_or_else(|_| definition_of(layout, preset));
            Facts::new(layout, preset, said, now)
        });
        let picture = layout.as_ref().map(|layout| layout_picture(layout, example_of(layout, now), w));
        let (drawing, legend) = match picture {
            Some(picture) => (picture.drawing, picture.legend),
            None => (drawing(&pieces, draft.number_bits(), w), String::new()),
        };
        let definition = facts.as_ref().filter(|_| fault.is_none());
        let definition = definition.and_then(|facts| serde_json::to_string(&facts.definition).ok());
        let count = draft.rows.len();
        let fault_of = |nth| {
            let here = fault.as_ref().filter(|fault| fault.place == FormField::Row(nth));
            here.map(|fault| fault.why.clone())
        };
        let rows = draft.rows.iter().zip(&pieces).enumerate();
        let rows = rows.map(|(nth, (row, piece))| RowShown::new(row, piece, nth, count, fault_of(nth), w)).collect();
        let named = preset.map_or("", Preset::name);
        Self {
            w,
            presets: presets(named, w),
            widths: widths(&draft.bits, w),
            was: named,
            epoch: draft.epoch.clone(),
            unit_ms: draft.unit_ms.clone(),
            ahead_max_ms: draft.ahead_max_ms.clone(),
            ahead_max_limit: AHEAD_MAX_LIMIT.0,
            encodings: encodings(draft, w),
            rows,
            borders: borders(&pieces, w),
            parts: parts("", w),
            sum: fill(w.bits_of, &[&sum.to_string(), &draft.bits]),
            drawing,
            legend,
            facts: facts.map(|facts| FactsShown::new(&facts, w)),
            fault,
            definition,
        }
    }

    /// The fault at a place of the form.
    fn fault_at(&self, place: &str) -> Option<&str> {
        let fault = self.fault.as_ref()?;
        let name = match fault.place {
            FormField::Preset => "layout",
            FormField::Bits => "bits",
            FormField::Epoch => "epoch",
            FormField::Unit => "unit",
            FormField::Ahead => "ahead",
            FormField::Encoding => "encoding",
            FormField::Fields => "fields",
            FormField::Row(_) => "row",
        };
        (name == place).then_some(fault.why.as_str())
    }
}

/// The names of layouts, and none.
fn presets(chosen: &str, w: &'static Words) -> Vec<Choice> {
    let own = Choice { value: String::new(), name: w.layout_own.to_owned(), chosen: chosen.is_empty() };
    let named = Preset::ALL.map(Preset::name);
    let named = named.map(|name| Choice { value: name.to_owned(), name: name.to_owned(), chosen: name == chosen });
    std::iter::once(own).chain(named).collect()
}

/// Widths that a number may have, and what was said if it may not.
fn widths(chosen: &str, w: &'static Words) -> Vec<Choice> {
    let choice = |bits: String| Choice { name: fill(w.bits, &[&bits]), chosen: bits == chosen, value: bits };
    let mut all: Vec<Choice> = WIDTHS.into_iter().map(|bits| choice(bits.to_string())).collect();
    if !all.iter().any(|choice| choice.chosen) {
        all.push(choice(chosen.to_owned()));
    }
    all
}

/// Encodings of numbers, and what was said if they cannot be written so.
fn encodings(draft: &Draft, w: &'static Words) -> Vec<Choice> {
    let said = draft.encoding.as_str();
    let usual = Choice { value: String::new(), name: w.encoding_usual.to_owned(), chosen: said.is_empty() };
    let named = Draft::ENCODINGS.map(|form| form.name());
    let unknown = Some(said).filter(|said| !said.is_empty() && !named.contains(said));
    let choice = |name: &str| Choice { value: name.to_owned(), name: name.to_owned(), chosen: name == said };
    std::iter::once(usual).chain(named.into_iter().chain(unknown).map(choice)).collect()
}

/// Parts that a field may be.
fn parts(chosen: &str, w: &'static Words) -> Vec<Choice> {
    let choice = |part: &str| {
        let name = FieldPiece::of_part(part, 0, w).name.to_owned();
        Choice { value: part.to_owned(), name, chosen: part == chosen }
    };
    let mut all: Vec<Choice> = Row::PARTS.into_iter().map(choice).collect();
    // What is no part stays as it was said, so that the reason beside it says something.
    if !chosen.is_empty() && !all.iter().any(|choice| choice.chosen) {
        all.push(Choice { value: chosen.to_owned(), name: chosen.to_owned(), chosen: true });
    }
    all
}

fn borders(pieces: &[FieldPiece], w: &'static Words) -> Vec<Border> {
    let border = |(nth, pair): (usize, &[FieldPiece])| {
        let [left, right] = pair else { return None };
        let number = |nth: usize| (nth + 1).to_string();
        Some(Border {
            nth,
            label: fill(w.border, &[&number(nth), &number(nth + 1)]),
            left: left.name,
            right: right.name,
            value: left.bits,
            rest: right.bits,
            max: (left.bits + right.bits).saturating_sub(1).max(1),
        })
    };
    pieces.windows(2).enumerate().filter_map(border).collect()
}

impl RowShown {
    fn new(row: &Row, piece: &FieldPiece, nth: usize, count: usize, fault: Option<String>, w: &'static Words) -> Self {
        let number = (nth + 1).to_string();
        let label = |text: &str| fill(text, &[&number]);
        Self {
            nth,
            kind: piece.kind,
            parts: parts(&row.part, w),
            width: row.width.clone(),
            value: (row.part == "const").then(|| row.value.clone()),
            fault,
            what_label: label(w.field_what),
            width_label: label(w.field_width),
            value_label: label(w.field_value),
            up_label: if nth > 0 { label(w.field_up) } else { String::new() },
            down_label: if nth + 1 < count { label(w.field_down) } else { String::new() },
            remove_label: label(w.field_remove),
        }
    }
}

impl FactsShown {
    fn new(facts: &Facts, w: &'static Words) -> Self {
        let yes_no = |yes| if yes { w.yes } else { w.no };
        let example = facts.example.iter().flat_map(|example| {
            let uuid = example.uuid.iter().map(|uuid| ("uuid", uuid.clone()));
            let numbers = [("decimal", &example.decimal), ("hex", &example.hex), ("base32", &example.base32)];
            let shown = numbers.map(|(form, text)| (form, text.clone())).into_iter().chain(uuid).collect::<Vec<_>>();
            // Of those that are not shown anyway.
            let said = match &facts.definition {
                Definition::Layout(said) => said.encoding.as_ref().map(|encoding| encoding.form().name()),
                _ => None,
            };
            let of = said.or(facts.preset);
            let own = of.zip(example.text.clone());
            let own = own.filter(|(form, _)| shown.iter().all(|(known, _)| known != form));
            shown.into_iter().chain(own)
        });
        let warning = |warning: &Warning| match warning {
            Warning::NotSorted => w.warn_not_sorted,
            Warning::NotForJavascript => w.warn_javascript,
            Warning::NotForBigint => w.warn_bigint,
            Warning::FewAgents => w.warn_few_agents,
            Warning::Slow => w.warn_slow,
            Warning::EndsEarly => w.warn_ends_early,
        };
        Self {
            agents: grouped(facts.agents),
            per_second: grouped(facts.per_second),
            per_second_all: grouped(facts.per_second_all),
            last_day: facts.last_day.clone(),
            sorted: yes_no(facts.sorts_by_time),
            javascript: yes_no(facts.safe_for_javascript),
            bigint: yes_no(facts.fits_bigint),
            example: example.collect(),
            warnings: facts.warnings.iter().map(warning).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T13:05:06Z.
    const NOW: WallMs = WallMs(1_795_179_906_000);

    fn part(query: &[(&str, &str)]) -> String {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        designer_part(query, NOW, Lang::En).unwrap()
    }

    #[test]
    fn a_layout_is_shown_with_all_that_comes_of_it() {
        let html = part(&[("layout", "snowflake")]);
        for text in [
            "4,096,000",
            "1,024",
            "2080-07-10",
            "{&#34;kind&#34;:&#34;layout&#34;,&#34;layout&#34;:&#34;snowflake&#34;}",
            "<option value=\"snowflake\" selected>",
            "name=\"width\" type=\"number\" min=\"1\" max=\"128\" value=\"41\"",
            "aria-valuenow=\"41\" aria-valuemin=\"1\" aria-valuemax=\"50\"",
            "2123764570911674368",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!html.contains("class=\"problem"), "{html}");
    }

    #[test]
    fn what_is_refused_has_its_reason_beside_it_and_no_definition() {
        let over = part(&[("layout", "uidgenerator")]);
        assert!(over.contains("its time ends at 2024-11-20") && !over.contains("id=\"definition\""), "{over}");
        assert!(over.contains("8,192"), "what it would give is said nevertheless");
        let rest = [("epoch", "2024-01-01T00:00:00Z"), ("unit_ms", "1")];
        let wrong = part(&[&rest[..], &[("bits", "64"), ("fields", "time:41,token:x,serial:12")]].concat());
        assert!(wrong.contains("id=\"row-1\"") && !wrong.contains("id=\"definition\""), "{wrong}");
        let row = wrong.split("id=\"row-1\"").nth(1).unwrap().split("</li>").next().unwrap();
        assert!(row.contains("has no width that fits") && row.contains("aria-invalid"), "{row}");
    }

    #[test]
    fn how_far_ahead_and_how_it_is_written_are_part_of_the_definition() {
        let html = part(&[("layout", "snowflake"), ("ahead_max_ms", "0"), ("encoding", "base62")]);
        let definition =
            "&#34;layout&#34;:&#34;snowflake&#34;,&#34;ahead_max_ms&#34;:0,&#34;encoding&#34;:&#34;base62&#34;}";
        assert!(html.contains(definition) && html.contains("<dt>base62</dt><dd><code>2WsraEr5htQ</code>"), "{html}");
        assert!(html.contains("<option value=\"base62\" selected>"), "{html}");
        for (name, value, place) in [
            ("ahead_max_ms", "10001", "too far"),
            ("ahead_max_ms", "soon", "not a number of milliseconds"),
            ("encoding", "uuid", "a uuid has 128 bits"),
            ("encoding", "ff1", "needs what only agents have"),
            ("encoding", "morse", "is not an encoding"),
        ] {
            let html = part(&[("layout", "snowflake"), (name, value)]);
            assert!(!html.contains("id=\"definition\"") && html.contains("aria-invalid"), "{html}");
            assert!(html.contains(place), "{place}: {html}");
        }
        let days = [("bits", "64"), ("epoch", "2024-01-01T00:00:00Z"), ("unit_ms", "43200000")];
        let days = part(&[&days[..], &[("fields", "zero:1,time:25,token:6,serial:32")]].concat());
        assert!(!days.contains("id=\"definition\"") && days.contains("is too long"), "agents would refuse it: {days}");
    }

    #[test]
    fn what_somebody_says_is_shown_as_text() {
        let hostile = "\"><script>alert(1)</script>";
        let html = part(&[("bits", hostile), ("epoch", hostile), ("unit_ms", hostile), ("fields", hostile)]);
        assert!(!html.contains("<script>") && html.contains("alert(1)"), "{html}");
        let query = vec![("layout".to_owned(), hostile.to_owned())];
        assert!(designer_part(query, NOW, Lang::En).is_err());
    }
}

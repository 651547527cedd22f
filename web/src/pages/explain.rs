//! The meaning of an ID, and who held its token when it was made.

use super::bits::{self, bits_told, kind_drawing, layout_picture};
use super::{Frame, lease_href, rows};
use crate::masters::{AuditRow, LeaseFilter, LeaseRow, LeaseStage, Masters, NamespaceRow, Order, Page as Cut};
use crate::problem::Problem;
use crate::text::{When, grouped};
use crate::words::{Words, fill};
use askama::Template;
use common::audit::Action;
use common::calendar::UtcOffset;
use common::kind::{ExplainError, Explained, Kind, Known, Reading, TokenText, explain};
use common::layout::{Layout, LayoutSpec};
use common::namespace::GeneratorName;
use common::time::WallMs;
use common::token::{TokenFamily, TokenKey, TokenValue};

/// Lines of the audit that are read for one token.
const HISTORY_MAX: usize = 500;

#[derive(Template)]
#[template(path = "explain.html")]
struct Page {
    frame: Frame,
    id: String,
    problem: Option<String>,
    readings: Vec<Shown>,
    /// The remedy for names whose texts masters cannot read, if there are any that it might be of.
    elsewhere: Option<String>,
}

/// Readings for which the audit is searched: it is long, and the likeliest come first.
const LOOKS_BACK_MAX: usize = 8;

pub(super) async fn page(masters: &dyn Masters, frame: Frame, id: &str) -> Result<String, Problem> {
    let id = id.trim();
    let (mut problem, mut readings, mut elsewhere) = (None, Vec::new(), None);
    if !id.is_empty() {
        match take_apart(id, &rows(masters.namespaces()).await?, masters.now()) {
            Ok(explained) => {
                let offset = rows(masters.settings()).await?.utc_offset;
                let all = std::iter::once(explained.reading).chain(explained.also);
                let (unread, read): (Vec<_>, Vec<_>) =
                    all.partition(|reading| reading.hidden.is_some() && reading.time.is_none());
                elsewhere = names_of(&unread, frame.w).map(|names| fill(frame.w.only_agents_read, &[&names]));
                for (nth, reading) in read.into_iter().enumerate() {
                    let looks_back = nth < LOOKS_BACK_MAX;
                    readings.push(Shown::new(masters, reading, &offset, looks_back, frame.w).await?);
                }
                // Those of somebody's token first, as agents order them by their own: by those it can have been minted.
                readings.sort_by_key(|shown| shown.holder.is_none());
            }
            Err(why) => problem = Some(why.to_string()),
        }
    }
    Ok(Page { frame, id: id.to_owned(), problem, readings, elsewhere }.render()?)
}

/// Reads an ID by all names that ever gave one. Masters have neither secrets nor strategies.
///
/// # Errors
/// [`ExplainError`] if it is none.
pub(crate) fn take_apart(id: &str, names: &[NamespaceRow], now: WallMs) -> Result<Explained, ExplainError> {
    let names: Vec<_> = names.iter().filter(|row| row.in_use).map(|row| &row.namespace).collect();
    explain(id, &Known { names: &names, now, ..Known::NONE })
}

/// The names that may have given it, if there are any.
fn names_of(readings: &[Reading], w: &'static Words) -> Option<String> {
    let names: Vec<_> = readings.iter().flat_map(|reading| &reading.names).map(GeneratorName::as_str).collect();
    let more: usize = readings.iter().map(|reading| reading.more_names).sum();
    let names = names.join(", ");
    match more {
        _ if names.is_empty() => None,
        0 => Some(names),
        more => Some(fill(w.names_and_more, &[&names, &more.to_string()])),
    }
}

fn drawing_of(reading: &Reading, w: &'static Words) -> Option<String> {
    let Some(layout) = &reading.layout else { return kind_drawing(reading.kind, w) };
    let source = LayoutSpec {
        bits: Some(layout.bits),
        epoch: Some(layout.epoch.clone()),
        unit_ms: u32::try_from(layout.unit_ms).ok(),
        fields: Some(layout.fields.clone()),
        ..LayoutSpec::default()
    };
    Some(layout_picture(&Layout::of(&source).ok()?, None, w).drawing)
}

struct Shown {
    title: String,
    names: Option<String>,
    /// True if its name gives its numbers in no other form.
    hides: bool,
    drawing: Option<String>,
    pieces: Vec<IdPart>,
    /// `None` of plain numbers.
    carried: Option<Carried>,
    template: Option<String>,
    /// Names of forms and the ID in them.
    texts: Vec<(&'static str, String)>,
    holder: Option<Holder>,
}

/// The contents of an ID.
struct Carried {
    time: String,
    offset: String,
    token: String,
    href: Option<String>,
    serial: String,
}

/// A piece of the picture of an ID.
struct IdPart {
    kind: &'static str,
    name: &'static str,
    text: String,
    /// The number of its bits; `None` in strings.
    bits: Option<String>,
}

/// The holder of the token.
struct Holder {
    agent: String,
    session: String,
    g: String,
    from: When,
    until: Option<When>,
    source: &'static str,
}

impl Shown {
    async fn new(
        masters: &dyn Masters,
        reading: Reading,
        offset: &str,
        looks_back: bool,
        w: &'static Words,
    ) -> Result<Self, Problem> {
        let key = reading.token.as_ref().and_then(key_of);
        let at = offset.parse().ok().and_then(|offset| reading.instant(offset));
        let holder = match key.zip(at) {
            Some((key, at)) => holder_at(masters, key, at, looks_back, w).await?,
            None => None,
        };
        let kind = reading.kind.to_string();
        let title = match reading.form {
            Some(form) => fill(w.reading_form, &[&kind, &form.to_string()]),
            None => kind,
        };
        let texts = reading.texts.as_ref().map(|texts| {
            vec![
                ("decimal", texts.decimal.clone()),
                ("hex", texts.hex.clone()),
                ("base32", texts.base32.clone()),
                ("uri", texts.uri.clone()),
            ]
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .collect()
        });
        Ok(Self {
            title,
            drawing: drawing_of(&reading, w),
            pieces: pieces(&reading, w),
            names: names_of(std::slice::from_ref(&reading), w),
            hides: reading.hidden.is_some(),
            carried: reading.time.as_ref().map(|time| Carried {
                time: time.replace('T', " "),
                // Layouts count in UTC wherever the cluster is.
                offset: fill(w.in_offset, &[if reading.layout.is_some() { "UTC" } else { offset }]),
                token: shown(reading.token.as_ref()),
                href: key.map(lease_href),
                serial: reading.serial.map(grouped).unwrap_or_default(),
            }),
            template: reading.template,
            texts: texts.unwrap_or_default(),
            holder,
        })
    }
}

fn shown(part: Option<&impl ToString>) -> String {
    part.map(ToString::to_string).unwrap_or_default()
}

/// The fields of an integer with their bits, or the parts of a string.
fn pieces(reading: &Reading, w: &'static Words) -> Vec<IdPart> {
    let time = reading.time.as_deref().unwrap_or_default();
    let (token, serial) = (shown(reading.token.as_ref()), shown(reading.serial.as_ref()));
    if !reading.parts.is_empty() {
        let piece = |part: &common::template::Part| {
            let bits::FieldPiece { kind, name, .. } = bits::FieldPiece::of_text(part.part, part.text.len(), w);
            IdPart { kind, name, text: part.text.clone(), bits: None }
        };
        return reading.parts.iter().map(piece).collect();
    }
    let kind = |kind: Kind| Some(kind.numbers()?.layout().fields().iter().map(ToString::to_string).collect());
    let of_layout = reading.layout.as_ref().map(|layout| layout.fields.clone());
    let fields: Vec<String> = of_layout.or_else(|| kind(reading.kind)).unwrap_or_default();
    let digits = |from: usize, to: usize| time.get(from..to).unwrap_or_default().to_owned();
    let piece = |field: &String| {
        let (part, width) = field.split_once(':').unwrap_or((field, ""));
        let (width, constant) = width.split_once('=').unwrap_or((width, "0"));
        let drawn = bits::FieldPiece::of_part(part, width.parse().unwrap_or_default(), w);
        let (kind, name, text) = match part {
            "time" => ("date", w.field_time, time.to_owned()),
            "token" => (drawn.kind, drawn.name, token.clone()),
            "serial" => (drawn.kind, drawn.name, serial.clone()),
            "random" => ("custom", w.field_random, String::new()),
            "year" => (drawn.kind, drawn.name, digits(0, 4)),
            "month" => (drawn.kind, drawn.name, digits(5, 7)),
            "day" => (drawn.kind, drawn.name, digits(8, 10)),
            "hour" => (drawn.kind, drawn.name, digits(11, 13)),
            "minute" => (drawn.kind, drawn.name, digits(14, 16)),
            "second" => (drawn.kind, drawn.name, digits(17, 19)),
            "millisecond" => (drawn.kind, drawn.name, digits(20, 23)),
            _ => ("literal", w.field_literal, constant.to_owned()),
        };
        IdPart { kind, name, text, bits: Some(bits_told(drawn.bits, w)) }
    };
    fields.iter().map(piece).collect()
}

/// The token, in the family that has such values.
fn key_of(token: &TokenText) -> Option<TokenKey> {
    match token {
        TokenText::Number(value) => Some(TokenKey { family: TokenFamily::Uint, value: TokenValue(*value) }),
        TokenText::Characters(text) => {
            [TokenFamily::String2, TokenFamily::String3].into_iter().find_map(|family| TokenKey::parse(family, text))
        }
    }
}

/// The holder of a token at an instant: by its record if that spans it, else by the audit, if that is to be searched.
async fn holder_at(
    masters: &dyn Masters,
    key: TokenKey,
    at: WallMs,
    looks_back: bool,
    w: &'static Words,
) -> Result<Option<Holder>, Problem> {
    let filter = LeaseFilter { token: Some(key), ..LeaseFilter::default() };
    let cut = Cut { after: None, skip: 0, limit: 1, order: Order::default() };
    let record = rows(masters.leases(filter, cut)).await?.rows.into_iter().next();
    if let Some(row) = record.as_ref().filter(|row| row.from <= at && at < row.until) {
        return Ok(Some(Holder::of_record(row, w)));
    }
    if !looks_back {
        return Ok(None);
    }
    let lines = rows(masters.history(key, HISTORY_MAX)).await?;
    Ok(former(&lines, at, w))
}

impl Holder {
    fn of_record(row: &LeaseRow, w: &'static Words) -> Self {
        Self {
            agent: row.agent_id.to_string(),
            session: row.session.shown(),
            g: grouped(row.g),
            from: When::date(row.from),
            until: Some(When::date(row.until)),
            source: if row.stage == LeaseStage::Held { w.holder_now } else { "" },
        }
    }
}

/// The holder at `at` by a token's lines of the audit, newest first: the last who was granted it by then, if its lease
/// had not ended.
fn former(lines: &[AuditRow], at: WallMs, w: &'static Words) -> Option<Holder> {
    let detail = |line: &AuditRow| GrantDetail::read(&line.detail);
    let begun = |line: &&AuditRow| line.action == Action::Grant && day_of(line.at) <= at;
    let grant = lines.iter().find(begun)?;
    let GrantDetail { g, agent, session, .. } = detail(grant)?;
    let end = lines.iter().find(|line| line.action == Action::End && detail(line).is_some_and(|end| end.g == g));
    let until = end.and_then(detail).map(|end| end.until);
    let over = until.as_deref().is_some_and(|until| until <= at.to_string().as_str());
    (!over).then(|| Holder {
        agent,
        session,
        g,
        from: When::date(day_of(grant.at)),
        until: end.map(|line| When::date(line.at)),
        source: w.holder_from_audit,
    })
}

/// A lease begins with the day it was granted in; a day of any offset begins less than a day before.
fn day_of(at: WallMs) -> WallMs {
    UtcOffset::default().day_floor(at)
}

/// The contents of a line about a lease: `g3 of edge-01, session .., until ..`.
struct GrantDetail {
    g: String,
    agent: String,
    session: String,
    until: String,
}

impl GrantDetail {
    fn read(detail: &str) -> Option<Self> {
        let (g, rest) = detail.strip_prefix('g')?.split_once(" of ")?;
        let (agent, rest) = rest.split_once(", session ")?;
        let (session, until) = rest.split_once(", until ")?;
        let [g, agent, session, until] = [g, agent, session, until].map(str::to_owned);
        Some(Self { g, agent, session, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Lang;
    use common::time::DAY_MS;

    fn line(day: i64, action: Action, detail: &str) -> AuditRow {
        AuditRow {
            number: 1,
            at: WallMs(day * DAY_MS + 5_000),
            who: String::new(),
            from: String::new(),
            action,
            subject: "uint2 5".to_owned(),
            detail: detail.to_owned(),
        }
    }

    #[test]
    fn the_audit_tells_who_held_a_token() {
        let until = |day: i64| WallMs(day * DAY_MS).to_string();
        let lines = [
            line(20, Action::Grant, &format!("g2 of two, session bb, until {}", until(27))),
            line(11, Action::End, &format!("g1 of one, session aa, until {}", until(10))),
            line(1, Action::Grant, &format!("g1 of one, session aa, until {}", until(8))),
        ];
        let at = |day: i64| former(&lines, WallMs(day * DAY_MS + 1), Lang::En.words()).map(|holder| holder.agent);
        assert_eq!(at(0), None);
        assert_eq!([at(1), at(9)], [Some("one".to_owned()), Some("one".to_owned())]);
        assert_eq!([at(10), at(15)], [None, None], "nobody between two leases");
        assert_eq!(at(21), Some("two".to_owned()));
    }
}

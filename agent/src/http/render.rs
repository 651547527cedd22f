//! IDs as bytes, run by run: all of them in one buffer, or in pieces of a buffer's size.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::accept::Media;
use super::lines;
use crate::gate::{Prefix, plain};
use crate::minter::Leaves;
use crate::run::{Run, Runs, stretches, uniq96};
use common::encoding::Encoding;
use common::kind::{TextForm, UNIQ96};
use common::template::CallerParts;
use std::sync::Arc;

/// Bytes that an ID takes at most in text, with what separates it from the next: a `uri` of Uniq96 is the longest.
const NUMBER_LEN_MAX: usize = 64;
const JSON_START: &[u8] = b"{\"ids\":[\"";
const JSON_BETWEEN: &[u8] = b"\",\"";
const JSON_END: &[u8] = b"\"]}";
/// The serial of a Uniq96 in decimal.
const SERIAL96_DIGITS: usize = 10;

/// How IDs are to be written.
#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) media: Media,
    /// For numbers.
    pub(super) form: TextForm,
    /// For strings.
    pub(super) caller: CallerParts,
    /// Characters of a string.
    pub(super) text_len: usize,
    /// For layouts, and names of Uniq64 that have one.
    pub(super) encoding: Option<Arc<Encoding>>,
}

/// Bytes of a packed number of so many bits.
const fn packed_len(bits: u32) -> usize {
    match bits {
        ..=64 => 8,
        65..=96 => 12,
        97.. => 16,
    }
}

impl Style {
    /// The way of IDs that are written so.
    pub(super) fn leaves(&self) -> Leaves<'_> {
        match self.media {
            Media::Packed => Leaves::Numbers,
            Media::Text | Media::Json => Leaves::Streamed(&self.caller),
        }
    }

    /// Bytes that one ID takes at most.
    pub(super) fn id_len_max(&self) -> usize {
        if let Some(encoding) = &self.encoding {
            return encoding.len_max() + JSON_BETWEEN.len();
        }
        match (self.media, self.form) {
            (Media::Packed, _) => 12,
            (_, TextForm::Uri) => NUMBER_LEN_MAX,
            // A Uniq96 in decimal is the longest number in the other forms.
            _ => self.text_len.max(30) + JSON_BETWEEN.len(),
        }
    }

    /// All IDs of `runs`.
    pub(super) fn render(&self, runs: &Runs) -> Vec<u8> {
        let len = if self.form == TextForm::Uri { runs.len() * NUMBER_LEN_MAX } else { self.len_of(runs) };
        let mut out = Vec::with_capacity(len + JSON_BETWEEN.len());
        self.start(&mut out);
        for run in runs.iter() {
            self.write(run, &mut out);
        }
        self.end(&mut out);
        out
    }

    /// An answer of these texts, which have no character that JSON would escape.
    pub(super) fn render_texts(&self, texts: &[String]) -> Vec<u8> {
        let mut out = Vec::new();
        self.start(&mut out);
        for text in texts {
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(self.between());
        }
        self.end(&mut out);
        out
    }

    /// Bytes that [`render`](Self::render) gives for at least one ID, of every form but `uri`, whose serials have no fixed width.
    pub(super) fn len_of(&self, runs: &Runs) -> usize {
        self.framed(runs.iter().map(|run| self.run_len(run)).sum())
    }

    /// Bytes of an answer whose IDs take `ids`.
    fn framed(&self, ids: usize) -> usize {
        match self.media {
            Media::Json => JSON_START.len() + ids - JSON_BETWEEN.len() + JSON_END.len(),
            Media::Text | Media::Packed => ids,
        }
    }

    /// An answer with the IDs of one run, in any form but `uri`: `head`, which is told the length of what follows, and that.
    pub(super) fn write_whole(&self, run: &Run, out: &mut Vec<u8>, head: impl FnOnce(usize, &mut Vec<u8>)) {
        head(self.framed(self.run_len(run)), out);
        self.start(out);
        self.write(run, out);
        self.end(out);
    }

    fn run_len(&self, run: &Run) -> usize {
        if let Some(encoding) = &self.encoding {
            return self.encoded_len(encoding, run);
        }
        let n = run.len as usize;
        let (narrow, wide) = match self.form {
            TextForm::Hex => (16, 24),
            TextForm::Base32 => (13, 20),
            TextForm::Decimal | TextForm::Uri => (0, 30),
        };
        let between = self.between().len();
        match &run.prefix {
            // Numbers of a layout have an encoding.
            Prefix::Void | Prefix::Ticks { .. } => 0,
            Prefix::Number { .. } if self.media == Media::Packed => n * 8,
            Prefix::Uniq96 { .. } if self.media == Media::Packed => n * 12,
            Prefix::Number { prefix, numbers } if narrow == 0 => {
                let stretches = stretches(*prefix, numbers.serial_mask, run.start, run.len);
                stretches.map(|(first, n)| lines::digits(first, n)).sum::<usize>() + n * between
            }
            Prefix::Number { .. } => n * (narrow + between),
            Prefix::Uniq96 { .. } => n * (wide + between),
            Prefix::Text { .. } => n * (self.text_len + between),
            Prefix::Plain { .. } if self.media == Media::Packed => n * 8,
            Prefix::Plain { first, increment: 1 } => {
                lines::digits(first.wrapping_add(run.start), run.len) + n * between
            }
            Prefix::Plain { first, increment } => {
                let digits = |place| lines::digits(plain(*first, *increment, place), 1);
                run.counters().map(digits).sum::<usize>() + n * between
            }
        }
    }

    /// Bytes of numbers that have an encoding. Out of line: the loops that write other IDs would pay for its code.
    #[inline(never)]
    fn encoded_len(&self, encoding: &Encoding, run: &Run) -> usize {
        let (n, between) = (run.len as usize, self.between().len());
        if self.media == Media::Packed {
            return n * packed_len(encoding.bits());
        }
        if let Some(len) = encoding.fixed_len() {
            return n * (len + between);
        }
        if let Some(stretches) = in_a_row(encoding, run) {
            return stretches.map(|(first, n)| lines::digits(first, n)).sum::<usize>() + n * between;
        }
        let mut text = Vec::with_capacity(encoding.len_max());
        let len = |number| {
            text.clear();
            // What cannot be written has no text, here as there.
            let _ = encoding.write(number, &mut text);
            text.len() + between
        };
        run.integers().map(len).sum()
    }

    /// What stands behind each ID.
    fn between(&self) -> &'static [u8] {
        match self.media {
            Media::Text => b"\n",
            Media::Json => JSON_BETWEEN,
            Media::Packed => b"",
        }
    }

    /// What stands before the first ID.
    pub(super) fn start(&self, out: &mut Vec<u8>) {
        if self.media == Media::Json {
            out.extend_from_slice(JSON_START);
        }
    }

    /// Takes IDs out of `runs`, at least one, and appends them while `out` has less than `len` bytes.
    pub(super) fn fill(&self, runs: &mut Runs, len: usize, out: &mut Vec<u8>) {
        let mut room = (len.saturating_sub(out.len()) / self.id_len_max()).max(1);
        while room > 0
            && let Some(run) = runs.take(u32::try_from(room).unwrap_or(u32::MAX))
        {
            self.write(&run, out);
            room = len.saturating_sub(out.len()) / self.id_len_max();
        }
    }

    /// What stands behind the last ID.
    pub(super) fn end(&self, out: &mut Vec<u8>) {
        if self.media == Media::Json {
            if out.ends_with(JSON_BETWEEN) {
                out.truncate(out.len() - JSON_BETWEEN.len());
            }
            out.extend_from_slice(JSON_END);
        }
    }

    /// Each ID with what stands behind it. No ID has a character that JSON would escape; templates refuse those.
    fn write(&self, run: &Run, out: &mut Vec<u8>) {
        if let Some(encoding) = &self.encoding {
            return self.write_encoded(encoding, run, out);
        }
        let after = self.between();
        match (&run.prefix, self.media, self.form) {
            // Numbers of a layout have an encoding.
            (Prefix::Void | Prefix::Ticks { .. }, ..) => {}
            (Prefix::Number { prefix, numbers }, media, form) => {
                for (first, n) in stretches(*prefix, numbers.serial_mask, run.start, run.len) {
                    match (media, form) {
                        (Media::Packed, _) => lines::packed(first, n, out),
                        (_, TextForm::Decimal) => lines::numbers(first, n, after, out),
                        (_, form) => numbers.write_run(first.into(), n, form, after, out),
                    }
                }
            }
            (Prefix::Uniq96 { prefix }, Media::Packed, _) => {
                for counter in run.counters() {
                    out.extend_from_slice(&uniq96(*prefix, counter).to_be_bytes());
                }
            }
            (Prefix::Uniq96 { prefix }, _, TextForm::Decimal) => {
                let high = lines::padded::<20>(*prefix);
                // A window gives no counter that is not a serial, so the run does not wrap.
                lines::fields::<SERIAL96_DIGITS>(&high, run.start, run.len, after, out);
            }
            (Prefix::Uniq96 { prefix }, _, form) => {
                UNIQ96.write_run(uniq96(*prefix, run.start).bits(), run.len, form, after, out);
            }
            (Prefix::Plain { first, increment: 1 }, Media::Packed, _) => {
                lines::packed(first.wrapping_add(run.start), run.len, out);
            }
            (Prefix::Plain { first, increment: 1 }, ..) => {
                lines::numbers(first.wrapping_add(run.start), run.len, after, out);
            }
            (Prefix::Plain { first, increment }, media, _) => {
                for place in run.counters() {
                    match (plain(*first, *increment, place), media) {
                        (number, Media::Packed) => out.extend_from_slice(&number.to_be_bytes()),
                        (number, _) => lines::numbers(number, 1, after, out),
                    }
                }
            }
            // Strings have no packed form; the request was refused.
            (Prefix::Text { .. }, Media::Packed, _) => {}
            (Prefix::Text { bound, capacity }, ..) => {
                for counter in run.counters() {
                    bound.write(&self.caller, counter % capacity, out);
                    out.extend_from_slice(after);
                }
            }
        }
    }
}

impl Style {
    /// Out of line, as [`encoded_len`](Self::encoded_len).
    #[inline(never)]
    fn write_encoded(&self, encoding: &Encoding, run: &Run, out: &mut Vec<u8>) {
        let after = self.between();
        if self.media == Media::Packed {
            let skip = size_of::<u128>() - packed_len(encoding.bits());
            for number in run.integers() {
                out.extend(number.to_be_bytes().iter().skip(skip));
            }
            return;
        }
        if let Some(stretches) = in_a_row(encoding, run) {
            for (first, n) in stretches {
                lines::numbers(first, n, after, out);
            }
            return;
        }
        for number in run.integers() {
            // Only where a library finds no text nothing is written; the IDs are a gap then.
            let _ = encoding.write(number, out);
            out.extend_from_slice(after);
        }
    }
}

/// The numbers of a run of a layout in decimal, as stretches of consecutive ones, tick by tick: the first of each, and how many. `None`
/// if they are others, are written otherwise, or do not follow on each other.
fn in_a_row<'a>(encoding: &Encoding, run: &'a Run) -> Option<impl Iterator<Item = (u64, u32)> + use<'a>> {
    let Prefix::Ticks { tick, numbers } = &run.prefix else { return None };
    let layout = numbers.definition.layout();
    if !encoding.is_plain_decimal() || layout.bits() > u64::BITS || !layout.counts_by_one() {
        return None;
    }
    let (serials, mut next, end) = (layout.serials_per_tick(), run.start, run.counters().end);
    Some(std::iter::from_fn(move || {
        let n = (end - next).min(serials - next % serials);
        let first = u64::try_from(numbers.number(*tick, next)).ok()?;
        next += n;
        (n > 0).then_some((first, u32::try_from(n).ok()?))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticks::Numbers;
    use common::kind::{Kind, UNIQ64_SERIALS_PER_HOUR};
    use proptest::prelude::*;

    fn number(prefix: u64) -> Prefix {
        Prefix::Number { prefix, numbers: Kind::Uniq64.numbers().unwrap() }
    }

    fn style(media: Media, form: TextForm) -> Style {
        Style { media, form, caller: CallerParts::default(), text_len: 0, encoding: None }
    }

    /// One by one, by the formatter.
    fn plainly(style: &Style, runs: &Runs) -> Vec<u8> {
        let mut ids: Vec<String> = runs.uniq64().map(|id| id.text(style.form)).collect();
        ids.extend(runs.uniq96().map(|id| id.text(style.form)));
        match style.media {
            Media::Text => ids.iter().map(|id| format!("{id}\n")).collect::<String>().into_bytes(),
            Media::Json => serde_json::json!({ "ids": ids }).to_string().into_bytes(),
            Media::Packed => {
                let narrow = runs.uniq64().flat_map(|id| id.bits().to_be_bytes());
                narrow.chain(runs.uniq96().flat_map(|id| id.to_be_bytes())).collect()
            }
        }
    }

    fn check(prefix: &Prefix, parts: &[(u64, u32)], room: usize) {
        for media in [Media::Text, Media::Json, Media::Packed] {
            for form in TextForm::ALL {
                let style = style(media, form);
                let mut runs = Runs::default();
                for (start, len) in parts {
                    runs.push(Run { prefix: prefix.clone(), start: *start, len: *len });
                }
                let wanted = plainly(&style, &runs);
                let rendered = style.render(&runs);
                assert!(rendered == wanted, "{}", String::from_utf8_lossy(&rendered));
                if form != TextForm::Uri || media == Media::Packed {
                    assert_eq!(style.len_of(&runs), wanted.len(), "{media:?} {form:?}");
                }
                let mut all = Vec::new();
                style.start(&mut all);
                while !runs.is_empty() {
                    let mut piece = Vec::new();
                    style.fill(&mut runs, room, &mut piece);
                    assert!(!piece.is_empty() && piece.len() <= room.max(style.id_len_max()), "{}", piece.len());
                    all.extend(piece);
                }
                style.end(&mut all);
                assert!(all == wanted, "in pieces of {room}: {}", String::from_utf8_lossy(&all));
            }
        }
    }

    #[test]
    fn a_run_over_the_last_serial_of_an_hour_and_over_a_digit_more() {
        let prefix = 26 << 57 | 11 << 53 | 20 << 48 | 13 << 43 | 7 << 31;
        check(&number(prefix), &[(UNIQ64_SERIALS_PER_HOUR - 7, 20), (5, 3)], 100);
        // 10^19 lies within these: 19 digits, then 20.
        let ten_to_19 = 10_000_000_000_000_000_000u64;
        let (prefix, serial) = (ten_to_19 & !(UNIQ64_SERIALS_PER_HOUR - 1), ten_to_19 % UNIQ64_SERIALS_PER_HOUR);
        check(&number(prefix), &[(serial - 12_345, 30_000)], 64 << 10);
        check(&Prefix::Uniq96 { prefix: u64::MAX - 5 }, &[(u64::from(u32::MAX) - 20_000, 20_001)], 64 << 10);
    }

    /// Whatever is written in one way is written so in pieces, and is what the encoding says of each number.
    fn check_layout(
        definition: &common::layout::LayoutDefinition,
        encoding: Encoding,
        start: u64,
        len: u32,
        room: usize,
    ) {
        let token = common::token::TokenValue(3);
        let numbers = Numbers::new(Arc::new(definition.clone()), token, Arc::default());
        let prefix = Prefix::Ticks { tick: 4_711, numbers: Arc::new(numbers) };
        let runs = || Runs::from(Run { prefix: prefix.clone(), start, len });
        let texts: Vec<String> = runs().numbers().map(|number| encoding.text(number).unwrap()).collect();
        assert_eq!(texts.iter().collect::<std::collections::BTreeSet<_>>().len(), len as usize);
        let wide = packed_len(definition.layout().bits());
        let packed: Vec<u8> = runs().numbers().flat_map(|number| number.to_be_bytes()[16 - wide..].to_vec()).collect();
        let encoding = Some(Arc::new(encoding));
        for media in [Media::Text, Media::Json, Media::Packed] {
            let style = Style { encoding: encoding.clone(), ..style(media, TextForm::Decimal) };
            let wanted = match media {
                Media::Text => texts.iter().map(|id| format!("{id}\n")).collect::<String>().into_bytes(),
                Media::Json => serde_json::json!({ "ids": texts }).to_string().into_bytes(),
                Media::Packed => packed.clone(),
            };
            assert_eq!(style.len_of(&runs()), wanted.len(), "{media:?}");
            assert!(style.render(&runs()) == wanted, "{media:?}");
            let (mut rest, mut all) = (runs(), Vec::new());
            style.start(&mut all);
            while !rest.is_empty() {
                let mut piece = Vec::new();
                style.fill(&mut rest, room, &mut piece);
                assert!(!piece.is_empty() && piece.len() <= room.max(style.id_len_max()), "{}", piece.len());
                all.extend(piece);
            }
            style.end(&mut all);
            assert!(all == wanted, "in pieces of {room}, {media:?}");
        }
    }

    #[test]
    fn numbers_of_each_layout_are_written_in_each_encoding_over_the_ends_of_ticks() {
        use common::encoding::EncodingForm::{Base32, Base62, Decimal, Hex, Sqids, Uuid};
        for preset in common::layout::Preset::ALL {
            let said = common::layout::LayoutSpec::of(preset.name());
            let definition = common::layout::LayoutDefinition::new(&said).unwrap();
            let (bits, serials) = (definition.layout().bits(), definition.layout().serials_per_tick());
            for form in [Decimal, Base32, Base62, Hex, Sqids, Uuid] {
                let source = common::encoding::EncodingSource::Name(form);
                let Ok(encoding) = Encoding::of(&source, bits, None, &[]) else { continue };
                check_layout(&definition, encoding, serials.saturating_sub(300), 1_000, 5_000);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_form_is_what_the_formatter_says(
            prefix: u64, wide: bool, room in 1usize..5_000,
            parts in proptest::collection::vec((0u64..1 << 31, 1u32..12_000), 1..3),
        ) {
            // No ID is from before the year 2000's first month.
            let narrow = (prefix | 1 << 53) & !(UNIQ64_SERIALS_PER_HOUR - 1);
            let prefix = if wide { Prefix::Uniq96 { prefix } } else { number(narrow) };
            check(&prefix, &parts, room);
        }
    }
}

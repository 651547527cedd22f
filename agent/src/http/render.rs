//! IDs as bytes, run by run: all of them in one buffer, or in pieces of a buffer's size.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::accept::Media;
use crate::gate::Prefix;
use crate::minter::Leaves;
use crate::run::{Run, Runs};
use common::encoding::Encoding;
use common::kind::{Numbers, TextForm};
use common::template::CallerParts;
use std::sync::Arc;

/// Bytes that an ID takes at most in text, with what separates it from the next: a `uri` of Uniq96 is the longest.
const NUMBER_LEN_MAX: usize = 64;
const JSON_START: &[u8] = b"{\"ids\":[\"";
const JSON_BETWEEN: &[u8] = b"\",\"";
const JSON_END: &[u8] = b"\"]}";

/// The style in which IDs are to be written.
#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) media: Media,
    /// For numbers.
    pub(super) encoding: Option<Arc<Encoding>>,
    /// The numbers whose texts are those of `uri`, which no encoding writes.
    pub(super) uri: Option<&'static Numbers>,
    /// For strings.
    pub(super) caller: CallerParts,
    /// Characters of a string.
    pub(super) text_len: usize,
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
        match (&self.encoding, self.media) {
            (Some(encoding), Media::Packed) => encoding.packed_len(),
            _ if self.uri.is_some() => NUMBER_LEN_MAX,
            (Some(encoding), _) => encoding.len_max() + self.between().len(),
            (None, _) => self.text_len + self.between().len(),
        }
    }

    /// All IDs of `runs`.
    pub(super) fn render(&self, runs: &Runs) -> Vec<u8> {
        let len = if self.uri.is_some() { runs.len() * NUMBER_LEN_MAX } else { self.len_of(runs) };
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
        // One number, which most answers have, is made once.
        let one = if run.len == 1 { run.stretch(run.start, 1) } else { None };
        if let (Some(one), Some(encoding), None, Media::Text | Media::Json) =
            (one, &self.encoding, self.uri, self.media)
        {
            head(self.framed(encoding.run_len(one) + self.between().len()), out);
            self.start(out);
            encoding.write_run(one, self.between(), out);
            return self.end(out);
        }
        head(self.framed(self.run_len(run)), out);
        self.start(out);
        self.write(run, out);
        self.end(out);
    }

    fn run_len(&self, run: &Run) -> usize {
        let (n, between) = (run.len as usize, self.between().len());
        match &self.encoding {
            Some(encoding) if self.media == Media::Packed => n * encoding.packed_len(),
            Some(encoding) => run.stretches().map(|stretch| encoding.run_len(stretch)).sum::<usize>() + n * between,
            None => n * (self.text_len + between),
        }
    }

    /// The bytes behind each ID.
    fn between(&self) -> &'static [u8] {
        match self.media {
            Media::Text => b"\n",
            Media::Json => JSON_BETWEEN,
            Media::Packed => b"",
        }
    }

    /// Writes what stands before the first ID.
    pub(super) fn start(&self, out: &mut Vec<u8>) {
        if self.media == Media::Json {
            out.extend_from_slice(JSON_START);
        }
    }

    /// Takes IDs out of `runs`, at least one, and appends them until `out` has nearly `len` bytes.
    pub(super) fn fill(&self, runs: &mut Runs, len: usize, out: &mut Vec<u8>) {
        let longest = self.id_len_max();
        let mut room = (len.saturating_sub(out.len()) / longest).max(1);
        while room > 0
            && let Some(run) = runs.take(u32::try_from(room).unwrap_or(u32::MAX))
        {
            self.write(&run, out);
            let left = len.saturating_sub(out.len());
            // To begin anew costs as much as many IDs do: of shorter ones a few less are sent at once.
            room = if left > len / 8 { left / longest } else { 0 };
        }
    }

    /// Writes what stands behind the last ID.
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
        let after = self.between();
        if let Prefix::Text { bound, capacity } = &run.prefix {
            // Strings have no packed form; the request was refused.
            for counter in run.counters().filter(|_| self.media != Media::Packed) {
                bound.write(&self.caller, counter % capacity, out);
                out.extend_from_slice(after);
            }
        }
        // Of numbers alone there are stretches, and they have an encoding.
        let Some(encoding) = &self.encoding else { return };
        for stretch in run.stretches() {
            match (self.media, self.uri) {
                (Media::Packed, _) => encoding.pack_run(stretch, out),
                (_, None) => encoding.write_run(stretch, after, out),
                (_, Some(numbers)) => stretch.numbers().for_each(|number| {
                    numbers.write(number, TextForm::Uri, out);
                    out.extend_from_slice(after);
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::kind::{UNIQ64, UNIQ64_SERIALS_PER_HOUR, UNIQ96};
    use common::layout::{LayoutDefinition, LayoutSpec, Parts, Preset};
    use common::time::WallMs;
    use common::token::TokenValue;
    use proptest::prelude::*;

    fn style(media: Media, numbers: &'static Numbers, form: TextForm) -> Style {
        let encoding = numbers.encoding(form).or(numbers.encoding(TextForm::Decimal)).cloned();
        let uri = Some(numbers).filter(|_| form == TextForm::Uri);
        Style { media, encoding, uri, caller: CallerParts::default(), text_len: 0 }
    }

    fn prefix(layout: &common::layout::Layout, tick: u64, token: u32) -> Prefix {
        Prefix::Number(layout.numbers(tick, TokenValue(token), &Arc::default()).unwrap())
    }

    /// One by one, by the formatter.
    fn plainly(media: Media, numbers: &Numbers, form: TextForm, runs: &Runs) -> Vec<u8> {
        let ids: Vec<String> = runs.numbers().map(|number| numbers.text(number, form)).collect();
        let skip = 16 - numbers.layout().bits() as usize / 8;
        match media {
            Media::Text => ids.iter().map(|id| format!("{id}\n")).collect::<String>().into_bytes(),
            Media::Json => serde_json::json!({ "ids": ids }).to_string().into_bytes(),
            Media::Packed => runs.numbers().flat_map(|number| number.to_be_bytes()[skip..].to_vec()).collect(),
        }
    }

    fn check(numbers: &'static Numbers, prefix: &Prefix, parts: &[(u64, u32)], room: usize) {
        for media in [Media::Text, Media::Json, Media::Packed] {
            for form in TextForm::ALL {
                let style = style(media, numbers, form);
                let mut runs = Runs::default();
                for (start, len) in parts {
                    runs.push(Run { prefix: prefix.clone(), start: *start, len: *len });
                }
                let wanted = plainly(media, numbers, form, &runs);
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
        let of = |number: u64| {
            let Parts { tick, token, serial, .. } = UNIQ64.layout().parts(number.into()).unwrap();
            (prefix(UNIQ64.layout(), tick, token.0), u64::from(serial))
        };
        let (number, _) = of(26 << 57 | 11 << 53 | 20 << 48 | 13 << 43 | 7 << 31);
        check(&UNIQ64, &number, &[(UNIQ64_SERIALS_PER_HOUR - 7, 20), (5, 3)], 100);
        // 10^19 lies within these: 19 digits, then 20.
        let (number, serial) = of(10_000_000_000_000_000_000);
        check(&UNIQ64, &number, &[(serial - 12_345, 30_000)], 64 << 10);
        let last = UNIQ96.layout().tick(WallMs(UNIQ96.layout().end().0 - 1)).unwrap();
        let wide = prefix(UNIQ96.layout(), last, 65_530);
        check(&UNIQ96, &wide, &[(u64::from(u32::MAX) - 20_000, 20_001)], 64 << 10);
    }

    /// Whatever is written in one way is written so in pieces, and is what the encoding says of each number.
    fn check_layout(definition: &LayoutDefinition, encoding: Encoding, start: u64, len: u32, room: usize) {
        let layout = definition.layout();
        // Calendars begin with the year 2000.
        let at = WallMs(layout.epoch().0.max(946_684_800_000) + 4_711 * layout.unit().0);
        let prefix = prefix(layout, layout.tick(at).unwrap(), 3);
        let runs = || Runs::from(Run { prefix: prefix.clone(), start, len });
        let texts: Vec<String> = runs().numbers().map(|number| encoding.text(number).unwrap()).collect();
        assert_eq!(texts.iter().collect::<std::collections::BTreeSet<_>>().len(), len as usize);
        let wide = encoding.packed_len();
        let packed: Vec<u8> = runs().numbers().flat_map(|number| number.to_be_bytes()[16 - wide..].to_vec()).collect();
        let encoding = Some(Arc::new(encoding));
        for media in [Media::Text, Media::Json, Media::Packed] {
            let style = Style { encoding: encoding.clone(), ..style(media, &UNIQ64, TextForm::Decimal) };
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
        for preset in Preset::ALL {
            let definition = LayoutDefinition::new(&LayoutSpec::of(preset.name())).unwrap();
            let (bits, serials) = (definition.layout().bits(), definition.layout().serials_per_tick());
            for form in [Decimal, Base32, Base62, Hex, Sqids, Uuid] {
                let source = common::encoding::EncodingSource::Name(form);
                let Ok(encoding) = Encoding::of(&source, bits, None, &[]) else { continue };
                check_layout(&definition, encoding, serials.saturating_sub(300), 1_000, 5_000);
            }
        }
    }

    /// Words of these letters are mostly refused by the library, so many numbers have no text.
    #[test]
    fn an_answer_has_the_length_that_was_told_also_where_numbers_have_no_text() {
        let definition = LayoutDefinition::new(&LayoutSpec::of("snowflake")).unwrap();
        let source = serde_json::from_str(r#"{"form":"sqids","alphabet":"pPoO"}"#).unwrap();
        let encoding = Arc::new(Encoding::of(&source, 64, None, &[]).unwrap());
        let runs = Runs::from(Run { prefix: prefix(definition.layout(), 4_711, 3), start: 0, len: 200 });
        assert!(runs.numbers().any(|number| encoding.text(number).is_none()));
        for media in [Media::Text, Media::Json] {
            let style = Style { encoding: Some(Arc::clone(&encoding)), ..style(media, &UNIQ64, TextForm::Decimal) };
            assert_eq!(style.len_of(&runs), style.render(&runs).len(), "{media:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_form_is_what_the_formatter_says(
            at: u64, token: u16, wide: bool, room in 1usize..5_000,
            parts in proptest::collection::vec((0u64..1 << 31, 1u32..12_000), 1..3),
        ) {
            let numbers: &'static Numbers = if wide { &UNIQ96 } else { &UNIQ64 };
            let common::layout::Ticks { begin, end, unit, .. } = numbers.layout().ticks(Default::default());
            let (first, last) = (begin.0 / unit.0, end.0 / unit.0);
            let tick = first.unsigned_abs() + at % (last - first).unsigned_abs();
            check(numbers, &prefix(numbers.layout(), tick, u32::from(token) % numbers.layout().tokens() as u32), &parts, room);
        }
    }
}

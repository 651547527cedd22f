//! IDs as bytes: one buffer for all of them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::accept::Media;
use crate::emit::Stamp;
use crate::run::{Run, Runs, uniq64, uniq96};
use common::ids::TextForm;
use common::template::CallerParts;

/// Bytes that an ID takes at most in text, with what separates it from the next: a `uri` of Uniq96 is the longest.
const NUMBER_LEN_MAX: usize = 64;
const JSON_START: &[u8] = b"{\"ids\":[\"";
const JSON_BETWEEN: &[u8] = b"\",\"";
const JSON_END: &[u8] = b"\"]}";

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
}

impl Style {
    /// Bytes that one ID takes at most.
    pub(super) fn id_len_max(&self) -> usize {
        match self.media {
            Media::Packed => 12,
            Media::Text | Media::Json => NUMBER_LEN_MAX.max(self.text_len + JSON_BETWEEN.len()),
        }
    }

    /// All IDs of `runs`.
    pub(super) fn render(&self, runs: &Runs) -> Vec<u8> {
        let mut out = Vec::with_capacity(runs.len() * self.usual_len(runs) + JSON_START.len() + JSON_END.len());
        match self.media {
            Media::Text => {
                for run in runs.iter() {
                    self.write(run, &mut out, b"\n");
                }
            }
            Media::Json => {
                out.extend_from_slice(JSON_START);
                for run in runs.iter() {
                    self.write(run, &mut out, JSON_BETWEEN);
                }
                out.truncate(out.len() - JSON_BETWEEN.len().min(out.len()));
                out.extend_from_slice(JSON_END);
            }
            Media::Packed => {
                for run in runs.iter() {
                    pack(run, &mut out);
                }
            }
        }
        out
    }

    fn usual_len(&self, runs: &Runs) -> usize {
        match (self.media, self.form, runs.iter().next().map(|run| &run.stamp)) {
            (Media::Packed, ..) => 12,
            (_, _, Some(Stamp::Text { .. })) => self.text_len + JSON_BETWEEN.len(),
            (_, TextForm::Uri, _) => NUMBER_LEN_MAX,
            _ => 34,
        }
    }

    /// Each ID with `after` behind it. No ID has a character that JSON would escape; templates refuse those.
    fn write(&self, run: &Run, out: &mut Vec<u8>, after: &[u8]) {
        for counter in run.counters() {
            match &run.stamp {
                Stamp::Void => {}
                Stamp::Uniq64 { prefix } => uniq64(*prefix, counter).write_text(self.form, out),
                Stamp::Uniq96 { prefix } => uniq96(*prefix, counter).write_text(self.form, out),
                Stamp::Text { bound, capacity } => bound.write(&self.caller, counter % capacity, out),
            }
            out.extend_from_slice(after);
        }
    }
}

fn pack(run: &Run, out: &mut Vec<u8>) {
    for counter in run.counters() {
        match &run.stamp {
            Stamp::Uniq64 { prefix } => out.extend_from_slice(&uniq64(*prefix, counter).bits().to_be_bytes()),
            Stamp::Uniq96 { prefix } => out.extend_from_slice(&uniq96(*prefix, counter).to_be_bytes()),
            // Strings have no packed form; the request was refused.
            Stamp::Text { .. } | Stamp::Void => {}
        }
    }
}

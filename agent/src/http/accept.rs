//! The one of our media types that an `Accept` header wants (RFC 9110, 12.5.1).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The form in which IDs are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Media {
    /// One ID a line.
    #[default]
    Text,
    /// `{"ids":["..."]}`.
    Json,
    /// 8 or 12 bytes each, the most significant first.
    Packed,
}

impl Media {
    const ALL: [Self; 3] = [Self::Text, Self::Json, Self::Packed];

    /// Type and subtype.
    pub(super) const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("text", "plain"),
            Self::Json => ("application", "json"),
            Self::Packed => ("application", "octet-stream"),
        }
    }

    /// The value of a `Content-Type` header.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => "application/json",
            Self::Packed => "application/octet-stream",
        }
    }
}

/// The degree to which an entry of the header fits a media type; the fields in the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    /// In thousandths.
    q: u16,
    /// 3 for `type/subtype`, 2 for `type/*`, 1 for `*/*`.
    specific: u8,
    /// Higher for entries that come earlier.
    order: i32,
}

/// The media type that `header` prefers, ours in doubt. A header that cannot be read or accepts none of them is disregarded, as RFC 9110
/// allows: old HTTP libraries send `*; q=.2` and mean well.
///
/// Entries that are not understood are passed over, as other recipients do.
pub(super) fn negotiate(header: &str) -> Media {
    let wanted = |media: Media| -> Option<Fit> {
        let fits = header.split(',').enumerate().filter_map(|(nth, entry)| fit(entry, media, nth));
        // The most specific entry decides for this type, whatever others say of it.
        fits.max_by_key(|fit| (fit.specific, fit.order)).filter(|fit| fit.q > 0)
    };
    let fits = Media::ALL.into_iter().filter_map(|media| Some((wanted(media)?, media)));
    fits.max_by_key(|(fit, media)| (*fit, std::cmp::Reverse(*media))).map(|(_, media)| media).unwrap_or_default()
}

fn fit(entry: &str, media: Media, nth: usize) -> Option<Fit> {
    let mut parts = entry.split(';').map(str::trim);
    let (kind, subtype) = parts.next()?.split_once('/')?;
    let (ours, our_subtype) = media.name();
    let specific = match (kind, subtype) {
        ("*", "*") => 1,
        (kind, "*") if kind.eq_ignore_ascii_case(ours) => 2,
        (kind, subtype) if kind.eq_ignore_ascii_case(ours) && subtype.eq_ignore_ascii_case(our_subtype) => 3,
        _ => return None,
    };
    let weight = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| quality(value.trim()))
    });
    Some(Fit { q: weight.unwrap_or(Some(1_000))?, specific, order: -i32::try_from(nth).unwrap_or(i32::MAX) })
}

/// `0.75` in thousandths, `.75` as well, or `None` if it is not a quality.
fn quality(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.len() <= 3 && fraction.bytes().all(|b| b.is_ascii_digit());
    let thousandths = format!("{fraction:0<3}").parse::<u16>().ok().filter(|_| digits)?;
    match whole {
        "0" => Some(thousandths),
        "" if !fraction.is_empty() => Some(thousandths),
        "1" if thousandths == 0 => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_header_decides_and_text_is_what_remains() {
        for (header, media) in [
            ("*/*", Media::Text),
            ("text/*", Media::Text),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Media::Text),
            ("application/json", Media::Json),
            ("Application/JSON;charset=utf-8", Media::Json),
            ("application/json, text/plain, */*", Media::Json),
            ("text/plain, application/json", Media::Text),
            ("application/*", Media::Json),
            ("application/octet-stream", Media::Packed),
            ("application/json;q=0.5, application/octet-stream;q=0.75", Media::Packed),
            ("application/json;q=0, */*;q=0.1", Media::Text),
            ("text/plain;q=0, application/json; q=0.001", Media::Json),
            ("*/*;q=0.1, application/json", Media::Json),
            ("image/png", Media::Text),
            ("*/*;q=0", Media::Text),
            ("text/plain;q=0", Media::Text),
            ("nonsense, application/json", Media::Json),
            ("application/json;q=2", Media::Text),
            ("application/json;q=0.12345", Media::Text),
            ("", Media::Text),
            // Java's HttpURLConnection until 17.0.12, and in 8.
            ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", Media::Text),
            ("*/*;q=.2", Media::Text),
            ("*", Media::Text),
            ("application/json;q=.9, text/plain;q=.2", Media::Json),
        ] {
            assert_eq!(negotiate(header), media, "{header}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(header in "[a-z*/;=q0-9., é]{0,80}") {
            negotiate(&header);
        }
    }
}

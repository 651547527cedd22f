//! Writing string IDs: all that is the same for a day and a token is written once, and copied for each ID.

use super::check::CheckKind;
use super::date::YEARS;
use super::{CallerError, PartKind, Radix, Template, TemplateError, What};
use crate::calendar::{DayBucket, UtcOffset};
use crate::digits::{ALPHANUMERIC, fill_decimal, fill_digits};
use crate::token::TokenKey;
use chrono::Datelike as _;
use std::ops::Range;

/// A template with day and token filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTemplate {
    /// An ID with zeros where the caller's parts, the serial and the check belong.
    image: Vec<u8>,
    serial: Range<usize>,
    radix: Radix,
    biz: Option<Range<usize>>,
    custom: Option<Range<usize>>,
    check: Option<(CheckKind, Range<usize>)>,
}

/// The parts of a string that its caller gives; only [`Template::check_caller`] makes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerParts {
    biz: Vec<u8>,
    custom: Vec<u8>,
}

impl Template {
    /// The template with its day and token filled in.
    ///
    /// # Errors
    /// [`TemplateError::YearOutOfRange`] past the year 9999, [`TemplateError::ForeignToken`] if the token is of another
    /// family.
    pub fn bind(&self, offset: UtcOffset, day: DayBucket, token: TokenKey) -> Result<BoundTemplate, TemplateError> {
        let date = offset.date(day);
        let year = date.map_or(i32::MAX, |date| date.year());
        let date = date.filter(|_| YEARS.contains(&year)).ok_or(TemplateError::YearOutOfRange { year })?;
        if token.family != self.family || token.value.0 >= self.family.size(u16::MAX) {
            return Err(TemplateError::ForeignToken { token: token.text() });
        }
        let (mut biz, mut custom, mut check, mut serial) = (None, None, None, 0..0);
        let mut image = Vec::with_capacity(self.len);
        for piece in &self.pieces {
            match &piece.what {
                What::Literal(text) => image.extend_from_slice(text.as_bytes()),
                What::Date(format) => format.write(date, &mut image),
                What::Token => image.extend_from_slice(token.text().as_bytes()),
                What::Biz => biz = Some(piece.place.clone()),
                What::Custom => custom = Some(piece.place.clone()),
                What::Serial(_) => serial = piece.place.clone(),
                What::Check(kind) => check = Some((*kind, piece.place.clone())),
            }
            image.resize(piece.place.end, b'0');
        }
        Ok(BoundTemplate { image, serial, radix: self.serial.radix, biz, custom, check })
    }

    /// The caller's parts, checked. An empty text is the same as none.
    ///
    /// # Errors
    /// [`CallerError`] if one is missing, superfluous, of another length, or not of A-Z a-z 0-9.
    pub fn check_caller(&self, biz: Option<&str>, custom: Option<&str>) -> Result<CallerParts, CallerError> {
        Ok(CallerParts {
            biz: check_part(PartKind::Biz, biz.unwrap_or_default(), self.biz)?,
            custom: check_part(PartKind::Custom, custom.unwrap_or_default(), self.custom)?,
        })
    }
}

fn check_part(part: PartKind, text: &str, wanted: Option<u32>) -> Result<Vec<u8>, CallerError> {
    let wanted = match (wanted, text) {
        (None, "") => return Ok(Vec::new()),
        (None, _) => return Err(CallerError::Superfluous { part }),
        (Some(wanted), "") => return Err(CallerError::Missing { part, wanted }),
        (Some(wanted), _) => wanted,
    };
    // The length in bytes first: it bounds the work on a text that is far too long.
    if text.len() > Template::LEN_MAX {
        return Err(CallerError::Length { part, wanted, found: text.len() });
    }
    if let Some(found) = text.chars().find(|c| !c.is_ascii_alphanumeric()) {
        return Err(CallerError::Character { part, found });
    }
    if usize::try_from(wanted) != Ok(text.len()) {
        return Err(CallerError::Length { part, wanted, found: text.len() });
    }
    Ok(text.as_bytes().to_vec())
}

impl BoundTemplate {
    /// Appends the ID with that serial, modulo the template's capacity. `caller` must come from the same template's
    /// [`check_caller`](Template::check_caller); parts of another length are left out.
    #[inline]
    pub fn write(&self, caller: &CallerParts, serial: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.image);
        let Some(id) = out.get_mut(start..) else { return };
        for (place, part) in [(&self.biz, &caller.biz), (&self.custom, &caller.custom)] {
            if let Some(place) = place
                && let Some(field) = id.get_mut(place.clone())
                && field.len() == part.len()
            {
                field.copy_from_slice(part);
            }
        }
        if let Some(field) = id.get_mut(self.serial.clone()) {
            match self.radix {
                Radix::Ten => fill_decimal(field, serial),
                Radix::ThirtySix => fill_digits::<36, _>(field, serial, ALPHANUMERIC),
            }
        }
        if let Some((kind, place)) = &self.check
            && let Some((covered, rest)) = id.split_at_mut_checked(place.start)
            && let Some(field) = rest.get_mut(..place.len())
        {
            kind.fill(covered, field);
        }
    }

    /// Characters in each ID.
    #[expect(clippy::len_without_is_empty, reason = "no template is empty")]
    pub fn len(&self) -> usize {
        self.image.len()
    }
}

//! Reasons why a template, a caller's parts or an ID is refused. The caller of an agent reads these texts.

use super::{PartKind, Template};

/// The reason why a text is not a template, or a template cannot be bound to a day and a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// More bytes than [`Template::SOURCE_LEN_MAX`].
    #[error("a template of {bytes} bytes is too long: at most {max}", max = Template::SOURCE_LEN_MAX)]
    SourceTooLong {
        /// Bytes there are.
        bytes: usize,
    },
    /// IDs longer than [`Template::LEN_MAX`].
    #[error("its IDs would be longer than {max} characters", max = Template::LEN_MAX)]
    TooLong,
    /// A character that cannot stand in an ID.
    #[error(
        "{found:?} cannot stand in an ID: use printable ASCII without spaces, quotes and backslashes, so that an ID is \
         one word in a line and needs no escapes in JSON"
    )]
    Character {
        /// The character.
        found: char,
    },
    /// A brace that neither opens nor closes a field.
    #[error("a brace at byte {at} stands alone: write {{token}} for a field, {{{{ or }}}} for the brace itself")]
    Brace {
        /// The place, in bytes from the start.
        at: usize,
    },
    /// A field that does not exist.
    #[error(
        "'{name}' is not a field; there are {{date:%Y%m%d}}, {{biz:N}}, {{custom:N}}, {{token}}, {{serial:N}}, \
         {{serial:N:36}}, {{check:luhn}}, {{check:mod97}}"
    )]
    UnknownField {
        /// The text that stands there, cut to a bounded length.
        name: String,
    },
    /// A field with an argument that it does not take.
    #[error("'{found}' does not fit the field {field}: {wanted}")]
    Argument {
        /// The field.
        field: PartKind,
        /// The text that stands there, cut to a bounded length.
        found: String,
        /// The text that it takes.
        wanted: &'static str,
    },
    /// A field that may stand only once.
    #[error("the field {field} stands there twice")]
    Twice {
        /// The field.
        field: PartKind,
    },
    /// Without this field IDs would repeat.
    #[error("the field {field} is missing: {why}")]
    Missing {
        /// The field.
        field: PartKind,
        /// The repetition that there would be without it.
        why: &'static str,
    },
    /// A date specifier that is not among those with a fixed width.
    #[error("'{specifier}' cannot stand in a date: {why}; there are %Y, %m, %d, %j, %y, %F, %%")]
    Specifier {
        /// The specifier, cut to a bounded length.
        specifier: String,
        /// The reason.
        why: &'static str,
    },
    /// The dates do not name one day.
    #[error("the date does not name {missing}: {why}")]
    DateIncomplete {
        /// The part that it does not name.
        missing: &'static str,
        /// The repetition that there would be.
        why: &'static str,
    },
    /// A check with nothing to check.
    #[error("a check covers what stands before it, and nothing stands before this one: put it at the end")]
    CheckFirst,
    /// Tokens without a fixed width.
    #[error("a string needs a token of fixed width: take a string2 or string3 token type")]
    TokenFamily,
    /// Only for binding: the year has not four digits.
    #[error("the year {year} has not four digits: correct the clock")]
    YearOutOfRange {
        /// The year; beyond the calendar's own range the nearest `i32`.
        year: i32,
    },
    /// Only for binding: a token of another family, or beyond it.
    #[error("token {token} is not of the family that this template is for")]
    ForeignToken {
        /// The token.
        token: String,
    },
}

/// The reason why a caller's parts do not fit a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallerError {
    /// The template needs it.
    #[error("{part} is missing: this generator needs {part} with exactly {wanted} characters of A-Z a-z 0-9")]
    Missing {
        /// `biz` or `custom`.
        part: PartKind,
        /// Characters it must have.
        wanted: u32,
    },
    /// The template has no place for it.
    #[error("this generator's template has no {part}: leave it out")]
    Superfluous {
        /// `biz` or `custom`.
        part: PartKind,
    },
    /// Too long or too short.
    #[error("{part} has {found} characters: this generator needs exactly {wanted}")]
    Length {
        /// `biz` or `custom`.
        part: PartKind,
        /// Characters it must have.
        wanted: u32,
        /// Characters it has.
        found: usize,
    },
    /// Another character than A-Z a-z 0-9.
    #[error("{found:?} cannot stand in {part}: use A-Z a-z 0-9")]
    Character {
        /// `biz` or `custom`.
        part: PartKind,
        /// The character.
        found: char,
    },
}

/// The reason why a text is not an ID of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeApartError {
    /// Another number of characters.
    #[error("the template's IDs have {wanted} characters, not {found}")]
    Length {
        /// Characters they have.
        wanted: usize,
        /// Characters there are.
        found: usize,
    },
    /// Characters that no ID has.
    #[error("the template's IDs are of ASCII characters alone")]
    NotAscii,
    /// A piece that does not fit.
    #[error("'{text}' is not what the template has there: {wanted} ({part} at character {at})")]
    Part {
        /// The piece.
        part: PartKind,
        /// The place, in characters from the start.
        at: usize,
        /// The text that stands there.
        text: String,
        /// The text that could.
        wanted: String,
    },
}

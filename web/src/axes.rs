//! Axes: the part of the plain numbers of a name of kind `segment` that the masters have handed out, and how long the rest lasts.

use crate::masters::{as_number, as_text, as_text_or_null};
use common::namespace::GeneratorName;
use common::parameters::MasterId;
use common::segment::Span;
use serde::Serialize;

/// An axis as the console and its API show it. Places count from `first` to `last`; the number of a place is
/// `offset + increment x place`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AxisRow {
    /// The name whose numbers lie on it.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub name: GeneratorName,
    /// The first place.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub first: u64,
    /// The last place.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub last: u64,
    /// The distance between the numbers of two places beside each other.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub increment: u64,
    /// The number of place 0.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub offset: u64,
    /// The place below which no master grants any: where an operator raised the axis to, or its first place.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub floor: u64,
    /// The place below which every one belongs to somebody, or to nobody for ever.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub granted: u64,
    /// Places that no master was granted yet.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub free: u64,
    /// The last extent that a master was granted; `null` before the first one, and after the axis was raised.
    pub last_extent: Option<ExtentRow>,
    /// Places that the answering master may still grant to agents by itself.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub left: u64,
    /// Places that both masters grant to agents in a day, at the rate of the last hours: an estimate.
    pub per_day: u64,
    /// Whole days for which `free` and `left` last at this rate; `null` if nothing was used lately.
    pub lasts_days: Option<u64>,
    /// True if the other master has places to grant, too, as far as the answering one can tell; `null`: it cannot tell.
    pub other_holds: Option<bool>,
    /// The last place that agents show to have been granted, if the masters know nothing of it: then nothing is granted; `null`: none.
    #[serde(serialize_with = "as_text_or_null")]
    #[schema(value_type = Option<String>)]
    pub shown: Option<u64>,
    /// Whole hours within which one network can use up the whole axis, if that is less than a day; `null`: not within a day.
    pub hours_at_least: Option<u64>,
    /// True if the name gives no more numbers.
    pub retired: bool,
}

/// A part of an axis that one run of one master may grant from, or might have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ExtentRow {
    /// The number of the master.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = u8)]
    pub master: MasterId,
    /// The first place.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub from: u64,
    /// The last place.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub to: u64,
}

impl ExtentRow {
    pub const fn new(master: MasterId, span: Span) -> Self {
        Self { master, from: span.from, to: span.to.saturating_sub(1) }
    }
}

impl AxisRow {
    /// Days for which an axis has to last not to be pointed out.
    const SOON_DAYS: u64 = 30;

    /// Tells whether operators should see to another name: all of it is granted, or will be used up soon.
    pub fn ends_soon(&self) -> bool {
        !self.retired && (self.free == 0 || self.lasts_days.is_some_and(|days| days < Self::SOON_DAYS))
    }

    /// Whole days for which so many places last at so many a day; `None` if none are used.
    pub const fn days(places: u64, per_day: u64) -> Option<u64> {
        places.checked_div(per_day)
    }
}

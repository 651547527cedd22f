//! Among which IDs a name's are unique.

use serde::{Deserialize, Serialize};

/// Among which IDs a name's are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Among those of all names of its kind: Uniq64 share one series of serials, and templates never write the same.
    #[default]
    Kind,
    /// Among its own alone: another name may give equal IDs.
    Own,
}

impl Scope {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Own => "own",
        }
    }
}

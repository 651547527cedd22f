//! The other master: what this one thinks of it ([`pair`]), its starts and this one's ([`lives`]), the proof of what is said ([`seal`]), by which
//! rules the two agree ([`rules`]) and what becomes of one that is lost ([`join`]).

pub mod join;
pub mod lives;
pub mod pair;
pub mod rules;
pub mod seal;

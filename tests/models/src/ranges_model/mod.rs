//! Every state that two masters can come into with one axis of numbers ([`Axes`]), and with one section of a sequence and two agents that
//! serve it ([`Sections`]), within bounds.
//!
//! As in [`crate::model`] the product itself is walked: each step opens a [`ledger::Ledger`] from what a master's disk holds and
//! gives it one event, and the next state's disk is what its writes left. After each step ledger and disk are compared. A master also
//! knows in memory what the other one said that it holds of a bound; that is a part of the state, and gone with a crash. The agents of
//! [`Sections`] are the product's [`Allocator`](::minting::sequence::Allocator) and [`SectionState`](::minting::sequence::SectionState).
//!
//! # What can happen
//!
//! Agents ask any master at any time. All messages ever sent may arrive at any time, again and again, or never. A master may crash and
//! start again, as the same run or, where it cannot prove its store, as another one; its disk may be copied and put back later. An
//! operator may declare a master lost that lives on, with its disk and its messages, and a new one joins in three steps with anything in
//! between. Each start is a life of its own, and what is said names it: the product's own rule says whether it is believed. A master that
//! has started greets the other one, which answers a page of its table; that page arrives later, or never.
//!
//! Beside them are an agent whose machine stands still together with its clock ([`standstill`]), and two masters whose machines' calendars
//! were wrong when they started ([`calendars`]): each sequence of so many things.
//!
//! # What was left out, and why that hides nothing
//!
//! * *Silence*: a master that is silent for a while can do less than one that is not.
//! * *How much is asked for by recent use*: it says how long an extent is, and each is as long as one call wants, or a part of the rest.
//! * *Calls that wait for an extent*: one that asks again gets the same numbers a step later.
//! * *Whom a section is given to, and when*: any agent, at any time, by an operator's order, which is the widest choice.
//! * *The way of a question to a master*: it is answered as it is sent. A question that is late gives an agent less time, and no other
//!   answer. Of answers that list the section one is on its way to an agent, and the newest: of two the later one says at least as much.
//! * *More than one key, and more than one section*: keys of a section share its bound, and sections share nothing.
//! * *The other order of the two clocks*: the first owner is the one with the slow clock, which gives the next one the least time.
//! * *Receipts in questions for sections*: an owner shows them with each raise, which says the same.
//! * *What an agent's file holds*: one that starts again as the same session remembers nothing.
//! * *A table that is read again by a master that serves everything*: it brings what messages bring.
//! * *Messages that can change nothing any more*: those that change nothing at whoever would believe them, and whose answers change
//!   nothing either. Records only grow, so it stays so.
//! * *A copy that lives beside its original*, and greetings that arrive in part: [`crate::model`] has them, and the rule by which both are
//!   told apart is the same for all messages.
//! * *Both disks put back, beyond what one master may raise alone*: what was given of it comes twice until its owner has shown a receipt, and
//!   then both stop. Nor does anybody serve anything between that and their meeting.
//!
//! # How far it does not see
//!
//! Within bounds that can be walked nothing goes wrong where what was *sent* counts as held by the other master, where messages of another
//! pairing or an earlier start are believed, or a proposal is withdrawn: what these rules keep from happening takes more steps. Runs with
//! random courses find the first (`master/tests/sections.rs`), and the mutations of the simulation the others.
mod agent;
pub mod calendars;
mod disk;
mod heal;
mod net;
mod pair;
mod segments;
mod sequences;
pub mod standstill;
mod twins;

pub use pair::{Befalls, Deed};
pub use segments::{Act, Axes, AxisBounds, AxisWorld, EXTENTS, ONCE, SOUND};
pub use sequences::{BOUNDED, ORDERED, SERVED, SectionBounds, SectionWorld, Sections, Turn, UNIQUE, WELL};
pub use twins::{ALLOWANCE, Twin};

//! As which session a process serves sections after a start, and what it must not give again.
//!
//! If what a process before wrote down was found and proved (`SectionFile` of the serial file), its session goes on, but only once a master
//! has renewed a lease of it: a second copy of the agent's files, which the file system does not tell from the first, is denied there. If
//! the leases are denied, another session begins, and before it does nothing may be left that a later start could go on with.

use super::bounds::Bounds;
use crate::holder::Confirmation;
use ids::namespace::GeneratorName;
use ids::parameters::SessionId;
use ids::sequence::Section;
use std::sync::Arc;

/// The session as which masters know a process that serves sections.
#[derive(Clone, Debug)]
pub struct Life {
    session: SessionId,
    former: Arc<Bounds>,
}

/// The session that a start has found, if any, and a fresh one.
#[derive(Clone, Debug)]
pub struct Start {
    former: Option<Life>,
    fresh: SessionId,
}

/// The session as which a process serves sections.
#[derive(Clone, Debug)]
pub enum Decision {
    /// No master has said anything of its leases yet. It asks for no section.
    Waits,
    /// As this session from now on.
    Serves(Life),
    /// As this one, once nothing is left of what was written of the session before.
    Begins(Life),
}

impl Life {
    /// A session that gave nothing yet.
    fn fresh(session: SessionId) -> Self {
        Self { session, former: Arc::default() }
    }

    /// The session that masters are told.
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// The bounds up to which processes before gave numbers as this session.
    pub const fn former(&self) -> &Arc<Bounds> {
        &self.former
    }

    /// No number of a section above this was given by a process before of this session; `None` if none was.
    pub fn given_before(&self, name: &GeneratorName, section: Section) -> Option<u64> {
        self.former.get(name, section).map(|bound| bound.max_seq)
    }
}

impl Start {
    /// Nothing speaks against going on as `former` from the bounds that it wrote down; `fresh` (128 random bits) begins if masters deny it.
    pub fn found(former: SessionId, bounds: Bounds, fresh: SessionId) -> Self {
        Self { former: Some(Life { session: former, former: Arc::new(bounds) }), fresh }
    }

    /// No session goes on.
    pub const fn nothing(fresh: SessionId) -> Self {
        Self { former: None, fresh }
    }

    /// Decides as which session the process serves, by what masters made of the leases that it found.
    pub fn decide(&self, confirmation: Confirmation) -> Decision {
        match (&self.former, confirmation) {
            (None, _) => Decision::Serves(Life::fresh(self.fresh)),
            (Some(former), Confirmation::Given) => Decision::Serves(former.clone()),
            (Some(_), Confirmation::Refused) => Decision::Begins(Life::fresh(self.fresh)),
            (Some(_), Confirmation::Waits) => Decision::Waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Bound;
    use ids::lease::Generation;

    const FORMER: SessionId = SessionId(1);
    const FRESH: SessionId = SessionId(2);

    #[test]
    fn a_session_goes_on_once_a_master_has_renewed_a_lease_of_it() {
        let (name, mut bounds) = ("orders".parse().unwrap(), Bounds::default());
        bounds.note(&name, Section(3), Bound { g: Some(Generation(2)), max_seq: 500 });
        let start = Start::found(FORMER, bounds.clone(), FRESH);
        assert!(matches!(start.decide(Confirmation::Waits), Decision::Waits));
        let Decision::Serves(life) = start.decide(Confirmation::Given) else { panic!() };
        assert_eq!((life.session(), &**life.former()), (FORMER, &bounds));
        assert_eq!((life.given_before(&name, Section(3)), life.given_before(&name, Section(4))), (Some(500), None));
        let Decision::Begins(life) = start.decide(Confirmation::Refused) else { panic!() };
        assert_eq!((life.session(), life.former().len(), life.given_before(&name, Section(3))), (FRESH, 0, None));
    }

    #[test]
    fn where_nothing_goes_on_nobody_is_waited_for() {
        for confirmation in [Confirmation::Waits, Confirmation::Given, Confirmation::Refused] {
            let decision = Start::nothing(FRESH).decide(confirmation);
            assert!(matches!(decision, Decision::Serves(life) if life.session() == FRESH && life.former().is_empty()));
        }
    }
}

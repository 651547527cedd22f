//! The parts of an agent, whether it is a program of its own or a part of an application.

use crate::catalog::Catalog;
use crate::dev::Base;
use crate::extensions::Extensions;
use crate::heartbeat::{Heartbeat, Segments};
use crate::holder::Holder;
use crate::masters::Masters;
use crate::minter::Minter;
use crate::sequences::{SequenceSettings, Sequences};
use common::clock::Clock;
use common::kind::Kind;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::AgentId;
use common::sequence::ServedAt;
use common::time::SpanMs;
use common::token::TokenType;
use net::tls::Tls;
use serial_file::Opened;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name of an agent, and the leases that it asks the masters for.
pub(crate) struct Identity {
    pub(crate) agent_id: AgentId,
    pub(crate) token_types: BTreeSet<TokenType>,
    pub(crate) renew_interval: SpanMs,
    pub(crate) clock: Clock,
    pub(crate) tls: Tls,
}

/// A minter, and what keeps it going once its [tasks](Self::tasks) run.
pub(crate) struct Parts {
    pub(crate) minter: Arc<Minter>,
    pub(crate) names: Arc<Catalog>,
    pub(crate) masters: Arc<Masters>,
    holder: Holder,
}

impl Parts {
    /// Those of the session that the serial file goes on with.
    ///
    /// # Errors
    /// The reason why nothing can be minted by it.
    pub(crate) fn new(base: Base, identity: Identity, extensions: Extensions) -> Result<Self, String> {
        let Base { opened, serial_file, masters, own, folder: _ } = base;
        let Extensions { plugins, strategies, refusals } = extensions;
        let (minter, holder) = Self::mint(opened, &identity)?;
        if let Some(masters) = own {
            minter.masters().keep(masters);
        }
        minter.extras().set_plugins(plugins);
        minter.extras().keep_strategies(strategies);
        if let Some(handler) = refusals {
            minter.calls().refusals().set(move |call, failure| handler(call, failure));
        }
        let masters = Masters::new(masters, identity.agent_id, identity.tls, Arc::clone(&minter));
        let names = Arc::new(Catalog::new(Arc::clone(&masters), &serial_file));
        Ok(Self { minter, names, masters, holder })
    }

    fn mint(opened: Opened, identity: &Identity) -> Result<(Arc<Minter>, Holder), String> {
        let (held, clock) = (&opened.holdings, identity.clock);
        let demanded = Holder::demanded_before(&identity.token_types, &held.leases);
        let wanted = &identity.token_types | &demanded;
        let holder = Holder::new(&wanted, &held.leases, held.rseq, identity.renew_interval, clock.now()).resumed();
        let namespaces = Kind::PREDEFINED.map(Namespace::default_of).to_vec();
        let minter = Minter::new(opened, namespaces, holder.leases(), clock)?;
        minter.grants().demand().resume(&demanded);
        Ok((minter, holder))
    }

    /// Sections of sequences of these sets, served at that address; other agents are asked for the rest.
    pub(crate) fn sequences(&self, sets: Vec<GeneratorName>, memory: u64, address: ServedAt) -> Sequences {
        let settings = SequenceSettings { sets, memory, address };
        Sequences::new(settings, Arc::clone(&self.masters), Some(Arc::clone(&self.names)))
    }

    /// The tasks that talk to the masters for as long as the agent runs, beside those of its names and sequences.
    pub(crate) fn tasks(self) -> (Heartbeat, Segments) {
        let Self { masters, holder, .. } = self;
        (Heartbeat { masters: Arc::clone(&masters), holder }, Segments::new(masters))
    }
}

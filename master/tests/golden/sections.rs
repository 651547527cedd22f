//! Commands of scripts about sequences, and their execution.

use super::command::Command;
use super::script::{Fail, Script, operator, session};
use common::lease::Generation;
use common::namespace::{Definition, Namespace, SequenceSpec};
use common::parameters::AgentId;
use common::sequence::{Section, SectionKey, SectionOrder, ServedAt};
use common::setting::Change;
use master::lease::Event;
use net::rpc::ranges::{KeepRequest, Raise, RaiseRequest, RaiseTo, RoutesRequest};
use std::fmt::Write as _;

impl Script {
    pub(super) fn of_sections(&mut self, command: &Command) -> Result<String, Fail> {
        match command {
            Command::DefineSequence { name, width, step, keys, allowance, set, at } => {
                let (width, step, solo_allowance, set) = (*width, *step, *allowance, set.clone());
                let usual = SequenceSpec::default();
                let said = SequenceSpec { width, step, keys_per_section: *keys, solo_allowance, set, ..usual };
                let definition = Definition::Sequence(said);
                let namespace = Box::new(Namespace::define(name.parse()?, &definition)?);
                self.change(at.id(), Change::Restore { namespace, retired: false, proved: false })
            }
            Command::Keep { agent, memory, leaves, set, shows, at } => {
                let shown = shows.as_ref().map(|agent| self.receipts.get(agent).cloned().ok_or("it has no receipt"));
                let request = KeepRequest {
                    agent_id: agent.parse()?,
                    session: session(agent),
                    holder: session(agent),
                    cluster: None,
                    address: ServedAt { http: format!("{agent}:6200"), rpc: format!("{agent}:6201") },
                    sets: vec![set.as_deref().unwrap_or("default").parse()?],
                    memory: memory.unwrap_or(1_000) * 800_000,
                    used: 0,
                    per_second: 0,
                    leaves: *leaves,
                    after: None,
                    only: Vec::new(),
                    receipts: shown.transpose()?.into_iter().collect(),
                };
                self.ask(agent, at.id(), |id| Event::Keep { id, request })
            }
            Command::Raise { agent, name, section, g, to, at } => {
                let to = to.map_or(RaiseTo::ByAStep, RaiseTo::Number);
                let (section, g) = (Section(*section), Generation(g.unwrap_or(1)));
                let key = SectionKey { name: name.parse()?, section };
                let raise = Raise { section, sections: (&key).into(), g, to, receipt: None };
                self.raising = Some((agent.clone(), key, g));
                let request = RaiseRequest {
                    agent_id: agent.parse()?,
                    session: session(agent),
                    cluster: None,
                    raises: vec![raise],
                };
                self.ask(agent, at.id(), |id| Event::Raise { id, request })
            }
            Command::Routes { name, sections, all, at } => {
                let sections = sections.split(',').map(|section| Ok(Section(section.parse()?)));
                let sections = sections.collect::<Result<_, Fail>>()?;
                let request =
                    RoutesRequest { cluster: None, name: name.parse()?, sections, all_from: all.map(Section) };
                self.ask("the caller", at.id(), |id| Event::Routes { id, request, address: "10.0.0.1".to_owned() })
            }
            Command::MoveSection { name, section, agent, at } => {
                let key = SectionKey { name: name.parse()?, section: Section(*section) };
                let to: AgentId = agent.parse()?;
                let order = SectionOrder::Move(to);
                self.ask("the operator", at.id(), |id| Event::Section { id, key, order, actor: operator() })
            }
            Command::RaiseSection { name, section, to, at } => {
                let key = SectionKey { name: name.parse()?, section: Section(*section) };
                let order = SectionOrder::Raise(*to);
                self.ask("the operator", at.id(), |id| Event::Section { id, key, order, actor: operator() })
            }
            Command::Drain { agent, off, at } => {
                let (agent_id, on): (AgentId, bool) = (agent.parse()?, !off);
                self.ask("the operator", at.id(), |id| Event::Drain { id, agent_id, on, actor: operator() })
            }
            Command::Sections => self.sections(),
            _ => Err("no command of sections".into()),
        }
    }

    fn sections(&self) -> Result<String, Fail> {
        let mut out = String::new();
        for (id, ledger) in self.ledgers() {
            let Some(ledger) = ledger else {
                writeln!(out, "{id} is down")?;
                continue;
            };
            writeln!(out, "{id} {}", ledger.mode())?;
            for (range, held) in ledger.sections().all() {
                let (max_seq, peer_has) = (held.max_seq, held.peer_has);
                writeln!(
                    out,
                    "  {range} g{} {} max_seq {max_seq}, held there to {peer_has}",
                    held.g, held.owner.agent_id
                )?;
            }
            for prep in ledger.sections().preps() {
                writeln!(
                    out,
                    "  {} g{} proposed to {} max_seq {}",
                    prep.range, prep.g, prep.owner.agent_id, prep.max_seq
                )?;
            }
        }
        Ok(out)
    }
}

//! Taking in the masters' word on names: they are served from then on, or no more.

use super::generator::Generator;
use super::names::{Ended, Entry, LocalState, NumberSource, Step};
use super::series::Series;
use super::state::State;
use super::writer::Writer;
use super::{Minter, broken};
use crate::gate::Layout;
use crate::refusal::Refusal;
use common::namespace::Namespace;
use net::rpc::lease::Registered;
use std::sync::Arc;

const FULL: Refusal = Refusal::Overloaded("there are as many generators as there may be");

impl Minter {
    /// Takes in the word of the masters on a name that is in use or retired. Blocks while the serial file is written.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn learn(&self, word: &Registered) -> Result<(), Refusal> {
        let (namespace, name) = (&word.namespace, word.namespace.name());
        // Before the lock, for which all names wait: a strategy of an application may take its time to get ready.
        let is_new = self.names.step(word) == Step::Serve;
        let writer = is_new.then(|| Writer::of(namespace, self.extras.secrets(), self.extras.strategies()));
        let mut state = self.driver.lock()?;
        match self.names.step(word) {
            Step::Nothing | Step::Unused => {}
            Step::Note => {
                self.names.change(name, |known| known.map(|known| Entry::new(word, known.local.clone())));
            }
            Step::End(why) => self.end_name(&mut state, word, why),
            Step::Serve => {
                let local = match self.serve(&mut state, namespace, writer) {
                    Ok(place) => {
                        tracing::info!(%name, "a generator of this name is served from now on");
                        LocalState::Served(place)
                    }
                    Err(Refusal::GeneratorConflict { .. }) => LocalState::Ended(Ended::Contradicted, None),
                    Err(why) => LocalState::Unservable(why),
                };
                self.names.note(Entry::new(word, local));
            }
        }
        Ok(())
    }

    /// No more IDs by a name that the masters have forgotten and do not take back: it is another's now, or another one may
    /// give the same. One that was retired meanwhile stays so. Blocks while the serial file is written.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn contradicted(&self, word: &Registered) -> Result<(), Refusal> {
        let mut state = self.driver.lock()?;
        if self.names.look(word.namespace.name().as_str(), |known| known.is_served()) == Some(true) {
            self.end_name(&mut state, word, Ended::Contradicted);
        }
        Ok(())
    }

    /// Has a place made that a name's numbers come from.
    fn serve(&self, state: &mut State, namespace: &Namespace, writer: Option<Writer>) -> Result<NumberSource, Refusal> {
        let (kind, name, generators) = (namespace.kind(), namespace.name(), self.names.generators());
        let shares = namespace.shares_serials();
        let is_new = self.names.look(name.as_str(), |_| ()).is_none();
        if is_new && !self.names.has_room() || !shares && !generators.has_room() {
            return Err(FULL);
        }
        if namespace.sequences().is_some() {
            return match namespace.plugins() {
                [] => Ok(NumberSource::Keys),
                _ => Err(Refusal::BadParameter("this version has no plugins for sequences".to_owned())),
            };
        }
        if Layout::of(namespace).is_none() {
            return Err(Refusal::UnknownGenerator { kind, name: name.to_string() });
        }
        let writer = writer.ok_or_else(broken)?;
        let chain = match namespace.plugins() {
            [] => None,
            // A name whose plugins cannot be attached shall not be served.
            plugins => Some(self.extras.plugins().chain_or_refuse(kind, name, plugins).ok_or(FULL)?),
        };
        let namespace = namespace.clone();
        let slot = if shares {
            let series = generators.default(kind).ok_or(FULL)?.series.clone();
            generators.share(Generator::new(namespace, series, chain, writer)).ok_or(FULL)?
        } else {
            let added = generators.add(&mut state.engine, namespace, chain, writer);
            added.map_err(|_| Refusal::GeneratorConflict { name: name.clone() })?
        };
        Ok(NumberSource::Generator(slot))
    }

    /// No more IDs by this name, however their caller came to it.
    fn end_name(&self, state: &mut State, word: &Registered, why: Ended) {
        let (namespace, name) = (&word.namespace, word.namespace.name());
        let known = self.names.look(name.as_str(), Arc::clone);
        let served = known.as_ref().and_then(|known| known.place());
        let was_served = known.as_ref().is_some_and(|known| known.is_served());
        let is_retired = why == Ended::Retired;
        let mut entry = match known.filter(|_| !is_retired) {
            Some(known) => Entry::clone(&known),
            None => Entry::new(word, LocalState::Unused),
        };
        entry.local = LocalState::Ended(why, served);
        if !was_served || !is_retired {
            // Others know of it.
            entry.proof = None;
        }
        // The reason before the flag, for whoever sees the flag; and that before the window closes: whoever takes something of a window
        // that was opened after it sees it.
        self.names.note(entry);
        if let Some(NumberSource::Generator(at)) = served
            && let Some(generator) = self.names.generators().at(at)
        {
            self.end_generator(state, generator);
        }
        if is_retired {
            if was_served {
                tracing::info!(%name, "this name was retired: no more IDs by it");
            }
            state.engine.retire(namespace);
            self.extras.plugins().forget(namespace.kind(), name);
        }
    }

    fn end_generator(&self, state: &mut State, generator: &Generator) {
        if !generator.end() {
            return;
        }
        match &generator.series {
            // Its window is other names', too, and stays.
            Series::Ticks(series) => series.window().ends().end(),
            Series::Serials(series) => {
                let (engine, mut hands) = state.parts(self);
                // Also of a series that is another's: windows that threads know, and blocks, end with it, and the others open the next
                // window. Only a series that is not ours is unknown.
                let _ = engine.take_back(&mut hands, series.id);
                if series.is_segment() {
                    engine.end_segments(series.id);
                    self.names.generators().tell_of([series.id].into());
                }
            }
        }
    }
}

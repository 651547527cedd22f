//! Which agent is asked, and who comes next when it fails.

use crate::error::{Attempt, Cause, Error, Failure};
use crate::http::Http;
use crate::rpc::Rpc;
use crate::settings::{Address, Settings, SettingsError};
use common::lease::Generation;
use common::namespace::{GeneratorName, Namespace};
use common::rpc::mint::{KeyAsked, KeyOutcome, SequenceRoutes};
use common::sequence::{Route, Section, ServedAt};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What is asked of an agent.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Uniq64 {
        name: GeneratorName,
        n: u32,
    },
    Uniq96 {
        n: u32,
    },
    Layout {
        name: GeneratorName,
        n: u32,
    },
    Segment {
        name: GeneratorName,
        n: u32,
    },
    Any {
        name: GeneratorName,
        n: u32,
        biz: String,
        custom: String,
    },
    Strings {
        name: GeneratorName,
        n: u32,
        biz: String,
        custom: String,
    },
    Define(Namespace),
    /// Numbers of keys; with `n` 0 the last that may have been given, of one key alone.
    Keys {
        name: GeneratorName,
        keys: Vec<KeyAsked>,
        g: Generation,
    },
    Routes {
        name: GeneratorName,
        from: Section,
    },
}

/// What it says.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Plain numbers, too.
    Uniq64(Vec<u64>),
    /// Of 96 bits, or of a layout.
    Wide(Vec<u128>),
    Strings(Vec<String>),
    Defined(bool),
    Keys(Vec<KeyOutcome>, Vec<Route>),
    Routes(SequenceRoutes),
}

pub(crate) enum Line {
    Http(Http),
    Rpc(Rpc),
}

impl Line {
    pub(crate) async fn ask(&self, question: &Question) -> Result<Answer, Failure> {
        match self {
            Self::Http(line) => line.ask(question).await,
            Self::Rpc(line) => line.ask(question).await,
        }
    }
}

struct Agent {
    address: Address,
    line: Line,
    /// It is asked last until then, in milliseconds since the beginning.
    rests_until: AtomicU64,
}

pub(crate) struct Agents {
    agents: Vec<Agent>,
    began: Instant,
    rest: Duration,
    timeout: Duration,
    /// Who answered last.
    favourite: AtomicUsize,
    /// What HTTP connections come from.
    http: reqwest::Client,
}

impl Agents {
    pub(crate) fn new(settings: Settings) -> Result<Self, SettingsError> {
        let http = Http::shared(settings.timeout).map_err(SettingsError::System)?;
        let (rest, timeout) = (settings.rest, settings.timeout);
        let agents = settings.agents.into_iter().map(|address| {
            let line = line(&http, &address, timeout);
            Agent { address, line, rests_until: AtomicU64::new(0) }
        });
        let agents = agents.collect();
        Ok(Self { agents, began: Instant::now(), rest, timeout, favourite: AtomicUsize::new(0), http })
    }

    /// A connection to an agent that need not be one of the settings'.
    pub(crate) fn line(&self, address: &Address) -> Line {
        line(&self.http, address, self.timeout)
    }

    /// How to reach who serves a section: by what the first agent of the settings is reached.
    pub(crate) fn address_of(&self, served: &ServedAt) -> Address {
        match self.agents.first().map(|agent| &agent.address) {
            Some(Address::Rpc(_)) => Address::Rpc(served.rpc.clone()),
            _ => Address::Http(served.http.clone()),
        }
    }

    /// How long one agent may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) async fn uniq64(&self, name: &GeneratorName, n: u32) -> Result<Vec<u64>, Error> {
        let take = |answer| match answer {
            Answer::Uniq64(ids) if ids.len() == n as usize => Some(ids),
            _ => None,
        };
        self.ask(Question::Uniq64 { name: name.clone(), n }, take).await
    }

    pub(crate) async fn segment(&self, name: &GeneratorName, n: u32) -> Result<Vec<u64>, Error> {
        let take = |answer| match answer {
            Answer::Uniq64(numbers) if numbers.len() == n as usize => Some(numbers),
            _ => None,
        };
        self.ask(Question::Segment { name: name.clone(), n }, take).await
    }

    pub(crate) async fn uniq96(&self, n: u32) -> Result<Vec<u128>, Error> {
        let take = |answer| match answer {
            Answer::Wide(ids) if ids.len() == n as usize => Some(ids),
            _ => None,
        };
        self.ask(Question::Uniq96 { n }, take).await
    }

    pub(crate) async fn layout(&self, name: GeneratorName, n: u32) -> Result<Vec<u128>, Error> {
        let take = |answer| match answer {
            Answer::Wide(ids) if ids.len() == n as usize => Some(ids),
            _ => None,
        };
        self.ask(Question::Layout { name, n }, take).await
    }

    pub(crate) async fn strings(&self, question: Question) -> Result<Vec<String>, Error> {
        let wanted = match &question {
            Question::Strings { n, .. } | Question::Any { n, .. } => *n as usize,
            _ => 0,
        };
        let take = |answer| match answer {
            Answer::Strings(ids) if ids.len() == wanted => Some(ids),
            _ => None,
        };
        self.ask(question, take).await
    }

    pub(crate) async fn define(&self, namespace: Namespace) -> Result<bool, Error> {
        let take = |answer| match answer {
            Answer::Defined(new) => Some(new),
            _ => None,
        };
        self.ask(Question::Define(namespace), take).await
    }

    /// Each agent once, until one answers.
    pub(crate) async fn ask<T>(&self, question: Question, take: impl Fn(Answer) -> Option<T>) -> Result<T, Error> {
        let mut attempts = Vec::new();
        for at in self.order() {
            let Some(agent) = self.agents.get(at) else { continue };
            let cause = match self.ask_one(agent, &question).await {
                Ok(answer) => match take(answer) {
                    Some(ids) => {
                        self.favourite.store(at, Ordering::Relaxed);
                        return Ok(ids);
                    }
                    None => Cause::Answer("another number of IDs than was asked for".to_owned()),
                },
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Here(cause)) => cause,
            };
            agent.rests_until.store(self.now_ms() + ms(self.rest), Ordering::Relaxed);
            attempts.push(Attempt { agent: agent.address.clone(), cause });
        }
        Err(Error::Unavailable(attempts))
    }

    async fn ask_one(&self, agent: &Agent, question: &Question) -> Result<Answer, Failure> {
        let asked = agent.line.ask(question);
        // The lines have time limits of their own; this one also counts the wait for a connection of another call.
        tokio::time::timeout(self.timeout, asked).await.unwrap_or(Err(Failure::Here(Cause::Timeout)))
    }

    /// The favourite and those after it; those that rest come last, in the same order.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, favourite, now) = (self.agents.len(), self.favourite.load(Ordering::Relaxed), self.now_ms());
        let circle = (0..count).map(|step| (favourite + step) % count);
        let rests = |at: &usize| self.agents.get(*at).is_some_and(|a| a.rests_until.load(Ordering::Relaxed) > now);
        let (resting, fresh): (Vec<usize>, Vec<usize>) = circle.partition(rests);
        fresh.into_iter().chain(resting)
    }

    fn now_ms(&self) -> u64 {
        ms(self.began.elapsed())
    }
}

fn line(http: &reqwest::Client, address: &Address, timeout: Duration) -> Line {
    match address {
        Address::Http(at) => Line::Http(Http::new(http, at)),
        Address::Rpc(at) => Line::Rpc(Rpc::new(at, timeout)),
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX / 2)
}

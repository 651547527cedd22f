//! The order in which agents are asked, and who comes next when one fails.

use crate::certificate::Renewal;
use crate::error::{Attempt, Cause, Error, Failure};
use crate::http::{Http, HttpClient};
use crate::rpc::Rpc;
use crate::settings::{Address, ApiKey, Protocol, Settings, SettingsError};
use common::kind::Kind;
use common::lease::Generation;
use common::namespace::{GeneratorName, Namespace, Preview};
use common::parameters::ClusterId;
use common::sequence::{Route, Section, ServedAt};
use net::rpc::mint::{KeyAsked, KeyOutcome, MintCode, MintedNumbers, SequenceRoutes};
use net::tls::Tls;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Agents that wait one after the other for a section that nobody serves: each waits for as long as a section may be without service.
const WAITED_MAX: usize = 2;

/// A question to an agent.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// Numbers; `kind` if they are to be of that one.
    Numbers {
        kind: Option<Kind>,
        name: GeneratorName,
        n: u32,
    },
    /// Texts as the name's definition writes them; `kind` if they are to be of that one.
    Texts {
        kind: Option<Kind>,
        name: GeneratorName,
        n: u32,
        biz: String,
        custom: String,
    },
    /// Registered, or with `dry_run` only tried.
    Define {
        namespace: Namespace,
        dry_run: bool,
    },
    /// Numbers of keys; with `n` 0 the last that may have been given, of one key alone.
    Keys {
        name: GeneratorName,
        keys: Vec<KeyAsked>,
        g: Generation,
        /// The cluster whose agents told the caller its routes.
        cluster: Option<ClusterId>,
    },
    Routes {
        name: GeneratorName,
        from: Section,
    },
}

/// An agent's answer.
#[derive(Debug)]
pub(crate) enum AgentReply {
    Numbers(MintedNumbers),
    Texts(Vec<String>),
    Defined(Box<Preview>),
    Keys(Vec<KeyOutcome>, Vec<Route>),
    Routes(SequenceRoutes),
}

/// The longest times that one agent may take.
#[derive(Clone, Copy)]
pub(crate) struct Timeouts {
    /// The longest time for an answer, and for a connection.
    usual: Duration,
    /// The longest time for numbers of keys.
    keys: Duration,
}

impl Timeouts {
    /// The longest time for a connection.
    pub(crate) fn connect(self) -> Duration {
        self.usual
    }

    /// The longest time for an answer to that question.
    pub(crate) fn of(self, question: &Question) -> Duration {
        match question {
            Question::Keys { .. } => self.keys.max(self.usual),
            _ => self.usual,
        }
    }
}

pub(crate) enum Line {
    Http(Http),
    Rpc(Rpc),
}

impl Line {
    pub(crate) async fn ask(&self, question: &Question) -> Result<AgentReply, Failure> {
        match self {
            Self::Http(line) => line.ask(question).await,
            Self::Rpc(line) => line.ask(question).await,
        }
    }
}

struct Agent {
    address: Address,
    line: Line,
    /// The time until which it is asked last, in milliseconds since the beginning.
    rests_until: AtomicU64,
}

pub(crate) struct Agents {
    agents: Vec<Agent>,
    began: Instant,
    rest: Duration,
    /// The agent that answered last.
    preferred: AtomicUsize,
    /// The agent that is asked first for numbers of keys: the one that answered last, or the first that was not asked when others
    /// did so in vain.
    preferred_for_keys: AtomicUsize,
    lines: Lines,
    _renewal: Option<Renewal>,
}

/// The parts that lines to all agents share.
struct Lines {
    timeouts: Timeouts,
    /// The client that all HTTP connections come from.
    http: Arc<HttpClient>,
    tls: Tls,
    key: Option<ApiKey>,
    key_over_plain_tcp: bool,
}

impl Lines {
    fn to(&self, address: &Address) -> Line {
        // Routes lead to addresses that an agent says.
        let may_show = self.key_over_plain_tcp || address.tls || address.is_local();
        let key = self.key.clone().filter(|_| may_show);
        match address.protocol {
            Protocol::Http => Line::Http(Http::new(&self.http, address, key.as_ref())),
            Protocol::Rpc => {
                let tls = if address.tls { self.tls.clone() } else { Tls::PLAIN };
                Line::Rpc(Rpc::new(&address.at, self.timeouts, tls, key))
            }
        }
    }
}

impl Agents {
    pub(crate) fn new(settings: Settings) -> Result<Self, SettingsError> {
        let timeouts = Timeouts { usual: settings.timeout, keys: settings.key_timeout };
        let files = settings.tls.clone();
        let tls = settings.tls.map_or(Ok(Tls::PLAIN), Tls::load).map_err(|e| SettingsError::Tls(e.to_string()))?;
        let renewal = Renewal::begin(files.as_ref(), settings.masters, &tls)?;
        let http = HttpClient::new(timeouts, &tls).map_err(|e| SettingsError::System(e.to_string()))?;
        let (rest, key, key_over_plain_tcp) = (settings.rest, settings.api_key, settings.key_over_plain_tcp);
        let lines = Lines { timeouts, http, tls, key, key_over_plain_tcp };
        let agents = settings.agents.into_iter().map(|address| {
            let line = lines.to(&address);
            Agent { address, line, rests_until: AtomicU64::new(0) }
        });
        let agents = agents.collect();
        let (preferred, preferred_for_keys) = Default::default();
        Ok(Self { agents, began: Instant::now(), rest, preferred, preferred_for_keys, lines, _renewal: renewal })
    }

    /// A connection to an agent that need not be one of the settings'.
    pub(crate) fn line(&self, address: &Address) -> Line {
        self.lines.to(address)
    }

    /// The address of the agent that serves a section, for the protocol by which the first agent of the settings is reached; `None` if it does
    /// not speak that for others.
    pub(crate) fn address_of(&self, served: &ServedAt) -> Option<Address> {
        let first = self.agents.first().map(|agent| &agent.address);
        let (protocol, tls) = first.map_or((Protocol::Http, false), |Address { protocol, tls, .. }| (*protocol, *tls));
        let at = match protocol {
            Protocol::Rpc => &served.rpc,
            Protocol::Http => &served.http,
        };
        (!at.is_empty()).then(|| Address { protocol, tls, at: at.clone() })
    }

    /// Asks an agent, and fails if it does not answer in time.
    pub(crate) async fn ask_line(&self, line: &Line, question: &Question) -> Result<AgentReply, Failure> {
        self.lines.tls.look_now_and_then();
        // Also counts the wait for a connection of another call.
        let answer = tokio::time::timeout(self.lines.timeouts.of(question), line.ask(question)).await;
        answer.unwrap_or(Err(Failure::Here(Cause::Timeout)))
    }

    pub(crate) async fn numbers(
        &self,
        kind: Option<Kind>,
        name: &GeneratorName,
        n: u32,
    ) -> Result<MintedNumbers, Error> {
        let take = |answer| match answer {
            AgentReply::Numbers(numbers) if numbers.len() == n as usize => Some(numbers),
            _ => None,
        };
        self.ask(Question::Numbers { kind, name: name.clone(), n }, take).await
    }

    pub(crate) async fn texts(
        &self,
        kind: Option<Kind>,
        name: GeneratorName,
        n: u32,
        biz: String,
        custom: String,
    ) -> Result<Vec<String>, Error> {
        let take = |answer| match answer {
            AgentReply::Texts(texts) if texts.len() == n as usize => Some(texts),
            _ => None,
        };
        self.ask(Question::Texts { kind, name, n, biz, custom }, take).await
    }

    pub(crate) async fn define(&self, namespace: Namespace, dry_run: bool) -> Result<Preview, Error> {
        let take = |answer| match answer {
            AgentReply::Defined(preview) => Some(*preview),
            _ => None,
        };
        self.ask(Question::Define { namespace, dry_run }, take).await
    }

    /// Each agent once, until one answers.
    pub(crate) async fn ask<T>(&self, question: Question, take: impl Fn(AgentReply) -> Option<T>) -> Result<T, Error> {
        self.ask_after(Vec::new(), question, take).await
    }

    /// Asks agents after others were asked in vain. One that said why it gives nothing is not asked again, and nobody is
    /// when [`WAITED_MAX`] agents have waited for a section.
    pub(crate) async fn ask_after<T>(
        &self,
        mut attempts: Vec<Attempt>,
        question: Question,
        take: impl Fn(AgentReply) -> Option<T>,
    ) -> Result<T, Error> {
        let of_keys = matches!(question, Question::Keys { .. });
        let preferred = if of_keys { &self.preferred_for_keys } else { &self.preferred };
        for at in self.order(preferred) {
            let Some(agent) = self.agents.get(at) else { continue };
            if attempts.iter().any(|before| before.agent == agent.address && before.cause.code().is_some()) {
                continue;
            }
            let waited = |before: &&Attempt| before.cause.code() == Some(MintCode::SegmentPending);
            if of_keys && attempts.iter().filter(waited).count() >= WAITED_MAX {
                // The next call begins with those whom this one did not ask.
                preferred.store(at, Ordering::Relaxed);
                break;
            }
            let cause = match self.ask_line(&agent.line, &question).await {
                Ok(answer) => match take(answer) {
                    Some(ids) => {
                        preferred.store(at, Ordering::Relaxed);
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

    /// The preferred and those after it; those that rest come last, in the same order.
    fn order(&self, preferred: &AtomicUsize) -> impl Iterator<Item = usize> + use<> {
        let (count, preferred, now) = (self.agents.len(), preferred.load(Ordering::Relaxed), self.now_ms());
        let circle = (0..count).map(|step| (preferred + step) % count);
        let rests = |at: &usize| self.agents.get(*at).is_some_and(|a| a.rests_until.load(Ordering::Relaxed) > now);
        let (resting, fresh): (Vec<usize>, Vec<usize>) = circle.partition(rests);
        fresh.into_iter().chain(resting)
    }

    fn now_ms(&self) -> u64 {
        ms(self.began.elapsed())
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX / 2)
}

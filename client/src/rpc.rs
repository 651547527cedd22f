//! One agent by RPC: one connection, made when it is needed, and again after it failed.

use crate::agents::{AgentReply, Question, Timeouts};
use crate::error::{Cause, Failure, refused};
use crate::settings::ApiKey;
use net::rpc::mint::{
    Defined, KeyAsked, KeyOutcome, KeyReply, KeysReply, MintCode, MintFailure, MintServiceClient, Passing, SequenceCall,
};
use net::rpc::transport::{connect_as, deadline_in};
use net::tls::{Admits, Tls};
use std::time::Duration;
use tarpc::client::RpcError;
use tokio::sync::Mutex;

pub(crate) struct Rpc {
    at: String,
    timeouts: Timeouts,
    tls: Tls,
    key: Option<ApiKey>,
    line: Mutex<Option<(MintServiceClient, u64)>>,
}

impl Rpc {
    pub(crate) fn new(at: &str, timeouts: Timeouts, tls: Tls, key: Option<ApiKey>) -> Self {
        Self { at: at.to_owned(), timeouts, tls, key, line: Mutex::new(None) }
    }

    pub(crate) async fn ask(&self, question: &Question) -> Result<AgentReply, Failure> {
        let line = self.line().await?;
        let soon = deadline_in(self.timeouts.of(question));
        let said = match question {
            Question::Numbers { kind, name, n } => {
                let numbers = line.numbers(soon, *kind, name.as_str().to_owned(), *n).await;
                numbers.map(|numbers| numbers.map(AgentReply::Numbers))
            }
            Question::Texts { kind, name, n, biz, custom } => {
                let texts = line.texts(soon, *kind, name.as_str().to_owned(), *n, biz.clone(), custom.clone()).await;
                texts.map(|texts| texts.map(AgentReply::Texts))
            }
            Question::Keys { name, keys, g, cluster } => {
                let (name, cluster) = (name.as_str().to_owned(), cluster.map(Box::new));
                let call = SequenceCall { name, g: Some(*g), passing: Passing::On, cluster };
                let one = |said: Result<KeyReply, MintFailure>| {
                    said.map(|KeyReply { outcome, routes }| AgentReply::Keys(vec![outcome], routes))
                };
                match keys.as_slice() {
                    [KeyAsked { slot, n: 0 }] => line.sequence_current(soon, call, *slot).await.map(one),
                    [KeyAsked { slot, n }] => line.sequence(soon, call, *slot, *n).await.map(one),
                    keys => line
                        .sequence_many(soon, call, keys.to_vec())
                        .await
                        .map(|said| said.map(|KeysReply { outcomes, routes }| AgentReply::Keys(outcomes, routes))),
                }
            }
            Question::Routes { name, from } => line
                .sequence_routes(soon, name.as_str().to_owned(), *from)
                .await
                .map(|said| said.map(AgentReply::Routes)),
            Question::Define { namespace, dry_run } => {
                let defined = line.define_generator(soon, namespace.clone(), *dry_run).await;
                defined.map(|defined| defined.map(|Defined(preview)| AgentReply::Defined(preview)))
            }
        };
        match said {
            Ok(Ok(answer)) => or_elsewhere(answer),
            Ok(Err(MintFailure { code, detail, retry_after_s })) => {
                let retry_after = (retry_after_s > 0).then(|| Duration::from_secs(retry_after_s.into()));
                Err(refused(code, detail, retry_after))
            }
            Err(error) => {
                // After a timeout, too: of a machine that is gone a connection with something under way hears only after many minutes.
                self.line.lock().await.take();
                Err(Failure::Here(match error {
                    RpcError::DeadlineExceeded => Cause::Timeout,
                    error => Cause::Connection(error.to_string()),
                }))
            }
        }
    }

    async fn line(&self) -> Result<MintServiceClient, Failure> {
        let (mut line, revision) = (self.line.lock().await, self.tls.revision());
        if let Some((line, _)) = line.as_ref().filter(|(_, made)| *made == revision) {
            return Ok(line.clone());
        }
        let connected = connect_as(&self.at, &self.tls, Admits::Agents);
        let connected = tokio::time::timeout(self.timeouts.connect(), connected).await;
        let transport = connected.map_err(|_| Failure::Here(Cause::Timeout))?;
        let transport = transport.map_err(|e| Failure::Here(Cause::Connection(e.to_string())))?;
        let made = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
        if let Some(key) = &self.key {
            let shown = made.authenticate(deadline_in(self.timeouts.connect()), key.as_str().to_owned()).await;
            let shown = shown.map_err(|e| Failure::Here(Cause::Connection(e.to_string())))?;
            shown.map_err(|MintFailure { code, detail, .. }| refused(code, detail, None))?;
        }
        *line = Some((made.clone(), revision));
        Ok(made)
    }
}

/// An agent that gave no key a number did what one does that refuses the call over HTTP: others are asked. Only what is used up is used up
/// everywhere.
fn or_elsewhere(answer: AgentReply) -> Result<AgentReply, Failure> {
    let refused_for_now = |outcome: &KeyOutcome| match outcome {
        KeyOutcome::Refused(MintCode::SerialExhausted) | KeyOutcome::Given(_) => None,
        KeyOutcome::Refused(code) => Some(*code),
    };
    if let AgentReply::Keys(outcomes, _) = &answer
        && let Some(code) = outcomes.first().and_then(refused_for_now)
        && outcomes.iter().all(|outcome| refused_for_now(outcome).is_some())
    {
        return Err(refused(code, "this agent gave no number of these keys".to_owned(), None));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_no_key_anything_is_not_the_last_one_that_is_asked() {
        use KeyOutcome::{Given, Refused};
        let said = |outcomes: &[KeyOutcome]| or_elsewhere(AgentReply::Keys(outcomes.to_vec(), Vec::new()));
        let pending = Refused(MintCode::SegmentPending);
        assert!(matches!(said(&[pending, Refused(MintCode::Overloaded)]), Err(Failure::Here(_))));
        assert!(said(&[pending, Given(7)]).is_ok(), "what was given is not thrown away");
        assert!(said(&[Refused(MintCode::SerialExhausted)]).is_ok(), "nobody has more");
        assert!(said(&[]).is_ok());
    }
}

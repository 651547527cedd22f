//! Making the store of a replacement from the running survivor.

use crate::lease::Write;
use crate::replication::join::{first_writes, section_taken_over, taken_over};
use crate::store::{self, Draft as _};
use anyhow::{Context as _, bail};
use common::parameters::MasterId;
use net::rpc::peer::{JoinReply, JoinRequest, JoinStep, JoinToken, PeerServiceClient};
use net::rpc::transport::{connect_as, deadline_in};
use net::tls::{Admits, Tls};
use std::path::Path;
use std::time::Duration;
use tarpc::client::Config;

/// The longest time that one step may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the survivor.
async fn reach(peer: &str, survivor: MasterId, tls: &Tls) -> anyhow::Result<PeerServiceClient> {
    let connection = connect_as(peer, tls, Admits::Master(survivor)).await;
    let connection = connection.with_context(|| format!("cannot reach the survivor at {peer}: start it first"))?;
    Ok(PeerServiceClient::new(Config::default(), connection).spawn())
}

/// The remedy where plain TCP was not understood.
const WITH_TLS: &str = ", with --invitation, or with --tls-cert, --tls-key and --tls-ca, if it speaks TLS";

/// Fetches the ledger of the survivor at `peer` (host:port) and makes the store of master `me` in `dir` from it. The
/// store exists only if all of it arrived and the survivor said that the token is used up; then the number of leases is
/// returned.
///
/// # Errors
/// The failure, with the remedy. Before the last step the same token may be tried again.
pub async fn join(dir: &Path, me: MasterId, peer: &str, token: JoinToken, tls: &Tls) -> anyhow::Result<usize> {
    store::vacant(dir)?;
    let client = reach(peer, me.other(), tls).await?;
    // What speaks TLS answers nothing that could be read.
    let hint = if tls.is_plain() { WITH_TLS } else { "" };
    let silent = || format!("the survivor at {peer} did not answer; try again{hint}");
    let ask = async |step| {
        let request = JoinRequest { token: token.clone(), master: me, step };
        let reply = client.join(deadline_in(STEP_TIMEOUT), request).await;
        Ok::<_, anyhow::Error>(reply.with_context(silent)??)
    };
    let JoinReply::Begun(begun) = ask(JoinStep::Begin).await? else {
        bail!("the survivor at {peer} answered another question");
    };
    // Nothing is written before the survivor has taken the token, and this as the master that it awaits.
    let mut draft = store::draft(dir)?;
    let (identity, caution) = first_writes(me, begun);
    draft.commit(&[Write::Identity(identity), caution], 0)?;
    let (mut after, mut count) = (None, 0);
    let mut settings_after = loop {
        let JoinReply::Page { records, settings, more, last } = ask(JoinStep::Page { after }).await? else {
            bail!("the survivor at {peer} answered another question");
        };
        after = records.last().map(|(key, _)| *key);
        let further = settings.last().filter(|_| more).map(|setting| setting.key.clone());
        count += records.len();
        let writes = records.into_iter().map(|(key, lease)| Write::Lease(key, taken_over(me, key, lease)));
        let writes = writes.chain(settings.into_iter().map(Write::Setting));
        draft.commit(&writes.collect::<Vec<_>>(), 0)?;
        if last || after.is_none() {
            break further;
        }
    };
    while let Some(after) = settings_after.take() {
        let JoinReply::Settings { settings, more } = ask(JoinStep::Settings { after }).await? else {
            bail!("the survivor at {peer} answered another question");
        };
        settings_after = settings.last().filter(|_| more).map(|setting| setting.key.clone());
        draft.commit(&settings.into_iter().map(Write::Setting).collect::<Vec<_>>(), 0)?;
    }
    let mut after = None;
    loop {
        let JoinReply::Sections { records, last } = ask(JoinStep::Sections { after }).await? else {
            bail!("the survivor at {peer} answered another question");
        };
        after = records.last().map(|record| record.range.last());
        let writes: Vec<Write> = records.into_iter().map(section_taken_over).collect();
        draft.commit(&writes, 0)?;
        if last || after.is_none() {
            break;
        }
    }
    let done = ask(JoinStep::Done).await.context(
        "the last step was not answered, so the token may be used up: run `uniq_master --peer-lost` on the stopped \
         survivor again",
    )?;
    if done != JoinReply::Done {
        bail!("the survivor at {peer} answered another question");
    }
    draft.publish()?;
    Ok(count)
}

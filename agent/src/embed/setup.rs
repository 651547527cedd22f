//! Before the first start of an application's agent: its serial file, and its certificate.

use common::clock::Clock;
use common::parameters::{AgentId, SessionId};
use net::enroll::{self, Invited, RedeemError};
use net::tls::{Files, Role};
use serial_file::{NUM_BLOCKS_DEFAULT, SerialFileError};
use std::path::Path;

/// Makes a serial file where there is none, as `uniq_generator --format` does. To be called once for each process that mints, and never
/// for a file that should be there: a new one costs a token, and a lost disk is better noticed.
///
/// # Errors
/// There is a file already ([`SerialFileError::Exists`]), or it cannot be made there.
pub fn format(serial_file: impl AsRef<Path>) -> Result<(), SerialFileError> {
    let now = Clock::system().wall();
    serial_file::format(serial_file.as_ref(), NUM_BLOCKS_DEFAULT, now, SessionId(rand::random()))
}

/// Uses up an invitation of an agent, the line that `uniq_master --invite agent` or the console made, and keeps the certificate in `folder`: the
/// name of the agent and the files, for [`Settings`](super::Settings). The agent renews the certificate. Only for a folder that has none yet: what is
/// there is replaced. It blocks until a master has answered, and cannot be called by a task of a runtime.
///
/// # Errors
/// [`RedeemError`]
pub fn redeem(invitation: &str, folder: impl AsRef<Path>) -> Result<(AgentId, Files), RedeemError> {
    let failed = |why: &dyn ToString| RedeemError::Failed(why.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|why| failed(&why))?;
    let is_for = |invited: &Invited| matches!(invited, Invited::Agent | Invited::As(Role::Agent(_)));
    let redeemed = runtime.block_on(enroll::redeem_line(invitation, folder.as_ref(), "an agent", is_for));
    match redeemed? {
        (Role::Agent(id), files) => Ok((id, files)),
        (other, _) => Err(failed(&format!("the certificate is of {other}"))),
    }
}

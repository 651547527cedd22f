//! The application's certificate, where it came by an invitation: fetched, and renewed in time.

use crate::settings::SettingsError;
use net::enroll::{self, Invited, RedeemError, TlsFolder};
use net::tls::{Files, Role, Tls};
use std::path::Path;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Uses up an invitation of a client, the line that `uniq_master --invite client` or the console made, and keeps the certificate in `folder`,
/// with which a [`Client`](crate::Client) is then made. Only for a folder that has none yet: what is there is replaced.
///
/// # Errors
/// [`RedeemError`]
pub async fn redeem(invitation: &str, folder: &Path) -> Result<Files, RedeemError> {
    let is_for = |invited: &Invited| matches!(invited, Invited::Client | Invited::As(Role::Client(_)));
    let (_, files) = enroll::redeem_line(invitation, folder, "a client", is_for).await?;
    Ok(files)
}

/// The renewal of a certificate by masters, as long as this is held.
pub(crate) struct Renewal(#[allow(dead_code, reason = "dropping it ends the renewal")] DropGuard);

impl Renewal {
    /// Begins it, on a thread of its own: a client's calls may come from several runtimes, none of which need live on.
    pub(crate) fn begin(files: Option<&Files>, masters: Vec<String>, tls: &Tls) -> Result<Option<Self>, SettingsError> {
        if masters.is_empty() {
            return Ok(None);
        }
        let folder = files.and_then(Files::folder).map(|path| TlsFolder::new(path.to_owned()));
        let folder = folder.filter(TlsFolder::is_enrolled).ok_or(SettingsError::NotEnrolled)?;
        let system = |why: std::io::Error| SettingsError::System(why.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
        let stop = CancellationToken::new();
        let keep = enroll::keep(folder, masters, tls.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("uniq-client-tls".to_owned());
        thread.spawn(move || runtime.block_on(keep)).map_err(system)?;
        Ok(Some(Self(stop.drop_guard())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Client, Settings};

    #[tokio::test]
    async fn an_invitation_of_another_program_is_not_used_up() {
        let digits = "0".repeat(64);
        for line in ["x", &format!("uniq-invitation://127.0.0.1:1/agent/orders-1?ca={digits}&secret={digits}")] {
            let redeemed = redeem(line, Path::new("/nowhere")).await;
            assert!(matches!(redeemed, Err(RedeemError::NotForThis(_))), "{redeemed:?}");
        }
    }

    #[test]
    fn masters_renew_only_what_came_by_an_invitation() {
        let mut settings = Settings::new(["http://127.0.0.1:6200"]).unwrap();
        settings.masters = vec!["127.0.0.1:7101".to_owned()];
        assert_eq!(Client::new(settings).err(), Some(SettingsError::NotEnrolled));
    }
}

//! Invitations on the command line: those that a master makes, and the one by which a master gets the CA.

use crate::config::{Args, Invite};
use crate::enroll::ensure_own;
use crate::invitations::Inviting;
use anyhow::Context as _;
use common::parameters::MasterId;
use net::enroll::invitation::VALID_DEFAULT;
use net::enroll::{Ca, InvitationRequest, Invited, Secret, Terms, redeem_as_master};
use net::tls::{Role, fingerprint};
use process::end;
use process::settings;
use std::os::unix::fs::MetadataExt as _;

/// The way of who comes in the place of a lost master.
const REPLACES: &str = "or, in the place of a lost master: uniq_master --join-file TOKEN --peer HOST:PORT --data-dir DIR --invitation FILE";

/// Gives a master that is being made its CA and its certificate: master 1 makes the CA, the other one gets it by an invitation. Says what was
/// done, in a line for the operator.
///
/// # Errors
/// The reason why it has none.
pub fn begin(args: &Args, id: Option<MasterId>) -> anyhow::Result<String> {
    let folder = args.tls_folder();
    let at = folder.path().display().to_string();
    let (id, said) = match args.flags.invited().map_err(anyhow::Error::msg)? {
        Some(invitation) => {
            let found = match invitation.invited {
                Invited::As(Role::Master(found)) => Some(found).filter(|found| id.is_none_or(|id| id == *found)),
                _ => None,
            };
            let this = id.map_or_else(|| "a master".to_owned(), |id| format!("master/{id}"));
            let found = found.with_context(|| {
                format!("this invitation is for {}, and this is {this}: it is not used up", invitation.invited)
            })?;
            // Of an attempt that failed later: the invitation is used up, and what it brought is here.
            let has_it = Ca::load(&folder).is_ok_and(|ca| fingerprint(ca.own()) == invitation.ca);
            if !has_it {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let (cas, key) = runtime.block_on(redeem_as_master(&invitation))?;
                Ca::keep(&folder, &cas, &key)?;
            }
            (found, format!("got the cluster's CA and made this master's certificate in {at}\n"))
        }
        None if args.format && id == Some(MasterId::One) => {
            Ca::make(&folder)?;
            let said = format!(
                "made the cluster's CA and this master's certificate in {at}, for listeners beyond loopback; `uniq_master --invite` \
                 gives the others theirs\n"
            );
            (MasterId::One, said)
        }
        None => return Ok(String::new()),
    };
    ensure_own(&folder, &Role::Master(id), &args.names(), args.certificate_life)?;
    Ok(said)
}

/// Makes an invitation, and prints it.
///
/// # Errors
/// The reason why nobody could use it.
pub fn invite(args: &Args, invite: &Invite) -> anyhow::Result<()> {
    let folder = args.tls_folder();
    let no_ca = "this master issues no certificates: it has no CA. Master 1 has the one that its --format made; master 2 gets it with \
                 `uniq_master --invitation -` by what `uniq_master --invite master` prints at master 1";
    Ca::load(&folder).context(no_ca)?;
    let (owner, me) = (std::fs::metadata(folder.path())?.uid(), rustix::process::geteuid().as_raw());
    anyhow::ensure!(
        owner == me,
        "{} belongs to user {owner}, and this is user {me}: the master could not read the invitation; run this as user {owner}",
        folder.path().display()
    );
    anyhow::ensure!(
        args.flags.keeps(args.folder().as_ref()).is_some(),
        "this master speaks plain TCP, or has certificates from elsewhere: invite with the settings that it runs with (--config); its own \
         certificate is used where a listener is not on loopback, or with --tls-dir {}",
        folder.path().display()
    );
    let invited = match (&invite.invited, folder.role()) {
        (Some(invited), _) => invited.clone(),
        (None, Some(Role::Master(own))) => Invited::As(Role::Master(own.other())),
        (None, _) => anyhow::bail!("own.pem in {} is not of a master", folder.path().display()),
    };
    if args.invite_at.is_none() && args.agent_listen.ip().is_loopback() {
        end::say(
            "--agent-listen is on loopback: only a program on this machine can use the invitation; --invite-at says another address",
        );
    }
    let inviting = Inviting::new(folder, settings::reached_at(args.agent_listen));
    let at = args.invite_at.clone();
    if let Some(file) = &args.invite_token_file {
        let invitation = inviting.by(Secret::TokenFile(file.clone()), invited.clone(), at)?;
        if args.tokens.token_keys.is_none() {
            end::say("this master accepts no tokens: set --token-keys and --token-account, at both masters");
        }
        end::say(&format!(
            "an invitation for each {invited} with a token of its service account in {}. It is no secret, and is good until the CA is \
             exchanged. Give it to:\n{}",
            file.display(),
            invited.command()
        ));
        return end::print(&invitation.to_string()).map_err(anyhow::Error::msg);
    }
    let (names, networks) = (invite.names.clone(), args.invite_from.clone());
    let terms = Terms { invited, names, uses: args.invite_uses.unwrap_or(1), networks };
    let request = InvitationRequest { terms, valid: args.invite_for.unwrap_or(VALID_DEFAULT), at };
    let (invitation, kept) = inviting.make(request, args.flags.clock().wall())?;
    let invited = &kept.terms.invited;
    let how = match invited {
        Invited::As(Role::Master(MasterId::Two)) => format!("{}\n{REPLACES} --id 2", invited.command()),
        Invited::As(Role::Master(MasterId::One)) => format!("{REPLACES} --id 1"),
        _ => invited.command().to_owned(),
    };
    end::say(&format!(
        "an invitation for {invited}, for {}, until {}. Keep it as a password until then, and give it to:\n{how}",
        kept.terms.programs(),
        kept.ends
    ));
    end::print(&invitation.to_string()).map_err(anyhow::Error::msg)
}

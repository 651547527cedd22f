//! Invitations of this master: made, listed, withdrawn.

use super::{Admin, ChangeErrors, ProblemBody, Sent, body, path, read_as};
use crate::auth::Auth;
use crate::invitations::{HOURS_MAX, NotInvited, OpenInvitation};
use crate::problem::Problem;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use common::setting;
use net::enroll::invitation::{NETWORKS_MAX, VALID_DEFAULT};
use net::enroll::{self, InvitationRequest, Invited, Terms};
use net::tls;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// An invitation that may still be used, without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct InvitationRow {
    /// The text by which it can be withdrawn: the first 16 hexadecimal digits of a hash of it.
    id: String,
    /// The role that it gives: `agent`, `agent/NAME`, `client`, `client/NAME`, or of the command line also `master/ID`.
    role: String,
    /// DNS names and IP addresses that the certificate has, beside the address that is asked from.
    names: Vec<String>,
    /// The number of programs that may still use it.
    uses: u32,
    /// The networks from which it may be used; all if there are none.
    networks: Vec<String>,
    /// The instant from which on it is none.
    until: String,
}

impl core::convert::From<OpenInvitation> for InvitationRow {
    fn from(open: OpenInvitation) -> Self {
        let OpenInvitation { id, terms: Terms { invited, names, uses, networks }, ends } = open;
        let networks = networks.iter().map(ToString::to_string).collect();
        Self { id, role: invited.to_string(), names, uses, networks, until: ends.to_string() }
    }
}

/// A new invitation.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewInvitation {
    #[serde(flatten)]
    made: InvitationRow,
    /// The invitation, one line. It is shown this once and kept nowhere.
    invitation: String,
    /// The command that takes it from its standard input, on the machine of the program that is invited.
    command: &'static str,
    /// The reason why nobody but a program on this machine can use it; `null` if others can.
    warning: Option<&'static str>,
}

/// An invitation to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvitationForm {
    /// `agent` or `client`.
    role: String,
    /// The name in the certificate; one is drawn unless it is said.
    name: Option<String>,
    /// At most 16 DNS names and IP addresses that the certificate has, beside the address that is asked from.
    #[serde(default)]
    names: Vec<String>,
    /// Programs that may use it, 1..=10000; more than one only without a name. 1 unless it is said.
    uses: Option<u32>,
    /// At most 16 networks from which it may be used, such as 10.0.0.0/8; all unless they are said.
    #[serde(default)]
    networks: Vec<String>,
    /// Hours for which it is valid, 1..=720; 1 unless it is said.
    hours: Option<u64>,
    /// The address under which the program reaches this master's `--agent-listen`, as HOST:PORT; as this master knows it unless it is said.
    at: Option<String>,
}

impl InvitationForm {
    fn request(self) -> Result<InvitationRequest, Problem> {
        if self.role == "master" {
            let why = "role: a master is invited on the other one's machine, by `uniq_master --invite master`: its invitation gives the \
                       key of the cluster's CA";
            return Err(Problem::bad_parameter(why));
        }
        let name = self.name.as_deref().map(|name| read_as("name", name)).transpose()?;
        let invited = match (self.role.as_str(), name) {
            ("agent", None) => Invited::Agent,
            ("agent", Some(name)) => Invited::As(tls::Role::Agent(name)),
            ("client", None) => Invited::Client,
            ("client", Some(name)) => Invited::As(tls::Role::Client(name)),
            _ => return Err(Problem::bad_parameter("role: agent or client")),
        };
        let (uses, most) = (self.uses.unwrap_or(1), invited.uses_max());
        if !(1..=most).contains(&uses) {
            let why =
                if most == 1 { "of one name there is one certificate".to_owned() } else { format!("1 to {most}") };
            return Err(Problem::bad_parameter(format!("uses: {why}")));
        }
        if !enroll::are_names(&self.names) {
            return Err(Problem::bad_parameter("names: at most 16 DNS names and IP addresses"));
        }
        if self.networks.len() > NETWORKS_MAX {
            return Err(Problem::bad_parameter(format!("networks: at most {NETWORKS_MAX}")));
        }
        let networks = self.networks.iter().map(|it| setting::network(it)).collect::<Result<_, _>>();
        let networks = networks.map_err(|why| Problem::bad_parameter(format!("networks: {why}")))?;
        let valid = match self.hours {
            None => VALID_DEFAULT,
            Some(hours) if (1..=HOURS_MAX).contains(&hours) => Duration::from_secs(hours * 3_600),
            Some(_) => return Err(Problem::bad_parameter(format!("hours: 1 to {HOURS_MAX}"))),
        };
        let terms = Terms { invited, names: self.names, uses, networks };
        Ok(InvitationRequest { terms, valid, at: self.at })
    }
}

impl core::convert::From<NotInvited> for Problem {
    fn from(why: NotInvited) -> Self {
        let (status, code) = match why {
            NotInvited::Unavailable(why) => return why.into(),
            NotInvited::NoCa(_) => (StatusCode::CONFLICT, "no_ca"),
            NotInvited::TooMany(_) => (StatusCode::CONFLICT, "too_many"),
            NotInvited::Address(_) => (StatusCode::BAD_REQUEST, "bad_parameter"),
            NotInvited::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            NotInvited::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, code, why.to_string())
    }
}

/// Invitations that may still be used, without their secrets. The other master has others.
#[utoipa::path(
    get, path = "/api/invitations", tag = "people",
    responses((status = 200, description = "All of this master, by their ends", body = [InvitationRow])),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn invitations(State(auth): State<Arc<Auth>>, _: Admin) -> Result<Json<Vec<InvitationRow>>, Problem> {
    let open = auth.accounts().invitations().await?;
    Ok(Json(open.into_iter().map(InvitationRow::from).collect()))
}

/// A new invitation, by which an agent or a client gets its first certificate. This master does it alone, and only it knows the invitation.
#[utoipa::path(
    post, path = "/api/invitations", tag = "people", request_body = InvitationForm,
    responses(
        (status = 201, description = "Made. The invitation is shown this once", body = NewInvitation),
        (status = 409, description = "`no_ca`: this master issues no certificates; `too_many`: 1,000 are open", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn invite(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    form: Sent,
) -> Result<(StatusCode, Json<NewInvitation>), Problem> {
    let request = body::<InvitationForm>(form)?.request()?;
    let warning = match &request.at {
        None if is_loopback(auth.accounts().invited_at()?) => Some(
            "this master's --agent-listen is on loopback: only a program on its machine can use the invitation; `at` says another address",
        ),
        _ => None,
    };
    let command = request.terms.invited.command();
    let (invitation, made) = auth.accounts().invite(request, caller.actor()).await?;
    Ok((
        StatusCode::CREATED,
        Json(NewInvitation { made: made.into(), invitation: invitation.to_string(), command, warning }),
    ))
}

/// Withdraws an invitation. Certificates that were issued by it go on until they are revoked.
#[utoipa::path(
    delete, path = "/api/invitations/{id}", tag = "people",
    params(("id" = String, Path, description = "The invitation")),
    responses(
        (status = 204, description = "Withdrawn: nobody gets a certificate by it any more"),
        (status = 404, description = "`not_found`: none of this id is open at this master", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "`no_ca`: this master issues no certificates", body = ProblemBody, content_type = "application/problem+json"),
        ChangeErrors
    ),
    security(("login" = ["admin"]), ("key" = ["admin"]))
)]
pub(crate) async fn withdraw(
    State(auth): State<Arc<Auth>>,
    Admin(caller): Admin,
    named: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    auth.accounts().withdraw(path(named)?, caller.actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn is_loopback(at: &str) -> bool {
    at.parse::<SocketAddr>().is_ok_and(|at| at.ip().is_loopback())
}

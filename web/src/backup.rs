//! The settings of a cluster as one file, and what has to be changed here to have them again.
//!
//! A file is older than what it tells of: any of its names may have given more IDs since. So those that live come in as used, plain
//! numbers begin where an operator says, and a name of numbers by key comes in retired, because nobody knows how far each key came.

use crate::agents::SettingsRow;
use crate::axes::AxisRow;
use crate::masters::{NamespaceRow, NetworkRow, RevocationRow};
use common::about::About;
#[allow(unused_imports, reason = "the description of the API names it")]
use common::about::AboutSource;
use common::account::{ACCOUNTS_MAX, AccountName, Role, User};
use common::certificate::{REVOCATIONS_MAX, Revocation, Role as Holder};
use common::json;
use common::kind::Kind;
use common::namespace::{Definition, GeneratorName, Namespace, SegmentSpec};
use common::setting::{ABOUTS_LEN_MAX, Change, NAMESPACES_MAX, NETWORKS_MAX, RETIRED_MAX, network};
use common::time::WallMs;
use ipnet::IpNet;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use utoipa::ToSchema;

/// The version of the form of a file; another one is refused.
const VERSION: u32 = 1;
/// The longest file that is taken, in bytes: as many names as there may be, at 400 bytes each, and their notes.
pub(crate) const LEN_MAX: usize = 64 << 20;
/// Names of a file at most.
const NAMES_MAX: usize = NAMESPACES_MAX + RETIRED_MAX;
/// Problems of a file that are told at once.
const PROBLEMS_MAX: usize = 100;
/// Characters of a problem at most: some repeat what the file says.
const PROBLEM_LEN_MAX: usize = 500;

/// The settings of a cluster: what its names stand for, who may ask for leases, who may use the console, and whose certificates are revoked,
/// without any secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct File {
    /// The version of this form: 1.
    version: u32,
    /// The time of the export; an import does not look at it.
    exported_at: String,
    /// The cluster, if the masters have met; an import does not look at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// The offset in which hours and days are counted, which has to be that of the cluster that imports the file.
    utc_offset: String,
    /// The length of a lease in days; an import does not look at it.
    lease_days: u8,
    /// The largest `uint2` token; an import does not look at it.
    uint2_max: u16,
    /// The networks whose agents may ask for leases, in CIDR notation.
    networks: Vec<String>,
    /// The users of the console, without passwords.
    users: Vec<UserEntry>,
    /// The revocations of certificates.
    revocations: Vec<RevocationRow>,
    /// All names with their definitions, but for those that always exist.
    names: Vec<NameEntry>,
}

/// A user of the console.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct UserEntry {
    /// The name.
    name: String,
    /// `viewer`, `operator` or `admin`.
    role: String,
}

/// A name, and what it stands for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NameEntry {
    /// The name.
    name: String,
    /// True if it gives no more IDs, ever.
    retired: bool,
    /// The definition.
    definition: Definition,
    /// The place below which all were granted when the file was written: only of kind `segment`, and not if it is retired.
    #[serde(default, with = "common::json::whole", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    granted: Option<u64>,
    /// The first place that may be given after an import, above all that were ever granted: an operator adds it to each name of kind `segment`
    /// that is not retired.
    #[serde(default, with = "common::json::whole", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    first: Option<u64>,
    /// The note about it, if it is not retired.
    #[serde(default, skip_serializing_if = "About::is_empty")]
    #[schema(value_type = AboutSource)]
    about: About,
}

impl File {
    /// Makes the file of these settings, with the axes of a moment after the names.
    pub(crate) fn new(
        at: WallMs,
        settings: SettingsRow,
        networks: Vec<NetworkRow>,
        (users, revoked): (&[User], &[Revocation]),
        names: Vec<NamespaceRow>,
        axes: &[AxisRow],
    ) -> Self {
        let granted: BTreeMap<_, _> = axes.iter().map(|row| (&row.name, granted(row))).collect();
        let entry = |row: NamespaceRow| {
            let NamespaceRow { namespace, about, retired, .. } = row;
            let granted = granted.get(namespace.name()).copied().filter(|_| !retired);
            let about = if retired { About::default() } else { about };
            let (name, definition) = (namespace.name().to_string(), namespace.definition());
            NameEntry { name, retired, definition, granted, first: None, about }
        };
        Self {
            version: VERSION,
            exported_at: at.to_string(),
            cluster: settings.cluster,
            utc_offset: settings.utc_offset,
            lease_days: settings.lease_days,
            uint2_max: settings.uint2_max,
            networks: networks.into_iter().map(|row| row.network).collect(),
            users: users.iter().map(|it| UserEntry { name: it.name.to_string(), role: it.role.to_string() }).collect(),
            revocations: revoked.iter().map(RevocationRow::from).collect(),
            names: names.into_iter().filter(|row| !row.namespace.name().is_default()).map(entry).collect(),
        }
    }
}

/// The place before which everything is granted, as the masters or agents know it.
fn granted(row: &AxisRow) -> u64 {
    row.shown.map_or(0, |last| last.saturating_add(1)).max(row.granted)
}

/// The state of this cluster, with which a file is compared.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) utc_offset: String,
    pub(crate) networks: Vec<NetworkRow>,
    pub(crate) users: Vec<User>,
    pub(crate) revoked: Vec<Revocation>,
    /// The time by which certificates are dated.
    pub(crate) dated: WallMs,
    pub(crate) names: Vec<NamespaceRow>,
}

/// Counts of what is new, and of what is there already.
#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Tally {
    /// Number of those that are made, or would be.
    new: usize,
    /// Number of those that are as the file says.
    there: usize,
}

impl Tally {
    fn note(&mut self, is_new: bool) {
        *(if is_new { &mut self.new } else { &mut self.there }) += 1;
    }
}

/// The outcome of an import, or of a dry run.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Imported {
    /// True if nothing was done.
    pub(crate) dry_run: bool,
    names: Tally,
    notes: Tally,
    users: Tally,
    networks: Tally,
    revocations: Tally,
    /// New names of kind `sequence`, which come in retired, so that others have to be registered for their keys.
    retired: Vec<String>,
    /// Names about which something else is noted here, which stays.
    noted_otherwise: Vec<String>,
}

/// Changes that a file asks for.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) names: Vec<Change>,
    pub(crate) notes: Vec<Change>,
    pub(crate) users: Vec<(AccountName, Role)>,
    pub(crate) networks: Vec<Change>,
    pub(crate) revocations: Vec<Change>,
    pub(crate) imported: Imported,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A file whose rows are not read yet, so that what is wrong in one hides nothing in another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unread<'a> {
    #[serde(rename = "version")]
    _version: IgnoredAny,
    #[serde(default, rename = "exported_at")]
    _exported_at: IgnoredAny,
    #[serde(default, rename = "cluster")]
    _cluster: IgnoredAny,
    #[serde(default, rename = "lease_days")]
    _lease_days: IgnoredAny,
    #[serde(default, rename = "uint2_max")]
    _uint2_max: IgnoredAny,
    utc_offset: String,
    #[serde(borrow, deserialize_with = "at_most::<_, _, NETWORKS_MAX>")]
    networks: Vec<&'a RawValue>,
    #[serde(borrow, deserialize_with = "at_most::<_, _, ACCOUNTS_MAX>")]
    users: Vec<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "at_most::<_, _, REVOCATIONS_MAX>")]
    revocations: Vec<&'a RawValue>,
    #[serde(borrow, deserialize_with = "at_most::<_, _, NAMES_MAX>")]
    names: Vec<&'a RawValue>,
}

/// Reads a list that is refused as soon as it is too long.
fn at_most<'de, D, T, const MAX: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct AtMost<T, const MAX: usize>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for AtMost<T, MAX> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX}")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Vec<T>, A::Error> {
            let mut read = Vec::new();
            while let Some(row) = rows.next_element()? {
                if read.len() == MAX {
                    return Err(A::Error::invalid_length(MAX.saturating_add(1), &self));
                }
                read.push(row);
            }
            Ok(read)
        }
    }
    from.deserialize_seq(AtMost::<T, MAX>(PhantomData))
}

/// Checks all of a file against what is here, before any of it is done.
///
/// # Errors
/// All that is wrong with it, a line each, at most [`PROBLEMS_MAX`].
pub(crate) fn plan(file: &[u8], here: &Here) -> Result<Plan, String> {
    let cut = |e: serde_json::Error| e.to_string().chars().take(PROBLEM_LEN_MAX).collect::<String>();
    let Versioned { version } = serde_json::from_slice(file).map_err(cut)?;
    if version != VERSION {
        return Err(format!("version: {version} is none that this program reads: it reads {VERSION}"));
    }
    let file: Unread<'_> = serde_json::from_slice(file).map_err(cut)?;
    let mut check = Check::default();
    if file.utc_offset != here.utc_offset {
        let (its, ours) = (&file.utc_offset, &here.utc_offset);
        let why = format!("{its}, and days begin at {ours} here: format new stores with --utc-offset {its}");
        check.problem("utc_offset", &why);
    }
    check.names(&file.names, here);
    check.users(&file.users, here);
    check.networks(&file.networks, here);
    check.revocations(&file.revocations, here);
    check.done()
}

/// A plan in the making.
#[derive(Default)]
struct Check {
    plan: Plan,
    problems: Vec<String>,
    /// The number of problems beyond [`PROBLEMS_MAX`].
    more: usize,
}

impl Check {
    fn problem(&mut self, place: &str, why: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            let why: String = why.chars().take(PROBLEM_LEN_MAX).collect();
            self.problems.push(format!("{place}: {why}"));
        } else {
            self.more += 1;
        }
    }

    fn at_most(&mut self, place: &str, found: usize, max: usize, of: &str) {
        if found > max {
            self.problem(place, &format!("there would be {found} {of} with those here: {max} is the most"));
        }
    }

    fn done(mut self) -> Result<Plan, String> {
        if self.problems.is_empty() {
            return Ok(self.plan);
        }
        if self.more > 0 {
            self.problems.push(format!("and {} more", self.more));
        }
        Err(self.problems.join("\n"))
    }

    fn names(&mut self, rows: &[&RawValue], here: &Here) {
        let known: BTreeMap<&str, &NamespaceRow> =
            here.names.iter().map(|row| (row.namespace.name().as_str(), row)).collect();
        let mut seen = BTreeSet::new();
        for (nth, row) in rows.iter().enumerate() {
            let place = format!("names[{nth}]");
            let named = read(row).and_then(|entry: NameEntry| {
                let name = entry.name.parse::<GeneratorName>().map_err(|e| e.to_string())?;
                Ok((name, entry))
            });
            let (name, entry) = match named {
                Ok(named) => named,
                Err(why) => {
                    self.problem(&place, &why);
                    continue;
                }
            };
            let checked = match seen.insert(name.clone()) {
                true => self.name(&name, entry, known.get(name.as_str()).copied()),
                false => Err("it is there twice".to_owned()),
            };
            if let Err(why) = checked {
                self.problem(&format!("{place} {name}"), &why);
            }
        }
        let registered = || here.names.iter().filter(|row| !row.namespace.name().is_default());
        let (mut living, mut retired) = (0, registered().filter(|row| row.retired).count());
        living += registered().count() - retired;
        for change in &self.plan.names {
            match change {
                Change::Restore { retired: true, .. } => retired += 1,
                Change::Restore { namespace, .. } if !known.contains_key(namespace.name().as_str()) => living += 1,
                _ => {}
            }
        }
        self.at_most("names", living, NAMESPACES_MAX, "names");
        self.at_most("names", retired, RETIRED_MAX, "retired names");
        let notes = self.plan.notes.iter().map(|change| match change {
            Change::About { about, .. } => about.len(),
            _ => 0,
        });
        let noted = notes.chain(here.names.iter().map(|row| row.about.len())).sum();
        self.at_most("names", noted, ABOUTS_LEN_MAX, "bytes of notes");
    }

    fn name(&mut self, name: &GeneratorName, entry: NameEntry, known: Option<&NamespaceRow>) -> Result<(), String> {
        if name.is_default() {
            return Err("this name is everywhere: leave it out".to_owned());
        }
        let (retired, about) = (entry.retired, entry.about.clone());
        let namespace = Namespace::define(name.clone(), &restarted(entry)?).map_err(|e| e.to_string())?;
        let by_key = namespace.kind() == Kind::Sequence;
        let ends = retired || by_key;
        let is_new = match known {
            None => true,
            Some(row) if row.retired && ends => false,
            Some(row) if !namespace.is_met_by(&row.namespace) => {
                return Err(format!("it stands for something else here, and {}", in_the_way(row, namespace.kind())));
            }
            Some(row) if row.retired => return Err("it was retired here: leave it out".to_owned()),
            Some(row) if ends => {
                let why =
                    if by_key { "a name of numbers by key comes in retired" } else { "it is retired in the file" };
                return Err(format!("{why}, and {}", in_the_way(row, namespace.kind())));
            }
            Some(row) => !row.in_use,
        };
        self.plan.imported.names.note(is_new);
        if is_new {
            if by_key && !retired {
                self.plan.imported.retired.push(name.to_string());
            }
            let namespace = Box::new(namespace);
            self.plan.names.push(Change::Restore { namespace, retired: ends, proved: false });
        }
        if ends || about.is_empty() {
            return Ok(());
        }
        match known.map(|row| &row.about).filter(|here| !here.is_empty()) {
            Some(here) if *here == about => self.plan.imported.notes.note(false),
            Some(_) => self.plan.imported.noted_otherwise.push(name.to_string()),
            None => {
                self.plan.imported.notes.note(true);
                self.plan.notes.push(Change::About { name: name.clone(), about: Box::new(about) });
            }
        }
        Ok(())
    }

    fn users(&mut self, rows: &[&RawValue], here: &Here) {
        let mut seen = BTreeSet::new();
        for (nth, row) in rows.iter().enumerate() {
            let user = read(row).and_then(|UserEntry { name, role }| {
                let name: AccountName = name.parse().map_err(|e: common::account::AccountNameError| e.to_string())?;
                let role: Role = role.parse()?;
                let is_new = match here.users.iter().find(|known| known.name == name) {
                    _ if !seen.insert(name.clone()) => return Err(format!("{name} is there twice")),
                    Some(known) if known.role != role => {
                        return Err(format!(
                            "{name} is {} here and {role} in the file: make both the same",
                            known.role
                        ));
                    }
                    known => known.is_none(),
                };
                Ok((name, role, is_new))
            });
            match user {
                Ok((name, role, is_new)) => {
                    self.plan.imported.users.note(is_new);
                    self.plan.users.extend(is_new.then_some((name, role)));
                }
                Err(why) => self.problem(&format!("users[{nth}]"), &why),
            }
        }
        self.at_most("users", here.users.len() + self.plan.users.len(), ACCOUNTS_MAX, "users");
    }

    fn networks(&mut self, rows: &[&RawValue], here: &Here) {
        let mut known: BTreeSet<IpNet> = here.networks.iter().filter_map(|row| network(&row.network).ok()).collect();
        for (nth, row) in rows.iter().enumerate() {
            match read(row).and_then(|text: String| network(&text).map_err(|e| e.to_string())) {
                Ok(network) => {
                    let is_new = known.insert(network);
                    self.plan.imported.networks.note(is_new);
                    self.plan.networks.extend(is_new.then_some(Change::Allow(network)));
                }
                Err(why) => self.problem(&format!("networks[{nth}]"), &why),
            }
        }
        self.at_most("networks", known.len(), NETWORKS_MAX, "networks");
    }

    fn revocations(&mut self, rows: &[&RawValue], here: &Here) {
        let known: BTreeMap<_, _> = here.revoked.iter().map(|it| (&it.role, it.before)).collect();
        let (mut seen, mut added) = (BTreeSet::new(), 0);
        for (nth, row) in rows.iter().enumerate() {
            match read(row).and_then(|row| revocation(row, here.dated)) {
                Ok(revoked) if !seen.insert(revoked.role.clone()) => {
                    self.problem(&format!("revocations[{nth}]"), &format!("{} is there twice", revoked.role.path()));
                }
                Ok(revoked) => {
                    let is_new = known.get(&revoked.role).is_none_or(|before| *before < revoked.before);
                    self.plan.imported.revocations.note(is_new);
                    added += usize::from(!known.contains_key(&revoked.role));
                    self.plan.revocations.extend(is_new.then_some(Change::Revoke(revoked)));
                }
                Err(why) => self.problem(&format!("revocations[{nth}]"), &why),
            }
        }
        self.at_most("revocations", known.len() + added, REVOCATIONS_MAX, "revocations");
    }
}

/// The remedy for a name that lives here otherwise than in a file. Left out of it, numbers could come a second time.
fn in_the_way(here: &NamespaceRow, kind: Kind) -> &'static str {
    match kind {
        _ if !here.in_use && !here.retired => {
            "gave nothing here yet: retire it here, which makes it free, and send the file again"
        }
        Kind::Segment | Kind::Sequence => {
            "may give numbers here that were given before: retire it here, leave it out, and register another name"
        }
        _ => "gives IDs here: leave it out",
    }
}

fn read<T: DeserializeOwned>(row: &RawValue) -> Result<T, String> {
    json::read(row.get().as_bytes())
}

/// The revocation of an entry. One of later than now would revoke what is issued in place of the others.
fn revocation(RevocationRow { role, before }: RevocationRow, now: WallMs) -> Result<Revocation, String> {
    let wrong = "`role` is agent/NAME or client/NAME, and `before` a time such as 2026-05-01T12:00:00Z";
    let holder = Holder::of_path(&role).ok_or(wrong)?;
    let revoked: Revocation = format!("{} {before}", holder.path()).parse().map_err(|_| wrong)?;
    match &revoked.role {
        Holder::Master(_) => Err("a master's certificates are revoked in every ca.pem: leave it out".to_owned()),
        _ if revoked.before > now => Err(format!("{before} is still to come by this machine's clock: correct either")),
        _ => Ok(revoked),
    }
}

/// The definition of an entry, of plain numbers from where an operator says.
fn restarted(entry: NameEntry) -> Result<Definition, String> {
    let NameEntry { retired, definition, granted, first, .. } = entry;
    match (definition, granted, first) {
        (definition @ Definition::Segment(_), _, None) if retired => Ok(definition),
        (Definition::Segment(_), ..) if retired => Err("it is retired and takes no `first`: leave that out".to_owned()),
        (Definition::Segment(_), None, _) => {
            Err("`granted` is missing: an export says how far it was granted".to_owned())
        }
        (Definition::Segment(_), Some(granted), None) => Err(format!(
            "add `first`, the first place that may be given: not below {granted}, and above all that was granted since the export"
        )),
        (Definition::Segment(spec), Some(granted), Some(first)) if first < granted.max(spec.first.unwrap_or(1)) => {
            Err(format!(
                "first: {first} was granted already, as all below {granted} was when the file was written: say a later place"
            ))
        }
        (Definition::Segment(spec), Some(_), first) => Ok(Definition::Segment(SegmentSpec { first, ..spec })),
        (definition, None, None) => Ok(definition),
        (definition, ..) => {
            let kind = definition.kind();
            Err(format!("a name of kind {kind} takes no `granted` and no `first` beside its definition"))
        }
    }
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;

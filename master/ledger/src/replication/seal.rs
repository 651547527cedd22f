//! Sealing what goes to the other master, and telling what comes from it.
//!
//! Once the two have met, the pairing's id leaves neither of them: a frame carries a proof made with it ([`Proof`]), which
//! says who wrote it and that nobody changed it. It does not say when: an old frame is as good as a new one, so messages may
//! come again at any time, and what would stop a master has to be said anew (`Hello::echo`).
//!
//! Before the first meeting there is nothing to prove anything with: master 1 tells the names that it drew to whoever is at
//! `--peer` or asks at `--peer-listen`, and master 2 takes over the first that it hears.

use crate::proof::{Proof, Purpose};
use bincode::Options as _;
use ids::parameters::{ClusterId, EpochId, MasterId};
use wire::FRAME_LEN_MAX;
use wire::PROTOCOL;
use wire::peer::{BATCH_MAX, Content, Life, PassedOn, PeerFrame, PeerMessage, REPORTS_MAX, Seal, SealedFrame};

/// The longest body that is also tried with the ids of former pairings, in bytes: a greeting is much shorter, and nothing
/// else of a former pairing is of use.
const GREETING_LEN_MAX: usize = 16 << 10;

/// A master's identity towards the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    pub master: MasterId,
    pub cluster: Option<ClusterId>,
    pub epoch: Option<EpochId>,
    /// True once the two have met.
    pub paired: bool,
    /// The pairings before, the last one at the end.
    pub former: Vec<EpochId>,
    pub life: Life,
    /// The last start of the other master that it accepted.
    pub accepted: Option<Life>,
}

/// The contents of a frame that is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Messages, each to be judged by the ledger.
    Messages(Vec<PeerFrame>),
    /// Reports of the other master of this pairing.
    Reports(Vec<PassedOn>),
}

/// The reason why a frame is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBelieved {
    #[error("it speaks protocol {0}, this one {PROTOCOL}: install the same version on both")]
    Protocol(u32),
    /// The proof is of no pairing that this master knows.
    #[error(
        "its messages do not prove that they are of this pairing: it belongs to another cluster, one of the two was replaced, or an \
         unknown sender writes to this port; check --peer and --data-dir on both"
    )]
    Proof,
    /// This master never met its other one, and whoever this is has met its own.
    #[error(
        "it belongs to a pair already, and this store was formatted anew and never met another: a lost store is not replaced by an \
         empty one. Stop both masters, run `uniq_master --peer-lost` on that one, remove this data directory and make it with \
         --join instead of --format. If that one is of another cluster, check --peer on both"
    )]
    Paired,
    #[error("what it says cannot be read: install the same version on both")]
    Contents,
}

fn codec() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_limit(FRAME_LEN_MAX as u64)
}

/// The bytes that are proved: the sender, and the body.
fn proved(from: MasterId, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 1);
    bytes.push(from.number());
    bytes.extend_from_slice(body);
    bytes
}

/// Seals `content` in the name of the pairing `epoch`; plainly as long as the two have not met. `None`: it is too long.
pub fn seal(own: &Own, epoch: Option<EpochId>, content: &Content) -> Option<SealedFrame> {
    let body = codec().serialize(content).ok()?;
    let seal = match epoch.filter(|_| own.paired) {
        Some(epoch) => Seal::Proved(Proof::of(epoch, Purpose::Message, &proved(own.master, &body)).into()),
        None => Seal::Unmet { cluster: own.cluster, epoch: own.epoch },
    };
    Some(SealedFrame { protocol: PROTOCOL, from: own.master, seal, body })
}

/// Seals messages, all in the name of one pairing.
pub fn seal_messages(own: &Own, messages: Vec<PeerMessage>) -> Option<SealedFrame> {
    let epoch = messages.first()?.said_in(own.epoch);
    seal(own, epoch, &Content::Messages { life: own.life, to: own.accepted, messages })
}

/// Opens a frame. Messages carry the pairing they are proved to be of: this one, or for greetings a former one. What is not
/// proved is of none, as soon as this master knows a pairing; before, it takes what is claimed.
///
/// # Errors
/// [`NotBelieved`].
pub fn open(own: &Own, sealed: SealedFrame) -> Result<Opened, NotBelieved> {
    let SealedFrame { protocol, from, seal, body } = sealed;
    if protocol != PROTOCOL {
        return Err(NotBelieved::Protocol(protocol));
    }
    let unproved = if own.paired || from == own.master { NotBelieved::Proof } else { NotBelieved::Paired };
    let (cluster, epoch) = match seal {
        Seal::Proved(proof) => {
            let (proof, bytes) = (Proof::from(proof), proved(from, &body));
            let former = own.former.iter().rev().filter(|_| body.len() <= GREETING_LEN_MAX);
            let mut known = own.epoch.iter().chain(former);
            let epoch = known.find(|epoch| proof.proves(**epoch, Purpose::Message, &bytes)).ok_or(unproved)?;
            (own.cluster, Some(*epoch))
        }
        Seal::Unmet { cluster, epoch } => (cluster, epoch.filter(|_| own.epoch.is_none())),
    };
    let content = codec().deserialize::<Content>(&body).map_err(|_| NotBelieved::Contents)?;
    match content {
        Content::Messages { life, to, messages } if messages.len() <= BATCH_MAX => {
            let frame = |message| PeerFrame { protocol, from, cluster, epoch, life, to, message };
            Ok(Opened::Messages(messages.into_iter().map(frame).collect()))
        }
        Content::Reports(reports)
            if reports.len() <= REPORTS_MAX && epoch.is_some() && epoch == own.epoch && from != own.master =>
        {
            Ok(Opened::Reports(reports))
        }
        Content::Messages { .. } => Err(NotBelieved::Contents),
        Content::Reports(_) => Err(NotBelieved::Proof),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::about::{About, AboutSource};
    use ids::account::{ACCOUNTS_MAX, AccountName, PHC_LEN_MAX, Role, SecretHash, TotpSecret, User};
    use ids::api_key::{AgentScope, ApiKey, FormerKey, KeyAction, KeyScope, PATTERNS_MAX};
    use ids::audit::{ACTOR_CHARS_MAX, Actor};
    use ids::certificate::{BEFORE_MAX, REVOCATIONS_MAX, Revocation, Role as Holder};
    use ids::encoding::{EncodingForm, EncodingParameters, EncodingSource, Secret};
    use ids::kind::Kind;
    use ids::lease::{Generation, Lease, Prep};
    use ids::namespace::{Definition, GeneratorName, LayoutSpec, Namespace, Scope};
    use ids::parameters::SessionId;
    use ids::plugin::{PLUGINS_LEN_MAX, Parameter, Parameters, PluginSpec};
    use ids::quota::IdQuota;
    use ids::setting::{Credentials, NETWORKS_MAX, Setting, SettingKey, SettingValue};
    use ids::strategy::STRATEGY_PARAMETERS_LEN_MAX;
    use ids::time::WallMs;
    use ids::token::{TokenFamily, TokenKey, TokenType, TokenValue};
    use wire::lease::{AgentReport, CallsServed, Capacity, NAMES_REPORTED_MAX, NameUse, REPORT_CHARS_MAX};
    use wire::peer::{Memory, PAGE_MAX, REPORTS_MAX};

    fn own(master: MasterId, epoch: u128, former: &[u128], paired: bool) -> Own {
        let former = former.iter().copied().map(EpochId).collect();
        let (life, accepted) = (Life { start: 1, mark: 7 }, None);
        Own { master, cluster: Some(ClusterId(1)), epoch: Some(EpochId(epoch)), paired, former, life, accepted }
    }

    fn pull() -> Vec<PeerMessage> {
        vec![PeerMessage::Pull { exchange: 1, after: None, unmet: false, retired: 0 }]
    }

    fn epochs(opened: Result<Opened, NotBelieved>) -> Vec<Option<EpochId>> {
        let Ok(Opened::Messages(frames)) = opened else { panic!("{opened:?}") };
        frames.into_iter().map(|frame| frame.epoch).collect()
    }

    #[test]
    fn what_a_master_of_the_pairing_said_is_proved_and_nothing_else() {
        let (one, two) = (own(MasterId::One, 5, &[4], true), own(MasterId::Two, 5, &[4], true));
        let sealed = seal_messages(&one, pull()).unwrap();
        assert_eq!(epochs(open(&two, sealed.clone())), [Some(EpochId(5))]);
        let text = format!("{:?} {:?}", sealed.seal, sealed.body);
        assert!(matches!(sealed.seal, Seal::Proved(_)) && !text.contains("EpochId"), "{text}");
        // Changed, said by another, of another pairing, or of none.
        let mut changed = sealed.clone();
        changed.body.push(0);
        let other = SealedFrame { from: MasterId::Two, ..sealed.clone() };
        let stranger = SealedFrame { seal: Seal::Proved([0; 32]), ..sealed.clone() };
        let foreign = seal_messages(&own(MasterId::One, 6, &[], true), pull()).unwrap();
        for sealed in [changed, other, stranger, foreign] {
            assert_eq!(open(&two, sealed), Err(NotBelieved::Proof));
        }
        for epoch in [None, Some(EpochId(5)), Some(EpochId(0))] {
            let seal = Seal::Unmet { cluster: Some(ClusterId(1)), epoch };
            assert_eq!(epochs(open(&two, SealedFrame { seal, ..sealed.clone() })), [None], "a claim proves nothing");
        }
        // One that was left behind in the pairing before.
        let left_behind = seal_messages(&own(MasterId::One, 4, &[], true), pull()).unwrap();
        assert_eq!(epochs(open(&two, left_behind)), [Some(EpochId(4))]);
        // A store that was formatted anew cannot know it, and says what it is.
        for fresh in [own(MasterId::Two, 9, &[], false), Own { epoch: None, ..own(MasterId::Two, 0, &[], false) }] {
            assert_eq!(open(&fresh, sealed.clone()), Err(NotBelieved::Paired));
        }
        let later = SealedFrame { protocol: PROTOCOL + 1, ..sealed };
        assert_eq!(open(&two, later), Err(NotBelieved::Protocol(PROTOCOL + 1)));
    }

    #[test]
    fn before_the_first_meeting_the_names_are_told_and_taken() {
        let one = own(MasterId::One, 5, &[], false);
        let fresh = Own { cluster: None, epoch: None, ..own(MasterId::Two, 0, &[], false) };
        assert_eq!(epochs(open(&fresh, seal_messages(&one, pull()).unwrap())), [Some(EpochId(5))]);
        assert_eq!(epochs(open(&one, seal_messages(&fresh, pull()).unwrap())), [None]);
        let met = Own { master: MasterId::Two, paired: true, ..one.clone() };
        assert_eq!(epochs(open(&one, seal_messages(&met, pull()).unwrap())), [Some(EpochId(5))]);
    }

    /// Reports are texts of agents: as long as they may be, and of characters of four bytes.
    #[test]
    fn the_largest_delivery_of_reports_fits_a_frame() {
        let text = || "\u{1F600}".repeat(REPORT_CHARS_MAX);
        let name: GeneratorName = "n".repeat(GeneratorName::LEN_MAX).parse().unwrap();
        let calls = Some(CallsServed { served: u64::MAX, failed: u64::MAX, p99_us: u32::MAX });
        let used = NameUse { name: name.clone(), kind: Kind::Layout, per_second: u32::MAX, calls };
        let report = AgentReport {
            cluster: Some(ClusterId(u128::MAX)),
            agent_id: "a".repeat(64).parse().unwrap(),
            session: SessionId(u128::MAX),
            version: text(),
            fresh_because: Some(text()),
            uptime_ms: u64::MAX,
            clock_offset_ms: i64::MIN,
            not_ready: Some(text()),
            alarm: Some(text()),
            stops: false,
            minted: u64::MAX,
            scarcest: Some(Capacity { name, kind: Kind::Layout, left: u64::MAX, of: u64::MAX }),
            names: vec![used; NAMES_REPORTED_MAX],
        };
        let passed_on = PassedOn { report, address: text(), via: MasterId::One, silent_ms: u64::MAX };
        let reports = vec![passed_on; REPORTS_MAX];
        let one = own(MasterId::One, 5, &[], true);
        let sealed = seal(&one, one.epoch, &Content::Reports(reports)).unwrap();
        let whole = codec().serialized_size(&sealed).unwrap();
        assert!(whole < FRAME_LEN_MAX as u64, "{whole} bytes");
    }

    /// A page has as many settings as fit, and is longer than that only if a single one is; whatever people registered and noted.
    #[test]
    fn the_largest_page_fits_a_frame() {
        let name = |n: usize| -> GeneratorName { format!("{n:0>63}").parse().unwrap() };
        // As long as what users, keys and addresses are called may be.
        let actor = Actor::new(&"w".repeat(ACTOR_CHARS_MAX), &"f".repeat(ACTOR_CHARS_MAX));
        let setting =
            |key, value| Setting { key, version: u64::MAX, value, actor: actor.clone(), at: WallMs(i64::MAX) };
        let retired = |n| setting(SettingKey::Namespace(name(n)), SettingValue::Retired(Box::new(largest(name(n)))));
        let labels = (0..About::LABELS_MAX).map(|n| (format!("{n:x}"), "v".repeat(About::TEXT_CHARS_MAX))).collect();
        let about = About::new(AboutSource { labels, ..AboutSource::default() }).unwrap();
        let account = |n: usize| -> AccountName { format!("{n:0>32}").parse().unwrap() };
        let phc = format!("$argon2id${}", "p".repeat(PHC_LEN_MAX - 10));
        let users = (0..ACCOUNTS_MAX).map(|n| User {
            name: account(n),
            role: Role::Admin,
            phc: phc.clone(),
            totp: Some(TotpSecret([255; 20])),
        });
        let names = (0..PATTERNS_MAX).map(|n| name(n).as_str().parse().unwrap()).collect();
        let scope = KeyScope::Agents(AgentScope {
            actions: KeyAction::ALL.into(),
            names,
            quota: IdQuota::new(Some(1_000_000_000), Some(1_000_000_000)).ok(),
        });
        let former = Some(FormerKey { hash: SecretHash([254; 32]), until: WallMs(i64::MAX) });
        let key = |n| ApiKey::new(account(n), scope.clone(), SecretHash([255; 32]));
        let keys = (0..ACCOUNTS_MAX).map(|n| ApiKey { until: Some(WallMs(i64::MAX)), former, ..key(n) });
        let networks = (0..NETWORKS_MAX).map(|n| format!("ffff:ffff:{n:x}::/128").parse().unwrap());
        let mut settings: Vec<Setting> = (0..2_000).map(retired).collect();
        settings.extend(
            (0..500).map(|n| setting(SettingKey::About(name(n)), SettingValue::About(Box::new(about.clone())))),
        );
        settings.push(setting(SettingKey::Users, SettingValue::Users(users.collect())));
        let revoked = (0..REVOCATIONS_MAX).map(|n| {
            let holder = format!("{n:04}{}", "a".repeat(60));
            Revocation::at(Holder::Agent(holder.parse().unwrap()), BEFORE_MAX)
        });
        let credentials = Credentials { keys: keys.collect(), revoked: revoked.collect() };
        settings.push(setting(SettingKey::Credentials, SettingValue::Credentials(credentials)));
        settings.push(setting(SettingKey::Whitelist, SettingValue::Whitelist(networks.collect())));
        assert!(settings.iter().all(Setting::plausible));
        let count = settings.len();
        let table = crate::setting::SettingsTable::new(settings, Vec::new());
        let key = TokenKey { family: TokenFamily::Uint, value: TokenValue(u32::MAX) };
        let prep = Prep {
            key,
            g: Generation(u64::MAX),
            token_type: TokenType::String3IncludeLetter,
            agent_id: "a".repeat(64).parse().unwrap(),
            session: SessionId(u128::MAX),
            address: "f".repeat(ACTOR_CHARS_MAX),
            granted: WallMs(i64::MAX),
            from: WallMs(i64::MAX),
            until: WallMs(i64::MAX),
        };
        let lease = Lease { rseq: u64::MAX, attempt: u64::MAX, ..Lease::from_prep(&prep) };
        // Up to 2,047 other records may be in the delivery before it.
        let before = 2_048 * (codec().serialized_size(&(key, prep)).unwrap() + 64);
        let (mut seen, mut pages, mut last) = (0, 0, None);
        loop {
            let (settings, more) = table.page(last.as_ref(), 0);
            assert!(
                settings.is_sorted_by_key(|setting| &setting.key) && last.as_ref() < settings.first().map(|it| &it.key)
            );
            (seen, pages, last) =
                (seen + settings.len(), pages + 1, settings.last().map(|setting| setting.key.clone()));
            let page = PeerMessage::Page {
                exchange: u64::MAX,
                after: Some(key),
                records: vec![(key, lease.clone()); PAGE_MAX],
                proposals: Vec::new(),
                settings,
                more,
                extents: Vec::new(),
                memory: Memory::default(),
                last: true,
            };
            let sealed = seal_messages(&own(MasterId::One, 5, &[], true), vec![page]).expect("it fits");
            let whole = codec().serialized_size(&sealed).unwrap();
            assert!(whole + before < FRAME_LEN_MAX as u64, "{whole} bytes, and {before} before it");
            if !more {
                break;
            }
        }
        assert!(seen == count && pages > 3, "{seen} of {count} on {pages} pages");
    }

    /// No template is as long as a layout of 16 fields with an alphabet of its own, or with a strategy: the longer one of them.
    fn largest(name: GeneratorName) -> Namespace {
        let ff1 = EncodingSource::Parameters(EncodingParameters {
            form: EncodingForm::Ff1,
            length: Some(32),
            alphabet: Some(('!'..='~').filter(|c| !"\"'\\".contains(*c)).collect()),
            secret: Some(Secret::new([1; 32]).mark()),
            ..EncodingParameters::default()
        });
        // With as much as may be said to it, which is least in characters that are escaped twice.
        let said = |text: &str, len| Parameters::default().with("p", Parameter::Text(text.repeat(len)));
        let bare = r#"{\"p\":\"\"}"#.len();
        let strategy = |text: &str, each| {
            EncodingSource::strategy("s".repeat(32), said(text, (STRATEGY_PARAMETERS_LEN_MAX - bare) / each))
        };
        let encodings = [ff1, strategy("p", 1), strategy("\"", 4)];
        let fields = ["zero:1", "time:41", "token:16", "serial:20", "random:10"].map(str::to_owned);
        let mut fields: Vec<String> = fields.into();
        // None continues the one before it: they would be joined.
        let rest = ["random:3", "random:3", "random:3", "random:3", "random:4"].into_iter();
        fields.extend(rest.flat_map(|random| ["const:4=15", random]).map(str::to_owned));
        fields.push("const:4=15".to_owned());
        // Two that are as long together as all of a name may be.
        let plugin = |len: usize| PluginSpec::new("own".parse().unwrap()).with("t", Parameter::Text("t".repeat(len)));
        let bare = r#"[{"plugin":"own","t":""},{"plugin":"own","t":""}]"#.len();
        let plugins = vec![plugin(120), plugin(PLUGINS_LEN_MAX - bare - 120)];
        let of = |encoding| {
            Definition::Layout(LayoutSpec {
                scope: Some(Scope::Own),
                bits: Some(128),
                epoch: Some("2024-01-01T00:00:00.000Z".to_owned()),
                unit_ms: Some(1),
                fields: Some(fields.clone()),
                ahead_max_ms: Some(10_000),
                encoding: Some(encoding),
                plugins: plugins.clone(),
                ..LayoutSpec::default()
            })
        };
        let all = encodings.map(|encoding| Namespace::define(name.clone(), &of(encoding)).unwrap());
        all.into_iter().max_by_key(|it| bincode::serialized_size(it).unwrap()).unwrap()
    }
}

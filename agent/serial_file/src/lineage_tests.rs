use super::*;
use common::lease::{Generation, Receipt};
use common::segment::{SegmentSpec, Shown};
use common::time::WallMs;
use common::token::{TokenType, TokenValue};
use minting::segments::HeldSegment;

const SEEN: Fingerprint = Fingerprint {
    identity: Identity { device: 1, inode: 2, ctime_s: 3, ctime_ns: 4 },
    write_counter: 5,
    boot: BootId(6),
    session: SessionId(7),
    file_system: FileSystemId { fsid: 8, disk: Some(9), mount: None },
};

fn whole() -> Found {
    let grant = Grant {
        token_type: TokenType::Uint2,
        key: TokenType::Uint2.key(TokenValue(4095)),
        g: Generation(1),
        from: WallMs(0),
        until: WallMs(1),
        receipt: Some(Receipt { from: WallMs(0), until: WallMs(1), proof: [9; 32] }),
    };
    let parameters = ClusterParameters::new(7, common::calendar::UtcOffset::default(), 4095).unwrap();
    let former = vec![SessionId(5), SessionId(4)];
    let holdings = Holdings {
        cluster: Some(ClusterId(1)),
        parameters: Some(parameters),
        leases: vec![grant],
        rseq: u64::MAX,
        former,
        segments: BTreeMap::new(),
    };
    Found::Whole(Lineage { seen: SEEN, next: None, holdings })
}

#[test]
fn only_what_is_equal_in_all_is_resumed() {
    assert_eq!(judge(&whole(), &SEEN, None, AfterReboot::Fresh), StartKind::Resumed);
    type Change = fn(&mut Fingerprint);
    let cases: [(Change, FreshReason); 10] = [
        (|now| now.session = SessionId(8), FreshReason::OtherSession),
        (|now| now.write_counter = 6, FreshReason::LineageBehind),
        (|now| now.write_counter = 4, FreshReason::FileBehind),
        (|now| now.identity.device = 9, FreshReason::FileCopied),
        (|now| now.identity.inode = 9, FreshReason::FileCopied),
        (|now| now.identity.ctime_s = 9, FreshReason::FileChanged),
        (|now| now.identity.ctime_ns = 9, FreshReason::FileChanged),
        (|now| file_system(now).fsid = 9, FreshReason::FileCopied),
        (|now| file_system(now).disk = Some(8), FreshReason::FileCopied),
        (|now| now.boot = BootId(9), FreshReason::Reboot),
    ];
    for (change, reason) in cases {
        let mut now = SEEN;
        change(&mut now);
        assert_eq!(judge(&whole(), &now, None, AfterReboot::Fresh), StartKind::Fresh(reason.clone()));
        let later = judge(&whole(), &now, None, AfterReboot::Resume);
        if reason == FreshReason::Reboot {
            assert_eq!(later, StartKind::Resumed);
        } else {
            assert_eq!(later, StartKind::Fresh(reason), "`resume` accepts another boot id and nothing else");
        }
    }
}

fn file_system(seen: &mut Fingerprint) -> &mut FileSystemId {
    &mut seen.file_system
}

#[test]
fn a_disks_number_counts_within_one_boot_and_if_both_know_it() {
    let rebooted = |disk| {
        let mut now = Fingerprint { boot: BootId(9), ..SEEN };
        file_system(&mut now).disk = disk;
        judge(&whole(), &now, None, AfterReboot::Resume)
    };
    assert_eq!(rebooted(Some(77)), StartKind::Resumed);
    let mut now = SEEN;
    file_system(&mut now).disk = None;
    assert_eq!(judge(&whole(), &now, None, AfterReboot::Fresh), StartKind::Resumed, "/sys is not mounted now");
}

#[test]
fn what_a_lineage_cannot_tell_a_master_has_to() {
    assert!(!renew_first(&whole(), &SEEN));
    let mut now = SEEN;
    file_system(&mut now).mount = Some(3);
    assert!(renew_first(&whole(), &now), "layers that were mounted anew");
    let Found::Whole(mut lineage) = whole() else { unreachable!() };
    lineage.seen = now;
    assert!(!renew_first(&Found::Whole(lineage), &now), "the same mount");
    assert!(renew_first(&Found::Missing, &SEEN));
}

#[test]
fn the_segments_of_as_many_names_as_there_may_be_fit() {
    let Found::Whole(mut lineage) = whole() else { unreachable!() };
    let held = |ordinal| HeldSegment { ordinal, span: Span { from: 1, to: u64::MAX }, mark: 2 };
    let record = Record { seen: Shown { to: 5, proof: Some([9; 32]) }, held: (0..HELD_MAX as u64).map(held).collect() };
    let definition = SegmentDefinition::new(&SegmentSpec::default()).unwrap();
    for name in 0..NAMESPACES_MAX {
        let name = format!("{name:063}").parse().unwrap();
        lineage.holdings.segments.insert(name, HeldSegments::new(&definition, record.clone()));
    }
    lineage.holdings.leases = vec![lineage.holdings.leases[0].clone(); 64];
    let bytes = lineage.encode().unwrap();
    assert_eq!(Found::decode(&bytes), Found::Whole(lineage));
    assert!(NAMESPACES_MAX * SEGMENTS_LEN_MAX < bytes.len() && bytes.len() < FILE_LEN_MAX);
}

#[test]
fn segments_are_those_of_one_definition() {
    let define = |json: &str| SegmentDefinition::new(&serde_json::from_str(json).unwrap()).unwrap();
    let held = HeldSegments::new(&define("{}"), Record { seen: Shown { to: 7, proof: None }, held: Vec::new() });
    assert!(held.of(&define(r#"{"step":5,"threshold":50}"#)).is_some(), "the same numbers");
    for other in [r#"{"first":2}"#, r#"{"last":9}"#, r#"{"increment":2}"#, r#"{"offset":1,"last":9}"#] {
        assert!(held.of(&define(other)).is_none(), "{other}");
    }
}

#[test]
fn a_fresh_start_gives_up_what_its_file_had_but_not_what_was_copied_beside_a_living_original() {
    let sessions = |all: &[u128]| all.iter().copied().map(SessionId).collect::<Vec<_>>();
    let rebooted = Fingerprint { boot: BootId(9), ..SEEN };
    assert_eq!(given_up(&whole(), &rebooted, &FreshReason::Reboot), sessions(&[7, 5, 4]));
    assert_eq!(given_up(&whole(), &SEEN, &FreshReason::FileChanged), sessions(&[7, 5, 4]));
    assert_eq!(given_up(&whole(), &SEEN, &FreshReason::FileCopied), []);
    assert_eq!(given_up(&whole(), &rebooted, &FreshReason::FileCopied), sessions(&[7, 5, 4]), "restored elsewhere");
    let killed = Fingerprint { session: SessionId(99), ..SEEN };
    assert_eq!(given_up(&whole(), &killed, &FreshReason::OtherSession), sessions(&[7, 5, 4]), "what the lineage says");
    for broken in [Found::Missing, Found::Damaged(EnvelopeError::Kind)] {
        assert_eq!(given_up(&broken, &SEEN, &FreshReason::NoLineage), sessions(&[7]));
        let formatted = Fingerprint { write_counter: 0, ..SEEN };
        assert_eq!(given_up(&broken, &formatted, &FreshReason::NoLineage), []);
    }
    let Found::Whole(mut long) = whole() else { unreachable!() };
    long.holdings.former = (100..200).map(SessionId).collect();
    assert_eq!(given_up(&Found::Whole(long), &SEEN, &FreshReason::FileChanged).len(), FORMER_MAX);
}

#[test]
fn the_file_to_come_is_resumed_if_it_is_that_very_file() {
    let next = Next { device: 1, inode: 3, born: Born { s: 4, ns: 5 }, write_counter: 6, checksum: 7 };
    let Found::Whole(mut lineage) = whole() else { unreachable!() };
    lineage.next = Some(next);
    let found = Found::Whole(lineage);
    let identity = Identity { device: 1, inode: 3, ctime_s: 9, ctime_ns: 9 };
    let there = Fingerprint { identity, write_counter: 6, ..SEEN };
    let judged = |now: &Fingerprint, next: Option<&Next>| judge(&found, now, next, AfterReboot::Fresh);
    assert_eq!(judged(&there, Some(&next)), StartKind::Resumed);
    assert_eq!(judged(&SEEN, None), StartKind::Resumed, "the file in place goes on as well");
    for (ctime_s, in_time) in [(3, false), (4, true), (14, true), (15, false), (i64::MIN, false), (i64::MAX, false)] {
        let there = Fingerprint { identity: Identity { ctime_s, ..identity }, ..there };
        let moved = StartKind::Fresh(FreshReason::LineageBehind);
        assert_eq!(judged(&there, Some(&next)), if in_time { StartKind::Resumed } else { moved }, "{ctime_s}");
    }
    let changes: [fn(&mut Next); 6] = [
        |next| next.device = 9,
        |next| next.inode = 9,
        |next| next.born.s = 9,
        |next| next.born.ns = 9,
        |next| next.write_counter = 9,
        |next| next.checksum = 9,
    ];
    for change in changes {
        let mut other = next;
        change(&mut other);
        assert_eq!(judged(&there, Some(&other)), StartKind::Fresh(FreshReason::LineageBehind), "{other:?}");
    }
    assert_eq!(judged(&there, None), StartKind::Fresh(FreshReason::LineageBehind), "a birth that nobody tells");
    let rebooted = Fingerprint { boot: BootId(9), ..there };
    assert_eq!(judged(&rebooted, Some(&next)), StartKind::Fresh(FreshReason::Reboot));
    let mut snapshot = there;
    file_system(&mut snapshot).fsid = 9;
    assert_eq!(judged(&snapshot, Some(&next)), StartKind::Fresh(FreshReason::LineageBehind));
    let other_session = Fingerprint { session: SessionId(9), ..there };
    assert_eq!(judged(&other_session, Some(&next)), StartKind::Fresh(FreshReason::OtherSession));
}

#[test]
fn a_lineage_that_is_not_there_or_not_whole_proves_nothing() {
    let fresh = |found: &Found| judge(found, &SEEN, None, AfterReboot::Resume);
    assert_eq!(fresh(&Found::Missing), StartKind::Fresh(FreshReason::NoLineage));
    let Found::Whole(lineage) = whole() else { unreachable!() };
    let bytes = lineage.encode().unwrap();
    assert_eq!(Found::decode(&bytes), whole());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(matches!(fresh(&Found::decode(&damaged)), StartKind::Fresh(FreshReason::LineageDamaged(_))));
        assert!(matches!(Found::decode(&bytes[..at]), Found::Damaged(_)));
    }
}

#[test]
fn boot_ids_are_read_as_the_kernel_writes_them() {
    assert_eq!("00000000-0000-0000-0000-00000000002a\n".parse(), Ok(BootId(42)));
    for bad in ["", "\n", "boot", "-"] {
        assert!(bad.parse::<BootId>().is_err(), "{bad:?}");
    }
}

#[test]
fn policies_are_written_as_the_flag_has_them() {
    for policy in [AfterReboot::Fresh, AfterReboot::Resume] {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert_eq!("Resume".parse::<AfterReboot>(), Err(AfterRebootError));
}

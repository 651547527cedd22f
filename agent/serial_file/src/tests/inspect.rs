use super::*;
use serde_json::{Value, json};

fn shown(home: &Home) -> Value {
    let before = (fs::metadata(home.path()).unwrap(), fs::read(home.path()).unwrap(), home.names());
    let value = serde_json::to_value(inspect(&home.path()).unwrap()).unwrap();
    let after = (fs::metadata(home.path()).unwrap(), fs::read(home.path()).unwrap(), home.names());
    assert_eq!(
        (before.0.ctime(), before.0.ctime_nsec(), before.0.ino()),
        (after.0.ctime(), after.0.ctime_nsec(), after.0.ino())
    );
    assert_eq!((before.1, before.2), (after.1, after.2));
    value
}

#[test]
fn the_json_says_what_the_bytes_say() {
    let home = Home::new();
    let mut opened = home.started();
    opened.contents.header.time_mark = WallMs(NOW.0 + 1);
    opened.contents.blocks[2] = Some(Block {
        name: BlockName::from(&"orders".parse().unwrap()),
        kind: Kind::String,
        everyday_reset: true,
        create_time: WallMs(1),
        modification_time: WallMs(2),
        bucket: 3,
        bucket_base: 4,
        checksum: u64::MAX - 5,
        serial: u64::MAX - 6,
        step: u32::MAX - 7,
    });
    opened.contents.blocks[1] = None;
    opened.contents.header.names_from = NOW;
    opened.file.write(&mut opened.contents, &holdings(2)).unwrap();
    // The agent that has the file is not disturbed.
    let value = shown(&home);
    opened.file.write_holdings(&holdings(3)).unwrap();

    let bytes = fs::read(home.path()).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let i64_at = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(value["length"], bytes.len());
    assert_eq!(
        value["header"],
        json!({
            "version": u32_at(0),
            "num_blocks": u32_at(4),
            "magic": format!("{:016x}", u64_at(8)),
            "session": format!("{:032x}", u128::from_le_bytes(bytes[16..32].try_into().unwrap())),
            "time_mark": u64_at(32),
            "write_counter": u64_at(40),
            "names_from": u64_at(48),
            "checksum": u64_at(64),
        })
    );
    let blocks = value["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), 2, "only the used ones");
    for (block, index) in blocks.iter().zip([0, 2]) {
        let at = 72 + index * 68;
        let name = bytes[at..at + 16].split(|byte| *byte == 0).next().unwrap();
        assert_eq!(
            *block,
            json!({
                "index": index,
                "offset": at,
                "name": String::from_utf8(name.to_vec()).unwrap(),
                "kind": (["", "uniq64", "string"][bytes[at + 33] as usize]),
                "everyday_reset": bytes[at + 32] == 1,
                "create_time": i64_at(at + 16),
                "modification_time": i64_at(at + 24),
                "bucket": u32_at(at + 36),
                "bucket_base": u64_at(at + 40),
                "checksum": format!("{:016x}", u64_at(at + 48)),
                "serial": u64_at(at + 56),
                "step": u32_at(at + 64),
            })
        );
    }
}

#[test]
fn the_verdict_is_what_the_next_start_does() {
    let verdict = |home: &Home| {
        let lineage = shown(home)["lineage"].clone();
        let opened = home.open(THIRD);
        match opened.start {
            StartKind::Resumed => {
                assert_eq!((&lineage["start"], &lineage["reason"]), (&json!("resumed"), &Value::Null))
            }
            StartKind::Fresh(reason) => {
                assert_eq!((&lineage["start"], &lineage["reason"]), (&json!("fresh"), &json!(reason.code())));
            }
        }
        assert!(!lineage["explanation"].as_str().unwrap().is_empty());
        lineage["reason"].as_str().map(str::to_owned)
    };
    let home = Home::new();
    assert_eq!(verdict(&home).as_deref(), Some("no_lineage"));
    assert_eq!(verdict(&home), None);
    let bytes = fs::read(home.path()).unwrap();
    until_it_shows(&home.path(), || fs::write(home.path(), &bytes).unwrap());
    assert_eq!(verdict(&home).as_deref(), Some("file_changed"));
    fs::copy(home.path(), home.folder.path().join("copy")).unwrap();
    fs::rename(home.folder.path().join("copy"), home.path()).unwrap();
    assert_eq!(verdict(&home).as_deref(), Some("file_copied"));
}

#[test]
fn the_table_is_aligned_and_complete() {
    let home = Home::new();
    let text = inspect(&home.path()).unwrap().to_string();
    assert!(text.contains("blocks         3, 2 of them used\n"), "{text}");
    drop(home.started());
    let text = inspect(&home.path()).unwrap().to_string();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.contains(&"magic          454c494651494e55"), "{text}");
    assert!(lines.contains(&"session        00000000000000000000000000002222"), "{text}");
    assert!(lines.contains(&"uniq96 mark    1795000000000 (2026-11-18T11:06:40.000Z)"), "{text}");
    assert!(lines.contains(&"next start     resumed: nobody touched it since its last write"), "{text}");
    let [titles, row, _] = lines[lines.len() - 3..] else { unreachable!() };
    for (title, cell) in [
        ("block", "0"),
        ("offset", "72"),
        ("name", "default"),
        ("bucket", "498611"),
        ("serial", "1000"),
        ("step", "1000"),
    ] {
        let at = titles.find(&format!("{title} ")).or_else(|| titles.find(title)).unwrap();
        assert_eq!(row[at..].split_whitespace().next(), Some(cell), "{text}");
    }
}

#[test]
fn segments_and_sections_are_shown_too() {
    use common::segment::{SegmentDefinition, SegmentSpec, Shown, Span};
    use minting::segments::{HeldSegment, Record};
    let home = super::sections::served(true);
    let mut opened = home.open_on(&home.disk(), THIRD).unwrap();
    let definition = SegmentDefinition::new(&SegmentSpec::default()).unwrap();
    let record = Record {
        seen: Shown { to: 900, proof: None },
        held: vec![HeldSegment { ordinal: 1, span: Span { from: 100, to: 200 }, mark: 150 }],
    };
    opened.holdings.segments.insert("bills".parse().unwrap(), HeldSegments::new(&definition, record));
    opened.file.write_holdings(&opened.holdings).unwrap();
    drop(opened);
    let value = shown(&home);
    let (increment, offset) = (definition.increment(), definition.number(0));
    assert_eq!(
        value["segments"],
        json!([{ "name": "bills", "increment": increment, "offset": offset, "held": [{ "from": 100, "to": 200, "mark": 150 }] }])
    );
    let text = inspect(&home.path()).unwrap().to_string();
    assert!(text.contains("segment        bills: places 100 to 199, given below 150\n"), "{text}");
    // The kernel may not tell of every disk where tests run whether it was put back; what it says was looked at above.
    match value["sections"]["start"].as_str() {
        Some("resumed") => {
            let bounds = value["sections"]["bounds"].as_array().unwrap();
            assert_eq!(
                (bounds.len(), &bounds[1]),
                (4, &json!({ "name": "orders", "from": 3, "to": 4, "g": 2, "max_seq": 300 }))
            );
            assert!(text.contains("sections       resumed: 10 of them written down\n"), "{text}");
            assert!(text.contains("               orders: 10 sections, no number above 300 given\n"), "{text}");
        }
        other => assert_eq!((other, &value["sections"]["reason"]), (Some("fresh"), &json!("file_system"))),
    }
    fs::remove_file(home.folder.path().join("F.bounds")).unwrap();
    let sections = json!({ "start": "fresh", "reason": "no_bounds", "session": null, "bounds": [] });
    assert_eq!(shown(&home)["sections"], sections);
    assert!(inspect(&home.path()).unwrap().to_string().contains("sections       fresh: no_bounds\n"));
}

#[test]
fn what_cannot_be_read_is_told_with_the_remedy() {
    let home = Home::new();
    let inspected = |path: &Path| inspect(path).unwrap_err();
    assert!(matches!(inspected(&home.folder.path().join("G")), SerialFileError::Missing(_)));
    assert!(matches!(inspected(home.folder.path()), SerialFileError::NotAFile(_)));
    assert!(matches!(inspected(&home.path().join("F")), SerialFileError::NoFolder(_)));
    std::os::unix::fs::symlink("F", home.folder.path().join("link")).unwrap();
    assert!(matches!(inspected(&home.folder.path().join("link")), SerialFileError::SymbolicLink(_)));
    fs::write(home.path(), "x").unwrap();
    assert!(matches!(inspected(&home.path()), SerialFileError::Damaged { .. }));
}

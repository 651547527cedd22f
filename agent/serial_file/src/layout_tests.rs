use super::*;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = BlockName> {
    proptest::collection::vec(proptest::sample::select(b"abz019_-".to_vec()), 1..=GeneratorName::LEN_MAX)
        .prop_map(|bytes| BlockName::from(&String::from_utf8(bytes).unwrap().parse().unwrap()))
}

/// The digest as `sha256sum` says it.
#[test]
fn a_longer_name_is_known_by_its_digest() {
    let text = |name: &str| BlockName::from(&name.parse().unwrap()).to_string();
    assert_eq!(text("abcdefghijklmno"), "abcdefghijklmno");
    assert_eq!(text("payment-reference"), "long-8a17d2e4e8903459cd2d413db27e4f");
    let mut contents = sample();
    contents.blocks[2] = contents.blocks[0]
        .clone()
        .map(|block| Block { name: BlockName::from(&"payment-reference".parse().unwrap()), ..block });
    let bytes = encode(&contents).unwrap();
    assert_eq!(bytes[HEADER_LEN + 2 * BLOCK_LEN], 0xff);
    assert_eq!(decode(&bytes), Ok(contents));
}

prop_compose! {
    fn any_block()(
        name in name(),
        kind in proptest::sample::select(Kind::NAMED.into_iter().filter(|kind| kind.has_blocks()).collect::<Vec<_>>()),
        everyday_reset in any::<bool>(),
        times in any::<(i64, i64)>(),
        bucket in any::<u32>(),
        words in any::<(u64, u64, u64)>(),
        step in any::<u32>(),
    ) -> Block {
        Block {
            name, kind, everyday_reset, bucket, step,
            create_time: WallMs(times.0), modification_time: WallMs(times.1),
            bucket_base: words.0, checksum: words.1, serial: words.2,
        }
    }
}

prop_compose! {
    fn any_contents()(
        session in any::<u128>(),
        mark in 0..=i64::MAX,
        write_counter in any::<u64>(),
        names_from in 0..=i64::MAX,
        blocks in proptest::collection::vec(proptest::option::of(any_block()), 2..20),
    ) -> Contents {
        let mut seen = BTreeSet::new();
        let blocks = blocks
            .into_iter()
            .map(|block| block.filter(|block| seen.insert((block.kind, block.name))))
            .collect();
        let (session, time_mark, names_from) = (SessionId(session), WallMs(mark), WallMs(names_from));
        Contents { header: Header { session, time_mark, write_counter, names_from }, blocks }
    }
}

fn sample() -> Contents {
    let block = |name: &str, kind, serial| Block {
        name: BlockName::from(&name.parse().unwrap()),
        kind,
        everyday_reset: kind == Kind::String,
        create_time: WallMs(-2),
        modification_time: WallMs(1_795_000_000_000),
        bucket: 0x0102_0304,
        bucket_base: 0x11,
        checksum: 0x2122_2324_2526_2728,
        serial,
        step: 10_000,
    };
    Contents {
        header: Header {
            session: SessionId(0x000102030405060708090a0b0c0d0e0f),
            time_mark: WallMs(0x1112),
            write_counter: 7,
            names_from: WallMs(0x2122),
        },
        blocks: vec![
            Some(block("default", Kind::Uniq64, 0x31)),
            None,
            Some(block("fifteen-letters", Kind::String, u64::MAX)),
        ],
    }
}

/// The bytes with a checksum that fits, whatever they say.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes[64..72].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn the_bytes_are_the_seeds() {
    let bytes = encode(&sample()).unwrap();
    assert_eq!(bytes.len(), 72 + 3 * 68);
    assert_eq!(bytes[..8], [1, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(&bytes[8..16], b"UNIQFILE");
    assert_eq!(bytes[16..32], [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(bytes[32..40], [0x12, 0x11, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[40..48], [7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[48..56], [0x22, 0x21, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[56..64], [0; 8]);
    let mut zeroed = bytes.clone();
    zeroed[64..72].fill(0);
    assert_eq!(bytes[64..72], u64::from(crc32c::crc32c(&zeroed)).to_le_bytes());

    let block = &bytes[72..140];
    assert_eq!(&block[..16], b"default\0\0\0\0\0\0\0\0\0");
    assert_eq!(block[16..24], (-2i64).to_le_bytes());
    assert_eq!(block[24..32], 1_795_000_000_000i64.to_le_bytes());
    assert_eq!(block[32..36], [0, 1, 0, 0]);
    assert_eq!(block[36..40], [4, 3, 2, 1]);
    assert_eq!(block[40..48], [0x11, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(block[48..56], [0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21]);
    assert_eq!(block[56..64], [0x31, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(block[64..68], [0x10, 0x27, 0, 0]);
    assert_eq!(bytes[140..208], [0; 68]);
    assert_eq!(&bytes[208..224], b"fifteen-letters\0");
    assert_eq!(bytes[208 + 32..208 + 36], [1, 2, 0, 0]);
    assert_eq!(bytes[208 + 56..208 + 64], [0xff; 8]);
}

#[test]
fn every_flipped_bit_and_every_other_length_is_noticed() {
    let bytes = encode(&sample()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&damaged).is_err(), "bit {bit} went unnoticed");
    }
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "a cut at {len} went unnoticed");
    }
    for more in [1, 67, 68, 1000] {
        let longer = [bytes.clone(), vec![0; more]].concat();
        assert_eq!(decode(&longer), Err(LayoutError::Length { found: bytes.len() + more, expected: bytes.len() }));
    }
}

#[test]
fn what_no_program_of_ours_writes_is_refused_even_with_a_fitting_checksum() {
    let bytes = encode(&sample()).unwrap();
    let (b0, b1, b2) = (HEADER_LEN, HEADER_LEN + BLOCK_LEN, HEADER_LEN + 2 * BLOCK_LEN);
    let wrong = |index, field| LayoutError::Block { index, field };
    let cases: [(usize, &[u8], LayoutError); 15] = [
        (0, &[2], LayoutError::Version { found: 2 }),
        (4, &[0], LayoutError::Blocks { found: 0 }),
        (4, &20_001u32.to_le_bytes(), LayoutError::Blocks { found: 20_001 }),
        (4, &[4], LayoutError::Length { found: 276, expected: 344 }),
        (8, b"u", LayoutError::Foreign),
        (39, &[0x80], LayoutError::Header("time mark")),
        (55, &[0x80], LayoutError::Header("beginning of names without a block")),
        (56, &[1], LayoutError::Header("reserved field")),
        (63, &[1], LayoutError::Header("reserved field")),
        (b0, b"D", wrong(0, "name")),
        (b0 + 7, b"\0x", wrong(0, "name")),
        (b0 + 32, &[2], wrong(0, "flag")),
        (b0 + 33, &[4], wrong(0, "kind")),
        (b1 + 67, &[1], wrong(1, "byte although it is unused")),
        (b2 + 15, b"x", wrong(2, "name")),
    ];
    for (offset, put, expected) in cases {
        let mut other = bytes.clone();
        other[offset..offset + put.len()].copy_from_slice(put);
        assert_eq!(decode(&sealed(other)), Err(expected), "{put:?} at {offset}");
    }
    let mut high = bytes.clone();
    high[b0 + 34] = 1;
    assert_eq!(decode(&sealed(high)), Err(wrong(0, "flag")));
    let mut sum = bytes;
    sum[71] = 1;
    assert_eq!(decode(&sum), Err(LayoutError::Checksum), "all eight bytes of the checksum count");
}

#[test]
fn one_generator_has_one_block() {
    let mut contents = sample();
    contents.blocks[1] = contents.blocks[0].clone();
    let twins = Err(LayoutError::Block { index: 1, field: "name: another block has it" });
    assert_eq!(encode(&contents).map(drop), twins);
    let mut bytes = encode(&sample()).unwrap();
    bytes.copy_within(72..140, 140);
    assert_eq!(decode(&sealed(bytes)).map(drop), twins);
    // The name `default` exists for every kind.
    contents.blocks[1].as_mut().unwrap().kind = Kind::String;
    assert_eq!(decode(&encode(&contents).unwrap()), Ok(contents));
}

#[test]
fn contents_that_fit_no_file_are_refused() {
    let header = sample().header;
    for found in [0, 1, 20_001, u32::MAX] {
        assert_eq!(Contents::new(found, header.clone(), WallMs(7)), Err(LayoutError::Blocks { found: found.into() }));
    }
    let mut contents = Contents::new(20_000, header, WallMs(7)).unwrap();
    assert_eq!(encode(&contents).unwrap().len(), FILE_LEN_MAX);
    contents.blocks.push(None);
    assert_eq!(encode(&contents), Err(LayoutError::Blocks { found: 20_001 }));
    contents.blocks.clear();
    assert_eq!(encode(&contents), Err(LayoutError::Blocks { found: 0 }));
    let mut contents = sample();
    contents.header.time_mark = WallMs(-1);
    assert_eq!(encode(&contents), Err(LayoutError::Header("time mark")));
    let mut contents = sample();
    contents.header.names_from = WallMs(-1);
    assert_eq!(encode(&contents), Err(LayoutError::Header("beginning of names without a block")));
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(contents in any_contents()) {
        let bytes = encode(&contents).unwrap();
        prop_assert_eq!(bytes.len(), HEADER_LEN + contents.blocks.len() * BLOCK_LEN);
        prop_assert_eq!(stored_checksum(&bytes), Some(checksum(&bytes)));
        prop_assert_eq!(decode(&bytes).unwrap(), contents);
    }

    /// One encoding per contents: whatever is accepted is, byte for byte, what would have been written.
    #[test]
    fn foreign_bytes_never_panic_and_are_only_accepted_as_our_own(
        blocks in proptest::collection::vec(proptest::option::of(any_block()), 2..4),
        noise in proptest::collection::vec((0usize..300, any::<u8>()), 0..6),
        seal in any::<bool>(),
    ) {
        let mut contents = sample();
        contents.blocks = blocks;
        let Ok(mut bytes) = encode(&contents) else { return Ok(()) };
        for (at, byte) in noise {
            if let Some(slot) = bytes.get_mut(at) {
                *slot = byte;
            }
        }
        let bytes = if seal { sealed(bytes) } else { bytes };
        if let Ok(read) = decode(&bytes) {
            prop_assert_eq!(encode(&read).unwrap(), bytes);
        }
    }

    #[test]
    fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode(&bytes).is_err());
    }
}

/// A file has room for those that nobody has to register.
#[test]
fn the_fewest_blocks_are_those_of_the_defaults() {
    let with_blocks = Kind::PREDEFINED.into_iter().filter(|kind| kind.has_blocks()).count();
    assert_eq!(with_blocks, *NUM_BLOCKS.start() as usize);
}

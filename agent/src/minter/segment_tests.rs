//! Plain numbers on a real serial file.

use super::kit::{Kit, held, parameters};
use super::*;
use common::kind::Kind;
use common::namespace::{Definition, SegmentSpec};
use common::parameters::ClusterId;
use std::time::Duration;

fn start(kit: &Kit) -> Arc<Minter> {
    let definition =
        Definition::Segment(SegmentSpec { step: Some(100), step_min: Some(100), ..SegmentSpec::default() });
    let minter = kit.start_with(vec![Namespace::define("orders".parse().unwrap(), &definition).unwrap()]);
    minter.join(ClusterId(1), parameters()).unwrap();
    minter.set_leases(held(7), 0).unwrap();
    minter.feed_segments();
    minter
}

async fn give(minter: &Arc<Minter>, n: u32) {
    let runs = minter.mint(minter.names().generator(Kind::Segment, "orders").unwrap(), n).await.unwrap();
    assert_eq!(runs.len(), n as usize);
}

#[test]
fn an_answer_that_comes_late_does_not_replace_that_of_a_later_call() {
    let of = |call| (call, SegmentOutcome::Failed);
    for (known, new, kept) in [(None, 1, 1), (Some(1), 3, 3), (Some(3), 2, 3)] {
        assert_eq!(segments::later(known.map(of), of(new)).0, kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_lineage_put_back_alone_does_not_bring_its_marks_back() {
    let kit = Kit::new();
    let lineage = kit.path().with_file_name("serial.lineage");
    let minter = start(&kit);
    give(&minter, 1).await;
    let older = std::fs::read(&lineage).unwrap();
    give(&minter, 90).await;
    assert_ne!(std::fs::read(&lineage).unwrap(), older, "marks were raised");
    // Whoever feeds it, or writes in advance, keeps the file for a moment.
    let rest = Arc::downgrade(&minter);
    drop(minter);
    for _ in 0..2_000 {
        if rest.strong_count() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    std::fs::write(&lineage, older).unwrap();
    let opened = kit.open();
    assert!(opened.start.to_string().contains("lineage_behind"), "{}", opened.start);
    assert!(opened.holdings.segments.is_empty());
}

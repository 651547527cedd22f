//! The core, step by step: `cargo bench -p uniq-agent --bench core`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod fixture;

use agent::embed::{Shared, UniqGenerator};
use agent::window::Window;
use common::time::WallMs;
use criterion::{Criterion, criterion_group, criterion_main};
use fixture::Fixture;
use std::hint::black_box;
use std::time::Instant;

/// IDs after which a new serial file is used: an hour has only 2^31.
const IDS_MAX: u64 = 1 << 30;

/// Measures `mint` on generators that never run out.
fn bench_ids(c: &mut Criterion, name: &str, mint: impl Fn(&Shared, u64)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let start = || {
        let kit = Fixture::new();
        kit.minter.driver().reserve_on(runtime.handle().clone());
        let shared = Shared::new(&kit.minter, "default").unwrap();
        (kit, shared, 0)
    };
    let mut current = start();
    c.bench_function(name, |bencher| {
        bencher.iter_custom(|n| {
            current.2 += n;
            if current.2 > IDS_MAX {
                current = start();
                current.2 = n;
            }
            let began = Instant::now();
            mint(&current.1, n);
            began.elapsed()
        });
    });
    drop(current);
    runtime.shutdown_background();
}

fn core(c: &mut Criterion) {
    let window = Window::open((), 1, 0..1 << 61, WallMs(1));
    c.bench_function("window take", |bencher| bencher.iter(|| window.take(black_box(1), black_box(WallMs(0)))));
    bench_ids(c, "uniq64 shared", |generator, n| {
        for _ in 0..n {
            black_box(generator.get_uniq64().unwrap());
        }
    });
    bench_ids(c, "uniq64 per-thread block", |generator, n| {
        let block = generator.per_thread();
        for _ in 0..n {
            black_box(block.get_uniq64().unwrap());
        }
    });
    let kit = Fixture::new();
    let shared = Shared::new(&kit.minter, "default").unwrap();
    c.bench_function("uniq96 shared", |bencher| bencher.iter(|| shared.get_uniq96().unwrap()));
    c.bench_function("string", |bencher| bencher.iter(|| shared.get_uniq_string("SHOP", "01").unwrap()));
}

criterion_group!(benches, core);
criterion_main!(benches);

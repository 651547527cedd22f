//! The cost of a number in each layout and in each encoding, beside plain decimal digits.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ids::encoding::{Encoding, EncodingForm, EncodingSource, Key};
use ids::kind::{TextForm, UNIQ64, UNIQ96};
use ids::layout::Preset;
use ids::time::WallMs;
use ids::token::TokenValue;
use std::hint::black_box;

/// Numbers that are written in one measurement.
const BATCH: u32 = 1_000;
/// The first of them: of the size that IDs have.
const FIRST: u128 = 1 << 62;

fn encodings(c: &mut Criterion) {
    let mut group = c.benchmark_group("encoding");
    group.throughput(Throughput::Elements(BATCH.into()));
    let key = Key::new([7; Key::LEN]);
    for form in EncodingForm::ALL {
        let bits = if matches!(form, EncodingForm::Uuid | EncodingForm::Ksuid) { 128 } else { 64 };
        let Ok(encoding) = Encoding::of(&EncodingSource::Name(form), bits, Some(&key), b"name") else { continue };
        let mut out = Vec::with_capacity(64 * BATCH as usize);
        group.bench_function(form.name(), |b| {
            b.iter(|| {
                out.clear();
                for n in 0..BATCH {
                    black_box(encoding.write(black_box(FIRST + u128::from(n)), &mut out));
                }
            });
        });
    }
    group.finish();
}

fn layouts(c: &mut Criterion) {
    let mut group = c.benchmark_group("layout");
    group.throughput(Throughput::Elements(BATCH.into()));
    for preset in Preset::ALL {
        let Ok(layout) = preset.layout() else { continue };
        let Some(prefix) = layout.prefix(1_000_000, TokenValue(7)) else { continue };
        group.bench_function(preset.name(), |b| {
            b.iter(|| (0..BATCH).fold(0, |all, serial| all ^ layout.fill(prefix, black_box(serial), 0)));
        });
    }
    group.finish();
}

fn kinds(c: &mut Criterion) {
    let mut group = c.benchmark_group("kind");
    group.throughput(Throughput::Elements(BATCH.into()));
    let now = WallMs(1_764_253_800_123);
    for (name, numbers) in [("uniq64", &*UNIQ64), ("uniq96", &*UNIQ96)] {
        let layout = numbers.layout();
        let Some(tick) = layout.tick(now) else { continue };
        let prefix = |nth: u32| layout.prefix(black_box(tick + u64::from(nth)), TokenValue(7)).unwrap_or_default();
        group.bench_function(format!("{name} prefix"), |b| {
            b.iter(|| (0..BATCH).fold(0, |all, nth| all ^ prefix(nth)));
        });
        let (first, mut out) = (prefix(0), Vec::with_capacity(64 * BATCH as usize));
        group.bench_function(format!("{name} decimal"), |b| {
            b.iter(|| {
                out.clear();
                (0..BATCH).for_each(|n| numbers.write(black_box(first + u128::from(n)), TextForm::Decimal, &mut out));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, encodings, layouts, kinds);
criterion_main!(benches);

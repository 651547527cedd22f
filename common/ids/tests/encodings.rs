//! Encodings that hide numbers, over numbers in a row: every one has a text of the promised form that leads back to it and to
//! nothing else, and of `ff1` nothing shows their order.
//!
//! `UNIQ_ENCODED=10000000 cargo nextest run --release -p uniq-ids -E 'binary(encodings)'` looks at ten million.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use ids::encoding::{Encoding, EncodingSource, Secret};

/// A snowflake of November 2026.
const FIRST: u64 = 2_121_000_000_000_000_000;

fn count() -> u64 {
    std::env::var("UNIQ_ENCODED").map_or(5_000, |count| count.parse().expect("UNIQ_ENCODED is a number"))
}

fn encoding(json: &str) -> Encoding {
    let source: EncodingSource = serde_json::from_str(json).unwrap();
    Encoding::of(&source, 64, Some(&Secret::new([9; 32]).key()), &[]).unwrap()
}

/// That a text leads back to its number proves that no other number has it.
#[test]
fn numbers_in_a_row_have_different_texts_of_the_promised_form() {
    let upper = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    for (json, lens, characters) in [
        (r#"{"form":"ff1","length":20}"#, 20..=20, "0123456789"),
        (r#"{"form":"ff1","length":13,"alphabet":"0123456789ABCDEFGHJKMNPQRSTVWXYZ"}"#, 13..=13, upper),
        (r#"{"form":"sqids","length":12}"#, 12..=64, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
    ] {
        let encoding = encoding(json);
        for number in FIRST..FIRST + count() {
            let text = encoding.text(number.into()).unwrap();
            assert!(lens.contains(&text.len()) && text.chars().all(|c| characters.contains(c)), "{number}: {text}");
            assert_eq!(encoding.read(&text), Some(number.into()), "{text}");
        }
        println!("{json}: {} texts, none twice", count());
    }
}

/// The digits in every place are as frequent as each other, also given the digit that the number before had there, and texts of
/// numbers in a row are not correlated. Bounds that one key in a million exceeds; the key is the same at each run.
#[test]
fn nothing_of_the_order_is_seen_in_ff1() {
    const PLACES: usize = 20;
    let (encoding, n) = (encoding(r#"{"form":"ff1","length":20}"#), count());
    let mut digits = vec![[0u64; 10]; PLACES];
    let mut pairs = vec![[0u64; 100]; PLACES];
    let (mut before, mut fractions): (Option<Vec<u8>>, Vec<f64>) = (None, Vec::new());
    for number in FIRST..FIRST + n {
        let text = encoding.text(number.into()).unwrap();
        fractions.push(format!("0.{text}").parse().unwrap());
        let text: Vec<u8> = text.bytes().map(|c| c - b'0').collect();
        // The first place of 20 digits of 64 bits is as good as any: the texts are all numbers of 20 digits.
        for (place, digit) in text.iter().enumerate() {
            digits[place][usize::from(*digit)] += 1;
            if let Some(before) = &before {
                pairs[place][usize::from(before[place] * 10 + digit)] += 1;
            }
        }
        before = Some(text);
    }
    let chi_squared = |counts: &[u64]| {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum::<f64>()
    };
    // 9 and 99 degrees of freedom, 20 places: a quantile of 1 - 10^-6 for all of them together.
    let worst = |counts: &mut dyn Iterator<Item = f64>| counts.fold(0.0, f64::max);
    let (single, paired) =
        (worst(&mut digits.iter().map(|c| chi_squared(c))), worst(&mut pairs.iter().map(|c| chi_squared(c))));
    let mean = fractions.iter().sum::<f64>() / n as f64;
    let variance = fractions.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    let covariance = fractions.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    let correlation = covariance / variance;
    println!(
        "{n} texts: chi-squared {single:.1} of 9, {paired:.1} of 99 degrees of freedom; correlation {correlation:.5}"
    );
    assert!(single < 49.0 && paired < 192.0, "{single} {paired}");
    assert!(correlation.abs() < 5.0 / (n as f64).sqrt(), "{correlation}");
}

//! Answers, as the client takes them: the next agent is asked if another one may help, and what it says is typed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod source;

use source::{Mood, Source};
use std::sync::atomic::Ordering;
use std::time::Duration;
use uniq_client::{Cause, Client, Error, MintCode, Settings};

async fn of(moods: &[Mood]) -> (Client, Vec<Source>) {
    let mut addresses = Vec::new();
    let mut sources = Vec::new();
    for mood in moods {
        let (address, source) = Source::start(*mood).await;
        addresses.push(address);
        sources.push(source);
    }
    let mut settings = Settings::new(addresses.iter().map(String::as_str)).unwrap();
    settings.timeout = Duration::from_secs(2);
    (Client::new(settings).unwrap(), sources)
}

const FAILING: [Mood; 6] =
    [Mood::Short, Mood::Half, Mood::Html, Mood::Endless, Mood::Silent, Mood::Problem("lease_expired", 503)];

#[tokio::test]
async fn the_next_agent_is_asked_whatever_is_wrong_with_the_first() {
    for mood in FAILING {
        let (client, sources) = of(&[mood, Mood::Well]).await;
        let first = client.uniq64_batch("default", 5).await.unwrap();
        let second = client.uniq64_batch("default", 5).await.unwrap();
        assert_eq!((first, second), ((0..5).collect(), (5..10).collect()), "{mood:?}");
        let asked = sources.iter().map(|source| source.requests.load(Ordering::SeqCst)).collect::<Vec<_>>();
        assert_eq!(asked, [1, 2], "{mood:?}: whoever failed is not asked again while another one answers");
    }
}

#[tokio::test]
async fn plain_numbers_and_ids_of_any_kind_come_as_many_as_were_asked_for() {
    let (client, _sources) = of(&[Mood::Well]).await;
    assert_eq!(client.number("orders").await, Ok(0));
    assert_eq!(client.numbers("orders", 3).await, Ok(vec![1, 2, 3]));
    assert_eq!(client.text("orders", "", "").await, Ok("4".to_owned()));
    assert_eq!(client.texts("orders", 2, "", "").await, Ok(vec!["5".to_owned(), "6".to_owned()]));
    let (client, _sources) = of(&[Mood::Short]).await;
    assert!(matches!(client.number("orders").await, Err(Error::Unavailable(_))), "one less than was asked for");
}

#[tokio::test]
async fn what_everybody_said_is_told_with_types() {
    let (client, _sources) = of(&FAILING).await;
    let error = client.uniq64("default").await.unwrap_err();
    let Error::Unavailable(attempts) = &error else { panic!("{error}") };
    let causes: Vec<&Cause> = attempts.iter().map(|attempt| &attempt.cause).collect();
    assert!(matches!(causes[0], Cause::Answer(_)), "{error}");
    assert!(matches!(causes[1], Cause::Answer(_)), "{error}");
    assert!(matches!(causes[2], Cause::Answer(what) if what.contains("502")), "{error}");
    assert!(matches!(causes[3], Cause::Answer(_) | Cause::Timeout), "{error}");
    assert_eq!(causes[4], &Cause::Timeout, "{error}");
    assert!(matches!(causes[5], Cause::Cannot { code: MintCode::LeaseExpired, .. }), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn what_no_agent_would_answer_differently_is_returned_at_once() {
    for (code, text, status) in
        [(MintCode::BadParameter, "bad_parameter", 400), (MintCode::UnknownGenerator, "unknown_generator", 404)]
    {
        let (client, sources) = of(&[Mood::Problem(text, status), Mood::Well]).await;
        let refused = Error::Refused { code, detail: "for a test".to_owned() };
        assert_eq!(client.uniq64("default").await, Err(refused));
        assert_eq!(sources[1].requests.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_not_asked_at_all() {
    let (client, sources) = of(&[Mood::Well]).await;
    for n in [0, uniq_client::BATCH_MAX + 1] {
        let refused = client.uniq64_batch("default", n).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { code: MintCode::BadParameter, .. }), "{refused}");
    }
    for name in ["", "A", "a/b", "..", &"n".repeat(64)] {
        assert!(matches!(client.uniq64(name).await, Err(Error::Refused { .. })), "{name}");
    }
    assert!(matches!(client.uniq_string("default", "a&n=9", "").await, Err(Error::Refused { .. })));
    assert_eq!(sources[0].requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn nobody_there_is_told_with_every_reason() {
    let settings = Settings::new(["http://127.0.0.1:9", "tarpc://127.0.0.1:9"]).unwrap();
    let error = Client::new(settings).unwrap().uniq96().await.unwrap_err();
    let Error::Unavailable(attempts) = &error else { panic!("{error}") };
    assert!(attempts.iter().all(|attempt| matches!(attempt.cause, Cause::Connection(_))), "{error}");
    assert!(error.to_string().contains("tarpc://127.0.0.1:9"), "{error}");
}

use super::*;
use crate::places::Places;
use crate::turns::CallerId;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// Size of the far end's pipe, in bytes.
const PIPE: usize = 1 << 10;

type Near = Connection<DuplexStream, String, Vec<u8>>;

fn place() -> Place {
    Places::new(1).take(CallerId::of(())).unwrap()
}

fn pair(pipe: usize, memory: u32) -> (Near, DuplexStream, Budget) {
    let (near, far) = tokio::io::duplex(pipe);
    let budget = Budget::new(memory);
    let bounds = Bounds { requests_max: 4, frame_len_max: CALL_LEN_MAX, budget: budget.clone() };
    (Connection::new(near, &bounds, place()), far, budget)
}

fn request(id: u64, text: &str) -> Vec<u8> {
    // Variant, deadline; the trace context (two ids and a flag), the request's number, its body.
    let bytes = codec().serialize(&(0u32, (5u64, 0u32), [1u8; 16], 1u64, 1u32, id, text)).unwrap();
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], &bytes].concat()
}

fn taken(message: Option<io::Result<ClientMessage<Charged<String>>>>) -> Charged<String> {
    match message {
        Some(Ok(ClientMessage::Request(request))) => request.message,
        other => panic!("{other:?}"),
    }
}

fn answer(request_id: u64, len: usize, kept: Option<Kept>) -> Response<BudgetedReply<Vec<u8>>> {
    Response { request_id, message: Ok(BudgetedReply { body: vec![7; len], kept }) }
}

#[tokio::test]
async fn frames_of_all_sizes_come_through_and_only_large_ones_are_counted() {
    let (mut near, mut far, budget) = pair(PIPE, 1 << 20);
    let sizes = [0, 1, 100, 400, 600, READ_LEN, READ_LEN + 1, 40_000, 3, CALL_LEN_MAX - 100, 9];
    let writer = tokio::spawn(async move {
        for (id, size) in sizes.into_iter().enumerate() {
            far.write_all(&request(id as u64, &"x".repeat(size))).await.unwrap();
        }
        far
    });
    for size in sizes {
        let asked = taken(near.next().await);
        assert_eq!(asked.request.len(), size);
        let counted = asked.charge.as_ref().map_or(0, Charge::num_permits);
        assert_eq!(counted > 0, size >= FREE_REQUEST_LEN, "{size}");
        assert!(counted == 0 || counted >= size, "{size}");
        drop(asked);
        // What follows may have begun to come, but is smaller than what it may have for nothing.
        assert!(budget.left() + CALL_LEN_MAX >= 1 << 20);
    }
    drop(writer.await.unwrap());
    assert!(near.next().await.is_none());
    assert_eq!(budget.left(), 1 << 20);
    assert_eq!(near.read.capacity(), near.read.capacity().min(2 * READ_LEN), "no buffer is kept for the largest");
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_begins_must_be_whole_in_time_and_an_idle_connection_may_wait() {
    let (mut near, mut far, budget) = pair(PIPE, 1 << 20);
    assert!(tokio::time::timeout(10 * FRAME_TIMEOUT, near.next()).await.is_err(), "idle");
    let slow = tokio::spawn(async move {
        let whole = request(1, &"x".repeat(20_000));
        far.write_all(&whole[..500]).await.unwrap();
        tokio::time::sleep(FRAME_TIMEOUT / 2).await;
        far.write_all(&whole[500..]).await.unwrap();
        far.write_all(&request(2, "y")[..3]).await.unwrap();
        far
    });
    drop(taken(near.next().await));
    let before = Ended::FrameLate.total();
    let error = near.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(Ended::FrameLate.total() > before);
    drop((slow, near));
    assert_eq!(budget.left(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_frame_waits_for_the_budget_and_not_for_ever() {
    let (mut near, mut far, budget) = pair(1 << 20, 100_000);
    far.write_all(&request(1, &"x".repeat(20_000))).await.unwrap();
    let held = budget.semaphore().acquire_many_owned(90_000).await;
    let release = async {
        tokio::time::sleep(FRAME_TIMEOUT / 2).await;
        drop(held);
    };
    let (asked, ()) = tokio::join!(near.next(), release);
    drop(taken(asked));
    far.write_all(&request(2, &"x".repeat(20_000))).await.unwrap();
    let _held = budget.semaphore().acquire_many_owned(90_000).await;
    let before = Ended::NoRoom.total();
    assert!(near.next().await.unwrap().is_err());
    assert!(Ended::NoRoom.total() > before);
}

#[tokio::test]
async fn a_frame_longer_than_the_port_takes_is_refused_by_its_head() {
    let (mut near, mut far, budget) = pair(PIPE, 1 << 20);
    far.write_u32(u32::try_from(CALL_LEN_MAX).unwrap() + 1).await.unwrap();
    assert_eq!(near.next().await.unwrap().unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(budget.left(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn an_answer_keeps_its_part_until_it_is_sent_and_nothing_more_is_taken_meanwhile() {
    let (mut near, mut far, budget) = pair(PIPE, 1 << 20);
    far.write_all(&request(1, "a")).await.unwrap();
    far.write_all(&request(2, "b")).await.unwrap();
    drop(taken(near.next().await));
    let kept = Kept { _turn: None, _bytes: budget.of(CallerId::of(())).take(100_000).await };
    near.feed(answer(1, 100_000, Some(kept))).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_secs(1), async {
        tokio::select! {
            _ = near.next() => panic!("took a request while an answer waits"),
            () = std::future::pending() => {}
        }
    });
    assert!(waits.await.is_err());
    assert_eq!(budget.left(), (1 << 20) - 100_000);
    let reader = tokio::spawn(async move {
        let mut got = vec![0; 100_000];
        far.read_exact(&mut got).await.unwrap();
        far
    });
    near.flush().await.unwrap();
    assert_eq!(budget.left(), 1 << 20, "all is with the kernel");
    assert_eq!(taken(near.next().await).request, "b");
    drop(reader.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_let_go_and_who_reads_slowly_is_not() {
    let (mut near, mut far, budget) = pair(WRITE_STEP, 1 << 20);
    let kept = Kept { _turn: None, _bytes: budget.of(CallerId::of(())).take(500_000).await };
    near.feed(answer(1, 4 * WRITE_STEP - 100, Some(kept))).await.unwrap();
    let reader = tokio::spawn(async move {
        let mut got = vec![0; WRITE_STEP];
        for _ in 0..3 {
            tokio::time::sleep(WRITE_TIMEOUT * 3 / 4).await;
            far.read_exact(&mut got).await.unwrap();
        }
        far
    });
    near.flush().await.unwrap();
    let far = reader.await.unwrap();
    assert_eq!(budget.left(), 1 << 20);
    // One byte now and then is not reading.
    let kept = Kept { _turn: None, _bytes: budget.of(CallerId::of(())).take(500_000).await };
    near.feed(answer(2, 4 * WRITE_STEP, Some(kept))).await.unwrap();
    let reader = tokio::spawn(async move {
        let mut far = far;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if far.read_u8().await.is_err() {
                return;
            }
        }
    });
    let before = Ended::Unread.total();
    assert_eq!(near.flush().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!(Ended::Unread.total() > before);
    drop(near);
    assert_eq!(budget.left(), 1 << 20);
    reader.abort();
}

#[tokio::test]
async fn a_call_that_breaks_a_rule_is_answered_and_the_next_one_is_taken() {
    #[derive(Debug)]
    struct Short;
    impl<'de> serde::Deserialize<'de> for Short {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let text = String::deserialize(from)?;
            if text.len() < 5 { Ok(Self) } else { Err(serde::de::Error::custom("too long")) }
        }
    }
    let (near, mut far) = tokio::io::duplex(PIPE);
    let bounds = Bounds { requests_max: 4, frame_len_max: CALL_LEN_MAX, budget: Budget::new(1 << 20) };
    let mut near = Connection::<_, Short, Vec<u8>>::new(near, &bounds, place());
    far.write_all(&request(8, "longer")).await.unwrap();
    far.write_all(&request(9, "fine")).await.unwrap();
    assert!(matches!(near.next().await, Some(Ok(ClientMessage::Request(request))) if request.id == 9));
    near.flush().await.unwrap();
    let len = far.read_u32().await.unwrap();
    let mut bytes = vec![0; len as usize];
    far.read_exact(&mut bytes).await.unwrap();
    let response: Response<Vec<u8>> = codec().deserialize(&bytes).unwrap();
    assert!(response.request_id == 8 && response.message.unwrap_err().detail.contains("too long"));
}

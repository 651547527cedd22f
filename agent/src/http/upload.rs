//! Bodies of requests, as they come. Memory is charged for what has come, not for what was said to come: whoever says a length and sends
//! nothing keeps nobody else out.

use axum::body::Body;
use futures::StreamExt as _;
use net::budget::{CallerBudget, CallerCharge};

/// Room for the first bytes of a body.
const FIRST: usize = 4 << 10;

/// The reason why a body is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The body has more bytes than it may have.
    TooLong,
    /// Bodies and answers that are under way use all the memory there is for them.
    NoMemory,
    /// The connection broke, or its chunks are malformed.
    Broken,
}

/// A body of at most `max` bytes, and the memory that it takes.
///
/// # Errors
/// [`Unread`]; what was charged is given back.
pub(super) async fn read(sent: Body, max: usize, memory: &CallerBudget) -> Result<(Vec<u8>, CallerCharge), Unread> {
    let mut stream = sent.into_data_stream();
    let mut bytes = Vec::new();
    let mut charge = memory.try_take(0).ok_or(Unread::NoMemory)?;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Unread::Broken)?;
        let len = bytes.len().saturating_add(chunk.len());
        if len > max {
            return Err(Unread::TooLong);
        }
        if len > bytes.capacity() {
            // Twice as much each time, so that few bytes are moved; no more than there may be.
            let room = bytes.capacity().saturating_mul(2).max(FIRST).min(max).max(len);
            charge.merge(memory.try_take(room - bytes.capacity()).ok_or(Unread::NoMemory)?);
            bytes.reserve_exact(room - bytes.len());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, charge))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use net::budget::Budget;
    use net::turns::CallerId;

    type Chunk = Result<Vec<u8>, std::io::Error>;

    fn body(chunks: Vec<Chunk>) -> Body {
        Body::from_stream(stream::iter(chunks))
    }

    #[tokio::test]
    async fn what_has_come_is_charged_and_given_back() {
        let memory = Budget::new(100_000);
        let (bytes, charge) =
            read(body(vec![Ok(vec![7; 3_000]), Ok(vec![8; 6_000])]), 20_000, &memory.of(CallerId::of(())))
                .await
                .unwrap();
        assert_eq!((bytes.len(), bytes[2_999], bytes[3_000]), (9_000, 7, 8));
        assert_eq!(100_000 - memory.left(), bytes.capacity(), "as much as it takes");
        drop(charge);
        assert_eq!(memory.left(), 100_000);
        let (bytes, _charge) = read(Body::empty(), 10, &memory.of(CallerId::of(()))).await.unwrap();
        assert_eq!((bytes.len(), memory.left()), (0, 100_000));
    }

    #[tokio::test]
    async fn a_body_has_no_more_than_it_may_have() {
        let memory = Budget::new(6_000);
        let of = |lens: &[usize]| body(lens.iter().map(|len| Ok(vec![0; *len])).collect());
        assert_eq!(read(of(&[10, 1]), 10, &memory.of(CallerId::of(()))).await.unwrap_err(), Unread::TooLong);
        assert!(read(of(&[9, 1]), 10, &memory.of(CallerId::of(()))).await.is_ok());
        assert_eq!(
            read(of(&[4_000, 2_000]), 10_000, &memory.of(CallerId::of(()))).await.unwrap_err(),
            Unread::NoMemory
        );
        let broken = body(vec![Ok(vec![0; 4_000]), Err(std::io::Error::other("gone"))]);
        assert_eq!(read(broken, 10_000, &memory.of(CallerId::of(()))).await.unwrap_err(), Unread::Broken);
        assert_eq!(memory.left(), 6_000);
    }
}

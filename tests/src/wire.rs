//! Calls as bytes, for whoever sends what no client would.

use bincode::Options as _;
use common::kind::Kind;
use net::rpc::mint::MintServiceRequest;
use serde::Serialize;

/// These bytes as a frame.
///
/// # Panics
/// If they are longer than a frame can say.
#[allow(clippy::expect_used)]
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("longer than any frame");
    [&len.to_be_bytes()[..], payload].concat()
}

/// A call as tarpc frames it, with whatever deadline, number and message: a request of a service is one.
pub fn call(deadline: (u64, u32), id: u64, message: &impl Serialize) -> Vec<u8> {
    let (request, trace, span, unsampled) = (0u32, [0u8; 16], 7u64, 1u32);
    let head = (request, deadline, trace, span, unsampled, id);
    frame(&[bytes(&head), bytes(message)].concat())
}

/// The request for `n` Uniq96.
pub fn uniq96(n: u32) -> MintServiceRequest {
    MintServiceRequest::Numbers { kind: Some(Kind::Uniq96), name: String::new(), n }
}

/// The number of the method that a request of a service is for, as it stands on the wire.
///
/// # Panics
/// If it is not such a request.
#[allow(clippy::expect_used)]
pub fn method_of(request: &impl Serialize) -> u32 {
    let begin = bincode::DefaultOptions::new().allow_trailing_bytes();
    begin.deserialize(&bytes(request)).expect("a request begins with the number of its method")
}

#[allow(clippy::expect_used)]
fn bytes(value: &impl Serialize) -> Vec<u8> {
    bincode::DefaultOptions::new().serialize(value).expect("what has no length cannot be sent")
}

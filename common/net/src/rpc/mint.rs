//! `MintService`: the same IDs that an agent gives by HTTP, over tarpc.

use ids::kind::Kind;
use ids::namespace::{GeneratorName, Namespace};
use ids::sequence::{Section, Slot};
use tarpc::client::RpcError;
use tarpc::context::Context;
pub use wire::mint::*;

/// IDs, as one agent mints them.
#[tarpc::service]
pub trait MintService {
    /// `n` numbers of the generator `name` (`default`) of that kind, or of whichever kind the name is; ascending if they sort by time, and
    /// those of a segment.
    async fn numbers(kind: Option<Kind>, name: String, n: u32) -> Result<MintedNumbers, MintFailure>;
    /// `n` IDs of it as its definition writes them; `biz` and `custom` are the caller's parts of strings, and empty for others.
    async fn texts(
        kind: Option<Kind>,
        name: String,
        n: u32,
        biz: String,
        custom: String,
    ) -> Result<Vec<String>, MintFailure>;
    /// Registers what a generator's name stands for with the masters; both confirm. `generator_exists` if the name stands for
    /// something else. With `dry_run` nothing is registered, and the answer is what that would give, or why it would be refused.
    async fn define_generator(namespace: Namespace, dry_run: bool) -> Result<Defined, MintFailure>;
    /// Makes the caller the owner of an API key for the rest of the connection.
    async fn authenticate(key: String) -> Result<(), MintFailure>;
    /// Tells whether the agent can mint now.
    async fn ready() -> Result<(), MintFailure>;
    /// The next `n` numbers of one key of a name of kind `sequence`.
    async fn sequence(call: SequenceCall, slot: Slot, n: u32) -> Result<KeyReply, MintFailure>;
    /// Numbers of up to [`KEYS_PER_CALL_MAX`] keys, each for itself, in the order in which they are asked for.
    async fn sequence_many(call: SequenceCall, keys: Vec<KeyAsked>) -> Result<KeysReply, MintFailure>;
    /// The last number that may have been given for a key: none larger was, and the next one is. Nothing is given.
    async fn sequence_current(call: SequenceCall, slot: Slot) -> Result<KeyReply, MintFailure>;
    /// Asks who serves which sections of a name, from that one on.
    async fn sequence_routes(name: String, from: Section) -> Result<SequenceRoutes, MintFailure>;
}

impl MintServiceClient {
    /// `n` Uniq64 of the generator `name` (`default`), ascending.
    ///
    /// # Errors
    /// Of the connection; and [`MintFailure`], by which no ID was given.
    pub async fn uniq64(&self, call: Context, name: String, n: u32) -> Result<Result<Vec<u64>, MintFailure>, RpcError> {
        Ok(self.numbers(call, Some(Kind::Uniq64), name, n).await?.map(Vec::from))
    }

    /// `n` Uniq96 of their generator, ascending; 96 bits each in the low bits.
    ///
    /// # Errors
    /// As [`uniq64`](Self::uniq64).
    pub async fn uniq96(&self, call: Context, n: u32) -> Result<Result<Vec<u128>, MintFailure>, RpcError> {
        let name = GeneratorName::DEFAULT.to_owned();
        Ok(self.numbers(call, Some(Kind::Uniq96), name, n).await?.map(Vec::from))
    }
}

//! Understanding and answering of a request for IDs, whatever protocol it comes by: what it says is held against the name's definition
//! (`fits.rs`), [`Minter::give`] asks who stands around minting and makes what leaves, and who gets nothing is told of once. Protocols
//! read and write bytes, and nothing else.

mod fits;

use crate::minter::{Generator, Leaves, Minted, Minter};
use crate::plugin::{Call, Caller};
use crate::refusal::Refusal;
use common::kind::{Kind, TextForm};
use common::template::CallerParts;
use std::sync::Arc;

#[cfg(feature = "server")]
pub(crate) use service::MintService;

/// A request for IDs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MintRequest<'a> {
    /// `None`: whichever the name is of.
    pub(crate) kind: Option<Kind>,
    pub(crate) name: &'a str,
    pub(crate) n: u32,
    /// The caller's parts of strings.
    pub(crate) biz: Option<&'a str>,
    pub(crate) custom: Option<&'a str>,
    pub(crate) form: Form,
    pub(crate) caller: Caller<'a>,
    /// The most IDs of one answer,
    pub(crate) n_max: u32,
    /// and as many texts of so many bytes.
    pub(crate) texts_max: fn(usize) -> u32,
}

/// The form in which the IDs leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Numbers.
    Numbers,
    /// Texts as the name writes them, all at once.
    Texts,
    /// Texts that the protocol writes piece by piece, perhaps in another form than the name's own.
    #[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only listeners write texts piece by piece"))]
    Streamed(Option<TextForm>),
}

/// A request that fits its generator.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) generator: &'a Arc<Generator>,
    /// The caller's parts of strings, checked.
    pub(crate) parts: CallerParts,
}

impl<'a> Asked<'a> {
    fn of(request: &MintRequest<'_>, generator: &'a Arc<Generator>) -> Result<Self, Refusal> {
        Ok(Self { generator, parts: fits::fits(request, generator.kind(), generator.namespace())? })
    }

    fn leaves(&self, form: Form) -> Leaves<'_> {
        match form {
            Form::Numbers => Leaves::Numbers,
            Form::Texts => Leaves::Texts(&self.parts),
            Form::Streamed(_) => Leaves::Streamed(&self.parts),
        }
    }
}

/// IDs of this process, by a generator that is known, on a thread that may block. Tells of a refusal.
pub(crate) fn ask_blocking(
    minter: &Arc<Minter>,
    generator: Result<&Arc<Generator>, Refusal>,
    request: &MintRequest<'_>,
) -> Result<Minted, Refusal> {
    let asked = generator.and_then(|generator| Asked::of(request, generator));
    let minted = asked
        .and_then(|asked| minter.give_blocking(asked.generator, request.n, asked.leaves(request.form), request.caller));
    minted.inspect_err(|refusal| {
        let (kind, n, now) = (request.kind.unwrap_or_default(), request.n.max(1), minter.time().now());
        minter.calls().tell(&Call { kind, name: request.name, n, caller: request.caller, now }, refusal);
    })
}

#[cfg(feature = "server")]
mod service {
    use crate::catalog::{Catalog, Unserved};
    use crate::mint::fits::{fits, within, without_keys};
    use crate::mint::{Asked, MintRequest};
    use crate::minter::{Minted, Minter};
    use crate::plugin::{Call, Caller};
    use crate::refusal::Refusal;
    use common::kind::Kind;
    use common::namespace::Namespace;
    use std::sync::Arc;

    fn fits_heard(request: &MintRequest<'_>, heard: &Namespace) -> Result<(), Refusal> {
        fits(request, heard.kind(), heard).map(drop)
    }

    /// The service that listeners ask for IDs.
    #[derive(Clone, Copy)]
    pub(crate) struct MintService<'a> {
        minter: &'a Arc<Minter>,
        /// The names, to ask the masters about unknown ones; `None`: there are only those that the minter was given.
        names: Option<&'a Arc<Catalog>>,
    }

    impl<'a> MintService<'a> {
        pub(crate) fn new(minter: &'a Arc<Minter>, names: Option<&'a Arc<Catalog>>) -> Self {
            Self { minter, names }
        }

        /// The request as it fits what is known here.
        pub(crate) fn known(self, request: &MintRequest<'_>) -> Result<Asked<'a>, Refusal> {
            let any = || self.minter.names().kind_of(request.name).ok_or_else(|| Refusal::unknown_name(request.name));
            let kind = request.kind.map_or_else(any, Ok)?;
            without_keys(kind)?;
            Asked::of(request, self.minter.names().generator(kind, request.name)?)
        }

        /// The name, if it is unknown here and the masters may be asked about it.
        pub(crate) fn to_look_up(self, request: &MintRequest<'_>) -> Option<Unserved> {
            self.names?.unserved(request.name, |heard| fits_heard(request, heard))
        }

        /// The same as [`known`](Self::known) after the masters were asked about a name that is unknown here. That takes it in use.
        pub(crate) async fn understand(self, request: &MintRequest<'_>) -> Result<Asked<'a>, Refusal> {
            match (self.known(request), self.names) {
                // Few calls come here; the others should not carry the room that asking takes.
                (Err(_), Some(names)) => Box::pin(self.look_up(names, request)).await,
                (known, _) => known,
            }
        }

        async fn look_up(self, names: &Arc<Catalog>, request: &MintRequest<'_>) -> Result<Asked<'a>, Refusal> {
            // First: about what nobody can have nobody is asked.
            within(request.n, request.n_max)?;
            names.look_up(request.name, |heard| fits_heard(request, heard)).await?;
            self.known(request)
        }

        /// IDs for that request. Tells of a refusal.
        pub(crate) async fn ask(self, request: &MintRequest<'_>) -> Result<Minted, Refusal> {
            let told = |refusal: Refusal| {
                self.tell(request.kind, request.name, request.n, request.caller, &refusal);
                refusal
            };
            // Not within one match: what is at hand there lies in the future of every call.
            let asked = match self.understand(request).await {
                Ok(asked) => asked,
                Err(refusal) => return Err(told(refusal)),
            };
            let minting = self.minter.give(asked.generator, request.n, asked.leaves(request.form), request.caller);
            minting.await.map_err(told)
        }

        /// Tells of a call that gets no IDs, and counts it.
        #[cold]
        pub(crate) fn tell(self, kind: Option<Kind>, name: &str, n: u32, caller: Caller<'_>, refusal: &Refusal) {
            let kind = kind.or_else(|| self.minter.names().kind_of(name)).unwrap_or_default();
            let (n, now) = (n.max(1), self.minter.time().now());
            self.minter.calls().tell(&Call { kind, name, n, caller, now }, refusal);
        }
    }
}

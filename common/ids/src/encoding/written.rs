//! An encoding that a definition has, built once.

use super::{Encoding, EncodingForm, EncodingSource, InvalidEncoding, Key, Secrets, Way, Words, ones};
use crate::strategy::{Unready, may_leave};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// The way in which a definition writes numbers of so many bits. Built only by checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WrittenAs {
    source: EncodingSource,
    bits: u32,
    /// The largest of them.
    last: u128,
    built: Built,
}

/// The encoding once it was built, for all copies of a definition: building one of `sqids` takes milliseconds, and a master
/// reads a thousand definitions at a time. It follows from the definition, so it stands for nothing in a comparison.
#[derive(Clone, Debug, Default)]
struct Built(Arc<OnceLock<Result<Arc<Encoding>, InvalidEncoding>>>);

impl PartialEq for Built {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Built {}

impl Hash for Built {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl WrittenAs {
    /// An encoding of all numbers of `bits` bits.
    ///
    /// # Errors
    /// As of [`up_to`](Self::up_to).
    pub fn new(source: EncodingSource, bits: u32) -> Result<Self, InvalidEncoding> {
        Self::up_to(source, bits, ones(bits))
    }

    /// An encoding of numbers of `bits` bits up to `last`.
    ///
    /// # Errors
    /// [`InvalidEncoding`], with the reason; of `ff1` also if it does not say its secret.
    pub fn up_to(source: EncodingSource, bits: u32, last: u128) -> Result<Self, InvalidEncoding> {
        Encoding::check(&source, bits, last)?;
        if source.form() == EncodingForm::Ff1 && source.secret().is_none() {
            return Err(InvalidEncoding::NoKey);
        }
        Ok(Self { source, bits, last, built: Built::default() })
    }

    /// Numbers of `bits` bits as they are.
    pub(crate) fn decimal(bits: u32) -> Self {
        Self { source: EncodingSource::default(), bits, last: ones(bits), built: Built::default() }
    }

    /// The encoding as a person writes it.
    pub fn source(&self) -> &EncodingSource {
        &self.source
    }

    /// The encoding, to write with and to read by: built once for all copies of a definition, but for `ff1`, which only those
    /// get who have its secret. What is no encoding of bits alone, `build` makes.
    ///
    /// # Errors
    /// [`InvalidEncoding::OtherKey`] of `ff1`, and what `build` says; all else was checked when the definition was made.
    pub fn encoding(
        &self,
        secrets: &Secrets,
        build: impl FnOnce(&EncodingSource) -> Result<Encoding, InvalidEncoding>,
    ) -> Result<Arc<Encoding>, InvalidEncoding> {
        let of = |key| Encoding::build(&self.source, self.bits, self.last, key, &[], Words::LeftOut);
        if let Some(mark) = self.source.secret() {
            let key = secrets.key(mark).ok_or(InvalidEncoding::OtherKey(mark))?;
            return of(Some(&key)).map(Arc::new);
        }
        let Built(built) = &self.built;
        if let Some(encoding) = built.get() {
            return encoding.clone();
        }
        let encoding = match self.source.form() {
            EncodingForm::Strategy => build(&self.source),
            _ => of(None),
        };
        match encoding.map(Arc::new) {
            // Whoever asks next may have it.
            Err(unknown @ InvalidEncoding::Strategy(Unready::Unknown { .. })) => Err(unknown),
            made => built.get_or_init(|| made).clone(),
        }
    }

    /// Tells whether the text may be of this encoding, whose secret or strategy is not here.
    pub fn may_be(&self, text: &str) -> bool {
        if self.source.form() == EncodingForm::Strategy {
            return may_leave(text);
        }
        let any_key = Key::new([0; Key::LEN]);
        let encoding = Encoding::build(&self.source, self.bits, self.last, Some(&any_key), &[], Words::NotLookedAt);
        encoding.is_ok_and(|Encoding { way, prefix, .. }| {
            let own = text.strip_prefix(&*prefix);
            matches!((way, own), (Way::Ff1(ff1), Some(own)) if ff1.may_be(own.as_bytes()))
        })
    }

    /// The encoding of numbers that have no layout, so no strategy.
    ///
    /// # Errors
    /// As of [`encoding`](Self::encoding).
    pub fn plain(&self, secrets: &Secrets) -> Result<Arc<Encoding>, InvalidEncoding> {
        self.encoding(secrets, |_| Err(InvalidEncoding::OnlyLayouts))
    }
}

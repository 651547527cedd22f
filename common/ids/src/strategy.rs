//! Strategies: ways of an application's own to make the texts of IDs out of numbers that never repeat.
//!
//! A name of kind `layout` whose encoding is `{"form":"strategy","strategy":"orders"}` is minted as every layout is: the agent
//! leases a token that fits the layout, keeps the mark of time durable ahead of use, and takes a number of time, token and
//! serial that nobody else has. What leaves is what the strategy makes of the number.
//!
//! | | who does it |
//! |---|---|
//! | what is leased, and what is durable | [`Strategy::needs`] says it: the width of the layout's token field decides the type of token, its tick the mark of time |
//! | once for each name | [`Strategy::init`] |
//! | for each call of so many IDs | [`Generate::generate`] |
//! | to take an ID apart | [`Generate::read`] |
//!
//! **A strategy cannot make an ID come twice**, as long as what it reads is a function of the text. A text leaves only if
//! [`read`](Generate::read) gives back, from that text alone, the number that it was made of; a second instance of it is asked, which
//! has generated nothing and so remembers nothing. Two numbers therefore never have one text, and no number is given out twice. All else that it
//! does wrong (an error, a panic, too few texts, a text that is too long or has a character that JSON would escape) is a
//! refusal, and the numbers are a gap.
//!
//! The number that `read` gives for a text must never change: it is asked again when the ID is minted and when somebody explains it, by every
//! program that knows the name. So take another name for another way to write.

use crate::layout::{Layout, LayoutSpec};
use crate::panics::caught;
use crate::plugin::{Parameters, PluginName};
use crate::time::WallMs;
use crate::token::TokenValue;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Strategies that one program has at most.
pub const STRATEGIES_MAX: usize = 256;
/// Bytes of a text that a strategy makes.
pub const STRATEGY_TEXT_LEN_MAX: usize = 64;
/// Bytes of what a definition says to its strategy, as JSON that stands in a text of JSON: so records keep it.
pub const STRATEGY_PARAMETERS_LEN_MAX: usize = 128;
/// Panics in a row after which a strategy is not asked to read what somebody sends.
const READ_PANICS_MAX: u32 = 16;
/// Characters of a reason that are repeated.
const REASON_LEN_MAX: usize = 256;

/// A way to make texts of numbers, known by a name; see the [module](self).
pub trait Strategy: Send + Sync {
    /// The layout whose numbers have to be leased and kept for it. It stands in for a definition that names none.
    fn needs(&self) -> LayoutSpec;

    /// Makes it ready for a name. Called twice for each, once to generate and once to read, and again in programs that take IDs
    /// apart. It may take its time: nothing else waits for it.
    ///
    /// # Errors
    /// The reason why its IDs cannot be made, worded for whoever wrote the definition. The name then gives no IDs here.
    fn init(&self, of: Defined<'_>) -> Result<Box<dyn Generate>, String>;
}

/// The definition that a strategy is made ready for.
#[derive(Clone, Copy, Debug)]
pub struct Defined<'a> {
    /// The layout of the numbers; it may be another one than [`Strategy::needs`] says.
    pub layout: &'a Layout,
    /// The parameters.
    pub parameters: &'a Parameters,
}

/// A strategy that is ready for a name.
pub trait Generate: Send + Sync {
    /// The texts of these numbers, in their order: 1 to 64 characters each, of the visible ones of ASCII without `"` and `\`. It
    /// runs on the thread that serves the call, of more than 4,000 IDs on one of its own: what waits here keeps others waiting.
    /// Equal numbers have equal texts.
    ///
    /// # Errors
    /// The reason why there are none. The caller is told, and the numbers are a gap.
    fn generate(&self, ids: &[Minted]) -> Result<Vec<String>, String>;

    /// The number whose text this is, told from the text alone and for ever; `None` if it is none of its texts. It is asked for
    /// every text that is about to leave, and for texts that anybody sends.
    fn read(&self, text: &str) -> Option<u128>;
}

/// A number that was minted, and what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Minted {
    /// The number, of as many bits as the layout has.
    pub number: u128,
    /// The start of its tick.
    pub time: WallMs,
    /// The leased token.
    pub token: TokenValue,
    /// The count within tick and token.
    pub serial: u32,
}

/// A fault of a strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the strategy '{name}' {what}")]
pub struct Fault {
    name: String,
    what: String,
    panicked: bool,
}

impl Fault {
    /// Tells whether it panicked.
    pub fn is_panic(&self) -> bool {
        self.panicked
    }
}

/// The strategies that a program has.
#[derive(Clone, Default)]
pub struct Strategies(BTreeMap<String, Arc<dyn Strategy>>);

/// The reason why a strategy is not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Not a name.
    #[error("'{0}' is not a strategy's name: write 1 to {max} of a-z 0-9 _ -", max = PluginName::LEN_MAX)]
    Name(String),
    /// There is one of that name.
    #[error("there is a strategy '{0}' already")]
    Taken(String),
    /// More than [`STRATEGIES_MAX`].
    #[error("a program has at most {STRATEGIES_MAX} strategies")]
    TooMany,
}

impl Strategies {
    /// Not a single one.
    pub const NONE: &'static Self = &Self(BTreeMap::new());

    /// Adds a strategy, by which definitions may name it.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register(&mut self, name: &str, strategy: impl Strategy + 'static) -> Result<(), RegisterError> {
        let name = check_name(name).map_err(RegisterError::Name)?;
        if self.0.contains_key(&name) {
            return Err(RegisterError::Taken(name));
        }
        if self.0.len() >= STRATEGIES_MAX {
            return Err(RegisterError::TooMany);
        }
        self.0.insert(name, Arc::new(strategy));
        Ok(())
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The layout that the strategy of that name needs; `None` if there is none, or it panics.
    pub fn needs(&self, name: &str) -> Option<LayoutSpec> {
        let strategy = self.0.get(name)?;
        caught(|| strategy.needs()).ok()
    }

    /// The strategy of that name, ready for numbers of that layout.
    ///
    /// # Errors
    /// [`Unready`].
    pub fn ready(&self, name: &str, of: Defined<'_>) -> Result<Own, Unready> {
        let strategy = self.0.get(name).ok_or_else(|| Unready::Unknown {
            name: name.to_owned(),
            known: match self.0.is_empty() {
                true => "none".to_owned(),
                false => self.names().collect::<Vec<_>>().join(", "),
            },
        })?;
        let init = || {
            let made = caught(|| strategy.init(of)).unwrap_or_else(|panic| Err(format!("it panicked: {panic}")));
            made.map_err(|why| Unready::Refused { name: name.to_owned(), why: cut(&why) })
        };
        let (generate, reader, layout) = (init()?, init()?, of.layout.clone());
        Ok(Own { name: name.to_owned(), layout, generate, reader, read_panics: AtomicU32::new(0) })
    }
}

impl fmt::Debug for Strategies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The reason why a name's strategy cannot be used by a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unready {
    /// The program has no such strategy.
    #[error(
        "this program has no strategy '{name}' (it has {known}): ask an agent of the application that registers it"
    )]
    Unknown {
        /// The strategy.
        name: String,
        /// The strategies that there are.
        known: String,
    },
    /// The strategy does not do what the definition says.
    #[error("the strategy '{name}' does not take this definition: {why}")]
    Refused {
        /// The strategy.
        name: String,
        /// Its reason.
        why: String,
    },
}

/// Returns `name` if it may be a strategy's.
///
/// # Errors
/// The name, shown so that it fits a line.
pub fn check_name(name: &str) -> Result<String, String> {
    let parsed: Result<PluginName, _> = name.parse();
    let shown = || name.chars().take(PluginName::LEN_MAX).flat_map(char::escape_default).collect();
    parsed.map(|name| name.as_str().to_owned()).map_err(|_| shown())
}

/// Cuts a reason to what is repeated of it.
fn cut(why: &str) -> String {
    why.chars().take(REASON_LEN_MAX).collect()
}

/// A strategy at work for the numbers of one layout.
pub struct Own {
    name: String,
    layout: Layout,
    generate: Box<dyn Generate>,
    /// A second one, which has generated nothing: what it reads, it reads from the text and not from what it remembers.
    reader: Box<dyn Generate>,
    /// Panics in a row while it read.
    read_panics: AtomicU32,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("name", &self.name).field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Own {
    /// The strategy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The texts of these numbers, each of which reads back as its number.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn texts(&self, numbers: &[u128]) -> Result<Vec<String>, Fault> {
        let fault = |what: String, panicked| Fault { name: self.name.clone(), what, panicked };
        let minted = |number: &u128| {
            let parts = self.layout.parts(*number)?;
            Some(Minted { number: *number, time: parts.time, token: parts.token, serial: parts.serial })
        };
        let ids: Option<Vec<_>> = numbers.iter().map(minted).collect();
        let ids = ids.ok_or_else(|| fault("was given a number that is none of its layout".to_owned(), false))?;
        let panicked = |panic| fault(format!("panicked: {panic}"), true);
        let texts = caught(|| self.generate.generate(&ids)).map_err(panicked)?;
        let texts = texts.map_err(|why| fault(format!("made no IDs: {}", cut(&why)), false))?;
        if texts.len() != numbers.len() {
            return Err(fault(format!("made {} texts of {} numbers", texts.len(), numbers.len()), false));
        }
        if let Some(text) = texts.iter().find(|text| !may_leave(text)) {
            let shown: String = text.chars().take(STRATEGY_TEXT_LEN_MAX).flat_map(char::escape_default).collect();
            let allowed = format!("1 to {STRATEGY_TEXT_LEN_MAX} visible characters of ASCII without \" and \\");
            return Err(fault(format!("made a text that is not {allowed}: '{shown}'"), false));
        }
        let unread = caught(|| {
            let mut pairs = numbers.iter().zip(&texts);
            pairs.find(|(number, text)| self.reader.read(text) != Some(**number))
        });
        match unread.map_err(panicked)? {
            // Not with the number, which the text may be there to hide.
            Some((_, text)) => Err(fault(format!("does not read '{text}' as the number that it was made of"), false)),
            None => {
                self.read_panics.store(0, Ordering::Relaxed);
                Ok(texts)
            }
        }
    }

    /// The number that would be written as exactly this text. After so many panics in a row it is not asked any more, until it has
    /// made texts again: anybody may send it texts.
    pub fn read(&self, text: &str) -> Option<u128> {
        if !may_leave(text) || self.read_panics.load(Ordering::Relaxed) >= READ_PANICS_MAX {
            return None;
        }
        let Ok(read) = caught(|| self.reader.read(text)) else {
            self.read_panics.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let number = read?;
        let fits = self.layout.bits() >= u128::BITS || number >> self.layout.bits() == 0;
        let again = if fits { self.texts(&[number]).ok()? } else { Vec::new() };
        (again.first().map(String::as_str) == Some(text)).then_some(number)
    }
}

/// Tells whether a text may leave: it has no character that would have to be escaped in an answer, and an end.
pub(crate) fn may_leave(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    (1..=STRATEGY_TEXT_LEN_MAX).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::Parameter;
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    /// The behaviours of a strategy of this test.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Does {
        Right,
        Err,
        Panics,
        PanicsReading,
        TooFew,
        Quote,
        Empty,
        Long,
        /// Two numbers get one text.
        Alike,
    }

    struct Dressed(Does, String);

    impl Strategy for Dressed {
        fn needs(&self) -> LayoutSpec {
            LayoutSpec { layout: Some("snowflake".to_owned()), ..LayoutSpec::default() }
        }

        fn init(&self, of: Defined<'_>) -> Result<Box<dyn Generate>, String> {
            match of.parameters.get("prefix") {
                Some(Parameter::Text(prefix)) => Ok(Box::new(Dressed(self.0, prefix.clone()))),
                Some(Parameter::Flag(_)) => panic!("a flag"),
                _ => Err("say a prefix".repeat(100)),
            }
        }
    }

    impl Generate for Dressed {
        fn generate(&self, ids: &[Minted]) -> Result<Vec<String>, String> {
            let text = |id: &Minted| match self.0 {
                Does::Alike => format!("{}{}", self.1, id.number / 2),
                Does::Quote => format!("\"{}", id.number),
                Does::Empty => String::new(),
                Does::Long => "9".repeat(65),
                Does::Panics => panic!("no idea"),
                _ => format!("{}{}", self.1, id.number),
            };
            match self.0 {
                Does::Err => Err("out of ink".to_owned()),
                Does::TooFew => Ok(ids.iter().skip(1).map(text).collect()),
                _ => Ok(ids.iter().map(text).collect()),
            }
        }

        fn read(&self, text: &str) -> Option<u128> {
            assert!(self.0 != Does::PanicsReading, "cannot read");
            let number: u128 = text.strip_prefix(&self.1)?.parse().ok()?;
            Some(if self.0 == Does::Alike { number * 2 } else { number })
        }
    }

    fn layout() -> Layout {
        Layout::of(&Dressed(Does::Right, String::new()).needs()).unwrap()
    }

    fn own(does: Does) -> Own {
        let mut strategies = Strategies::default();
        strategies.register("dressed", Dressed(does, String::new())).unwrap();
        let parameters = Parameters::default().with("prefix", Parameter::Text("D-".to_owned()));
        strategies.ready("dressed", Defined { layout: &layout(), parameters: &parameters }).unwrap()
    }

    #[test]
    fn what_it_does_wrong_is_a_fault_and_never_a_text() {
        let numbers = [7 << 22, (7 << 22) + 1];
        assert_eq!(own(Does::Right).texts(&numbers).unwrap(), ["D-29360128", "D-29360129"]);
        for (does, said, panic) in [
            (Does::Err, "made no IDs: out of ink", false),
            (Does::Panics, "panicked: no idea", true),
            (Does::PanicsReading, "panicked: cannot read", true),
            (Does::TooFew, "made 1 texts of 2 numbers", false),
            (Does::Quote, "visible characters of ASCII", false),
            (Does::Empty, "visible characters of ASCII", false),
            (Does::Long, "visible characters of ASCII", false),
            (Does::Alike, "does not read 'D-14680064' as the number that", false),
        ] {
            let fault = own(does).texts(&numbers).unwrap_err();
            assert!(fault.to_string().contains(said) && fault.is_panic() == panic, "{fault}");
            // The even one of two that get one text is the one that it reads as.
            let read = own(does).read("D-29360129");
            assert_eq!(read.is_some(), does == Does::Alike, "what would not be written is not read");
        }
        // Within 63 bits, and no number of this layout, whose highest bit is 0.
        let none_of_it = own(Does::Right).texts(&[1 << 63]).unwrap_err().to_string();
        assert!(none_of_it.contains("none of its layout"), "{none_of_it}");
        assert_eq!(own(Does::Right).read(&format!("D-{}", u128::MAX)), None);
    }

    #[test]
    fn what_is_not_there_or_not_ready_says_so() {
        let mut strategies = Strategies::default();
        strategies.register("dressed", Dressed(Does::Right, String::new())).unwrap();
        let register = |strategies: &mut Strategies, name: &str| {
            strategies.register(name, Dressed(Does::Right, String::new())).unwrap_err().to_string()
        };
        assert!(register(&mut strategies, "dressed").contains("already"));
        assert!(register(&mut strategies, "Dressed\n").contains("'Dressed\\n' is not a strategy's name"));
        let (layout, with) = (layout(), |parameter| Parameters::default().with("prefix", parameter));
        let unready = |name: &str, parameters: &Parameters| {
            strategies.ready(name, Defined { layout: &layout, parameters }).unwrap_err().to_string()
        };
        let unknown = unready("other", &Parameters::default());
        assert!(unknown.contains("no strategy 'other' (it has dressed)"), "{unknown}");
        assert!(unready("dressed", &with(Parameter::Flag(true))).ends_with("it panicked: a flag"));
        assert!(unready("dressed", &with(Parameter::Whole(1))).len() < 400);
        assert_eq!(strategies.needs("dressed").unwrap().layout.as_deref(), Some("snowflake"));
        assert_eq!(strategies.needs("other"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else(numbers in prop::collection::vec(0u128..1 << 63, 1..20), text in "[D0-9-]{1,20}") {
            let own = own(Does::Right);
            let texts = own.texts(&numbers).unwrap();
            for (number, text) in numbers.iter().zip(&texts) {
                prop_assert_eq!(own.read(text), Some(*number));
            }
            if let Some(number) = own.read(&text) {
                prop_assert_eq!(own.texts(&[number]).unwrap(), [text]);
            }
        }
    }
}

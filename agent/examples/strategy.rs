//! An agent with a strategy of its own, with all the flags of `uniq_generator`: order numbers with a check character.
//! `PUT /generators/orders {"kind":"layout","encoding":{"form":"strategy","strategy":"checked"}}`, then `GET /id/orders`.

use agent::embed::LayoutSpec;
use agent::embed::strategy::{Defined, Generate, Minted, RegisterError, Strategy};
use agent::extensions::Extensions;
use std::process::ExitCode;

struct Checked;

impl Strategy for Checked {
    // What is leased and kept for it: a token of 10 bits, a mark of time each millisecond.
    fn needs(&self) -> LayoutSpec {
        LayoutSpec { layout: Some("snowflake".to_owned()), ..LayoutSpec::default() }
    }

    fn init(&self, _: Defined<'_>) -> Result<Box<dyn Generate>, String> {
        Ok(Box::new(Self))
    }
}

fn check(number: u128) -> char {
    char::from_digit((number % 31) as u32, 31).unwrap_or('0')
}

impl Generate for Checked {
    fn generate(&self, ids: &[Minted]) -> Result<Vec<String>, String> {
        Ok(ids.iter().map(|id| format!("O-{:019}-{}", id.number, check(id.number))).collect())
    }

    // From the text alone, so that no two numbers leave as one text; it is asked for each before it leaves.
    fn read(&self, text: &str) -> Option<u128> {
        let (number, checked) = text.strip_prefix("O-")?.split_once('-')?;
        number.parse().ok().filter(|number| checked == check(*number).to_string())
    }
}

fn main() -> Result<ExitCode, RegisterError> {
    Ok(agent::program::main(Extensions::default().strategy("checked", Checked)?))
}

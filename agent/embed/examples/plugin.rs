//! A plugin of the application's own: invoices have at most ten IDs at once, and none leaves that is not an invoice's.
#![allow(clippy::print_stdout)]

use std::env::args;
use std::sync::Arc;
use std::time::Duration;
use uniq_embed::plugin::{Call, Needs, Outgoing, Plugin, PluginRefusal, PluginSpec, Plugins};
use uniq_embed::{Definition, Embedded, GeneratorKind, MintCode, Namespace, Settings, StringSpec, UniqGenerator};

struct Invoices;

impl Plugin for Invoices {
    fn name(&self) -> &str {
        "invoices"
    }

    fn needs(&self, _: GeneratorKind) -> Needs {
        Needs::Texts
    }

    fn before(&self, call: &Call<'_>) -> Result<(), PluginRefusal> {
        if call.n <= 10 {
            Ok(())
        } else {
            Err(PluginRefusal::new(MintCode::BadParameter, "n: at most 10 invoices at once"))
        }
    }

    fn after(&self, _: &Call<'_>, outgoing: &Outgoing<'_>) -> Result<(), PluginRefusal> {
        match outgoing.texts().iter().find(|text| !text.starts_with("INV-")) {
            Some(other) => Err(PluginRefusal::new(MintCode::Overloaded, format!("{other} is no invoice's"))),
            None => Ok(()),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = args().nth(1).ok_or("give the serial file and the masters' agent ports")?;
    let mut plugins = Plugins::new();
    plugins.register("invoices", |_| Ok(Arc::new(Invoices)))?;
    let embedded = Embedded::start_with(Settings::new(file, args().skip(2), "shop-1".parse()?), plugins)?;
    embedded.refusals().set(|call, failure| eprintln!("{} for {}: {}", failure.code, call.caller, failure.detail));
    embedded.wait_ready(Duration::from_secs(10))?;

    let specs = vec![PluginSpec::new("invoices".parse()?), PluginSpec::new("stats".parse()?)];
    let definition =
        Definition::String(StringSpec { plugins: specs, ..StringSpec::of("INV-{date:%Y%m%d}{token}{serial:6}") });
    let invoices = embedded.create_uniq_generator(Namespace::define("invoices".parse()?, &definition)?)?;
    println!("{}", invoices.called_by("cashier 3").get_uniq_string("", "")?);
    assert!(invoices.get_batch_string(11, "", "", &mut Vec::new()).is_err());
    Ok(())
}

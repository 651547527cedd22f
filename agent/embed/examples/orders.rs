//! Mints in its own process. Arguments: the serial file, beside which its certificate is, if it has one, and the masters'
//! `--agent-listen` addresses.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::time::Duration;
use uniq_embed::{Definition, Embedded, Namespace, Settings, TlsFiles, UniqGenerator};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let serial_file = args.next().ok_or("name the serial file, then the masters")?;
    let certificates = PathBuf::from(format!("{serial_file}.tls"));
    let mut settings = Settings::new(serial_file, args, "orders-1".parse()?);
    settings.tls = certificates.exists().then(|| TlsFiles::in_folder(&certificates));
    let embedded = Embedded::start(settings)?;
    // Until the first lease is there. Later starts go on with it, with or without masters.
    embedded.wait_ready(Duration::from_secs(10))?;

    // For all threads; clones are cheap.
    let generator = embedded.get_uniq_generator("default")?;
    println!("{}", generator.get_uniq64()?);
    println!("{}", generator.get_uniq_string("SHOP", "01")?);
    // For this thread alone, faster.
    let block = generator.per_thread();
    println!("{}", block.get_uniq64()?);

    // A name of its own, with a template: registered once, known to all agents for ever.
    let definition = Definition::string("INV{date:%Y%m%d}{token}{serial:6}");
    let invoices = embedded.create_uniq_generator(Namespace::define("invoices".parse()?, &definition)?)?;
    let mut numbers = Vec::new();
    invoices.get_batch_string(3, "", "", &mut numbers)?;
    numbers.iter().for_each(|number| println!("{number}"));
    Ok(())
}

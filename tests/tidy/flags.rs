//! The pages of flags, made from the programs.

use super::root;
use clap::{Arg, Command, CommandFactory as _};
use std::fs;

/// The same variable as for golden scripts.
const UPDATE: &str = "UPDATE_GOLDENFILES";

/// One flag, as the program describes it.
fn line(flag: &Arg) -> Option<String> {
    let name = flag.get_long().filter(|name| !flag.is_hide_set() && !["help", "version"].contains(name))?;
    let takes_values = flag.get_action().takes_values();
    let value = flag.get_value_names().filter(|_| takes_values).and_then(|names| names.first());
    let value = value.map(|value| format!(" {value}")).unwrap_or_default();
    let defaults = flag.get_default_values().iter().filter(|_| takes_values);
    let default = defaults.map(|value| format!(", `{}`", value.to_str().unwrap())).collect::<String>();
    let only = if flag.get_env().is_none() { ", flag only" } else { "" };
    let help = flag.get_long_help().or(flag.get_help()).unwrap().to_string();
    let choices = flag.get_possible_values().into_iter().filter(|_| takes_values);
    let choices = choices.map(|choice| format!("`{}`", choice.get_name())).collect::<Vec<_>>();
    let choices = if choices.is_empty() { String::new() } else { format!(" ({})", choices.join(", ")) };
    // What stands between < and > would be taken for HTML.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('<', "\\<");
    Some(format!("* **`--{name}{value}`**{default}{only}: {help}{choices}\n"))
}

fn page(program: &Command) -> String {
    let name = program.get_name();
    let flags = program.get_arguments().filter_map(line).collect::<String>();
    format!(
        "# Flags of `{name}`\n\nAs `{name} --help` has them; what stands after a flag is its default. All that are not \"flag only\" may also \
         be set in a file\nand in the environment ([settings](install.md#settings)).\n\n{flags}"
    )
}

#[test]
fn the_pages_of_flags_say_what_the_programs_say() {
    for (path, program) in [
        ("docs/operate/flags-agent.md", agent::config::Args::command()),
        ("docs/operate/flags-master.md", master::config::Args::command()),
    ] {
        let (path, wanted) = (root().join(path), page(&program));
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&path, &wanted).unwrap();
        }
        let said = fs::read_to_string(&path).unwrap_or_default();
        assert!(said == wanted, "{} is not what the program says: {UPDATE}=1 writes it anew", path.display());
    }
}

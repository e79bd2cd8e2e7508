//! `gdrtune man`: the manual pages, made from the command line's definition and from the key table.

use std::io::{self, Write};

use clap::CommandFactory as _;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{
    cli::{Cli, ManArgs},
    exit::{Exit, Failure},
    ui::{key_table, keys, start},
};

/// Prints a page.
///
/// # Errors
/// There is no such command, or standard output cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let page = page(args.command.as_deref()).map_err(Failure::usage_text)?;
    io::stdout().write_all(&page)?;
    Ok(Exit::Done)
}

/// The page of a command, or of gdrtune itself, as roff.
fn page(name: Option<&str>) -> Result<Vec<u8>, String> {
    let mut gdrtune = Cli::command().disable_help_subcommand(true);
    gdrtune.build();
    let Some(name) = name else {
        let mut page = render(gdrtune)?;
        // Writing to a Vec cannot fail.
        key_section().to_writer(&mut page).map_err(|error| error.to_string())?;
        return Ok(page);
    };
    let visible = || gdrtune.get_subcommands().filter(|command| !command.is_hide_set());
    let Some(command) = visible().find(|command| command.get_name() == name) else {
        let names: Vec<&str> = visible().map(clap::Command::get_name).collect();
        return Err(format!("there is no command {name}: use one of {}", names.join(", ")));
    };
    render(command.clone().display_name(format!("gdrtune-{name}")))
}

/// The page of a command. What stands behind its help is examples and lists, which roff would otherwise fill into one paragraph.
fn render(command: clap::Command) -> Result<Vec<u8>, String> {
    let behind = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut page = Vec::new();
    // Writing to a Vec cannot fail.
    Man::new(command.after_help(None::<&str>)).render(&mut page).map_err(|error| error.to_string())?;
    as_sections(&behind).to_writer(&mut page).map_err(|error| error.to_string())?;
    Ok(page)
}

/// Parts of a text, each `Heading:` and lines that stay as they are, as sections.
fn as_sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    for part in text.split("\n\n") {
        let mut lines = part.lines();
        let Some(heading) = lines.next() else { continue };
        roff.control("SH", [heading.trim_end_matches(':').to_uppercase().as_str()]);
        roff.control("nf", []);
        for line in lines {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}

/// The keys of the terminal UI, in the order of the table, under a heading for each place where they are read.
fn key_section() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["KEYS OF THE TERMINAL UI"]);
    for (heading, entries) in keys::sections().into_iter().chain(start::keys::sections()) {
        roff.control("SS", [heading]);
        for (keys, help) in entries {
            roff.control("TP", []);
            roff.text([clap_mangen::roff::bold(key_table::names(keys))]);
            roff.text([roman(help)]);
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_every_command_has_its_words() {
        let text = String::from_utf8(page(None).unwrap()).unwrap().replace("\\-", "-");
        let of_start = start::keys::BINDINGS.iter().map(|binding| binding.help);
        for help in keys::BINDINGS.iter().map(|binding| binding.help).chain(of_start) {
            // A dot or an apostrophe at the start of a line would be a request of roff's.
            assert!(text.contains(help), "{help}");
        }
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(text.contains(&format!("gdrtune-{}(1)", command.get_name())), "{}", command.get_name());
            let page = String::from_utf8(page(Some(command.get_name())).unwrap()).unwrap();
            assert!(page.contains("SYNOPSIS"), "{page}");
            let (_, examples) = page.split_once(".SH EXAMPLES\n.nf\n").unwrap_or_else(|| panic!("no examples: {page}"));
            assert!(examples.replace("\\-", "-").contains("    gdrtune"), "{page}");
        }
        assert!(text.contains("\n  100  some trials failed\n"), "a line for each exit code: {text}");
        let unknown = page(Some("tuna")).unwrap_err();
        assert!(unknown.contains("no command tuna") && unknown.contains("tune"), "{unknown}");
    }
}

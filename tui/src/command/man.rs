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
    let page = page(&args.command).map_err(Failure::usage_text)?;
    io::stdout().write_all(&page)?;
    Ok(Exit::Done)
}

/// The page of a command, by its words, or without any of gdrtune itself, as roff.
fn page(words: &[String]) -> Result<Vec<u8>, String> {
    let mut gdrtune = Cli::command().disable_help_subcommand(true);
    gdrtune.build();
    if words.is_empty() {
        let mut page = render(gdrtune)?;
        // Writing to a Vec cannot fail.
        key_section().to_writer(&mut page).map_err(|error| error.to_string())?;
        return Ok(page);
    }
    let mut command = &gdrtune;
    for word in words {
        let visible = || command.get_subcommands().filter(|command| !command.is_hide_set());
        command = visible().find(|command| command.get_name() == word).ok_or_else(|| {
            let names: Vec<&str> = visible().map(clap::Command::get_name).collect();
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("use one of {}", names.join(", ")) };
            format!("there is no command {word}: {known}")
        })?;
    }
    render(command.clone().display_name(format!("gdrtune-{}", words.join("-"))))
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
        let text = String::from_utf8(page(&[]).unwrap()).unwrap().replace("\\-", "-");
        let of_start = start::keys::BINDINGS.iter().map(|binding| binding.help);
        for help in keys::BINDINGS.iter().map(|binding| binding.help).chain(of_start) {
            // A dot or an apostrophe at the start of a line would be a request of roff's.
            assert!(text.contains(help), "{help}");
        }
        assert!(text.contains("\n  100  some trials failed\n"), "a line for each exit code: {text}");
        pages_below(&Cli::command(), &[], &text);
        let unknown = page(&["tuna".to_owned()]).unwrap_err();
        assert!(unknown.contains("no command tuna") && unknown.contains("tune"), "{unknown}");
        let unknown = page(&["tune".to_owned(), "all".to_owned()]).unwrap_err();
        assert_eq!(unknown, "there is no command all: it has none");
    }

    /// Every command that the page names has a page, with examples, and so have those below it.
    fn pages_below(command: &clap::Command, words: &[String], above: &str) {
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let words = [words, &[command.get_name().to_owned()]].concat();
            assert!(above.contains(&format!("gdrtune-{}(1)", words.join("-"))), "{words:?}: {above}");
            let page = String::from_utf8(page(&words).unwrap()).unwrap().replace("\\-", "-");
            assert!(page.contains("SYNOPSIS"), "{page}");
            let (_, examples) = page.split_once(".SH EXAMPLES\n.nf\n").unwrap_or_else(|| panic!("no examples: {page}"));
            assert!(examples.contains("    gdrtune"), "{page}");
            assert!(!page.contains("-help(1)"), "{page}");
            pages_below(command, &words, &page);
        }
    }
}

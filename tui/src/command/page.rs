//! Texts of commands for people: 80 columns, whatever the terminal, as they are read in files and mails, too.

use std::fmt::Write as _;

use gdrtune_profiles::{diagnostic::printable, profile::Speedup, vocab::Engine};

use crate::ui::text;

/// Columns of everything that is for people.
pub(super) const COLUMNS: usize = 80;

/// Columns of what stands before an item.
const LABEL: usize = 12;

/// A text that grows by lines. Names from files and hosts may hold what a terminal takes for commands: no line has any.
#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    /// A line as it is.
    pub(super) fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        writeln!(self.0, "{}", printable(line.trim_end())).ok();
    }

    /// Words, broken into lines.
    pub(super) fn words(&mut self, words: &str) {
        for line in wrapped(words, COLUMNS) {
            self.line(&line);
        }
    }

    /// Words with a label before the first line of them.
    pub(super) fn item(&mut self, label: &str, words: &str) {
        self.labelled(LABEL, label, words);
    }

    /// The same with that many columns for the label.
    pub(super) fn labelled(&mut self, columns: usize, label: &str, words: &str) {
        for (index, line) in wrapped(words, COLUMNS - columns - 1).iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            self.line(&format!("{label:<columns$} {line}"));
        }
    }

    /// Words, the first line of them outdented.
    pub(super) fn hanging(&mut self, words: &str) {
        for (index, line) in wrapped(words, COLUMNS - 2).iter().enumerate() {
            let indent = if index == 0 { "" } else { "  " };
            self.line(&format!("{indent}{line}"));
        }
    }

    /// The text.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Lines of words, as wide as they are printed.
fn wrapped(words: &str, columns: usize) -> Vec<String> {
    let words: Vec<String> = words.split_whitespace().map(printable).collect();
    text::wrap(&words.join(" "), columns)
}

/// `1.12x (1.08 to 1.16)`.
pub(super) fn interval(speedup: &Speedup) -> String {
    format!("{:.2}x ({:.2} to {:.2})", speedup.median, speedup.low, speedup.high)
}

/// `1.12x (1.08 to 1.16), P(faster) 0.990, 9 processes an arm`.
pub(super) fn evidence(speedup: &Speedup) -> String {
    let processes = if speedup.repeats == 1 { "process" } else { "processes" };
    format!("{}, P(faster) {:.3}, {} {processes} an arm", interval(speedup), speedup.p_faster, speedup.repeats)
}

/// What decides where nothing of ours does.
pub(super) const fn own_choice(engine: Engine) -> &'static str {
    match engine {
        Engine::Native => "the engine's own choice",
        Engine::Nccl | Engine::Replay | Engine::Sim => "NCCL's own choice",
    }
}

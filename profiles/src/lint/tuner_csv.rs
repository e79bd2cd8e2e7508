//! Reads the CSV of NVIDIA's example tuner plugin, and what else its lines tell.

use crate::{
    grammar::{
        fgets_pieces,
        tuner_csv::{LONGEST_LINE, RuleTable, TableRule},
    },
    vocab::Collective,
};

/// A file of rules.
pub(super) struct TunerFile {
    /// Whether a comment says that our plugin reads it, or RCCL: no match, and -1 channels, are left to the library there.
    pub(super) is_ours: bool,
    pub(super) table: RuleTable,
    /// Lines that are no rules, with the cause.
    pub(super) broken: Vec<(usize, String)>,
    /// Lines that are too long.
    pub(super) too_long: Vec<usize>,
}

impl TunerFile {
    pub(super) fn read(text: &str) -> Self {
        let (table, diagnostics) = RuleTable::parse(text);
        let pieces = fgets_pieces(text, LONGEST_LINE).filter(|piece| piece.is_continuation);
        let mut too_long: Vec<usize> = pieces.map(|piece| piece.line).collect();
        too_long.dedup();
        let errors = diagnostics.into_iter().filter(|d| d.is_error() && !too_long.contains(&d.line));
        let broken = errors.map(|diagnostic| (diagnostic.line, diagnostic.message)).collect();
        let mut comments = text.lines().filter(|line| line.starts_with('#')).map(str::to_ascii_lowercase);
        let is_ours = comments.any(|line| {
            line.contains("gdrtune") && line.contains("plugin")
                || line.contains("nccl-tuner-gdrtune")
                || line.contains("librccl")
        });
        Self { is_ours, table, broken, too_long }
    }

    /// The rules for a collective.
    pub(super) fn of(&self, collective: Collective) -> impl Iterator<Item = &TableRule> {
        self.table.rules().iter().filter(move |rule| rule.collective == collective)
    }
}

/// Whether a text is such a file: its header, or a line with a word, two sizes, and two words after them.
///
/// Tables of measurements begin alike, but have one size; NCCLX writes its sizes in another way.
pub(super) fn is_tuner(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
    text.lines().map(|line| line.trim_start_matches('#').trim()).any(|line| {
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        match columns.as_slice() {
            ["collective_type", "min_bytes", ..] => true,
            [collective, min, max, algorithm, protocol, ..] => {
                is_word(collective) && is_number(min) && is_number(max) && is_word(algorithm) && is_word(protocol)
            }
            _ => false,
        }
    })
}

//! The CSV of NVIDIA's example tuner plugin, which our plugin and the native engine read as well.
//!
//! Source: NCCL `plugins/tuner/example/plugin.c` at 2.30.7 (`loadConfig`, `pluginGetCollInfo`). Where that reader
//! takes something else without a word (an unknown algorithm is ring, a gap between commas closes), this one gives an
//! error and leaves the rule out.

use super::fgets_pieces;
use crate::{
    diagnostic::Diagnostic,
    nearest::hint,
    vocab::{Algorithm, Choice, Collective, Protocol, UnknownName},
};

/// The reader's `MAX_LINE_LENGTH` of 256, less the NUL.
pub(crate) const LONGEST_LINE: usize = 255;
/// The column names, as in the plugin's README.
pub(crate) const HEADER: &str =
    "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff";
/// File name that diagnostics carry where the caller gives none.
const DEFAULT_FILE: &str = "nccl-tuner.csv";

/// The rules of a file, in file order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleTable {
    rules: Vec<TableRule>,
}

/// One line of the file. `None` matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRule {
    /// The line, counted from 1.
    pub line: usize,
    /// The collective.
    pub collective: Collective,
    /// Smallest size.
    pub min_bytes: u64,
    /// Largest size.
    pub max_bytes: u64,
    /// What to run.
    pub choice: Choice,
    /// Number of nodes.
    pub nodes: Option<u32>,
    /// Number of ranks.
    pub ranks: Option<u32>,
    /// Number of pipelined operations.
    pub num_pipe_ops: Option<u32>,
    /// Whether the buffers are registered.
    pub reg_buff: Option<bool>,
}

/// What a tuner is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The collective.
    pub collective: Collective,
    /// NCCL's `nBytes`: the size column of nccl-tests.
    pub bytes: u64,
    /// Nodes of the communicator.
    pub nodes: u32,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Number of pipelined operations; 1 for a call of its own.
    pub num_pipe_ops: u32,
    /// Whether the buffers are registered.
    pub reg_buff: bool,
}

impl Call {
    /// A call of its own on buffers that are not registered.
    pub fn new(collective: Collective, bytes: u64, nodes: u32, ranks: u32) -> Self {
        Self { collective, bytes, nodes, ranks, num_pipe_ops: 1, reg_buff: false }
    }
}

impl TableRule {
    /// Whether the rule holds for `call`. Both bounds are inclusive.
    pub fn matches(&self, call: &Call) -> bool {
        self.collective == call.collective
            && self.min_bytes <= call.bytes
            && call.bytes <= self.max_bytes
            && self.nodes.is_none_or(|nodes| nodes == call.nodes)
            && self.ranks.is_none_or(|ranks| ranks == call.ranks)
            && self.num_pipe_ops.is_none_or(|count| count == call.num_pipe_ops)
            && self.reg_buff.is_none_or(|is_registered| is_registered == call.reg_buff)
    }
}

impl RuleTable {
    /// Reads a file's text. A diagnostic that is an error says that a rule was left out.
    pub fn parse(text: &str) -> (Self, Vec<Diagnostic>) {
        Self::parse_file(text, DEFAULT_FILE)
    }

    /// [`Self::parse`] with the name of the file, for the diagnostics.
    pub fn parse_file(text: &str, file: &str) -> (Self, Vec<Diagnostic>) {
        let mut table = Self::default();
        let mut diagnostics = Vec::new();
        for piece in fgets_pieces(text, LONGEST_LINE) {
            let line = piece.line;
            if piece.is_continuation {
                let message = "the line is longer than 255 bytes: the plugin reads its rest as a line of its own";
                diagnostics.push(Diagnostic::error(file, line, message));
            }
            if piece.text.starts_with('#') || piece.text.trim().is_empty() {
                continue;
            }
            match parse_rule(line, &piece.text) {
                Ok(rule) => {
                    if rule.max_bytes < rule.min_bytes {
                        let message = "min_bytes is above max_bytes: the rule never matches";
                        diagnostics.push(Diagnostic::warning(file, line, message));
                    }
                    table.rules.push(rule);
                }
                Err(error) => diagnostics.push(Diagnostic::error(file, line, error.to_string())),
            }
        }
        (table, diagnostics)
    }

    /// Reads a rule file of which every line must count: what is measured must be what the file says.
    ///
    /// # Errors
    /// The first line that is no rule.
    pub fn parse_whole(text: &str, file: &str) -> Result<Self, Diagnostic> {
        let (table, diagnostics) = Self::parse_file(text, file);
        diagnostics.into_iter().find(Diagnostic::is_error).map_or(Ok(table), Err)
    }

    /// The rules, in file order.
    pub fn rules(&self) -> &[TableRule] {
        &self.rules
    }

    /// What the first matching rule says; 0 channels where it leaves them to the engine.
    pub fn lookup(&self, call: &Call) -> Option<Choice> {
        self.matching(call).next().map(|rule| rule.choice)
    }

    /// What NVIDIA's example plugin makes of a call that NCCL can run every choice for: its algorithm and protocol where a rule
    /// matches, and the channels that it sets, which are one wherever no rule gives a number.
    pub fn example_plugin(&self, call: &Call) -> (Option<(Algorithm, Protocol)>, u16) {
        let choice = self.lookup(call);
        let channels = choice.map_or(1, |choice| choice.channels.max(1));
        (choice.map(|choice| (choice.algorithm, choice.protocol)), channels)
    }

    /// Every matching rule, in file order: the plugin goes on to the next where NCCL cannot run the first.
    pub fn matching<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = &'a TableRule> {
        self.rules.iter().filter(move |rule| rule.matches(call))
    }
}

/// Why a line is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum RuleError {
    #[error("a header line is read as a rule: put `#` before it")]
    Header,
    #[error("a rule has 8 to 10 columns, and this line has {0}: the plugin drops what it cannot use")]
    Columns(usize),
    #[error("column {0} ({1}) is empty: the plugin closes the gap and reads the wrong columns")]
    EmptyColumn(usize, &'static str),
    #[error("{error}{hint}; the plugin would take {instead}")]
    Unknown { error: UnknownName, hint: String, instead: &'static str },
    #[error("{0} has no algorithm to choose: leave the rule out")]
    NoChoice(Collective),
    #[error("{column} cannot be `{text}`: {expected}")]
    Number { column: &'static str, text: String, expected: &'static str },
}

fn column_name(idx: usize) -> &'static str {
    HEADER.split(',').nth(idx).unwrap_or("unnamed")
}

fn parse_rule(line: usize, text: &str) -> Result<TableRule, RuleError> {
    let columns: Vec<&str> = text.split(',').map(str::trim).collect();
    if columns[0] == column_name(0) {
        return Err(RuleError::Header);
    }
    if !(8..=10).contains(&columns.len()) {
        return Err(RuleError::Columns(columns.len()));
    }
    if let Some(idx) = columns.iter().position(|column| column.is_empty()) {
        return Err(RuleError::EmptyColumn(idx + 1, column_name(idx)));
    }
    let collective: Collective = name(columns[0], Collective::ALL.iter().map(|v| v.name()), "allreduce")?;
    if !collective.has_choice() {
        return Err(RuleError::NoChoice(collective));
    }
    let algorithm: Algorithm = name(columns[3], Algorithm::ALL.iter().map(|v| v.name()), "ring")?;
    let protocol: Protocol = name(columns[4], Protocol::ALL.iter().map(|v| v.name()), "simple")?;
    let channels = wildcard(&columns, 5, 64, "write 1 to 64, or -1 to leave it to the engine")?;
    let count = "write a number, or -1 for any";
    Ok(TableRule {
        line,
        collective,
        min_bytes: bytes(&columns, 1)?,
        max_bytes: bytes(&columns, 2)?,
        choice: Choice { algorithm, protocol, channels: channels.unwrap_or(0) as u16 },
        nodes: wildcard(&columns, 6, i32::MAX as u32, count)?,
        ranks: wildcard(&columns, 7, i32::MAX as u32, count)?,
        num_pipe_ops: wildcard(&columns, 8, i32::MAX as u32, count)?,
        reg_buff: wildcard(&columns, 9, 1, "write 0, 1, or -1 for any")?.map(|flag| flag == 1),
    })
}

fn name<T: std::str::FromStr<Err = UnknownName>>(
    text: &str,
    known: impl Iterator<Item = &'static str>,
    instead: &'static str,
) -> Result<T, RuleError> {
    text.parse().map_err(|error| RuleError::Unknown { error, hint: hint(text, known), instead })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn bytes(columns: &[&str], idx: usize) -> Result<u64, RuleError> {
    let text = columns[idx];
    text.parse().ok().filter(|_| is_digits(text)).ok_or_else(|| RuleError::Number {
        column: column_name(idx),
        text: text.to_owned(),
        expected: "write bytes as a whole number of at most 64 bits",
    })
}

/// The number in a column that may be absent or -1.
fn wildcard(columns: &[&str], idx: usize, most: u32, expected: &'static str) -> Result<Option<u32>, RuleError> {
    match columns.get(idx) {
        None | Some(&"-1") => Ok(None),
        Some(text) => match text.parse::<u32>() {
            Ok(number) if is_digits(text) && number <= most => Ok(Some(number)),
            _ => Err(RuleError::Number { column: column_name(idx), text: (*text).to_owned(), expected }),
        },
    }
}

#[cfg(test)]
#[path = "tuner_csv_tests.rs"]
mod tests;

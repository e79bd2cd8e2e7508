//! The rule files of the tuner that is built into Meta's NCCLX, as CSV and as JSON.
//!
//! Source: meta-pytorch/torchcomms `comms/ncclx/meta/tuner` (`CsvConfigParse.h`, `ConfigParse.h`, `JsonConfigParse.h`, `Int64Range.cc`,
//! `MetaTuner.cc`). Rules are keyed by bytes *per rank*, rounded down; the first match wins; a file with an error in it fails
//! the communicator, so the readers here give nothing but an error then. Its later versions read an eighth column as
//! `chunkSize`, its earlier ones as `numPipeOps`: only the seven columns that both have are read and written here.

use std::fmt;

use serde_json::Value;

use crate::vocab::{Algorithm, Choice, Collective, Protocol};

/// Column names, as in the tuner's README.
pub(crate) const HEADER: &str = "collective,bytesPerRank,algorithm,protocol,channels,nNodes,nLocalRanks";

/// The numbers between two bounds; absent is unbounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interval {
    /// Smallest number.
    pub min: Option<i64>,
    /// Largest number.
    pub max: Option<i64>,
}

impl Interval {
    /// One number.
    pub const fn exactly(number: i64) -> Self {
        Self { min: Some(number), max: Some(number) }
    }

    /// Whether it takes in `number`.
    pub fn contains(self, number: i64) -> bool {
        self.min.is_none_or(|min| min <= number) && self.max.is_none_or(|max| number <= max)
    }

    /// Reads `*`, `N`, `[a,b]`, `(a,b)` and what is half open; an empty bound is none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(BLANKS);
        let Some(rest) = text.strip_prefix(['[', '(']) else {
            return if text == "*" { Some(Self::default()) } else { Some(Self::exactly(text.parse().ok()?)) };
        };
        let (from, to) = rest.strip_suffix([']', ')'])?.split_once(',')?;
        let bound = |text: &str| match text.trim_matches(BLANKS) {
            "" => Some(None),
            text => text.parse::<i64>().ok().map(Some),
        };
        let (from, to) = (bound(from)?, bound(to)?);
        if let (Some(from), Some(to)) = (from, to)
            && to < from
        {
            return None;
        }
        // What an open end leaves out is one number less; at the ends of the type nothing is left.
        let min = if text.starts_with('(') { from.map(|from| from.saturating_add(1)) } else { from };
        let max = if text.ends_with(')') { to.map(|to| to.saturating_sub(1)) } else { to };
        Some(Self { min, max })
    }
}

/// What its `trim` takes for blanks.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { min: None, max: None } => f.write_str("*"),
            Self { min: Some(min), max: Some(max) } if min == max => write!(f, "{min}"),
            Self { min: Some(min), max: Some(max) } => write!(f, "[{min},{max}]"),
            Self { min: Some(min), max: None } => write!(f, "[{min},)"),
            Self { min: None, max: Some(max) } => write!(f, "(,{max}]"),
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The collective.
    pub collective: Collective,
    /// Bytes of the call over its ranks, rounded down.
    pub bytes_per_rank: Interval,
    /// What to run; 0 channels leaves their number to NCCLX.
    pub choice: Choice,
    /// Number of nodes.
    pub nodes: Interval,
    /// Ranks of a node: ranks over nodes, rounded down.
    pub local_ranks: Interval,
}

impl Rule {
    /// Whether it holds for a call of `bytes` (NCCL's `nBytes`) on so many nodes and ranks.
    pub fn matches(&self, collective: Collective, bytes: u64, nodes: u32, ranks: u32) -> bool {
        let per_rank = i64::try_from(bytes / divisor(nodes, ranks)).unwrap_or(i64::MAX);
        let local_ranks = ranks / nodes.max(1);
        self.collective == collective
            && self.bytes_per_rank.contains(per_rank)
            && self.nodes.contains(nodes.into())
            && self.local_ranks.contains(local_ranks.into())
    }
}

/// What it divides bytes by: nodes times the ranks of a node, which are the ranks only where all nodes have equally many.
pub(crate) fn divisor(nodes: u32, ranks: u32) -> u64 {
    let product = u64::from(nodes) * u64::from(ranks / nodes.max(1));
    product.max(1)
}

/// The choice of the first rule that holds for a call.
pub fn lookup(rules: &[Rule], collective: Collective, bytes: u64, nodes: u32, ranks: u32) -> Option<Choice> {
    rules.iter().find(|rule| rule.matches(collective, bytes, nodes, ranks)).map(|rule| rule.choice)
}

/// A file that fails the communicator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} {number}: {cause}")]
pub struct NcclxError {
    /// `line` or `rule`.
    pub place: &'static str,
    /// Which, counted from 1; 0 is the whole file.
    pub number: usize,
    /// What is wrong.
    pub cause: String,
}

/// Reads the CSV.
///
/// # Errors
/// [`NcclxError`] for the first line that NCCLX would refuse, or that its versions read differently.
pub fn parse_csv(text: &str) -> Result<Vec<Rule>, NcclxError> {
    let mut rules = Vec::new();
    for (idx, line) in text.split('\n').enumerate() {
        let line = line.trim_matches(BLANKS);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let error = |cause| NcclxError { place: "line", number: idx + 1, cause };
        let columns = columns(line);
        let [collective, bytes, algorithm, protocol, channels, nodes, local_ranks] = columns[..] else {
            return Err(error(format!("7 columns are read here, and this line has {}", columns.len())));
        };
        let columns = Columns { collective, bytes, algorithm, protocol, channels, nodes, local_ranks };
        rules.push(rule(&columns).map_err(error)?);
    }
    Ok(rules)
}

/// A line's columns: a comma within brackets belongs to an interval.
fn columns(line: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let separators = line.char_indices().filter(|(_, c)| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *c == ',' && depth == 0
    });
    let ends: Vec<usize> = separators.map(|(at, _)| at).chain([line.len()]).collect();
    let starts = [0].into_iter().chain(ends.iter().map(|end| end + 1));
    starts.zip(&ends).map(|(start, end)| line[start..*end].trim_matches(BLANKS)).collect()
}

struct Columns<'a> {
    collective: &'a str,
    bytes: &'a str,
    algorithm: &'a str,
    protocol: &'a str,
    channels: &'a str,
    nodes: &'a str,
    local_ranks: &'a str,
}

fn rule(columns: &Columns<'_>) -> Result<Rule, String> {
    let interval = |name: &str, text: &str| match text {
        "" => Ok(Interval::default()),
        text => Interval::parse(text).ok_or_else(|| format!("{name} cannot be `{}`", text.escape_debug())),
    };
    let collective: Collective = columns.collective.parse().map_err(|error| format!("{error}"))?;
    if !collective.has_choice() {
        return Err(format!("{collective} has no algorithm to choose"));
    }
    let algorithm: Algorithm = columns.algorithm.parse().map_err(|error| format!("{error}"))?;
    let protocol: Protocol = columns.protocol.parse().map_err(|error| format!("{error}"))?;
    let channels = match columns.channels {
        "" | "-1" => 0,
        text => text.parse().ok().ok_or_else(|| format!("channels cannot be `{}`", text.escape_debug()))?,
    };
    Ok(Rule {
        collective,
        bytes_per_rank: interval("bytesPerRank", columns.bytes)?,
        choice: Choice { algorithm, protocol, channels },
        nodes: interval("nNodes", columns.nodes)?,
        local_ranks: interval("nLocalRanks", columns.local_ranks)?,
    })
}

/// Reads the JSON, which only builds with folly take. Keys that it does not know are skipped, as there.
///
/// # Errors
/// [`NcclxError`] for the first rule that NCCLX would refuse.
pub fn parse_json(text: &str) -> Result<Vec<Rule>, NcclxError> {
    let whole = |cause: String| NcclxError { place: "file", number: 0, cause };
    let document: Value = serde_json::from_str(text).map_err(|error| whole(error.to_string()))?;
    let rules = document.get("rules").and_then(Value::as_array);
    let rules = rules.ok_or_else(|| whole("there is no array `rules`".to_owned()))?;
    let read = |(idx, value): (usize, &Value)| {
        let error = |cause| NcclxError { place: "rule", number: idx + 1, cause };
        let part = |name: &str| {
            let found = value.get(name).filter(|part| part.is_object());
            found.ok_or_else(|| error(format!("there is no object `{name}`")))
        };
        let (filter, config) = (part("filter")?, part("config")?);
        let text = |object: &Value, key: &str| match object.get(key) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) if number.is_i64() => Ok(number.to_string()),
            Some(other) => Err(error(format!("{key} cannot be {other}"))),
        };
        let columns = Columns {
            collective: &text(filter, "collective")?,
            bytes: &text(filter, "bytesPerRank")?,
            algorithm: &text(config, "algorithm")?,
            protocol: &text(config, "protocol")?,
            channels: &text(config, "channels")?,
            nodes: &text(filter, "nNodes")?,
            local_ranks: &text(filter, "nLocalRanks")?,
        };
        rule(&columns).map_err(error)
    };
    rules.iter().enumerate().map(read).collect()
}

#[cfg(test)]
#[path = "ncclx_tests.rs"]
mod tests;

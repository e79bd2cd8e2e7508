//! Reads and writes a recorded grid: comma-separated rows of measured cells.
//!
//! Columns are found by name, in any order: `collective`, `bytes`, `algorithm`, `protocol`, `channels`, `mean_us` are
//! required; `repeat` is ignored, `iterations`, `median_us` and `max_us` are optional. Every other column must be a known
//! environment column ([`ENVIRONMENT_COLUMNS`]) or a variable's own name. Rows whose algorithm is `default` are the
//! engine's own choice. Must not do IO: it takes text.

use std::{collections::BTreeMap, str::FromStr};

use gdrtune_profiles::vocab::{Choice, Collective, Environment, Point};

use crate::bench::Timing;

/// Column names of recorded grids and the variables that they stand for.
pub const ENVIRONMENT_COLUMNS: &[(&str, &str)] = &[
    ("socket_nthreads", "NCCL_SOCKET_NTHREADS"),
    ("nsocks_perthread", "NCCL_NSOCKS_PERTHREAD"),
    ("buffsize", "NCCL_BUFFSIZE"),
];

/// Columns with a meaning of their own.
const OWN_COLUMNS: &[&str] = &[
    "repeat",
    "collective",
    "bytes",
    "algorithm",
    "protocol",
    "channels",
    "iterations",
    "mean_us",
    "median_us",
    "max_us",
];

/// Header line of the grids that are written: the columns with a meaning of their own.
pub const CSV_HEADER: &str = "repeat,collective,bytes,algorithm,protocol,channels,iterations,mean_us,median_us,max_us";

/// One sample as a line of a grid, without its end. `choice` is `None` for the engine's own.
pub fn csv_row(repeat: u32, point: Point, choice: Option<Choice>, timing: &Timing) -> String {
    let Point { collective, bytes } = point;
    let choice = choice.map_or_else(
        || "default,default,0".to_owned(),
        |choice| format!("{},{},{}", choice.algorithm, choice.protocol, choice.channels),
    );
    let Timing { iterations, time_us, median_us, max_us, .. } = timing;
    format!("{repeat},{collective},{bytes},{choice},{iterations},{time_us:.3},{median_us:.3},{max_us:.3}")
}

/// A grid that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// There is no header line.
    #[error("the grid is empty: its first line must name the columns, such as {}", OWN_COLUMNS.join(","))]
    Empty,
    /// A required column is missing.
    #[error("line 1: no column `{0}`: required are collective, bytes, algorithm, protocol, channels, mean_us")]
    MissingColumn(&'static str),
    /// A column that nobody knows.
    #[error("line 1, column {column}: unknown column `{name}`: use {}, {}, or the name of an NCCL_ or GDRTUNE_ variable", OWN_COLUMNS.join(", "), environment_columns())]
    UnknownColumn {
        /// Column number from 1.
        column: usize,
        /// The name.
        name: String,
    },
    /// A row has another number of fields than the header.
    #[error("line {line}: {found} fields where the header has {expected}")]
    Fields {
        /// Line number from 1.
        line: usize,
        /// Fields of the row.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A field that is no value of its column.
    #[error("line {line}, column `{column}`: {why}")]
    Value {
        /// Line number from 1.
        line: usize,
        /// Column name.
        column: String,
        /// What is wrong.
        why: String,
    },
    /// A header without rows.
    #[error("the grid has a header and no rows")]
    NoRows,
}

fn environment_columns() -> String {
    ENVIRONMENT_COLUMNS.iter().map(|(column, _)| *column).collect::<Vec<_>>().join(", ")
}

/// One recorded measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// Wall time over iterations, in microseconds.
    pub mean_us: f64,
    /// Median single iteration, in microseconds.
    pub median_us: f64,
    /// Slowest single iteration, in microseconds.
    pub max_us: f64,
    /// Iterations that made it.
    pub iterations: f64,
}

/// The repeats of one (environment, point, choice).
pub type Cells = BTreeMap<(Point, Option<Choice>), Vec<Record>>;

/// A recorded grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Cells by environment. A grid without environment columns has the empty environment only.
    pub environments: BTreeMap<Environment, Cells>,
}

impl Grid {
    /// Reads the text of a grid.
    ///
    /// # Errors
    /// [`GridError`] names line and column.
    pub fn parse(text: &str) -> Result<Self, GridError> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let (_, header) = lines.next().ok_or(GridError::Empty)?;
        let header = Header::parse(header)?;
        let mut environments: BTreeMap<Environment, Cells> = BTreeMap::new();
        for (index, text) in lines {
            let fields: Vec<&str> = text.split(',').map(str::trim).collect();
            if fields.len() != header.names.len() {
                let (found, expected) = (fields.len(), header.names.len());
                return Err(GridError::Fields { line: index + 1, found, expected });
            }
            let row = Row { header: &header, line: index + 1, fields };
            let cells = environments.entry(row.environment()).or_default();
            cells.entry((row.point()?, row.choice()?)).or_default().push(row.record()?);
        }
        if environments.is_empty() {
            return Err(GridError::NoRows);
        }
        Ok(Self { environments })
    }

    /// Every point, over all environments.
    pub fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = self.environments.values().flat_map(|c| c.keys().map(|(p, _)| *p)).collect();
        points.sort_unstable();
        points.dedup();
        points
    }

    /// Every recorded choice by collective, over all environments.
    pub fn choices(&self) -> BTreeMap<Collective, Vec<Choice>> {
        let mut choices: BTreeMap<Collective, Vec<Choice>> = BTreeMap::new();
        for (point, choice) in self.environments.values().flat_map(BTreeMap::keys) {
            choices.entry(point.collective).or_default().extend(*choice);
        }
        for list in choices.values_mut() {
            list.sort_unstable();
            list.dedup();
        }
        choices
    }
}

struct Header {
    names: Vec<String>,
    /// (field index, variable name) of the environment columns.
    variables: Vec<(usize, String)>,
}

impl Header {
    fn parse(line: &str) -> Result<Self, GridError> {
        let names: Vec<String> = line.split(',').map(|name| name.trim().to_owned()).collect();
        let mut variables = Vec::new();
        for (index, name) in names.iter().enumerate().filter(|(_, name)| !OWN_COLUMNS.contains(&name.as_str())) {
            let known = ENVIRONMENT_COLUMNS.iter().find(|(column, _)| column == name).map(|(_, variable)| *variable);
            let own = (name.starts_with("NCCL_") || name.starts_with("GDRTUNE_")).then_some(name.as_str());
            let Some(variable) = known.or(own) else {
                return Err(GridError::UnknownColumn { column: index + 1, name: name.clone() });
            };
            variables.push((index, variable.to_owned()));
        }
        for required in ["collective", "bytes", "algorithm", "protocol", "channels", "mean_us"] {
            if !names.iter().any(|name| name == required) {
                return Err(GridError::MissingColumn(required));
            }
        }
        Ok(Self { names, variables })
    }
}

struct Row<'a> {
    header: &'a Header,
    line: usize,
    fields: Vec<&'a str>,
}

impl Row<'_> {
    fn field(&self, column: &str) -> Option<&str> {
        let index = self.header.names.iter().position(|name| name == column)?;
        self.fields.get(index).copied()
    }

    fn error(&self, column: &str, why: &impl ToString) -> GridError {
        GridError::Value { line: self.line, column: column.to_owned(), why: why.to_string() }
    }

    fn parse<T: FromStr<Err: ToString>>(&self, column: &str) -> Result<T, GridError> {
        self.field(column).unwrap_or_default().parse().map_err(|e: T::Err| self.error(column, &e.to_string()))
    }

    fn environment(&self) -> Environment {
        let value = |index: usize| self.fields.get(index).copied().unwrap_or_default();
        let set = self.header.variables.iter().filter(|(index, _)| !value(*index).is_empty());
        set.map(|(index, variable)| (variable.clone(), value(*index).to_owned())).collect()
    }

    fn point(&self) -> Result<Point, GridError> {
        Ok(Point { collective: self.parse("collective")?, bytes: self.parse("bytes")? })
    }

    fn choice(&self) -> Result<Option<Choice>, GridError> {
        if self.field("algorithm") == Some("default") {
            return Ok(None);
        }
        let (algorithm, protocol) = (self.parse("algorithm")?, self.parse("protocol")?);
        Ok(Some(Choice { algorithm, protocol, channels: self.parse("channels")? }))
    }

    fn time(&self, column: &str) -> Result<f64, GridError> {
        let time: f64 = self.parse(column)?;
        if time.is_finite() && time > 0.0 { Ok(time) } else { Err(self.error(column, &"a time is above 0")) }
    }

    fn record(&self) -> Result<Record, GridError> {
        let mean_us = self.time("mean_us")?;
        let or_mean = |column| if self.field(column).is_some() { self.time(column) } else { Ok(mean_us) };
        Ok(Record {
            mean_us,
            median_us: or_mean("median_us")?,
            max_us: or_mean("max_us")?,
            iterations: if self.field("iterations").is_some() { self.time("iterations")? } else { 1.0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Algorithm, Protocol};

    use super::*;

    #[test]
    fn columns_come_in_any_order_and_optional_ones_may_miss() {
        let grid = Grid::parse("mean_us,channels,protocol,algorithm,bytes,collective\n9.5,2,ll,tree,1024,allreduce\n");
        let grid = grid.unwrap();
        let choice = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 2 };
        let point = Point { collective: Collective::AllReduce, bytes: 1024 };
        let record = grid.environments[&Environment::new()][&(point, Some(choice))][0];
        assert_eq!((record.mean_us, record.max_us, record.iterations), (9.5, 9.5, 1.0));
    }

    #[test]
    fn what_is_written_is_read_whatever_the_algorithm() {
        let timing = Timing {
            time_us: 12.25,
            slowest_us: 13.0,
            median_us: 11.5,
            max_us: 20.0,
            cpu_us: 1.0,
            iterations: 40,
            selected: None,
        };
        assert_eq!(CSV_HEADER, OWN_COLUMNS.join(","));
        let point = Point { collective: Collective::ReduceScatter, bytes: 1 << 32 };
        let cells = Algorithm::ALL.iter().flat_map(|&algorithm| {
            Protocol::ALL.iter().map(move |&protocol| Some(Choice { algorithm, protocol, channels: 24 }))
        });
        for choice in cells.chain([None]) {
            let grid = Grid::parse(&format!("{CSV_HEADER}\n{}\n", csv_row(2, point, choice, &timing))).unwrap();
            let record = grid.environments[&Environment::new()][&(point, choice)][0];
            assert_eq!((record.mean_us, record.median_us, record.max_us, record.iterations), (12.25, 11.5, 20.0, 40.0));
        }
    }

    #[test]
    fn errors_name_line_and_column() {
        let header = "collective,bytes,algorithm,protocol,channels,mean_us";
        for (text, want) in [
            (String::new(), "the grid is empty"),
            ("collective,bytes".into(), "no column `algorithm`"),
            (format!("{header},colour"), "line 1, column 7: unknown column `colour`"),
            (header.into(), "a header and no rows"),
            (format!("{header}\nallreduce,1"), "line 2: 2 fields where the header has 6"),
            (format!("{header}\nall_reduce,1,ring,ll,1,2"), "line 2, column `collective`: unknown collective"),
            (format!("{header}\n\nallreduce,1,ring,ll,x,2"), "line 3, column `channels`: invalid digit"),
            (format!("{header}\nallreduce,1,ring,ll,1,-2"), "line 2, column `mean_us`: a time is above 0"),
            (format!("{header}\nallreduce,1,ring,ll,1,nan"), "line 2, column `mean_us`: a time is above 0"),
        ] {
            let error = Grid::parse(&text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_refused_or_read(text in "[a-z_,0-9.\\n-]{0,200}") {
            drop(Grid::parse(&text));
        }

        #[test]
        fn any_row_is_refused_or_read(row in "\\PC{0,60}") {
            drop(Grid::parse(&format!("collective,bytes,algorithm,protocol,channels,mean_us\n{row}\n")));
        }
    }
}

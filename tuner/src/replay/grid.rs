//! Reads and writes a recorded grid: comma-separated rows of measured cells.
//!
//! Columns are found by name, in any order: `collective`, `bytes`, `algorithm`, `protocol`, `channels`, `mean_us` are
//! required; `repeat` is ignored, `iterations`, `median_us`, `max_us`, `nodes` and `ranks` are optional. Every other column
//! must be a known environment column ([`ENVIRONMENT_COLUMNS`]) or a variable's own name; an empty field leaves the
//! variable unset. Rows whose algorithm is `default` are the engine's own choice. Must not do IO: it takes text.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    str::FromStr,
};

use gdrtune_profiles::{
    knob,
    matrix::MAX_CHANNELS,
    nearest::nearest,
    vocab::{Choice, Collective, Environment, Point, UnknownName},
};

use crate::bench::Timing;

/// Column names of recorded grids, and the variables that they stand for.
pub const ENVIRONMENT_COLUMNS: &[(&str, &str)] = &[
    ("socket_nthreads", "NCCL_SOCKET_NTHREADS"),
    ("nsocks_perthread", "NCCL_NSOCKS_PERTHREAD"),
    ("buffsize", "NCCL_BUFFSIZE"),
];

/// What NCCL takes where these are not set, on hosts that it knows nothing special of (NCCL `docs/userguide/source/env.rst`).
const DEFAULT_VALUES: &[(&str, &str)] =
    &[("NCCL_SOCKET_NTHREADS", "1"), ("NCCL_NSOCKS_PERTHREAD", "1"), ("NCCL_BUFFSIZE", "4194304")];

/// Columns with a meaning of their own, in the order in which they are written.
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

/// Columns that say with how many nodes and ranks the grid was measured.
const SHAPE_COLUMNS: &[&str] = &["nodes", "ranks"];

/// Columns that every grid has.
const REQUIRED_COLUMNS: &[&str] = &["collective", "bytes", "algorithm", "protocol", "channels", "mean_us"];

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
    #[error("line {line}: no column `{column}`: required are {}", REQUIRED_COLUMNS.join(", "))]
    MissingColumn {
        /// Line number of the header from 1.
        line: usize,
        /// The column.
        column: &'static str,
    },
    /// A column that nobody knows.
    #[error("line {line}, column {column}: unknown column `{name}`{}: the first line names the columns: {}, {}, or an NCCL_ variable", did_you_mean(nearest.as_deref()), OWN_COLUMNS.join(", "), other_columns().join(", "))]
    UnknownColumn {
        /// Line number of the header from 1.
        line: usize,
        /// Column number from 1.
        column: usize,
        /// The name.
        name: String,
        /// The closest known name.
        nearest: Option<String>,
    },
    /// A column that is there twice.
    #[error("line {line}: the column `{name}` is there twice")]
    RepeatedColumn {
        /// Line number of the header from 1.
        line: usize,
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

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Columns that a grid may have besides its own.
fn other_columns() -> Vec<&'static str> {
    SHAPE_COLUMNS.iter().copied().chain(ENVIRONMENT_COLUMNS.iter().map(|(column, _)| *column)).collect()
}

/// One recorded measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// Wall time over iterations, in microseconds.
    pub mean_us: f64,
    /// Median lap of the batch, per call, in microseconds.
    pub median_us: f64,
    /// Slowest lap of the batch, per call, in microseconds.
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
    /// Nodes that it was measured with, where it says so.
    pub nodes: Option<u32>,
    /// Ranks over all nodes, where it says so.
    pub ranks: Option<u32>,
    /// The environments in the order of their first rows.
    order: Vec<Environment>,
}

impl Grid {
    /// Reads the text of a grid.
    ///
    /// # Errors
    /// [`GridError`] names line and column.
    pub fn parse(text: &str) -> Result<Self, GridError> {
        let is_content = |(_, line): &(usize, &str)| !line.trim().is_empty() && !line.starts_with('#');
        let mut lines = text.lines().enumerate().filter(is_content);
        let (index, header) = lines.next().ok_or(GridError::Empty)?;
        let header = Header::parse(index + 1, header)?;
        let mut grid = Self { environments: BTreeMap::new(), nodes: None, ranks: None, order: Vec::new() };
        for (index, text) in lines {
            let fields: Vec<&str> = text.split(',').map(str::trim).collect();
            if fields.len() != header.names.len() {
                let (found, expected) = (fields.len(), header.names.len());
                return Err(GridError::Fields { line: index + 1, found, expected });
            }
            grid.add(&Row { header: &header, line: index + 1, fields })?;
        }
        if grid.environments.is_empty() {
            return Err(GridError::NoRows);
        }
        Ok(grid)
    }

    fn add(&mut self, row: &Row<'_>) -> Result<(), GridError> {
        row.shape("nodes", &mut self.nodes)?;
        row.shape("ranks", &mut self.ranks)?;
        let (environment, cell) = (row.environment()?, (row.point()?, row.choice()?));
        if !self.environments.contains_key(&environment) {
            self.order.push(environment.clone());
        }
        self.environments.entry(environment).or_default().entry(cell).or_default().push(row.record()?);
        Ok(())
    }

    /// The environment that stands for the site, so that its `default` rows are the default arm: the one with `default`
    /// rows at most points; of several, the one with the most variables unset or at NCCL's own default; then the one whose
    /// rows come first.
    pub fn site(&self) -> Environment {
        let is_default = |(name, value): &(&str, &str)| DEFAULT_VALUES.contains(&(name, value));
        let order = |environment: &&Environment| {
            let changed = environment.iter().filter(|setting| !is_default(setting)).count();
            (Reverse(self.default_points(environment).len()), changed)
        };
        self.order.iter().min_by_key(order).cloned().unwrap_or_default()
    }

    /// The points with `default` rows in an environment.
    pub fn default_points(&self, environment: &Environment) -> BTreeSet<Point> {
        let cells = self.environments.get(environment).into_iter().flat_map(BTreeMap::keys);
        cells.filter(|(_, choice)| choice.is_none()).map(|(point, _)| *point).collect()
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
    fn parse(line: usize, text: &str) -> Result<Self, GridError> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let mut variables = Vec::new();
        for (index, name) in names.iter().enumerate() {
            if names.iter().take(index).any(|earlier| earlier == name) {
                return Err(GridError::RepeatedColumn { line, name: name.clone() });
            }
            if OWN_COLUMNS.contains(&name.as_str()) || SHAPE_COLUMNS.contains(&name.as_str()) {
                continue;
            }
            let variable = variable(name).ok_or_else(|| {
                let known = OWN_COLUMNS.iter().copied().chain(other_columns());
                let nearest = nearest(name, known).or_else(|| knob::nearest(name)).map(str::to_owned);
                GridError::UnknownColumn { line, column: index + 1, name: name.clone(), nearest }
            })?;
            variables.push((index, variable.to_owned()));
        }
        match REQUIRED_COLUMNS.iter().find(|required| !names.iter().any(|name| name == *required)) {
            Some(column) => Err(GridError::MissingColumn { line, column }),
            None => Ok(Self { names, variables }),
        }
    }
}

/// The variable of an environment column.
fn variable(column: &str) -> Option<&str> {
    let known = ENVIRONMENT_COLUMNS.iter().find(|(name, _)| *name == column).map(|(_, variable)| *variable);
    let is_own_name = column.starts_with("NCCL_") || knob::knob(column).is_some();
    known.or(is_own_name.then_some(column))
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

    fn error(&self, column: &str, why: impl Into<String>) -> GridError {
        GridError::Value { line: self.line, column: column.to_owned(), why: why.into() }
    }

    fn number<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, GridError> {
        let text = self.field(column).unwrap_or_default();
        text.parse().map_err(|error: T::Err| self.error(column, format!("`{text}` is no number for it: {error}")))
    }

    fn name<T: FromStr<Err = UnknownName>>(&self, column: &str) -> Result<T, GridError> {
        let text = self.field(column).unwrap_or_default();
        text.parse().map_err(|error: UnknownName| {
            let near = nearest(&error.name, error.known.split(", "));
            self.error(column, format!("{error}{}", did_you_mean(near)))
        })
    }

    /// Nodes or ranks: the same in every row, as one grid is of one job shape.
    fn shape(&self, column: &str, known: &mut Option<u32>) -> Result<(), GridError> {
        if self.field(column).is_none() {
            return Ok(());
        }
        match (self.number(column)?, *known) {
            (0, _) => Err(self.error(column, format!("0 {column} measure nothing"))),
            (count, Some(other)) if count != other => {
                let why =
                    format!("{count} where rows before have {other}: one grid is of one job shape, so split the file");
                Err(self.error(column, why))
            }
            (count, _) => {
                *known = Some(count);
                Ok(())
            }
        }
    }

    fn environment(&self) -> Result<Environment, GridError> {
        let mut environment = Environment::new();
        for (index, variable) in &self.header.variables {
            let value = self.fields.get(*index).copied().unwrap_or_default();
            if value.is_empty() {
                continue;
            }
            if let Some(Err(error)) = knob::knob(variable).map(|knob| knob.check(value)) {
                let column = self.header.names.get(*index).unwrap_or(variable);
                return Err(self.error(column, error.to_string()));
            }
            environment = environment.with(variable, value);
        }
        Ok(environment)
    }

    fn point(&self) -> Result<Point, GridError> {
        Ok(Point { collective: self.name("collective")?, bytes: self.number("bytes")? })
    }

    fn choice(&self) -> Result<Option<Choice>, GridError> {
        if self.field("algorithm") == Some("default") {
            return Ok(None);
        }
        let (algorithm, protocol) = (self.name("algorithm")?, self.name("protocol")?);
        let channels = self.number("channels")?;
        if MAX_CHANNELS < channels {
            return Err(self.error("channels", format!("{channels} channels cannot be: use 1 to {MAX_CHANNELS}")));
        }
        Ok(Some(Choice { algorithm, protocol, channels }))
    }

    fn time(&self, column: &str) -> Result<f64, GridError> {
        let time: f64 = self.number(column)?;
        if time.is_finite() && time > 0.0 { Ok(time) } else { Err(self.error(column, "write a number above 0")) }
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
            ("collective,bytes".into(), "line 1: no column `algorithm`"),
            (
                format!("# mine\n{header},colour"),
                "line 2, column 7: unknown column `colour`: the first line names the columns",
            ),
            (format!("{header},buffsiz"), "line 1, column 7: unknown column `buffsiz`; did you mean `buffsize`?"),
            (format!("{header},NTHREADS"), "did you mean `NCCL_NTHREADS`?"),
            (format!("{header},bytes"), "line 1: the column `bytes` is there twice"),
            (header.into(), "a header and no rows"),
            (format!("{header}\nallreduce,1"), "line 2: 2 fields where the header has 6"),
            (
                format!("{header}\nall_reduce,1,ring,ll,1,2"),
                "line 2, column `collective`: unknown collective `all_reduce`",
            ),
            (format!("{header}\nall_reduce,1,ring,ll,1,2"), "; did you mean `allreduce`?"),
            (format!("{header}\nallreduce,1,Tree,ll,1,2"), "column `algorithm`: unknown algorithm `Tree`"),
            (format!("{header}\n\nallreduce,1,ring,ll,x,2"), "line 3, column `channels`: `x` is no number"),
            (format!("{header}\nallreduce,1,ring,ll,65,2"), "65 channels cannot be: use 1 to 64"),
            (format!("{header}\nallreduce,1,ring,ll,1,-2"), "line 2, column `mean_us`: write a number above 0"),
            (format!("{header}\nallreduce,1,ring,ll,1,nan"), "line 2, column `mean_us`: write a number above 0"),
            (format!("{header},buffsize\nallreduce,1,ring,ll,1,2,big"), "line 2, column `buffsize`: NCCL_BUFFSIZE"),
            (format!("{header},ranks\nallreduce,1,ring,ll,1,2,0"), "line 2, column `ranks`: 0 ranks measure nothing"),
            (
                format!("{header},ranks\nallreduce,1,ring,ll,1,2,4\nallreduce,1,ring,ll,1,2,8"),
                "line 3, column `ranks`: 8 where rows before have 4: one grid is of one job shape",
            ),
        ] {
            let error = Grid::parse(&text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn the_site_is_the_environment_that_is_most_like_the_defaults() {
        let site = |rows: &[&str]| {
            let header = "nsocks_perthread,buffsize,collective,bytes,algorithm,protocol,channels,mean_us";
            let rows = rows.join(",2.0\n");
            Grid::parse(&format!("{header}\n{rows},2.0\n")).unwrap().site().to_string()
        };
        let default = |settings: &str, bytes: u32| format!("{settings},allreduce,{bytes},default,default,0");
        let rows = ["8,1048576", "2,4194304", "1,4194304"].map(|settings| default(settings, 1024));
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        assert_eq!(site(&rows), "NCCL_BUFFSIZE=4194304 NCCL_NSOCKS_PERTHREAD=1");
        // Unset is as good as NCCL's default; the first one wins.
        assert_eq!(site(&[&default(",", 1024), rows[2]]), "defaults");
        assert_eq!(site(&rows[..1]), "NCCL_BUFFSIZE=1048576 NCCL_NSOCKS_PERTHREAD=8");
        // Nothing can be compared with an environment whose default rows are missing.
        let more = default("8,1048576", 4096);
        assert_eq!(site(&[rows[0], &more, rows[2]]), "NCCL_BUFFSIZE=1048576 NCCL_NSOCKS_PERTHREAD=8");
        let choice = "1,4194304,allreduce,1024,ring,ll,1";
        assert_eq!(site(&[choice, rows[1]]), "NCCL_BUFFSIZE=4194304 NCCL_NSOCKS_PERTHREAD=2");
    }

    #[test]
    fn nodes_and_ranks_may_be_columns() {
        let header = "nodes,ranks,collective,bytes,algorithm,protocol,channels,mean_us";
        let grid =
            Grid::parse(&format!("{header}\n2,16,allreduce,1,ring,ll,1,2\n2,16,allreduce,1,ring,ll,2,2\n")).unwrap();
        assert_eq!((grid.nodes, grid.ranks), (Some(2), Some(16)));
        assert!(grid.environments.contains_key(&Environment::new()), "they are no settings");
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

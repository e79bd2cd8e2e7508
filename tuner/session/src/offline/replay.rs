//! A recorded grid to be replayed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gdrtune_profiles::{
    size::Size,
    vocab::{Collective, Engine, Environment, Point},
};
use gdrtune_tuner::{
    bench::BenchInfo,
    replay::{Grid, GridError, Replay, ReplayConfig},
};
use sha2::{Digest as _, Sha256};

use super::{LUCK, Offline, read_deployment};
use crate::run::{Shape, facts::sha256_text};

/// Nodes of a grid that does not say how many it was measured with, each with one rank: as of the grids in
/// `benches/search/data`.
const USUAL_NODES: u32 = 4;

/// Simulated seconds for a set of new processes: a communicator of four NCCL ranks on one H200 took 1 to 2 s.
const START_S: f64 = 1.5;

/// Points that a message names one by one.
const MOST_NAMED: usize = 6;

/// A recorded grid to be replayed.
#[derive(Debug, Clone)]
pub struct ReplayRequest {
    pub(super) file: String,
    grid: Arc<Grid>,
    /// The recorded environment whose `default` rows are the default arm.
    site: Environment,
    nodes: u32,
    ranks: u32,
    /// Neither the grid nor the user says how many nodes and ranks.
    is_shape_guessed: bool,
    pub(super) fingerprint: String,
}

/// A grid that cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("{file}: {error}")]
    Grid {
        /// The file.
        file: String,
        /// What is wrong with it.
        error: GridError,
    },
    /// It has no default arm.
    #[error(
        "{file}: no row has the algorithm `default`, so there is nothing to compare with: add rows of the engine's own choice for \
         each collective and size, such as {collective},{bytes},default,default,0 in the columns collective,bytes,algorithm,protocol,channels"
    )]
    NoDefaults {
        /// The file.
        file: String,
        /// A collective of the grid.
        collective: String,
        /// A size of it.
        bytes: u64,
    },
    /// It has one choice only, the engine's own.
    #[error(
        "{file} has `default` rows only, so there is nothing to choose: record other choices too (`gdrtune bench --choices all \
         --csv FILE`)"
    )]
    NothingToChoose {
        /// The file.
        file: String,
    },
    /// Its columns and the user say different things.
    #[error("{file} was measured with {found}, and --shapes says {asked}")]
    Shape {
        /// The file.
        file: String,
        /// What its columns say.
        found: String,
        /// What the user says.
        asked: String,
    },
    /// Its columns cannot both be.
    #[error(
        "{file}: {ranks} ranks cannot be spread evenly over {nodes} nodes: correct the columns `nodes` and `ranks`"
    )]
    Uneven {
        /// The file.
        file: String,
        /// Nodes.
        nodes: u32,
        /// Ranks.
        ranks: u32,
    },
    /// A collective or a size that was asked for is not there.
    #[error("{file} has no {what} with a `default` row: it has {known}")]
    Unrecorded {
        /// The file.
        file: String,
        /// What was asked for.
        what: String,
        /// What is there.
        known: String,
    },
}

impl ReplayRequest {
    /// Reads the text of `file`. `shape` is what the user says of nodes and ranks, where the grid's columns do not; without
    /// either, it is taken for four nodes with one rank each.
    ///
    /// # Errors
    /// [`ReplayError`] names the file, and where there is one, line and column.
    pub fn read(file: &str, text: &str, shape: Option<Shape>) -> Result<Self, ReplayError> {
        let file = file.to_owned();
        let grid = Grid::parse(text).map_err(|error| ReplayError::Grid { file: file.clone(), error })?;
        let site = grid.site();
        if grid.default_points(&site).is_empty() {
            let first = grid.points().first().map(|p| (p.collective.to_string(), p.bytes)).unwrap_or_default();
            return Err(ReplayError::NoDefaults { file, collective: first.0, bytes: first.1 });
        }
        if grid.environments.len() == 1 && grid.choices().values().all(Vec::is_empty) {
            return Err(ReplayError::NothingToChoose { file });
        }
        let (nodes, ranks) = recorded_shape(&file, &grid, shape)?;
        let mut hash = Sha256::new();
        hash.update(format!("replay nodes {nodes} ranks {ranks}\n"));
        hash.update(text);
        let is_shape_guessed = shape.is_none() && grid.ranks.is_none() && grid.nodes.is_none();
        let fingerprint = sha256_text(hash);
        Ok(Self { file, grid: Arc::new(grid), site, nodes, ranks, is_shape_guessed, fingerprint })
    }

    /// The points that can be tuned: those with a default to compare with.
    pub fn points(&self) -> Vec<Point> {
        self.grid.default_points(&self.site).into_iter().collect()
    }

    /// Recorded cells of these points, over all environments.
    pub fn cells(&self, points: &[Point]) -> u64 {
        let cells = self.grid.environments.values().flat_map(BTreeMap::keys);
        cells.filter(|(point, _)| points.contains(point)).count() as u64
    }

    /// Of these points, those of some collectives and sizes; without a list, of all.
    ///
    /// # Errors
    /// [`ReplayError::Unrecorded`]: rules can only be tested where something was measured.
    pub fn select(&self, collectives: Option<&[Collective]>, sizes: Option<&[u64]>) -> Result<Vec<Point>, ReplayError> {
        let mut points = self.points();
        if let Some(collectives) = collectives {
            let known: BTreeSet<Collective> = points.iter().map(|point| point.collective).collect();
            self.check_recorded(collectives, &known, Collective::to_string)?;
            points.retain(|point| collectives.contains(&point.collective));
        }
        if let Some(sizes) = sizes {
            let known: BTreeSet<u64> = points.iter().map(|point| point.bytes).collect();
            self.check_recorded(sizes, &known, |bytes| Size(*bytes).to_string())?;
            points.retain(|point| sizes.contains(&point.bytes));
        }
        Ok(points)
    }

    fn check_recorded<T: Ord>(
        &self,
        asked: &[T],
        known: &BTreeSet<T>,
        show: impl Fn(&T) -> String,
    ) -> Result<(), ReplayError> {
        let Some(missing) = asked.iter().find(|asked| !known.contains(asked)) else { return Ok(()) };
        let known = known.iter().map(&show).collect::<Vec<_>>().join(", ");
        Err(ReplayError::Unrecorded { file: self.file.clone(), what: show(missing), known })
    }

    /// Points without a default, which are left out.
    fn left_out(&self) -> Vec<Point> {
        let tuned = self.grid.default_points(&self.site);
        self.grid.points().into_iter().filter(|point| !tuned.contains(point)).collect()
    }

    pub(super) fn info(&self) -> BenchInfo {
        BenchInfo { engine: Engine::Replay, nodes: self.nodes, ranks: self.ranks }
    }

    pub(super) fn open(&self, seed: u64) -> Offline {
        let config = ReplayConfig {
            seed: seed ^ LUCK,
            nodes: self.nodes,
            ranks: self.ranks,
            start_s: START_S,
            read_deployment: Some(read_deployment),
        };
        let bench = Replay::new((*self.grid).clone(), self.site.clone(), config);
        let space = bench.space();
        let mut notes = Vec::new();
        if !self.site.is_empty() {
            notes.push(format!("the default arm is the `default` rows with {}", self.site));
        }
        let mut warnings = Vec::new();
        if self.is_shape_guessed {
            warnings.push(format!(
                "{} does not say how many ranks it was measured with: taken for {USUAL_NODES} nodes with one rank each (--shapes \
                 NODESxRANKS_PER_NODE, or the columns nodes and ranks, say otherwise)",
                self.file
            ));
        }
        let left_out = self.left_out();
        if !left_out.is_empty() {
            let rows = if self.site.is_empty() { String::new() } else { format!(" with {}", self.site) };
            warnings.push(format!("left out, as they have no `default` row{rows}: {}", list(&left_out)));
        }
        Offline { bench: Box::new(bench), space, notes, warnings }
    }
}

/// Nodes and ranks, by the grid's columns or by the user.
fn recorded_shape(file: &str, grid: &Grid, shape: Option<Shape>) -> Result<(u32, u32), ReplayError> {
    let asked = shape.map(|shape| (shape.nodes, shape.nodes.saturating_mul(shape.ranks_per_node)));
    let found = match (grid.nodes, grid.ranks) {
        (None, None) => None,
        // Each rank a node, or each node one rank.
        (Some(count), None) | (None, Some(count)) => Some((count, count)),
        (Some(nodes), Some(ranks)) => Some((nodes, ranks)),
    };
    if let Some((nodes, ranks)) = found.filter(|(nodes, ranks)| !ranks.is_multiple_of(*nodes)) {
        return Err(ReplayError::Uneven { file: file.to_owned(), nodes, ranks });
    }
    match (found, asked) {
        (Some(found), Some(asked)) if found != asked => {
            let words = |(nodes, ranks): (u32, u32)| format!("{nodes} nodes and {ranks} ranks");
            Err(ReplayError::Shape { file: file.to_owned(), found: words(found), asked: words(asked) })
        }
        (found, asked) => Ok(found.or(asked).unwrap_or((USUAL_NODES, USUAL_NODES))),
    }
}

fn list(points: &[Point]) -> String {
    let named: Vec<String> = points.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let more = points.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::OfflineRequest;

    const HEADER: &str = "collective,bytes,algorithm,protocol,channels,mean_us";

    fn read(columns: &str, values: &str, shape: Option<&str>) -> Result<ReplayRequest, ReplayError> {
        let rows = ["default,default,0", "ring,ll,1"].map(|choice| format!("allreduce,1024,{choice},9{values}\n"));
        let text = format!("{HEADER}{columns}\n{}", rows.concat());
        ReplayRequest::read("g.csv", &text, shape.map(|shape| shape.parse().unwrap()))
    }

    #[test]
    fn nodes_and_ranks_come_from_the_grid_or_from_the_user() {
        for (columns, values, shape, want) in [
            ("", "", None, (4, 4)),
            ("", "", Some("2x8"), (2, 16)),
            (",ranks", ",8", None, (8, 8)),
            (",nodes", ",2", None, (2, 2)),
            (",nodes,ranks", ",2,16", None, (2, 16)),
            (",nodes,ranks", ",2,16", Some("2x8"), (2, 16)),
        ] {
            let request = read(columns, values, shape).unwrap();
            assert_eq!((request.nodes, request.ranks), want, "{columns} {values} {shape:?}");
            let is_guessed = columns.is_empty() && shape.is_none();
            assert_eq!(request.open(1).warnings.len(), usize::from(is_guessed), "{columns} {shape:?}");
        }
        for (columns, values, shape, want) in [
            (
                ",ranks",
                ",8",
                Some("2x4"),
                "g.csv was measured with 8 nodes and 8 ranks, and --shapes says 2 nodes and 8 ranks",
            ),
            (",nodes,ranks", ",3,8", None, "g.csv: 8 ranks cannot be spread evenly over 3 nodes"),
        ] {
            let error = read(columns, values, shape).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn a_profile_holds_for_the_text_and_the_shape() {
        let fingerprint =
            |values, shape| OfflineRequest::Replay(read(",iterations", values, shape).unwrap()).fingerprint();
        let one = fingerprint(",3", None);
        assert_eq!(one, fingerprint(",3", Some("4x1")));
        assert!(one != fingerprint(",3", Some("2x1")) && one != fingerprint(",4", None));
    }
}

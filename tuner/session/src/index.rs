//! A `SQLite` index over all runs, for history and trends. It holds nothing that the JSONL files do not: delete it at will.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, params};

use crate::{
    event::{Decision, Event, RunEnd},
    store::{self, StoredRun},
};

/// File name of the index, beside the runs.
pub const FILE_NAME: &str = "index.sqlite";

/// An index that could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The runs could not be read.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// The database failed.
    #[error("index {}: {source}", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
}

/// One run in the index.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Run id.
    pub run: String,
    /// Engine name.
    pub engine: String,
    /// Hosts, folded.
    pub hosts: String,
    /// Ranks.
    pub ranks: u32,
    /// Trials, failed ones included.
    pub trials: u64,
    /// Points that the A/B found faster and sure.
    pub shipped: u64,
    /// How it ended; empty where it was killed.
    pub end: String,
    /// Its last sentence.
    pub summary: String,
}

const SCHEMA: &str = "
    DROP TABLE IF EXISTS run;
    DROP TABLE IF EXISTS verdict;
    CREATE TABLE run (run TEXT PRIMARY KEY, engine TEXT, hosts TEXT, ranks INTEGER, trials INTEGER, failed INTEGER,
                      shipped INTEGER, end TEXT, summary TEXT);
    CREATE TABLE verdict (run TEXT, nodes INTEGER, ranks INTEGER, collective TEXT, bytes INTEGER, median REAL, low REAL, high REAL, p_faster REAL,
                          default_us REAL, tuned_us REAL, decision TEXT);
";

/// Rebuilds the index of a folder from its runs, and returns the runs, newest first. A run that cannot be read is left
/// out and named in the second part.
///
/// # Errors
/// [`IndexError`] where the folder or the database cannot be used.
pub fn rebuild(dir: &Path) -> Result<(Vec<RunRow>, Vec<String>), IndexError> {
    let files = store::list_runs(dir)?;
    let path = dir.join(FILE_NAME);
    let sqlite = |source| IndexError::Sqlite { path: path.clone(), source };
    let mut unreadable = Vec::new();
    if files.is_empty() {
        return Ok((Vec::new(), unreadable));
    }
    let mut connection = Connection::open(&path).map_err(sqlite)?;
    let transaction = connection.transaction().map_err(sqlite)?;
    transaction.execute_batch(SCHEMA).map_err(sqlite)?;
    for file in &files {
        match store::read_run(file) {
            Ok(run) => insert(&transaction, &run).map_err(sqlite)?,
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    transaction.commit().map_err(sqlite)?;
    let rows = query(&connection).map_err(sqlite)?;
    Ok((rows, unreadable))
}

fn query(connection: &Connection) -> rusqlite::Result<Vec<RunRow>> {
    let mut statement = connection
        .prepare("SELECT run, engine, hosts, ranks, trials, shipped, end, summary FROM run ORDER BY run DESC")?;
    let rows = statement.query_map([], |row| {
        Ok(RunRow {
            run: row.get(0)?,
            engine: row.get(1)?,
            hosts: row.get(2)?,
            ranks: row.get(3)?,
            trials: row.get::<_, i64>(4)? as u64,
            shipped: row.get::<_, i64>(5)? as u64,
            end: row.get(6)?,
            summary: row.get(7)?,
        })
    })?;
    rows.collect()
}

fn insert(connection: &Connection, run: &StoredRun) -> rusqlite::Result<()> {
    let Some(Event::RunStarted { run: id, engine, hosts, nodes, ranks, .. }) = run.records.first().map(|r| &r.event)
    else {
        return Ok(());
    };
    let (mut trials, mut failed) = (0i64, 0i64);
    // A reduced candidate is measured again: the last verdict on a point counts.
    let mut decisions = HashMap::new();
    let mut shape = (*nodes, *ranks);
    let (mut end, mut summary) = ("", "");
    for record in &run.records {
        match &record.event {
            Event::Trial(trial) => {
                trials += 1;
                failed += i64::from(trial.result.has_failed());
            }
            Event::Verdict { point, speedup, default_us, tuned_us, decision, .. } => {
                decisions.insert((shape, *point), *decision);
                connection.execute(
                    "INSERT INTO verdict VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                    params![
                        id,
                        shape.0,
                        shape.1,
                        point.collective.name(),
                        point.bytes as i64,
                        speedup.median,
                        speedup.low,
                        speedup.high,
                        speedup.p_faster,
                        default_us,
                        tuned_us,
                        decision_name(*decision)
                    ],
                )?;
            }
            Event::Shape { nodes, ranks, .. } => shape = (*nodes, *ranks),
            Event::NodeSet { nodes, ranks, .. } => {
                shape = (*nodes, *ranks);
                decisions.clear();
            }
            Event::Resumed { .. } => (end, summary) = ("", ""),
            Event::Finished { end: how, summary: text } => (end, summary) = (end_name(*how), text),
            _ => {}
        }
    }
    let is_tuned = end == end_name(RunEnd::Tuned);
    let shipped = decisions.values().filter(|d| is_tuned && **d == Decision::Ship).count() as i64;
    connection.execute(
        "INSERT OR REPLACE INTO run VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![id, engine.name(), hosts, ranks, trials, failed, shipped, end, summary],
    )?;
    Ok(())
}

const fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Ship => "ship",
        Decision::Keep => "keep",
        Decision::Regression => "regression",
        Decision::TooNoisy => "too noisy",
    }
}

/// How a run ended, in words.
pub const fn end_name(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Tuned => "tuned",
        RunEnd::DefaultsBest => "defaults best",
        RunEnd::Interrupted => "interrupted",
        RunEnd::NodesLost => "nodes lost",
        RunEnd::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gdrtune_profiles::{
        profile::Speedup,
        vocab::{Collective, Engine, Point},
    };

    use super::*;
    use crate::{event::Record, store::RunWriter};

    fn started() -> Event {
        Event::RunStarted {
            schema_version: 1,
            run: "r1".into(),
            tool: "0".into(),
            engine: Engine::Native,
            hosts: "vh[1-4]".into(),
            nodes: 4,
            ranks: 4,
            points: vec![],
            seed: 1,
            budget_s: None,
            max_trials: None,
            workload: "default".into(),
            objective: "geomean".into(),
            sm_cost: 0.0,
        }
    }

    #[test]
    fn verdicts_on_a_point_count_once_in_each_shape() {
        let dir = tempfile::tempdir().unwrap();
        let verdict = || Event::Verdict {
            point: Point { collective: Collective::AllReduce, bytes: 1024 },
            speedup: Speedup { median: 1.2, low: 1.1, high: 1.3, p_faster: 0.99, repeats: 7 },
            default_us: 12.0,
            tuned_us: 10.0,
            decision: Decision::Ship,
            note: String::new(),
        };
        let shape = |index, nodes| Event::Shape { index, of: 2, nodes, ranks: nodes };
        let finished = Event::Finished { end: RunEnd::Tuned, summary: "two shapes".into() };
        let events = [started(), shape(0, 2), verdict(), verdict(), shape(1, 4), verdict(), finished];
        let mut writer = RunWriter::create(dir.path(), "r1").unwrap();
        for (seq, event) in (0..).zip(events) {
            writer.append(&Record { seq, t_ms: 0, event }).unwrap();
        }
        assert_eq!(rebuild(dir.path()).unwrap().0[0].shipped, 2);
    }

    #[test]
    fn the_index_is_rebuilt_from_the_runs_and_names_what_it_cannot_read() {
        let dir = tempfile::tempdir().unwrap();
        let finished = Event::Finished { end: RunEnd::DefaultsBest, summary: "nothing gained".into() };
        let mut writer = RunWriter::create(dir.path(), "r1").unwrap();
        for (seq, event) in (0..).zip([started(), finished]) {
            writer.append(&Record { seq, t_ms: 0, event }).unwrap();
        }
        fs::write(dir.path().join("r2.jsonl"), "rubbish\n").unwrap();
        for _ in 0..2 {
            let (rows, unreadable) = rebuild(dir.path()).unwrap();
            assert_eq!(rows.len(), 1);
            assert_eq!((rows[0].run.as_str(), rows[0].end.as_str(), rows[0].ranks), ("r1", "defaults best", 4));
            assert!(unreadable[0].contains("r2.jsonl:1"), "{unreadable:?}");
        }
    }
}

//! A `SQLite` index over all runs, for history and trends. It holds nothing that the JSONL files do not: delete it at will.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use gdrtune_profiles::vocab::Point;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use crate::{
    event::{Decision, Event, Invocation, RunEnd},
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
    /// The name by which its store is found: the run id, unless somebody renamed the file.
    pub name: String,
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
    /// Geometric mean of the verified speed-ups over all points, those that do not ship counting as 1; of a tuned run only.
    pub gain: Option<f64>,
    /// How it ended; empty where it was killed, or still runs.
    pub end: String,
    /// Its last sentence.
    pub summary: String,
    /// Words of its command line after the program; empty where the store does not have them.
    pub args: Vec<String>,
    /// Folder that it was started in.
    pub dir: String,
}

/// What is in a folder of runs, as far as it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The runs, newest first.
    pub rows: Vec<RunRow>,
    /// Runs that cannot be read, and why.
    pub unreadable: Vec<String>,
    /// Runs that are new or have changed, and were not read yet.
    pub n_left: usize,
}

/// Of the tables below: an index of another version is made anew.
const SCHEMA_VERSION: i64 = 3;

const SCHEMA: &str = "
    DROP TABLE IF EXISTS file;
    DROP TABLE IF EXISTS run;
    DROP TABLE IF EXISTS verdict;
    CREATE TABLE file (name TEXT PRIMARY KEY, bytes INTEGER, modified_ns INTEGER, problem TEXT);
    CREATE TABLE run (name TEXT PRIMARY KEY, run TEXT, engine TEXT, hosts TEXT, ranks INTEGER, trials INTEGER, failed INTEGER,
                      shipped INTEGER, gain REAL, end TEXT, summary TEXT, args TEXT, dir TEXT);
    CREATE TABLE verdict (name TEXT, run TEXT, nodes INTEGER, ranks INTEGER, collective TEXT, bytes INTEGER, median REAL, low REAL,
                          high REAL, p_faster REAL, default_us REAL, tuned_us REAL, decision TEXT);
    CREATE INDEX verdict_name ON verdict (name);
";

/// The length of a run's file and when it was last written, by which a run that has changed is known.
type Stamp = (i64, i64);

/// Brings the index of a folder up to date and lists the runs. Only files that are new or have changed are read, the newest
/// first, and each only if `may_read` agrees; the others are left for the next time.
///
/// # Errors
/// [`IndexError`] where the folder or the database cannot be used.
pub fn refresh(dir: &Path, mut may_read: impl FnMut() -> bool) -> Result<Listing, IndexError> {
    let files = store::list_runs(dir)?;
    if files.is_empty() {
        return Ok(Listing::default());
    }
    let path = dir.join(FILE_NAME);
    match refresh_file(&path, &files, &mut may_read) {
        Err(error) if is_damage(&error) => {
            // Everything in it is in the runs, too.
            fs::remove_file(&path).map_err(|_unremovable| IndexError::Sqlite { path: path.clone(), source: error })?;
            refresh_file(&path, &files, &mut may_read)
        }
        result => result,
    }
    .map_err(|source| IndexError::Sqlite { path, source })
}

/// Whether the file is no database, or no whole one.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

fn refresh_file(path: &Path, files: &[PathBuf], may_read: &mut impl FnMut() -> bool) -> rusqlite::Result<Listing> {
    let mut connection = Connection::open(path)?;
    // At once for writing: two that read first and write then would refuse each other.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    prepare(&transaction)?;
    let mut known = known(&transaction)?;
    let mut stale = Vec::new();
    for file in files {
        let name = name_of(file);
        let stamp = stamp(file);
        if known.remove(&name) != stamp || stamp.is_none() {
            stale.push((name, file, stamp.unwrap_or_default()));
        }
    }
    let mut n_left = stale.len();
    for gone in known.keys() {
        forget(&transaction, gone)?;
    }
    for (name, file, stamp) in stale {
        if !may_read() {
            break;
        }
        take(&transaction, &name, file, stamp)?;
        n_left -= 1;
    }
    let rows = query(&transaction)?;
    let unreadable = problems(&transaction)?;
    transaction.commit()?;
    Ok(Listing { rows, unreadable, n_left })
}

/// Makes the tables, if they are not there as this version has them.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version != SCHEMA_VERSION {
        connection.execute_batch(SCHEMA)?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    Ok(())
}

fn name_of(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `None` for what is not there any more, or cannot be looked at: reading it says why.
fn stamp(file: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(file).ok()?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((metadata.len() as i64, modified.as_nanos() as i64))
}

/// The files that the index has, as they were when they were read.
fn known(connection: &Connection) -> rusqlite::Result<HashMap<String, Stamp>> {
    let mut statement = connection.prepare("SELECT name, bytes, modified_ns FROM file")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}

fn problems(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT problem FROM file WHERE problem IS NOT NULL ORDER BY name DESC")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

fn forget(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    for table in ["file", "run", "verdict"] {
        connection.execute(&format!("DELETE FROM {table} WHERE name = ?1"), [name])?;
    }
    Ok(())
}

/// Reads one run anew.
fn take(connection: &Connection, name: &str, file: &Path, (bytes, modified_ns): Stamp) -> rusqlite::Result<()> {
    forget(connection, name)?;
    let problem = match store::read_run(file) {
        Ok(run) => {
            insert(connection, name, &run)?;
            None
        }
        Err(error) => Some(error.to_string()),
    };
    connection.execute("INSERT INTO file VALUES (?1, ?2, ?3, ?4)", params![name, bytes, modified_ns, problem])?;
    Ok(())
}

fn query(connection: &Connection) -> rusqlite::Result<Vec<RunRow>> {
    let mut statement = connection.prepare(
        "SELECT name, run, engine, hosts, ranks, trials, shipped, gain, end, summary, args, dir FROM run ORDER BY name DESC",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(RunRow {
            name: row.get(0)?,
            run: row.get(1)?,
            engine: row.get(2)?,
            hosts: row.get(3)?,
            ranks: row.get(4)?,
            trials: row.get::<_, i64>(5)? as u64,
            shipped: row.get::<_, i64>(6)? as u64,
            gain: row.get(7)?,
            end: row.get(8)?,
            summary: row.get(9)?,
            args: serde_json::from_str(&row.get::<_, String>(10)?).unwrap_or_default(),
            dir: row.get(11)?,
        })
    })?;
    rows.collect()
}

/// What the records of a run come to.
struct Digest<'a> {
    trials: i64,
    failed: i64,
    /// A reduced candidate is measured again: the last verdict on a point of a shape counts.
    verdicts: HashMap<((u32, u32), Point), (Decision, f64)>,
    end: &'static str,
    summary: &'a str,
    invocation: Option<&'a Invocation>,
}

impl Digest<'_> {
    /// Points that ship, and what they gain; of a tuned run only.
    fn shipped(&self) -> (i64, Option<f64>) {
        if self.end != end_name(RunEnd::Tuned) || self.verdicts.is_empty() {
            return (0, None);
        }
        let gains = || self.verdicts.values().filter(|(decision, _)| *decision == Decision::Ship).map(|(_, gain)| gain);
        let logarithms: f64 = gains().map(|gain| gain.ln()).sum();
        (gains().count() as i64, Some((logarithms / self.verdicts.len() as f64).exp()))
    }
}

fn insert(connection: &Connection, name: &str, run: &StoredRun) -> rusqlite::Result<()> {
    let Some(Event::RunStarted { run: id, engine, hosts, nodes, ranks, .. }) = run.records.first().map(|r| &r.event)
    else {
        return Ok(());
    };
    let mut digest = Digest { trials: 0, failed: 0, verdicts: HashMap::new(), end: "", summary: "", invocation: None };
    let mut shape = (*nodes, *ranks);
    for record in &run.records {
        match &record.event {
            Event::Invoked(invocation) => digest.invocation = Some(invocation),
            Event::Trial(trial) => {
                digest.trials += 1;
                digest.failed += i64::from(trial.result.has_failed());
            }
            Event::Verdict { point, speedup, default_us, tuned_us, decision, .. } => {
                digest.verdicts.insert((shape, *point), (*decision, speedup.median));
                connection.execute(
                    "INSERT INTO verdict VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
                    params![
                        name,
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
                digest.verdicts.clear();
            }
            Event::Resumed { .. } => (digest.end, digest.summary) = ("", ""),
            Event::Finished { end: how, summary: text } => (digest.end, digest.summary) = (end_name(*how), text),
            _ => {}
        }
    }
    let (shipped, gain) = digest.shipped();
    let args = digest.invocation.and_then(|by| serde_json::to_string(&by.args).ok()).unwrap_or_default();
    let dir = digest.invocation.map_or("", |by| &by.dir);
    connection.execute(
        "INSERT INTO run VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            name,
            id,
            engine.name(),
            hosts,
            ranks,
            digest.trials,
            digest.failed,
            shipped,
            gain,
            digest.end,
            digest.summary,
            args,
            dir
        ],
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
        RunEnd::Inconclusive => "inconclusive",
        RunEnd::Interrupted => "interrupted",
        RunEnd::NodesLost => "nodes lost",
        RunEnd::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{
        profile::Speedup,
        vocab::{Collective, Engine},
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
        store(dir.path(), "r1", events);
        let listing = refresh(dir.path(), || true).unwrap();
        let row = &listing.rows[0];
        assert_eq!((row.shipped, row.gain.map(|gain| (gain * 100.0).round())), (2, Some(120.0)));
    }

    fn store(dir: &Path, run: &str, events: impl IntoIterator<Item = Event>) -> PathBuf {
        let mut writer = RunWriter::create(dir, run).unwrap();
        for (seq, event) in (0..).zip(events) {
            writer.append(&Record { seq, t_ms: 0, event }).unwrap();
        }
        writer.path().to_owned()
    }

    #[test]
    fn the_index_is_made_of_the_runs_and_names_what_it_cannot_read() {
        let dir = tempfile::tempdir().unwrap();
        let finished = Event::Finished { end: RunEnd::DefaultsBest, summary: "nothing gained".into() };
        store(dir.path(), "r1", [started(), finished]);
        fs::write(dir.path().join("r2.jsonl"), "rubbish\n").unwrap();
        for again in 0..3 {
            if again == 2 {
                // Of a version that is not ours.
                fs::remove_file(dir.path().join(FILE_NAME)).unwrap();
                let old = Connection::open(dir.path().join(FILE_NAME)).unwrap();
                old.execute_batch("CREATE TABLE run (run TEXT PRIMARY KEY); CREATE TABLE verdict (run TEXT);").unwrap();
            }
            let listing = refresh(dir.path(), || true).unwrap();
            assert_eq!((listing.rows.len(), listing.n_left), (1, 0));
            let row = &listing.rows[0];
            assert_eq!((row.name.as_str(), row.end.as_str(), row.ranks, row.gain), ("r1", "defaults best", 4, None));
            assert!(listing.unreadable[0].contains("r2.jsonl:1"), "{:?}", listing.unreadable);
        }
    }

    #[test]
    fn a_damaged_index_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        store(dir.path(), "run-a", [started()]);
        let names = || {
            let listing = refresh(dir.path(), || true).unwrap();
            listing.rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
        };
        assert_eq!(names(), ["run-a"]);
        let path = dir.path().join(FILE_NAME);
        let whole = fs::read(&path).unwrap();
        let spoiled = [&whole[..100], &vec![0xff; whole.len() - 100]].concat();
        for bytes in
            [&b"no database, but long enough to be taken for one that is not one"[..], &spoiled, &whole[..5000]]
        {
            fs::write(&path, bytes).unwrap();
            assert_eq!(names(), ["run-a"]);
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(refresh(dir.path(), || true).is_err(), "what is not ours stays");
    }

    #[test]
    fn only_what_has_changed_is_read_and_the_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        let args = vec!["tune".to_owned(), "-w".to_owned(), "vh[1-4]".to_owned()];
        let invoked =
            || Event::Invoked(Invocation { args: args.clone(), dir: "/home".into(), ..Invocation::default() });
        let files = ["r1", "r2", "r3"].map(|run| store(dir.path(), run, [started(), invoked()]));
        let names = |listing: &Listing| listing.rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
        let two = || 0..2;
        let mut left = two();
        let first = refresh(dir.path(), || left.next().is_some()).unwrap();
        assert_eq!((names(&first), first.n_left), (vec!["r3".to_owned(), "r2".to_owned()], 1));
        assert_eq!((&first.rows[0].args, first.rows[0].dir.as_str(), first.rows[0].end.as_str()), (&args, "/home", ""));
        let mut left = two();
        let all = refresh(dir.path(), || left.next().is_some()).unwrap();
        assert_eq!((names(&all).len(), all.n_left), (3, 0));

        // A file that is as it was is not opened: its text is another one of the same length and time.
        let (text, modified) = (fs::read(&files[2]).unwrap(), fs::metadata(&files[2]).unwrap().modified().unwrap());
        fs::write(&files[2], vec![b'x'; text.len()]).unwrap();
        fs::File::options().write(true).open(&files[2]).unwrap().set_modified(modified).unwrap();
        let finished = Event::Finished { end: RunEnd::Tuned, summary: String::new() };
        let mut r2 = fs::File::options().append(true).open(&files[1]).unwrap();
        serde_json::to_writer(&mut r2, &Record { seq: 2, t_ms: 1, event: finished }).unwrap();
        std::io::Write::write_all(&mut r2, b"\n").unwrap();
        fs::remove_file(&files[0]).unwrap();
        let now = refresh(dir.path(), || true).unwrap();
        assert_eq!(names(&now), ["r3", "r2"]);
        assert_eq!((now.rows[1].end.as_str(), now.unreadable.len()), ("tuned", 0));
    }
}

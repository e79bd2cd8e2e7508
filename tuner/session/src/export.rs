//! The trials of a run as a table, for spreadsheets and scripts. The same records always give the same text.

use std::{collections::BTreeMap, fmt::Write as _};

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{
    json::escape,
    vocab::{Engine, Environment},
};
use serde::Serialize;

use crate::event::{Arm, Event, Failure, NodeState, Record, Trial, TrialResult};

/// Version of the columns: later ones only add some.
pub const SCHEMA_VERSION: u32 = 1;

/// The columns of the CSV, which are the fields of the JSON, in their order.
pub const COLUMNS: [&str; 25] = [
    "run",
    "engine",
    "label",
    "trial",
    "t_ms",
    "arm",
    "node_set",
    "nodes",
    "ranks",
    "process",
    "environment",
    "collective",
    "bytes",
    "requested",
    "selected",
    "outcome",
    "time_us",
    "slowest_us",
    "median_us",
    "max_us",
    "cpu_us",
    "busbw_gbs",
    "algbw_gbs",
    "iterations",
    "detail",
];

/// One trial. What does not apply is empty in the CSV and null in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Run id.
    pub run: String,
    /// Engine name.
    pub engine: &'static str,
    /// What the numbers must not be mistaken for: `emulated`, `simulated` or `replayed`; empty where they were measured on
    /// nodes of their own.
    pub label: &'static str,
    /// Running number from 0.
    pub trial: u64,
    /// Milliseconds since the run began.
    pub t_ms: u64,
    /// `default`, `search` or `candidate`.
    pub arm: &'static str,
    /// Hosts that measured it, folded; of a bench without hosts its name.
    pub node_set: String,
    /// Nodes of the job shape, emulated ones too.
    pub nodes: u32,
    /// Ranks over all nodes.
    pub ranks: u32,
    /// The set of processes.
    pub process: u32,
    /// Settings over the site's.
    pub environment: Environment,
    /// Collective.
    pub collective: &'static str,
    /// Bytes, as in the size column of nccl-tests.
    pub bytes: u64,
    /// The choice that was asked for; absent left it to the engine or to the deployed rules.
    pub requested: Option<String>,
    /// What ran, where the engine can tell.
    pub selected: Option<String>,
    /// `timed`, or why its time does not count: `wrong`, `hung`, `crashed`, `unsupported`, `substituted`,
    /// `skipped`.
    pub outcome: &'static str,
    /// Microseconds per operation, averaged over ranks: what is compared.
    pub time_us: Option<f64>,
    /// The same of the slowest rank.
    pub slowest_us: Option<f64>,
    /// Median lap of the batch, per call.
    pub median_us: Option<f64>,
    /// Slowest lap of the batch, per call.
    pub max_us: Option<f64>,
    /// CPU time.
    pub cpu_us: Option<f64>,
    /// Bus bandwidth in GB/s (10^9 bytes).
    pub busbw_gbs: Option<f64>,
    /// Bytes over time, in GB/s.
    pub algbw_gbs: Option<f64>,
    /// Timed calls; absent where nobody says.
    pub iterations: Option<u32>,
    /// What was said of a trial that failed.
    pub detail: String,
}

/// The trials of a run, in their order.
pub fn rows(records: &[Record]) -> Vec<Row> {
    let mut place = Place::default();
    records.iter().filter_map(|record| place.take(record)).collect()
}

/// Where trials are measured, as the records tell it.
#[derive(Default)]
struct Place {
    run: String,
    engine: Option<Engine>,
    emulated: bool,
    /// What a bench without nodes is called.
    name: String,
    hosts: BTreeMap<u32, String>,
    nodes: u32,
    ranks: u32,
}

impl Place {
    fn take(&mut self, record: &Record) -> Option<Row> {
        match &record.event {
            Event::RunStarted { run, engine, hosts, nodes, ranks, .. } => {
                (self.run, self.engine) = (run.clone(), Some(*engine));
                (self.name, self.nodes, self.ranks) = (hosts.clone(), *nodes, *ranks);
            }
            Event::Emulated { .. } => self.emulated = true,
            Event::Shape { nodes, ranks, .. } | Event::NodeSet { nodes, ranks, .. } => {
                (self.nodes, self.ranks) = (*nodes, *ranks);
            }
            Event::Node { index, host, state, .. } => match state {
                NodeState::Connecting | NodeState::Ready => drop(self.hosts.insert(*index, host.clone())),
                NodeState::Failed | NodeState::Lost => drop(self.hosts.remove(index)),
                NodeState::Closed => {}
            },
            Event::Trial(trial) => return self.row(record.t_ms, trial),
            _ => {}
        }
        None
    }

    fn row(&self, t_ms: u64, trial: &Trial) -> Option<Row> {
        let engine = self.engine?;
        let bytes = trial.point.bytes;
        let mut row = Row {
            run: self.run.clone(),
            engine: engine.name(),
            label: label(engine, self.emulated),
            trial: trial.trial,
            t_ms,
            arm: arm_name(trial.arm),
            node_set: self.node_set(),
            nodes: self.nodes,
            ranks: self.ranks,
            process: trial.process,
            environment: trial.environment.clone(),
            collective: trial.point.collective.name(),
            bytes,
            requested: trial.requested.map(|choice| choice.to_string()),
            selected: trial.selected.map(|choice| choice.to_string()),
            outcome: "timed",
            time_us: None,
            slowest_us: None,
            median_us: None,
            max_us: None,
            cpu_us: None,
            busbw_gbs: None,
            algbw_gbs: None,
            iterations: None,
            detail: String::new(),
        };
        match &trial.result {
            TrialResult::Timed { time_us, slowest_us, median_us, max_us, cpu_us, busbw_gbs, iterations } => {
                row.time_us = Some(*time_us);
                row.slowest_us = Some(*slowest_us);
                row.median_us = Some(*median_us);
                row.max_us = Some(*max_us);
                row.cpu_us = Some(*cpu_us);
                row.busbw_gbs = Some(*busbw_gbs);
                row.algbw_gbs = (0.0 < *time_us).then(|| bytes as f64 / time_us / 1e3);
                row.iterations = (0 < *iterations).then_some(*iterations);
            }
            TrialResult::Failed { kind, detail, .. } => {
                (row.outcome, row.detail) = (failure_name(*kind), detail.clone());
            }
        }
        Some(row)
    }

    /// A shape takes the first hosts; several nodes of it may be emulated on one.
    fn node_set(&self) -> String {
        if self.hosts.is_empty() {
            return self.name.clone();
        }
        fold(&self.hosts.values().take(self.nodes as usize).collect::<Vec<_>>())
    }
}

const fn label(engine: Engine, emulated: bool) -> &'static str {
    match engine {
        Engine::Sim => "simulated",
        Engine::Replay => "replayed",
        Engine::Nccl | Engine::Native if emulated => "emulated",
        Engine::Nccl | Engine::Native => "",
    }
}

const fn arm_name(arm: Arm) -> &'static str {
    match arm {
        Arm::Default => "default",
        Arm::Search => "search",
        Arm::Candidate => "candidate",
    }
}

pub(crate) const fn failure_name(kind: Failure) -> &'static str {
    match kind {
        Failure::Wrong => "wrong",
        Failure::Hung => "hung",
        Failure::Crashed => "crashed",
        Failure::Unsupported => "unsupported",
        Failure::Substituted => "substituted",
        Failure::Skipped => "skipped",
    }
}

/// The rows as CSV (RFC 4180, with plain line ends), [`COLUMNS`] first.
pub fn csv(rows: &[Row]) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for row in rows {
        // Writing to a String cannot fail.
        writeln!(text, "{}", row.cells().map(|cell| quoted(&cell)).join(",")).unwrap_or_default();
    }
    text
}

/// The rows as one JSON object.
///
/// # Errors
/// The serializer's.
pub fn json(rows: &[Row]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Document<'a> {
        schema_version: u32,
        trials: &'a [Row],
    }
    Ok(escape(serde_json::to_string_pretty(&Document { schema_version: SCHEMA_VERSION, trials: rows })?) + "\n")
}

/// One JSON object for each row, each on its line.
///
/// # Errors
/// The serializer's.
pub fn jsonl(rows: &[Row]) -> serde_json::Result<String> {
    rows.iter().map(|row| Ok(escape(serde_json::to_string(row)?) + "\n")).collect()
}

impl Row {
    fn cells(&self) -> [String; COLUMNS.len()] {
        let choice = |choice: &Option<String>| choice.clone().unwrap_or_default();
        // The shortest text that reads back as the same number.
        let number = |number: Option<f64>| number.map(|n| n.to_string()).unwrap_or_default();
        [
            self.run.clone(),
            self.engine.to_owned(),
            self.label.to_owned(),
            self.trial.to_string(),
            self.t_ms.to_string(),
            self.arm.to_owned(),
            self.node_set.clone(),
            self.nodes.to_string(),
            self.ranks.to_string(),
            self.process.to_string(),
            shell_words::join(self.environment.iter().map(|(name, value)| format!("{name}={value}"))),
            self.collective.to_owned(),
            self.bytes.to_string(),
            choice(&self.requested),
            choice(&self.selected),
            self.outcome.to_owned(),
            number(self.time_us),
            number(self.slowest_us),
            number(self.median_us),
            number(self.max_us),
            number(self.cpu_us),
            number(self.busbw_gbs),
            number(self.algbw_gbs),
            self.iterations.map(|n| n.to_string()).unwrap_or_default(),
            self.detail.clone(),
        ]
    }
}

/// A cell, in quotes where it needs them.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Point, Protocol};

    use super::*;

    fn trial(number: u64, result: TrialResult) -> Event {
        let environment = Environment::new().with("NCCL_ALGO", "a,b").with("NCCL_NET_PLUGIN", "x y");
        Event::Trial(Trial {
            trial: number,
            arm: Arm::Search,
            environment,
            point: Point { collective: Collective::AllReduce, bytes: 65536 },
            requested: Some(Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 2 }),
            selected: None,
            process: 3,
            item: None,
            result,
        })
    }

    fn records(engine: &str, events: Vec<Event>) -> Vec<Record> {
        let started = format!(
            r#"{{"type":"run_started","schema_version":1,"run":"r1","tool":"0","engine":"{engine}","hosts":"vh[1-3]",
                 "nodes":3,"ranks":6,"points":[],"seed":1,"budget_s":null}}"#
        );
        let started: Event = serde_json::from_str(&started).unwrap();
        let events = std::iter::once(started).chain(events);
        (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 7 * seq, event }).collect()
    }

    fn timed() -> TrialResult {
        TrialResult::Timed {
            time_us: 128.0,
            slowest_us: 129.5,
            median_us: 127.0,
            max_us: 140.0,
            cpu_us: 60.0,
            busbw_gbs: 0.75,
            iterations: 20,
        }
    }

    #[test]
    fn every_trial_is_a_line_with_its_place() {
        let node = |index, state| Event::Node { index, host: format!("vh{}", index + 1), state, detail: String::new() };
        let failed =
            TrialResult::Failed { kind: Failure::Hung, detail: "killed \"at\" its\ndeadline".into(), ran: None };
        let events = vec![
            node(0, NodeState::Ready),
            node(1, NodeState::Ready),
            node(2, NodeState::Ready),
            trial(0, timed()),
            Event::Emulated { why: "one machine".into() },
            Event::Shape { index: 0, of: 2, nodes: 2, ranks: 4 },
            node(0, NodeState::Lost),
            trial(1, failed),
            Event::NodeSet { hosts: "vh3".into(), nodes: 1, ranks: 2, left_out: Vec::new() },
            node(1, NodeState::Lost),
            trial(2, timed()),
        ];
        let rows = rows(&records("native", events));
        let text = csv(&rows);
        let environment = "\"'NCCL_ALGO=a,b' 'NCCL_NET_PLUGIN=x y'\"";
        assert_eq!(
            text,
            format!(
                "{}\n\
                 r1,native,,0,28,search,vh[1-3],3,6,3,{environment},allreduce,65536,tree/ll/2,,timed,128,129.5,127,140,60,0.75,\
                 0.512,20,\n\
                 r1,native,emulated,1,56,search,vh[2-3],2,4,3,{environment},allreduce,65536,tree/ll/2,,hung,,,,,,,,,\
                 \"killed \"\"at\"\" its\ndeadline\"\n\
                 r1,native,emulated,2,77,search,vh3,1,2,3,{environment},allreduce,65536,tree/ll/2,,timed,128,129.5,127,140,60,\
                 0.75,0.512,20,\n",
                COLUMNS.join(",")
            )
        );
    }

    #[test]
    fn json_has_the_columns_of_the_csv() {
        for (engine, label) in [("sim", "simulated"), ("replay", "replayed"), ("nccl", "")] {
            let rows = rows(&records(engine, vec![trial(0, timed())]));
            let line = jsonl(&rows).unwrap();
            let keys = line.split(",\"").map(|part| part.trim_start_matches(['{', '"']).split('"').next().unwrap());
            let keys: Vec<&str> = keys.filter(|key| !key.starts_with("NCCL_")).collect();
            assert_eq!(keys, COLUMNS);
            let one: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&one["label"], &one["node_set"]), (&label.into(), &"vh[1-3]".into()));
            assert_eq!(one["environment"]["NCCL_NET_PLUGIN"], "x y");
            let all: serde_json::Value = serde_json::from_str(&json(&rows).unwrap()).unwrap();
            assert_eq!((&all["trials"][0], &all["schema_version"]), (&one, &1.into()));
        }
    }
}

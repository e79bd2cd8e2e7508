//! What a run tells (one way) and what it is told (the other way).
//!
//! A [`Record`] is one line of the run store, one line of `--json` output and one input of the terminal UI: the same
//! text replays, attaches and resumes. So these types are a stored format: fields are only ever added, with a default.

use std::{collections::BTreeMap, fmt};

use gdrtune_profiles::{
    bindings::ceilings::Ceilings,
    profile::{Profile, Speedup},
    vocab::{Choice, Engine, Environment, Point},
};
use serde::{Deserialize, Serialize};

pub use self::importance::{Knob, KnobEffect};
pub(crate) use self::node_facts::KnownFacts;
pub use self::node_facts::{FactsOf, GpuFacts, HcaFacts, NetFacts, NodeFacts, PortFacts};
pub use self::nodes::{LeftOut, without};
pub use self::resume::{InputFile, Invocation, Owner, RanInstead, ScriptSetup};
pub use self::trial::{Arm, Failure, Trial, TrialResult};
pub use self::wish::{Command, Extension, Wish};

mod importance;
mod node_facts;
mod nodes;
mod resume;
mod trial;
mod wish;

/// Version of the lines of a run store.
pub const SCHEMA_VERSION: u32 = 1;

/// One event and when it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Running number from 0, without gaps.
    pub seq: u64,
    /// Milliseconds since the run began.
    pub t_ms: u64,
    /// What happened.
    pub event: Event,
}

/// Everything that a run tells. Closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// First event of a run.
    RunStarted {
        /// [`SCHEMA_VERSION`].
        schema_version: u32,
        /// Run id: start time in UTC and a random suffix.
        run: String,
        /// Version of gdrtune.
        tool: String,
        /// What measures.
        engine: Engine,
        /// Host names as given, in rank order, folded: `vh[1-4]`.
        hosts: String,
        /// Nodes.
        nodes: u32,
        /// Ranks over all nodes.
        ranks: u32,
        /// The points that are tuned.
        points: Vec<Point>,
        /// Seed of every random decision.
        seed: u64,
        /// Budget of the whole run in seconds, if limited.
        budget_s: Option<f64>,
        /// Budget of the search in trials, if limited.
        #[serde(default)]
        max_trials: Option<u64>,
        /// Name of the workload; empty where the run is older than workloads.
        #[serde(default)]
        workload: String,
        /// How the times of all points become one score, `geomean` or `time-per-step`; empty where the run is older.
        #[serde(default)]
        objective: String,
        /// Percent that a choice must be faster for each channel more.
        #[serde(default)]
        sm_cost: f64,
    },
    /// How the run was asked for: all that a resume needs to ask for the same again.
    Invoked(Invocation),
    /// Another process goes on with a run whose process ended too early. The times go on where they were.
    Resumed {
        /// When, in UTC.
        at: String,
        /// Measurements that are not repeated.
        trials: u64,
        /// Who goes on.
        by: Owner,
    },
    /// A node's state changed.
    Node {
        /// Position in rank order, from 0.
        index: u32,
        /// Host name.
        host: String,
        /// The new state.
        state: NodeState,
        /// What it has, or what is wrong.
        detail: String,
    },
    /// What a node has, told once its agent answers.
    NodeFacts {
        /// Position in rank order, from 0.
        index: u32,
        /// Host name.
        host: String,
        /// What it has.
        facts: FactsOf,
    },
    /// A node is slower than the others, as pairs of nodes measured it.
    SlowNode {
        /// Position in rank order, from 0.
        index: u32,
        /// Host name.
        host: String,
        /// How slow it is, and what to do.
        why: String,
    },
    /// The run goes on with some of its hosts alone. What was measured before is of other nodes: it is never mixed with what
    /// comes, and nothing of the result is made of it.
    NodeSet {
        /// Hosts that go on, in rank order, folded.
        hosts: String,
        /// How many that are.
        nodes: u32,
        /// Ranks over all of them.
        ranks: u32,
        /// All hosts of the run that are left out, in rank order.
        left_out: Vec<LeftOut>,
    },
    /// Several nodes turned out to be one machine: they are emulated, and every output says so.
    Emulated {
        /// Which ones.
        why: String,
    },
    /// A run of several job shapes turns to the next one: what comes is about it alone.
    Shape {
        /// Running number from 0.
        index: u32,
        /// How many shapes the run has.
        of: u32,
        /// Nodes, emulated ones too.
        nodes: u32,
        /// Ranks over all nodes.
        ranks: u32,
    },
    /// Another part of the run began.
    Phase {
        /// Which.
        phase: Phase,
    },
    /// The search space, for people and for the heat map.
    Space {
        /// Dimension name to its values (`None` = unset).
        dimensions: BTreeMap<String, Vec<Option<String>>>,
        /// Choices that may be tried per point.
        choices: Vec<Choice>,
        /// Different environments: the product of the dimensions, less what the space forbids or what is equal.
        environments: u64,
        /// Name of the space file; empty where the run is older than these.
        #[serde(default)]
        name: String,
    },
    /// The search turns to an environment.
    EnvironmentStarted {
        /// Running number from 0.
        index: u64,
        /// Settings over the site's.
        environment: Environment,
        /// Why this one.
        why: String,
    },
    /// An environment has a score, or could not be scored.
    EnvironmentScored {
        /// Running number from 0.
        index: u64,
        /// Settings over the site's.
        environment: Environment,
        /// Best time over default time by the run's objective, with what channels cost; `None` where it failed.
        score: Option<f64>,
        /// Given up before all points were measured, or failed: why.
        #[serde(default)]
        note: String,
    },
    /// Workers were started (one process per rank).
    WorkersStarted {
        /// Running number of the set of processes.
        process: u32,
        /// What they run with, for people.
        setup: String,
        /// Time from the start to a working communicator.
        setup_ms: f64,
        /// What the ranks run with, where the engine tells.
        #[serde(default)]
        engine: Option<EngineFacts>,
    },
    /// What the site sets for collectives on the nodes of the present shape.
    Site {
        /// Nodes, folded, and their variables.
        environments: Vec<(String, Environment)>,
    },
    /// What a probe measured of HCAs. Which of them are searched follows from it, so a resume must be told the same.
    Ceilings(Ceilings),
    /// What the engine is, said once it was asked.
    Probed(EngineFacts),
    /// What the library itself predicts for a point, in processes with nothing set; combinations that are not here are
    /// not allowed by it. The search begins with what is fast here, so a resume must be told the same.
    Predicted {
        /// The point.
        point: Point,
        /// Algorithm, protocol and time in microseconds; channels are not predicted.
        times_us: Vec<(Choice, f64)>,
    },
    /// A script is about to run.
    Script {
        /// Running number from 0.
        script: u64,
        /// What the workers run with.
        setup: ScriptSetup,
        /// Whether the workers must be new processes.
        fresh: bool,
        /// Point, choice and repeats of each measurement, in order.
        items: Vec<(Point, Option<Choice>, u32)>,
    },
    /// One measurement.
    Trial(Trial),
    /// A script has run, or its setup could not be started. One that was cut off has no such record.
    ScriptEnded {
        /// Its number.
        script: u64,
        /// The bench's clock in seconds, as the search reads it until the next script has ended.
        clock_s: f64,
        /// What could not be started, and why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unstarted: Option<(String, String)>,
    },
    /// The search is told to end early.
    Finishing {
        /// The how manieth question how to go on had this answer, from 1.
        question: u64,
    },
    /// The user wants the run to decide otherwise from now on.
    Wish {
        /// Before the how manieth question how to go on it was taken, from 1.
        question: u64,
        /// What.
        wish: Wish,
    },
    /// The user gave the run more.
    Extended(Extension),
    /// A choice is out of the race for a point.
    Dropped {
        /// Settings over the site's.
        environment: Environment,
        /// The point.
        point: Point,
        /// The choice.
        choice: Choice,
        /// Why.
        why: String,
    },
    /// The best known setting of a point changed.
    Best {
        /// The point.
        point: Point,
        /// Settings over the site's.
        environment: Environment,
        /// The choice; absent is the engine's own.
        choice: Option<Choice>,
        /// Median time in microseconds.
        time_us: f64,
        /// Samples behind it.
        samples: u32,
        /// Median time of the default arm in microseconds.
        default_us: f64,
    },
    /// What each knob did in the search, the largest effects first.
    Importance {
        /// Those with several values among the environments that were tried.
        knobs: Vec<Knob>,
    },
    /// What the A/B says of one point.
    Verdict {
        /// The point.
        point: Point,
        /// Default time over candidate time.
        speedup: Speedup,
        /// Median of the default arm in microseconds.
        default_us: f64,
        /// Median of the candidate in microseconds.
        tuned_us: f64,
        /// What follows.
        decision: Decision,
        /// What it would take to say more, where it is too noisy.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        note: String,
    },
    /// What would ship if the run ended now, told when that changes and at the end of the search; at last, what ships.
    Profile {
        /// As it would be written; its `run.unverified` tells what the search takes for best from what passed the A/B.
        profile: Box<Profile>,
        /// What was tried and left out, and why, in sentences.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<String>,
    },
    /// Files were written.
    Written {
        /// Paths.
        files: Vec<String>,
        /// What the search had so far, on the user's wish: not verified, and not the run's result.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        so_far: bool,
    },
    /// A message for the log.
    Log {
        /// How much it matters.
        level: Level,
        /// Where it came from: a host, or empty for this process.
        #[serde(default)]
        host: String,
        /// One line.
        text: String,
    },
    /// Last event of a run.
    Finished {
        /// How it ended.
        end: RunEnd,
        /// One sentence for people.
        summary: String,
    },
}

/// What counts as better in a run, by the words of its first event; `None` where that is nothing in particular.
pub fn goal_words(workload: &str, objective: &str, sm_cost: f64) -> Option<String> {
    let named = (!matches!(workload, "" | "default")).then(|| format!("workload {workload} by {objective}"));
    let cost = (0.0 < sm_cost).then(|| format!("each channel costs {sm_cost} %"));
    let words: Vec<String> = named.into_iter().chain(cost).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// What one set of processes runs with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineFacts {
    /// Version of the library.
    pub version: Option<String>,
    /// Path of the library on the first rank's node.
    pub library: Option<String>,
    /// The first rank's GPU.
    pub device: Option<String>,
    /// Most channels of a collective.
    pub channels: Option<u16>,
    /// Paths between nodes, such as `NET/IB/0`.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Whether NICs read and write GPU memory themselves; absent where there is no connection over a network, or the
    /// library did not say.
    pub gdr: Option<GdrUse>,
}

impl fmt::Display for EngineFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().map(|version| format!("NCCL {version}"));
        let channels = self.channels.map(|channels| format!("{channels} channels"));
        let paths = (!self.paths.is_empty()).then(|| self.paths.join(" "));
        let gdr = self.gdr.map(|gdr| {
            let words = match gdr {
                GdrUse::All => "on every connection",
                GdrUse::Partly => "on some connections only",
                GdrUse::Off => "off",
            };
            format!("GPUDirect RDMA {words}")
        });
        let parts = [version, self.device.clone(), channels, paths, gdr];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// How many connections use `GPUDirect` RDMA, over all ranks and both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GdrUse {
    /// Every one.
    All,
    /// Some, which usually means a missing module or a NIC that is far from its GPU.
    Partly,
    /// None.
    Off,
}

/// States of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The agent is being started.
    Connecting,
    /// The agent answers.
    Ready,
    /// The agent could not be started.
    Failed,
    /// The agent was there and is gone.
    Lost,
    /// Ended as planned.
    Closed,
}

/// Parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Agents are started, hosts are read.
    Connect,
    /// The default arm is measured.
    Baseline,
    /// Environments and choices are searched.
    Search,
    /// Default against candidate, through the emitted files.
    Verify,
    /// Files are written.
    Write,
    /// Over.
    Done,
}

/// What the A/B decides for a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Faster, and sure enough: its settings ship.
    Ship,
    /// Not sure or not faster: the default stays.
    Keep,
    /// Slower, and sure: whatever causes it must not ship.
    Regression,
    /// The spread is too large to say.
    TooNoisy,
}

/// Log levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For the curious.
    Debug,
    /// Worth a line.
    Info,
    /// Needs a look.
    Warn,
    /// Something failed.
    Error,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// Settings shipped.
    Tuned,
    /// The defaults are best.
    DefaultsBest,
    /// The defaults stay, because too little was measured, or too noisily, to say whether they are best. Runs of earlier versions
    /// ended with [`Self::DefaultsBest`] then.
    Inconclusive,
    /// The user ended it.
    Interrupted,
    /// Too many nodes were lost.
    NodesLost,
    /// Another failure.
    Failed,
}

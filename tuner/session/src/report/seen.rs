//! What the records of a run come to, as far as a report tells it.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use gdrtune_profiles::{
    bindings::ceilings::Ceilings,
    profile::Profile,
    vocab::{Algorithm, Choice, Collective, Engine, Environment, Point, Protocol},
};

use super::diagnosis::Diagnosis;
use crate::{
    event::{
        Arm, EngineFacts, Event, FactsOf, Failure, Invocation, Knob, LeftOut, Level, NodeFacts, NodeState, Record,
        RunEnd, Trial, TrialResult,
    },
    evidence::Judged,
};

/// Lines of the log of different texts that are kept: a run that floods its log has said enough by then.
const MAX_LOGS: usize = 200;

/// How a run begins.
#[derive(Debug, Clone)]
pub(super) struct Started {
    pub(super) run: String,
    pub(super) tool: String,
    pub(super) engine: Engine,
    pub(super) hosts: String,
    pub(super) seed: u64,
    pub(super) budget_s: Option<f64>,
    pub(super) max_trials: Option<u64>,
    pub(super) workload: String,
    pub(super) objective: String,
    pub(super) sm_cost: f64,
}

/// A host.
#[derive(Debug, Clone, Default)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) facts: Option<Rc<NodeFacts>>,
    /// Why it is not there any more.
    pub(super) lost: Option<String>,
}

/// A warning or an error of the log, with the hosts that it came from.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) text: String,
    pub(super) is_error: bool,
    pub(super) hosts: BTreeSet<String>,
    pub(super) count: u64,
}

/// What the search took for the best of a point.
#[derive(Debug, Clone)]
pub(super) struct BestSeen {
    pub(super) time_us: f64,
    pub(super) default_us: f64,
}

/// One point of a shape.
#[derive(Debug, Clone, Default)]
pub(super) struct PointSeen {
    /// Times of the default arm in microseconds.
    pub(super) default_us: Vec<f64>,
    /// Wrong results, of the default arm and of the others.
    pub(super) wrong: [u64; 2],
    pub(super) best: Option<BestSeen>,
    pub(super) verdict: Option<Judged>,
}

/// One choice at one point in one environment.
#[derive(Debug, Clone, Default)]
pub(super) struct CellSeen {
    pub(super) times_us: Vec<f64>,
    pub(super) failure: Option<Failure>,
    pub(super) dropped: Option<String>,
}

/// An environment of the search.
#[derive(Debug, Clone)]
pub(super) struct EnvironmentSeen {
    pub(super) environment: Environment,
    pub(super) why: String,
    pub(super) score: Option<f64>,
    pub(super) note: String,
    pub(super) trials: u64,
}

/// One job shape; a run without shapes has one.
#[derive(Debug, Clone, Default)]
pub(super) struct ShapeSeen {
    pub(super) nodes: u32,
    pub(super) ranks: u32,
    pub(super) points: BTreeMap<Point, PointSeen>,
    pub(super) environments: Vec<EnvironmentSeen>,
    pub(super) cells: BTreeMap<Environment, BTreeMap<(Point, Choice), CellSeen>>,
    pub(super) knobs: Vec<Knob>,
    /// Settings and their values (`None` = unset), and how many environments they make.
    pub(super) dimensions: BTreeMap<String, Vec<Option<String>>>,
    pub(super) n_environments: u64,
    pub(super) space: String,
    pub(super) choices: Vec<Choice>,
    /// What the library allows, at points where it was asked.
    pub(super) allowed: BTreeMap<Point, BTreeSet<(Algorithm, Protocol)>>,
    /// What is set at the site.
    pub(super) site: Vec<(String, Environment)>,
}

impl ShapeSeen {
    fn sized(nodes: u32, ranks: u32) -> Self {
        Self { nodes, ranks, ..Self::default() }
    }

    /// Collectives that were measured.
    pub(super) fn collectives(&self) -> Vec<Collective> {
        let all: BTreeSet<Collective> = self.points.keys().map(|point| point.collective).collect();
        all.into_iter().collect()
    }

    /// The points of one of them, by size.
    pub(super) fn points_of(&self, collective: Collective) -> impl Iterator<Item = (Point, &PointSeen)> {
        self.points.iter().filter(move |(point, _)| point.collective == collective).map(|(point, seen)| (*point, seen))
    }

    fn take_trial(&mut self, trial: &Trial) {
        let point = self.points.entry(trial.point).or_default();
        let is_default = trial.arm == Arm::Default;
        if let TrialResult::Failed { kind: Failure::Wrong, .. } = trial.result {
            point.wrong[usize::from(!is_default)] += 1;
        }
        if let (true, TrialResult::Timed { time_us, .. }) = (is_default, &trial.result) {
            point.default_us.push(*time_us);
        }
        if trial.arm != Arm::Search {
            return;
        }
        let same = |row: &&mut EnvironmentSeen| row.environment == trial.environment;
        if let Some(row) = self.environments.iter_mut().rev().find(same) {
            row.trials += 1;
        }
        let Some(choice) = trial.requested else { return };
        let cell = self.cell(&trial.environment, trial.point, choice);
        match &trial.result {
            TrialResult::Timed { time_us, .. } => cell.times_us.push(*time_us),
            // The user gave up the trial, not the choice.
            TrialResult::Failed { kind: Failure::Skipped, .. } => {}
            TrialResult::Failed { kind, .. } => cell.failure = Some(*kind),
        }
    }

    fn cell(&mut self, environment: &Environment, point: Point, choice: Choice) -> &mut CellSeen {
        if !self.cells.contains_key(environment) {
            self.cells.insert(environment.clone(), BTreeMap::new());
        }
        self.cells.entry(environment.clone()).or_default().entry((point, choice)).or_default()
    }

    fn score(&mut self, environment: &Environment, score: Option<f64>, note: &str) {
        // One that could not even be begun has no other record.
        self.begin(environment, "");
        if let Some(row) = self.environments.iter_mut().rev().find(|row| row.environment == *environment) {
            (row.score, row.note) = (score, note.to_owned());
        }
    }

    fn begin(&mut self, environment: &Environment, why: &str) {
        if self.environments.iter().any(|row| row.environment == *environment) {
            return;
        }
        let (environment, why) = (environment.clone(), why.to_owned());
        self.environments.push(EnvironmentSeen { environment, why, score: None, note: String::new(), trials: 0 });
    }
}

/// Everything that was seen of a run.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) started: Started,
    pub(super) invocation: Option<Invocation>,
    /// When another process went on with it.
    pub(super) resumed: Vec<String>,
    pub(super) emulated: Option<String>,
    pub(super) hosts: BTreeMap<u32, Host>,
    pub(super) slow: Vec<(String, String)>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) engine: Option<EngineFacts>,
    pub(super) ceilings: Ceilings,
    pub(super) has_shapes: bool,
    pub(super) shapes: Vec<ShapeSeen>,
    /// What the user wanted otherwise while it ran.
    pub(super) wishes: Vec<String>,
    pub(super) logs: Vec<Logged>,
    /// Whether there were more.
    pub(super) is_log_cut: bool,
    /// What `gdrtune doctor` said of the hosts, where the user has it.
    pub(super) doctor: Option<Diagnosis>,
    pub(super) profile: Option<Profile>,
    /// What was tried and does not ship.
    pub(super) rejected: Vec<String>,
    pub(super) written: Vec<String>,
    pub(super) trials: u64,
    /// Trials that gave no time that counts, by kind.
    pub(super) failed: BTreeMap<&'static str, u64>,
    pub(super) end: Option<(RunEnd, String)>,
    pub(super) t_ms: u64,
}

impl Seen {
    /// What a run's records say; nothing where they do not begin as a run.
    pub(super) fn of(records: &[Record]) -> Option<Self> {
        let (first, rest) = records.split_first()?;
        let mut seen = Self::begun(first)?;
        for record in rest {
            seen.take(record);
        }
        Some(seen)
    }

    fn begun(record: &Record) -> Option<Self> {
        let Event::RunStarted {
            run,
            tool,
            engine,
            hosts,
            nodes,
            ranks,
            seed,
            budget_s,
            max_trials,
            workload,
            objective,
            sm_cost,
            ..
        } = record.event.clone()
        else {
            return None;
        };
        let shapes = vec![ShapeSeen::sized(nodes, ranks)];
        let started = Started { run, tool, engine, hosts, seed, budget_s, max_trials, workload, objective, sm_cost };
        Some(Self {
            started,
            shapes,
            t_ms: record.t_ms,
            invocation: None,
            resumed: Vec::new(),
            emulated: None,
            hosts: BTreeMap::new(),
            slow: Vec::new(),
            left_out: Vec::new(),
            engine: None,
            ceilings: Ceilings::default(),
            has_shapes: false,
            wishes: Vec::new(),
            logs: Vec::new(),
            is_log_cut: false,
            doctor: None,
            profile: None,
            rejected: Vec::new(),
            written: Vec::new(),
            trials: 0,
            failed: BTreeMap::new(),
            end: None,
        })
    }

    fn take(&mut self, record: &Record) {
        self.t_ms = record.t_ms;
        match &record.event {
            Event::Trial(trial) => {
                self.trials += 1;
                if let TrialResult::Failed { kind, .. } = &trial.result {
                    *self.failed.entry(crate::export::failure_name(*kind)).or_default() += 1;
                }
                if let Some(shape) = self.shapes.last_mut() {
                    shape.take_trial(trial);
                }
            }
            Event::Invoked(invocation) => self.invocation = Some(invocation.clone()),
            Event::Resumed { at, trials, .. } => {
                self.end = None;
                self.resumed.push(format!("{at}: {trials} trials were not repeated"));
            }
            Event::Emulated { why } => self.emulated = Some(why.clone()),
            Event::Node { index, host, state, detail } => self.take_state(*index, host, *state, detail),
            Event::NodeFacts { index, host, facts } => self.take_facts(*index, host, facts),
            Event::SlowNode { host, why, .. } => self.slow.push((host.clone(), why.clone())),
            Event::NodeSet { nodes, ranks, left_out, .. } => {
                // Nothing of the result is made of what was measured before.
                self.shapes = vec![ShapeSeen::sized(*nodes, *ranks)];
                (self.profile, self.engine) = (None, None);
                self.rejected.clear();
                self.left_out.clone_from(left_out);
            }
            Event::Shape { nodes, ranks, .. } => {
                if !std::mem::replace(&mut self.has_shapes, true) {
                    self.shapes.clear();
                }
                self.shapes.push(ShapeSeen::sized(*nodes, *ranks));
            }
            Event::Probed(facts) => self.engine = Some(facts.clone()),
            Event::WorkersStarted { engine: Some(facts), .. } => drop(self.engine.get_or_insert_with(|| facts.clone())),
            Event::Ceilings(ceilings) => self.ceilings = ceilings.clone(),
            Event::Wish { wish, .. } => self.wishes.push(wish.to_string()),
            Event::Extended(extension) => self.wishes.push(extension.to_string()),
            Event::Log { level, host, text } => self.take_log(*level, host, text),
            Event::Profile { profile, left_out } => {
                self.profile = Some((**profile).clone());
                self.rejected.clone_from(left_out);
            }
            Event::Written { files, so_far: false } => self.written.clone_from(files),
            Event::Finished { end, summary } => self.end = Some((*end, summary.clone())),
            event => {
                if let Some(shape) = self.shapes.last_mut() {
                    take_search(shape, event);
                }
            }
        }
    }

    fn take_state(&mut self, index: u32, host: &str, state: NodeState, detail: &str) {
        let known = self.hosts.entry(index).or_default();
        host.clone_into(&mut known.name);
        match state {
            NodeState::Failed | NodeState::Lost => known.lost = Some(detail.to_owned()),
            NodeState::Connecting | NodeState::Ready => known.lost = None,
            NodeState::Closed => {}
        }
    }

    fn take_facts(&mut self, index: u32, host: &str, facts: &FactsOf) {
        let facts = match facts {
            FactsOf::Own(facts) => Some(Rc::new((**facts).clone())),
            FactsOf::Like(other) => self.hosts.get(other).and_then(|host| host.facts.clone()),
        };
        let known = self.hosts.entry(index).or_default();
        host.clone_into(&mut known.name);
        known.facts = facts;
    }

    fn take_log(&mut self, level: Level, host: &str, text: &str) {
        if !matches!(level, Level::Warn | Level::Error) {
            return;
        }
        let is_error = level == Level::Error;
        let known = self.logs.iter_mut().find(|line| line.text == text && line.is_error == is_error);
        if let Some(line) = known {
            line.count += 1;
            line.hosts.insert(host.to_owned());
        } else if self.logs.len() < MAX_LOGS {
            let hosts = BTreeSet::from([host.to_owned()]);
            self.logs.push(Logged { text: text.to_owned(), is_error, hosts, count: 1 });
        } else {
            self.is_log_cut = true;
        }
    }
}

/// What the search of a shape tells.
fn take_search(shape: &mut ShapeSeen, event: &Event) {
    match event {
        Event::Space { dimensions, choices, environments, name } => {
            shape.dimensions.clone_from(dimensions);
            shape.choices.clone_from(choices);
            (shape.n_environments, shape.space) = (*environments, name.clone());
        }
        Event::EnvironmentStarted { environment, why, .. } => shape.begin(environment, why),
        Event::EnvironmentScored { environment, score, note, .. } => shape.score(environment, *score, note),
        Event::Site { environments } => shape.site.clone_from(environments),
        Event::Predicted { point, times_us } => {
            let allowed = times_us.iter().map(|(choice, _)| (choice.algorithm, choice.protocol)).collect();
            shape.allowed.insert(*point, allowed);
        }
        Event::Dropped { environment, point, choice, why } => {
            shape.cell(environment, *point, *choice).dropped = Some(why.clone());
        }
        Event::Best { point, time_us, default_us, .. } => {
            let best = BestSeen { time_us: *time_us, default_us: *default_us };
            shape.points.entry(*point).or_default().best = Some(best);
        }
        Event::Importance { knobs } => shape.knobs.clone_from(knobs),
        event => {
            if let Some((point, judged)) = Judged::of(event) {
                shape.points.entry(point).or_default().verdict = Some(judged);
            }
        }
    }
}

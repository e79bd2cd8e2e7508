//! What a run's records tell of why its result is what it is: what was tried where, how long it took, and why it did not ship.
//!
//! From records to values, nothing else: words for people are the front end's. What is decided at a size is the profile's
//! matter ([`Profile::stretches`]); here is what stands behind it.

mod answer;
mod setting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::{
    profile::Profile,
    size::parse_size,
    vocab::{Choice, Engine, Environment, Point},
};
use gdrtune_tuner::stats::{median, relative_spread};

pub use self::{
    answer::{Answer, Crossing, Neighbour, OwnChoice, Subject, answer},
    setting::{SettingAnswer, ValueTried, setting},
};
use crate::{
    event::{Arm, EngineFacts, Event, Failure, Knob, Phase, Record, RunEnd, TrialResult},
    evidence::{self, Judged},
    run::facts::NOT_SEARCHED,
};

/// Times of one choice at one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// Median in microseconds.
    pub median_us: f64,
    /// How many samples that is.
    pub samples: u32,
    /// Sets of processes that they are from.
    pub processes: u32,
    /// Middle half of the samples over their median; none of too few.
    pub spread: Option<f64>,
}

/// What the search tried at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Settings over the site's.
    pub environment: Environment,
    /// The choice; none is the engine's own in that environment.
    pub choice: Option<Choice>,
    /// Its times; none where it never ran as asked.
    pub times: Option<Times>,
    /// Kinds of failures, how often, and the last one's words.
    pub failures: Vec<(Failure, u32, String)>,
    /// Why the search gave it up, where it did.
    pub dropped: Option<String>,
}

/// What the run knows of a point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PointStory {
    /// Times of the default arm.
    pub default: Option<Times>,
    /// What the default arm ran, where the engine tells, and how often; the most frequent first.
    pub own: Vec<(Choice, u32)>,
    /// What the library predicts, in microseconds, the fastest first; without channels.
    pub predicted: Vec<(Choice, f64)>,
    /// What the last A/B said.
    pub judged: Option<Judged>,
    /// What was tried, the fastest first, what has no time last.
    pub tried: Vec<Tried>,
}

impl PointStory {
    /// Median time of a choice in an environment, in microseconds. The engine's own choice with nothing set is the default arm's.
    pub fn time_us(&self, environment: &Environment, choice: Option<Choice>) -> Option<f64> {
        let times = match choice {
            None if environment.is_empty() => self.default,
            _ => {
                let is_asked = |tried: &&Tried| tried.environment == *environment && tried.choice == choice;
                self.tried.iter().find(is_asked).and_then(|tried| tried.times)
            }
        };
        times.map(|times| times.median_us)
    }
}

/// What became of an environment of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentStory {
    /// Settings over the site's.
    pub environment: Environment,
    /// Best time over default time by the run's objective, the last that was told; `None` where it failed.
    pub score: Option<f64>,
    /// Given up early, or failed: why.
    pub note: String,
}

/// What a run tells of one job shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    /// Run id.
    pub run: String,
    /// What measured.
    pub engine: Engine,
    /// Nodes, and ranks over all of them.
    pub shape: (u32, u32),
    /// All shapes of the run.
    pub shapes: Vec<(u32, u32)>,
    /// What ships, or would as far as the run came.
    pub profile: Option<Profile>,
    /// What was tried and left out, in sentences.
    pub left_out: Vec<String>,
    /// The points of the run.
    pub points: BTreeMap<Point, PointStory>,
    /// Environments that were tried, in the order of their first scores.
    pub environments: Vec<EnvironmentStory>,
    /// Values of each setting that was searched.
    pub dimensions: BTreeMap<String, Vec<Option<String>>>,
    /// What the settings did in the search.
    pub knobs: Vec<Knob>,
    /// What was not searched, and why, in sentences.
    pub not_searched: Vec<String>,
    /// What the site sets, and on which nodes.
    pub site: Vec<(String, Environment)>,
    /// What the engine is.
    pub facts: Option<EngineFacts>,
    /// How the run ended, and its last sentence; none where it was killed, or still runs.
    pub end: Option<(RunEnd, String)>,
    /// The last part of the run that began, over all shapes; its end is none.
    pub phase: Option<Phase>,
    /// Whether the A/B of the shape is over: only then, what has no verdict had nothing to be measured.
    pub is_decided: bool,
}

/// The story of one of a run's shapes; without one, of its first. `None` of records that are no run's.
pub fn story(records: &[Record], shape: Option<(u32, u32)>) -> Option<Story> {
    let engine = records.iter().find_map(|record| match record.event {
        Event::RunStarted { engine, .. } => Some(engine),
        _ => None,
    })?;
    let shapes = evidence::shapes(records);
    let shape = shape.or_else(|| shapes.first().copied())?;
    let mut story = Story {
        run: evidence::run_id(records)?.to_owned(),
        engine,
        shape,
        shapes,
        profile: None,
        left_out: Vec::new(),
        points: BTreeMap::new(),
        environments: Vec::new(),
        dimensions: BTreeMap::new(),
        knobs: Vec::new(),
        not_searched: Vec::new(),
        site: Vec::new(),
        facts: None,
        end: None,
        phase: None,
        is_decided: false,
    };
    // What is told of the run as a whole comes before, between and after its shapes.
    for record in records {
        story.take_of_run(&record.event);
    }
    let mut points: BTreeMap<Point, Gathered> = BTreeMap::new();
    for record in evidence::of_shape(records, shape) {
        story.take_of_shape(&record.event);
        gather(&record.event, &mut points);
    }
    let last_shape = records.iter().rev().find_map(|record| match record.event {
        Event::Shape { nodes, ranks, .. } => Some((nodes, ranks)),
        _ => None,
    });
    // Shapes are tuned one after the other.
    let is_past = !points.is_empty() && last_shape.is_some_and(|last| last != shape);
    story.is_decided = is_past || story.came_to_its_end() || story.phase == Some(Phase::Write);
    story.points = points.into_iter().map(|(point, gathered)| (point, gathered.finish())).collect();
    Some(story)
}

impl Story {
    fn take_of_run(&mut self, event: &Event) {
        match event {
            Event::Profile { profile, left_out } => {
                self.profile = Some((**profile).clone());
                self.left_out.clone_from(left_out);
            }
            Event::NodeSet { .. } => (self.profile, self.left_out) = (None, Vec::new()),
            // Every end has it, also that of a run that was broken off.
            Event::Phase { phase: Phase::Done } => {}
            Event::Phase { phase } => self.phase = Some(*phase),
            Event::Resumed { .. } => self.end = None,
            Event::Finished { end, summary } => self.end = Some((*end, summary.clone())),
            Event::Log { text, .. } if text.starts_with(NOT_SEARCHED) && !self.not_searched.contains(text) => {
                self.not_searched.push(text.clone());
            }
            _ => {}
        }
    }

    fn take_of_shape(&mut self, event: &Event) {
        match event {
            Event::Space { dimensions, .. } => self.dimensions.clone_from(dimensions),
            Event::Importance { knobs } => self.knobs.clone_from(knobs),
            Event::Site { environments } => self.site.clone_from(environments),
            Event::Probed(facts) => self.facts = Some(facts.clone()),
            Event::EnvironmentScored { environment, score, note, .. } => {
                let (environment, score, note) = (environment.clone(), *score, note.clone());
                let scored = EnvironmentStory { environment, score, note };
                match self.environments.iter_mut().find(|known| known.environment == scored.environment) {
                    Some(known) => *known = scored,
                    None => self.environments.push(scored),
                }
            }
            _ => {}
        }
    }

    /// Whether the run has done all that it was to do.
    pub const fn came_to_its_end(&self) -> bool {
        matches!(self.end, Some((RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive, _)))
    }

    /// Sentences on what was left out that name this point.
    pub fn left_out_at(&self, point: Point) -> Vec<&str> {
        let about = self.left_out.iter().map(String::as_str);
        about
            .filter(|line| {
                sizes_of(line, self.shape)
                    .is_some_and(|(name, sizes)| name == point.collective.name() && sizes.contains(&point.bytes))
            })
            .collect()
    }
}

/// Collective and sizes of a sentence on a rule that was left out: `allreduce 256K, 1M tree/simple/2: dropped: ...`. Of several
/// shapes such a sentence begins with the name of its own.
fn sizes_of(line: &str, (nodes, ranks): (u32, u32)) -> Option<(&str, Vec<u64>)> {
    let of_shape = format!("{nodes}x{}: ", ranks / nodes.max(1));
    let (rule, _) = line.strip_prefix(&of_shape).unwrap_or(line).split_once(": ")?;
    let mut words = rule.split_whitespace();
    let collective = words.next()?;
    let sizes = words.map(|word| word.trim_end_matches(',')).take_while(|word| !word.contains('/'));
    Some((collective, sizes.filter_map(|word| parse_size(word).ok()).collect()))
}

/// Samples as they come.
#[derive(Default)]
struct Series {
    times_us: Vec<f64>,
    processes: BTreeSet<u32>,
}

impl Series {
    fn take(&mut self, time_us: f64, process: u32) {
        self.times_us.push(time_us);
        self.processes.insert(process);
    }

    fn finish(&self) -> Option<Times> {
        Some(Times {
            median_us: median(&self.times_us)?,
            samples: self.times_us.len() as u32,
            processes: self.processes.len() as u32,
            spread: relative_spread(&self.times_us),
        })
    }
}

#[derive(Default)]
struct Attempt {
    series: Series,
    failures: Vec<(Failure, u32, String)>,
    dropped: Option<String>,
}

#[derive(Default)]
struct Gathered {
    default: Series,
    own: BTreeMap<Choice, u32>,
    predicted: Vec<(Choice, f64)>,
    judged: Option<Judged>,
    tried: BTreeMap<(Environment, Option<Choice>), Attempt>,
}

fn gather(event: &Event, points: &mut BTreeMap<Point, Gathered>) {
    match event {
        Event::Trial(trial) => {
            let gathered = points.entry(trial.point).or_default();
            match (trial.arm, &trial.result) {
                (Arm::Default, TrialResult::Timed { time_us, .. }) => {
                    gathered.default.take(*time_us, trial.process);
                    trial.selected.into_iter().for_each(|choice| *gathered.own.entry(choice).or_default() += 1);
                }
                // What the files of a candidate made of a point is its verdict.
                (Arm::Default | Arm::Candidate, _) => {}
                (Arm::Search, result) => {
                    let attempt = gathered.tried.entry((trial.environment.clone(), trial.requested)).or_default();
                    attempt.take(result, trial.process);
                }
            }
        }
        Event::Dropped { environment, point, choice, why } => {
            let tried = &mut points.entry(*point).or_default().tried;
            tried.entry((environment.clone(), Some(*choice))).or_default().dropped = Some(why.clone());
        }
        Event::Predicted { point, times_us } => {
            let mut predicted = times_us.clone();
            predicted.sort_by(|a, b| a.1.total_cmp(&b.1));
            points.entry(*point).or_default().predicted = predicted;
        }
        event => {
            if let Some((point, judged)) = Judged::of(event) {
                points.entry(point).or_default().judged = Some(judged);
            }
        }
    }
}

impl Attempt {
    fn take(&mut self, result: &TrialResult, process: u32) {
        match result {
            TrialResult::Timed { time_us, .. } => self.series.take(*time_us, process),
            TrialResult::Failed { kind, detail, .. } => {
                match self.failures.iter_mut().find(|(known, ..)| known == kind) {
                    Some((_, count, words)) => (*count, *words) = (*count + 1, detail.clone()),
                    None => self.failures.push((*kind, 1, detail.clone())),
                }
            }
        }
    }
}

impl Gathered {
    fn finish(self) -> PointStory {
        let tried = self.tried.into_iter().map(|((environment, choice), attempt)| Tried {
            environment,
            choice,
            times: attempt.series.finish(),
            failures: attempt.failures,
            dropped: attempt.dropped,
        });
        let mut tried: Vec<Tried> = tried.collect();
        let time = |tried: &Tried| tried.times.map_or(f64::INFINITY, |times| times.median_us);
        tried.sort_by(|a, b| time(a).total_cmp(&time(b)));
        let mut own: Vec<(Choice, u32)> = self.own.into_iter().collect();
        own.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        PointStory { default: self.default.finish(), own, predicted: self.predicted, judged: self.judged, tried }
    }
}

//! A run without the terminal UI: plain lines on stderr, or every event as a JSON line on stdout.
//!
//! Reads records and writes text; owns nothing but what it needs for the next line. Plain lines are also what a screen reader
//! reads out: words in the place of symbols, nothing that is redrawn.

use std::io::{self, Write};

use gdrtune_profiles::{diagnostic::printable, json::escape, profile::Speedup, vocab::Point};
use gdrtune_session::event::{
    Arm, Decision, Event, Level, NodeState, Phase, Record, Trial, TrialResult, goal_words, without,
};

use crate::ui::text::{count, failure_name, fold_files, shape};

/// Shortest time between two progress lines, in milliseconds.
const PROGRESS_EVERY_MS: u64 = 2_000;

/// How much plain lines say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Errors and the result.
    Result,
    /// Decisions as they fall, and how far the run is every two seconds.
    Usual,
    /// The same, and every trial.
    EveryTrial,
}

/// Where the lines of a headless run go.
pub(crate) trait Progress: Send {
    /// Shows one record.
    ///
    /// # Errors
    /// The stream's error; a closed pipe is one too.
    fn show(&mut self, record: &Record) -> io::Result<()>;

    /// Takes note of a record that was shown by an earlier process of the run.
    fn catch_up(&mut self, record: &Record);
}

/// Every record as one JSON line.
#[derive(Debug)]
pub(crate) struct JsonLines<W>(pub W);

impl<W: Write + Send> Progress for JsonLines<W> {
    fn show(&mut self, record: &Record) -> io::Result<()> {
        let mut line = escape(serde_json::to_string(record)?);
        line.push('\n');
        self.0.write_all(line.as_bytes())?;
        self.0.flush()
    }

    fn catch_up(&mut self, _: &Record) {}
}

/// Plain lines.
#[derive(Debug)]
pub(crate) struct PlainLines<W> {
    out: W,
    detail: Detail,
    /// What the result must not be mistaken for, where that was not said yet.
    labels: Vec<String>,
    trials: u64,
    failed: u64,
    last_progress_ms: u64,
    phase: Option<Phase>,
    /// Time of the whole run; none where that is not the user's, but recorded or simulated.
    budget_s: Option<f64>,
    /// When that began: hosts are connected first.
    began_ms: u64,
    /// The last score of the environment that the search is at; said when it turns elsewhere.
    score: Option<String>,
}

impl<W: Write + Send> PlainLines<W> {
    /// Lines on `out`.
    pub(crate) fn new(out: W, detail: Detail) -> Self {
        let labels = Vec::new();
        Self {
            out,
            detail,
            labels,
            trials: 0,
            failed: 0,
            last_progress_ms: 0,
            phase: None,
            budget_s: None,
            began_ms: 0,
            score: None,
        }
    }

    /// Trials that failed so far.
    pub(crate) const fn failed(&self) -> u64 {
        self.failed
    }

    /// Names from files and hosts may hold what a terminal takes for commands: no line has any.
    fn line(&mut self, t_ms: u64, text: &str) -> io::Result<()> {
        writeln!(self.out, "{:>7.1}s  {}", t_ms as f64 / 1e3, printable(text))
    }

    fn is_due(&self, t_ms: u64) -> bool {
        self.detail == Detail::EveryTrial || t_ms >= self.last_progress_ms + PROGRESS_EVERY_MS
    }

    /// Says errors and the result only.
    fn show_result(&mut self, record: &Record) -> io::Result<()> {
        self.catch_up(record);
        let t = record.t_ms;
        match &record.event {
            Event::Node { host, state: state @ (NodeState::Failed | NodeState::Lost), detail, .. } => {
                return self.line(t, &trouble_text(host, *state, detail));
            }
            Event::Log { level: Level::Error, host, text } => return self.log(t, Level::Error, host, text),
            Event::Finished { summary, .. } => return self.end(t, summary),
            _ => {}
        }
        Ok(())
    }

    fn log(&mut self, t_ms: u64, level: Level, host: &str, text: &str) -> io::Result<()> {
        let host = if host.is_empty() { String::new() } else { format!("{host}: ") };
        self.line(t_ms, &format!("{}{host}{text}", level_prefix(level)))
    }

    fn end(&mut self, t_ms: u64, summary: &str) -> io::Result<()> {
        let labels = std::mem::take(&mut self.labels);
        labels.iter().try_for_each(|label| self.line(t_ms, label))?;
        self.line(t_ms, &format!("{}, {} failed", count(self.trials, "trial"), self.failed))?;
        self.line(t_ms, summary)
    }

    /// On other nodes the time begins anew.
    fn begin_anew(&mut self, t_ms: u64) {
        if self.trials > 0 {
            self.began_ms = t_ms;
        }
    }

    fn enter(&mut self, phase: Phase, t_ms: u64) {
        if self.phase == Some(Phase::Connect) {
            self.began_ms = t_ms;
        }
        self.phase = Some(phase);
    }

    fn say_score(&mut self, t_ms: u64) -> io::Result<()> {
        self.score.take().map_or(Ok(()), |score| self.line(t_ms, &score))
    }

    fn trial(&mut self, t_ms: u64, trial: &Trial) -> io::Result<()> {
        self.trials += 1;
        let arm = match trial.arm {
            Arm::Default => "default",
            Arm::Search => "",
            Arm::Candidate => "candidate",
        };
        let ran = trial.requested.or(trial.selected).map_or_else(|| "own choice".to_owned(), |c| c.to_string());
        let asked = format!("{arm} {ran}").trim_start().to_owned();
        match &trial.result {
            result @ TrialResult::Failed { .. } if !result.has_failed() => Ok(()),
            TrialResult::Failed { kind, detail, .. } => {
                self.failed += 1;
                let text = format!(
                    "trial {} failed ({}): {} {asked}: {detail}",
                    trial.trial,
                    failure_name(*kind),
                    trial.point
                );
                self.line(t_ms, &text)
            }
            TrialResult::Timed { time_us, busbw_gbs, .. } if self.is_due(t_ms) => {
                self.last_progress_ms = t_ms;
                let budget = self.budget_s.map(|s| format!(" of {s:.0} s")).unwrap_or_default();
                let text = format!(
                    "{}: {:.0} s{budget}, {}; now {} {asked}: {time_us:.1} us, busbw {busbw_gbs:.3} GB/s",
                    self.phase.map_or("run", phase_name),
                    t_ms.saturating_sub(self.began_ms) as f64 / 1e3,
                    count(self.trials, "trial"),
                    trial.point,
                );
                self.line(t_ms, &text)
            }
            TrialResult::Timed { .. } => Ok(()),
        }
    }
}

impl<W: Write + Send> Progress for PlainLines<W> {
    fn catch_up(&mut self, record: &Record) {
        match &record.event {
            Event::RunStarted { engine, budget_s, .. } => {
                self.budget_s = budget_s.filter(|_| engine.is_real());
                self.labels.extend(engine.label().map(str::to_owned));
            }
            Event::Emulated { why } => self.labels.push(emulated_text(why)),
            Event::Phase { phase } => self.enter(*phase, record.t_ms),
            // The phases of a run that goes on come again.
            Event::Finished { .. } => self.phase = None,
            Event::NodeSet { .. } => self.begin_anew(record.t_ms),
            Event::Trial(trial) => {
                self.trials += 1;
                self.failed += u64::from(trial.result.has_failed());
            }
            _ => {}
        }
    }

    fn show(&mut self, record: &Record) -> io::Result<()> {
        if self.detail == Detail::Result {
            return self.show_result(record);
        }
        let t = record.t_ms;
        match &record.event {
            Event::RunStarted {
                run,
                engine,
                hosts,
                nodes,
                ranks,
                seed,
                budget_s,
                workload,
                objective,
                sm_cost,
                ..
            } => {
                self.budget_s = budget_s.filter(|_| engine.is_real());
                let goal =
                    goal_words(workload, objective, *sm_cost).map_or_else(String::new, |goal| format!(", {goal}"));
                let place = place(*nodes, hosts, *ranks);
                self.line(t, &format!("run {run}: engine {engine}, {place}, seed {seed}{goal}"))?;
                engine.label().map_or(Ok(()), |label| self.line(t, label))
            }
            Event::Resumed { at, trials, .. } => {
                self.line(t, &format!("resumed at {at}: {} in the store, not repeated", count(*trials, "trial")))
            }
            Event::Node { host, state, detail, .. } => match state {
                NodeState::Connecting | NodeState::Closed => Ok(()),
                NodeState::Ready => self.line(t, &format!("{host}: ready: {detail}")),
                NodeState::Failed | NodeState::Lost => self.line(t, &trouble_text(host, *state, detail)),
            },
            Event::Emulated { why } => self.line(t, &emulated_text(why)),
            Event::NodeSet { hosts, nodes, ranks, left_out } => {
                self.say_score(t)?;
                let again = if self.trials > 0 { "; everything is measured again" } else { "" };
                self.begin_anew(t);
                self.line(t, &format!("now {}, {}{again}", place(*nodes, hosts, *ranks), without(left_out)))
            }
            Event::Shape { index, of, nodes, ranks } => {
                self.say_score(t)?;
                self.line(t, &format!("shape {} of {of}: {}", u64::from(*index) + 1, shape(*nodes, *ranks)))
            }
            Event::Phase { phase } => {
                self.enter(*phase, t);
                self.say_score(t)?;
                self.line(t, &format!("phase: {}", phase_name(*phase)))
            }
            Event::Space { choices, environments, name, .. } => {
                self.line(t, &space_text(name, *environments, choices.len()))
            }
            Event::EnvironmentStarted { index, environment, why } => {
                self.say_score(t)?;
                let why = if *index == 0 { format!(" ({why})") } else { String::new() };
                self.line(t, &format!("environment {}: {environment}{why}", index + 1))
            }
            Event::EnvironmentScored { index, score: Some(score), note, .. } => {
                let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
                self.score =
                    Some(format!("environment {}: best choices take {score:.3} of the default time{note}", index + 1));
                Ok(())
            }
            Event::EnvironmentScored { index, score: None, note, .. } => {
                let why = if note.is_empty() { "nothing was measured in it" } else { note };
                self.line(t, &format!("environment {}: failed: {why}", index + 1))
            }
            Event::Trial(trial) => self.trial(t, trial),
            Event::Importance { knobs } => {
                self.say_score(t)?;
                knobs.iter().try_for_each(|knob| self.line(t, &knob.to_string()))
            }
            Event::Verdict { point, speedup, default_us, tuned_us, decision, note } => {
                self.line(t, &verdict_text(*point, speedup, *default_us, *tuned_us, *decision, note))
            }
            Event::Wish { wish, .. } => self.line(t, &wish.to_string()),
            Event::Extended(extension) => {
                self.budget_s = extension.budget_s.filter(|_| self.budget_s.is_some());
                self.line(t, &extension.to_string())
            }
            Event::Written { files, .. } => self.line(t, &format!("wrote {}", fold_files(files))),
            Event::Log { level, host, text } if *level >= Level::Info => self.log(t, *level, host, text),
            Event::Finished { summary, .. } => self.end(t, summary),
            Event::Invoked(_)
            | Event::NodeFacts { .. }
            | Event::SlowNode { .. }
            | Event::WorkersStarted { .. }
            | Event::Site { .. }
            | Event::Ceilings(_)
            | Event::Probed(_)
            | Event::Script { .. }
            | Event::ScriptEnded { .. }
            | Event::Finishing { .. }
            | Event::Predicted { .. }
            | Event::Dropped { .. }
            | Event::Best { .. }
            | Event::Profile { .. }
            | Event::Log { .. } => Ok(()),
        }
    }
}

/// Which nodes and ranks measure.
pub(crate) fn place(nodes: u32, hosts: &str, ranks: u32) -> String {
    format!("{} {hosts}, {}", count(u64::from(nodes), "node"), count(u64::from(ranks), "rank"))
}

/// What is searched.
fn space_text(name: &str, n_environments: u64, n_choices: usize) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" {name}") };
    let (environments, choices) = (count(n_environments, "environment"), count(n_choices as u64, "choice"));
    format!("space{name}: {environments}, up to {choices} per point")
}

fn emulated_text(why: &str) -> String {
    format!("EMULATED nodes: {why}")
}

/// A node that cannot be used.
fn trouble_text(host: &str, state: NodeState, detail: &str) -> String {
    let word = if state == NodeState::Lost { "LOST" } else { "FAILED" };
    format!("{host}: {word}: {detail}")
}

const fn level_prefix(level: Level) -> &'static str {
    match level {
        Level::Debug | Level::Info => "",
        Level::Warn => "warning: ",
        Level::Error => "error: ",
    }
}

/// A phase in words.
pub(crate) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Connect => "connect",
        Phase::Baseline => "baseline",
        Phase::Search => "search",
        Phase::Verify => "verify",
        Phase::Write => "write",
        Phase::Done => "done",
    }
}

/// A verdict in words.
pub(crate) const fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Ship => "ship",
        Decision::Keep => "no sure gain",
        Decision::Regression => "regression",
        Decision::TooNoisy => "too noisy to say",
    }
}

/// What the A/B says of a point, in a line.
pub(crate) fn verdict_text(
    point: Point,
    speedup: &Speedup,
    default_us: f64,
    tuned_us: f64,
    decision: Decision,
    note: &str,
) -> String {
    let note = if note.is_empty() { String::new() } else { format!(": {note}") };
    format!(
        "{point}: {default_us:.1} to {tuned_us:.1} us, {:.2}x ({:.2} to {:.2}), probability that it is faster {:.3}: {}{note}",
        speedup.median,
        speedup.low,
        speedup.high,
        speedup.p_faster,
        decision_name(decision)
    )
}

#[cfg(test)]
mod tests;

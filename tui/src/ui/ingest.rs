//! Turns records into the aggregates of [`Run`]. Each record costs a bounded number of small steps.

use std::sync::Arc;

use gdrtune_profiles::{
    profile::{ByteRange, Profile, Rule},
    vocab::{Engine, Point},
};
use gdrtune_session::event::{
    Arm, Decision, Event, Extension, Level, NodeState, Phase, Record, RunEnd, Trial, TrialResult, goal_words, without,
};

mod search;

use super::{
    run::{
        Arrival, ArrivalKind, BestKnown, Current, Draft, Ended, EnvironmentInPlay, Label, LogLine, Measured, Node,
        Outcome, PointVerdict, Run, ShapeInPlay, TrialRow, Trying,
    },
    text,
};

impl Run {
    /// Takes one record.
    pub(crate) fn ingest(&mut self, record: Record) {
        let t_ms = record.t_ms;
        // It was taken for dead, and is not.
        self.summary.ended.take_if(|ended| ended.end.is_none());
        match record.event {
            Event::Trial(trial) => self.ingest_trial(t_ms, trial),
            Event::Log { level, host, text } => self.log.push(LogLine { t_ms, level, host, text }),
            Event::Node { index, host, state, detail } => self.ingest_node(t_ms, index, host, state, detail),
            Event::Dropped { environment, point, choice, why } => {
                self.summary.n_dropped += 1;
                let overlay = self.environment_number(&environment);
                self.summary.search.drop_choice(overlay, point, choice, &why);
                self.note(t_ms, Level::Debug, format!("dropped {choice} at {point}: {why}"));
            }
            Event::Best { point, environment, choice, time_us, samples, default_us } => {
                let environment = self.environment_number(&environment);
                let series = self.series(point);
                series.tell_default(default_us);
                series.set_best(BestKnown { choice, environment, time_us, samples });
            }
            Event::Verdict { point, speedup, default_us, tuned_us, decision, note } => {
                let series = self.series(point);
                series.tell_default(default_us);
                series.verdict = Some(PointVerdict { speedup, tuned_us, decision });
                let (median, low, high) = (text::ratio(speedup.median), speedup.low, speedup.high);
                let note = if note.is_empty() { note } else { format!(": {note}") };
                let line = format!("A/B {point}: {median} [{low:.2}-{high:.2}], {}{note}", decision_text(decision));
                let level = if decision == Decision::Regression { Level::Warn } else { Level::Info };
                self.note(t_ms, level, line);
            }
            other => self.ingest_rare(t_ms, other),
        }
    }

    /// What the run is.
    fn ingest_start(&mut self, t_ms: u64, started: Event) {
        let Event::RunStarted {
            run,
            engine,
            hosts,
            nodes,
            ranks,
            points,
            budget_s,
            max_trials,
            tool,
            workload,
            objective,
            sm_cost,
            ..
        } = started
        else {
            return;
        };
        self.note(t_ms, Level::Info, format!("run {run} of gdrtune {tool} on {hosts}"));
        if let Some(goal) = goal_words(&workload, &objective, sm_cost) {
            self.note(t_ms, Level::Info, goal);
        }
        for point in points {
            self.series(point);
        }
        self.summary.label = Some(Label {
            run,
            engine,
            emulated: false,
            hosts,
            n_nodes: nodes,
            n_ranks: ranks,
            budget_ms: budget_ms(engine, budget_s),
            max_trials,
            shape: None,
        });
    }

    /// Events that come a few times in a run.
    fn ingest_rare(&mut self, t_ms: u64, event: Event) {
        match event {
            started @ Event::RunStarted { .. } => self.ingest_start(t_ms, started),
            Event::Resumed { at, trials, .. } => {
                // Its process ended, not the run, which is where it was: it tells no phase again that it has told.
                self.summary.ended = None;
                if let Some((phase, environment)) = self.summary.before_end.take() {
                    (self.summary.phase, self.summary.environment) = (phase, environment);
                }
                let trials = text::count(trials, "trial");
                self.note(t_ms, Level::Info, format!("resumed at {at}: {trials} are kept"));
            }
            Event::Shape { index, of, nodes, ranks } => {
                self.summary.start_shape(ShapeInPlay { index, of, n_nodes: nodes, n_ranks: ranks });
                let sizes = text::shape(nodes, ranks);
                self.note(t_ms, Level::Info, format!("shape {} of {of}: {sizes}", text::nth(index)));
            }
            Event::NodeSet { hosts, nodes, ranks, left_out } => {
                let sizes = [text::count(u64::from(nodes), "node"), text::count(u64::from(ranks), "rank")];
                let text = format!("goes on with {hosts}: {}, {}", sizes.join(", "), without(&left_out));
                self.note(t_ms, Level::Warn, text);
                self.summary.change_nodes(t_ms, hosts, (nodes, ranks));
                self.summary.leave_out(left_out);
            }
            Event::NodeFacts { index, facts, .. } => self.summary.tell_facts(index, facts),
            Event::SlowNode { index, why, .. } => self.summary.tell_slow(index, why),
            Event::Emulated { why } => {
                if let Some(label) = &mut self.summary.label {
                    label.emulated = true;
                }
                self.note(t_ms, Level::Warn, format!("emulated nodes: {why}"));
            }
            Event::Phase { phase } => {
                let environment = self.summary.environment.take();
                let before = self.summary.phase.replace(phase);
                self.summary.before_end = (phase == Phase::Done).then_some((before, environment));
                self.forget_current();
                if let Some(text) = phase_text(phase) {
                    self.note(t_ms, Level::Info, text.to_owned());
                }
            }
            Event::WorkersStarted { process, setup, setup_ms, .. } => {
                self.note(t_ms, Level::Debug, format!("workers {process} ready in {setup_ms:.0} ms: {setup}"));
            }
            Event::Extended(extension) => {
                self.note(t_ms, Level::Info, extension.to_string());
                if let Some(label) = &mut self.summary.label {
                    label.extend(&extension);
                }
            }
            Event::Profile { profile, left_out } => {
                self.ingest_draft(Draft { t_ms, profile: *profile, left_out });
            }
            Event::Written { files, so_far } => {
                let label = if so_far { "wrote what there is so far, NOT VERIFIED: " } else { "wrote " };
                self.note(t_ms, Level::Info, format!("{label}{}", text::fold_files(&files)));
                if !so_far {
                    self.summary.written.extend(files);
                }
            }
            Event::Finished { end, summary } => {
                let level = match end {
                    RunEnd::Tuned | RunEnd::DefaultsBest => Level::Info,
                    RunEnd::Inconclusive | RunEnd::Interrupted => Level::Warn,
                    RunEnd::NodesLost | RunEnd::Failed => Level::Error,
                };
                self.note(t_ms, level, summary.clone());
                if end == RunEnd::DefaultsBest {
                    // Runs of earlier versions do not tell their profile.
                    self.summary.withhold(|_| false);
                }
                self.summary.ended = Some(Ended { end: Some(end), summary });
            }
            other => self.ingest_search(t_ms, other),
        }
    }

    /// Notes that the records ended, and says why if they lack the last one.
    pub(crate) fn close(&mut self, t_ms: u64, summary: String) {
        if self.summary.is_over() {
            return;
        }
        self.note(t_ms, Level::Error, summary.clone());
        self.summary.ended = Some(Ended { end: None, summary });
    }

    fn ingest_trial(&mut self, t_ms: u64, trial: Trial) {
        let environment = self.environment_number(&trial.environment);
        let n_columns = [trial.requested, trial.selected].into_iter().flatten().map(|c| c.to_string().len()).max();
        let series = self.series(trial.point);
        let has_failed = trial.result.has_failed();
        let outcome = match trial.result {
            TrialResult::Timed { time_us, slowest_us, median_us, max_us, cpu_us, busbw_gbs, iterations } => {
                match trial.arm {
                    Arm::Default => series.add_default_sample(time_us),
                    Arm::Search | Arm::Candidate => series.current = Some(Current { time_us }),
                }
                let against = if trial.arm == Arm::Default { None } else { series.default_us() };
                let gain = against.filter(|_| 0.0 < time_us).map(|default_us| default_us / time_us);
                Outcome::Timed(Measured { time_us, slowest_us, median_us, max_us, cpu_us, busbw_gbs, iterations, gain })
            }
            TrialResult::Failed { kind, detail, .. } => Outcome::Failed { kind, detail: detail.into_boxed_str() },
        };
        if let Outcome::Failed { kind, detail } = &outcome
            && has_failed
        {
            self.summary.n_failed += 1;
            let choice = trial.requested.map_or_else(|| "engine's own".to_owned(), |c| c.to_string());
            let line =
                format!("trial {} {choice} at {}: {}: {detail}", trial.trial, trial.point, text::failure_name(*kind));
            self.note(t_ms, Level::Warn, line);
        }
        let summary = &mut self.summary;
        if let (Arm::Search, Some(choice)) = (trial.arm, trial.requested) {
            let result = match &outcome {
                Outcome::Timed(measured) => Ok(measured.time_us),
                Outcome::Failed { kind, .. } => Err(*kind),
            };
            if summary.search.in_play != Some(environment)
                && let Some(row) = summary.search.environment_of(environment)
            {
                // The search comes back to an environment without another word.
                let (settings, why) = (row.settings.clone(), row.why.clone());
                summary.environment = Some(EnvironmentInPlay { index: row.index, settings, why });
            }
            summary.search.add(environment, trial.point, choice, result);
        }
        let kind = match &outcome {
            Outcome::Timed(measured) => measured.gain.map_or(ArrivalKind::Default, ArrivalKind::Gain),
            Outcome::Failed { .. } => ArrivalKind::Failed,
        };
        summary.arrivals.push(Arrival { t_ms, kind });
        summary.n_trials += 1;
        summary.choice_columns = summary.choice_columns.max(n_columns.unwrap_or(0));
        summary.trying = Some(Trying { arm: trial.arm, point: trial.point, choice: trial.requested });
        self.trials.push(TrialRow {
            trial: trial.trial,
            t_ms,
            process: trial.process,
            arm: trial.arm,
            environment,
            point: trial.point,
            requested: trial.requested,
            selected: trial.selected,
            outcome,
        });
    }

    fn ingest_node(&mut self, t_ms: u64, index: u32, host: String, state: NodeState, detail: String) {
        let level = match state {
            NodeState::Connecting | NodeState::Closed => Level::Debug,
            NodeState::Ready => Level::Info,
            NodeState::Failed | NodeState::Lost => Level::Error,
        };
        let text = if detail.is_empty() {
            node_state_text(state).to_owned()
        } else {
            format!("{}: {detail}", node_state_text(state))
        };
        self.log.push(LogLine { t_ms, level, host: host.clone(), text });
        self.summary.tell_node(index, Node { host, state, detail });
    }

    fn ingest_draft(&mut self, draft: Draft) {
        let (rules, settings) = (draft.profile.rule.len() as u64, draft.profile.env.len() as u64);
        let what = [text::count(rules, "rule"), text::count(settings, "setting")].join(", ");
        let word = if draft.profile.run.unverified { "would ship now" } else { "ships" };
        self.note(draft.t_ms, Level::Debug, format!("{word}: {what}"));
        if !draft.profile.run.unverified {
            self.summary.withhold(|point| ships(&draft.profile, point));
        }
        self.summary.draft = Some(Arc::new(draft));
    }

    fn series(&mut self, point: Point) -> &mut super::run::PointSeries {
        if !self.summary.collectives.contains(&point.collective) {
            self.summary.collectives.push(point.collective);
        }
        self.summary.points.entry(point).or_default()
    }

    fn forget_current(&mut self) {
        for series in self.summary.points.values_mut() {
            series.current = None;
        }
    }

    fn note(&mut self, t_ms: u64, level: Level, text: String) {
        self.log.push(LogLine { t_ms, level, host: String::new(), text });
    }
}

/// Whether a profile changes anything at a point.
fn ships(profile: &Profile, point: Point) -> bool {
    let covers = |rule: &Rule| {
        let ByteRange { min, max } = rule.bytes;
        rule.collective == point.collective && min <= point.bytes && max.is_none_or(|max| point.bytes <= max)
    };
    !profile.env.is_empty() || profile.rule.iter().any(covers)
}

impl Label {
    /// The user gave the run more.
    fn extend(&mut self, extension: &Extension) {
        self.budget_ms = budget_ms(self.engine, extension.budget_s);
        self.max_trials = extension.max_trials;
    }
}

/// The budget as the header shows it beside the user's clock, in milliseconds.
fn budget_ms(engine: Engine, budget_s: Option<f64>) -> Option<u64> {
    // Recorded or simulated time is not that of the clock beside it.
    budget_s.filter(|_| engine.is_real()).map(|s| (s * 1000.0) as u64)
}

/// One word for a state of a node.
pub(crate) const fn node_state_text(state: NodeState) -> &'static str {
    match state {
        NodeState::Connecting => "connecting",
        NodeState::Ready => "ready",
        NodeState::Failed => "failed",
        NodeState::Lost => "lost",
        NodeState::Closed => "closed",
    }
}

const fn decision_text(decision: Decision) -> &'static str {
    match decision {
        Decision::Ship => "ships",
        Decision::Keep => "the default stays",
        Decision::Regression => "regression, must not ship",
        Decision::TooNoisy => "too noisy to say",
    }
}

const fn phase_text(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::Connect => Some("connecting to the nodes"),
        Phase::Baseline => Some("measuring the defaults"),
        Phase::Search => Some("searching"),
        Phase::Verify => Some("verifying the winners against the defaults"),
        Phase::Write => Some("writing the files"),
        // How it ended is told next.
        Phase::Done => None,
    }
}

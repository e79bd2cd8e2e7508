//! Turns what the search says into events of the run, and what the user wants into directives.

use gdrtune_profiles::vocab::{Choice, Environment};
use gdrtune_tuner::{
    bench::{Item, Outcome, Sample, Script, Setup, Timing},
    observe::{self, Directive, Note, Observer, Wish},
    steadiness::{Steadiness, Unsteady},
};

use super::{facts, wishes::Wishes};
use crate::{
    control::Controls,
    event::{Arm, Command, Event, Failure, Knob, Level, Phase, RanInstead, ScriptSetup, Trial, TrialResult},
    recorder::Recorder,
    resume::Numbers,
};

/// What is said of a trial that the user skipped.
const SKIPPED: &str = "skipped by the user";

/// The watcher of a run: everything goes to the recorder.
pub(super) struct RunObserver<'a> {
    recorder: &'a Recorder,
    controls: &'a Controls,
    /// Ranks of the present shape.
    pub(super) ranks: u32,
    /// Whether seconds are those of a clock, and not of a model.
    pub(super) is_real: bool,
    /// What the emitted files of each arm of the A/B set.
    pub(super) deployed: Vec<(Setup, Environment)>,
    /// The environment that the search is at.
    environment: u64,
    /// Number of the next measurement.
    trials: u64,
    /// Hangs, crashes and wrong results so far.
    pub(super) failed: u64,
    /// Number of the next script.
    scripts: u64,
    /// How often it was asked how to go on.
    questions: u64,
    /// The question that an earlier process of the run first answered with the end of the search.
    finish_at: Option<u64>,
    /// Whether that answer is in the store.
    is_finishing: bool,
    /// What the user wants otherwise.
    pub(super) wishes: Wishes<'a>,
    steadiness: Steadiness,
}

impl<'a> RunObserver<'a> {
    /// The watcher of a run whose next events have these numbers.
    pub(super) fn new(
        recorder: &'a Recorder,
        controls: &'a Controls,
        (first, finish_at): (Numbers, Option<u64>),
        wishes: Wishes<'a>,
    ) -> Self {
        Self {
            recorder,
            controls,
            ranks: 0,
            is_real: false,
            deployed: Vec::new(),
            environment: 0,
            trials: first.trials,
            failed: 0,
            scripts: first.scripts,
            questions: 0,
            finish_at,
            is_finishing: false,
            wishes,
            steadiness: Steadiness::default(),
        }
    }

    /// What did not hold still in the present shape, which ends with this.
    pub(super) fn unsteady(&mut self) -> Vec<Unsteady> {
        std::mem::take(&mut self.steadiness).findings()
    }

    fn script(&mut self, script: &Script) {
        if self.controls.cancel().take_skip() {
            self.recorder.log(Level::Info, "", "nothing was skipped, as nothing was being measured");
        }
        let setup = match &script.setup {
            Setup::Site => ScriptSetup::Site,
            Setup::Live(environment) => ScriptSetup::Live { environment: environment.clone() },
            Setup::Deployed(files) => ScriptSetup::Deployed { sha256: facts::files_sha256(files) },
        };
        let items = script.items.iter().map(|item| (item.point, item.choice, item.repeats)).collect();
        self.recorder.record(Event::Script { script: self.scripts, setup, fresh: script.fresh, items });
        self.scripts += 1;
    }

    fn trial(&mut self, script: &Script, sample: &Sample) {
        let Some(item) = script.items.get(sample.item) else { return };
        let (arm, environment) = match &script.setup {
            Setup::Site => (Arm::Default, Environment::new()),
            Setup::Live(environment) => (Arm::Search, environment.clone()),
            Setup::Deployed(_) => {
                let known = self.deployed.iter().find(|(setup, _)| *setup == script.setup);
                (Arm::Candidate, known.map(|(_, environment)| environment.clone()).unwrap_or_default())
            }
        };
        let (selected, result) = self.result(item, &sample.outcome);
        let trial = self.trials;
        self.trials += 1;
        self.recorder.record(Event::Trial(Trial {
            trial,
            arm,
            environment,
            point: item.point,
            requested: item.choice,
            selected,
            process: sample.process,
            item: Some(sample.item as u32),
            result,
        }));
    }

    fn result(&mut self, item: &Item, outcome: &Outcome) -> (Option<Choice>, TrialResult) {
        let failed = |kind, detail: &str| TrialResult::Failed { kind, detail: detail.to_owned(), ran: None };
        match outcome {
            Outcome::Timed(timing) => (timing.selected, self.timed(item, timing)),
            Outcome::Substituted { selected, timing } => {
                let detail = format!("ran {selected} in {:.1} us", timing.time_us);
                let Timing { time_us, slowest_us, median_us, max_us, cpu_us, iterations, .. } = *timing;
                let ran = Some(RanInstead { time_us, slowest_us, median_us, max_us, cpu_us, iterations });
                (Some(*selected), TrialResult::Failed { kind: Failure::Substituted, detail, ran })
            }
            Outcome::Unsupported(why) => (None, failed(Failure::Unsupported, why)),
            Outcome::Skipped => (None, failed(Failure::Skipped, SKIPPED)),
            Outcome::Wrong(why) => {
                self.failed += 1;
                (None, failed(Failure::Wrong, why))
            }
            Outcome::Hung(why) => {
                self.failed += 1;
                (None, failed(Failure::Hung, why))
            }
            Outcome::Crashed(why) => {
                self.failed += 1;
                (None, failed(Failure::Crashed, why))
            }
        }
    }

    fn timed(&self, item: &Item, timing: &Timing) -> TrialResult {
        TrialResult::Timed {
            time_us: timing.time_us,
            slowest_us: timing.slowest_us,
            median_us: timing.median_us,
            max_us: timing.max_us,
            cpu_us: timing.cpu_us,
            busbw_gbs: item.point.collective.busbw_gbs(self.ranks, item.point.bytes, timing.time_us),
            iterations: timing.iterations,
        }
    }
}

impl Observer for RunObserver<'_> {
    fn note(&mut self, note: Note<'_>) {
        self.steadiness.note(&note);
        let event = match note {
            Note::Sample { script, sample } => return self.trial(script, sample),
            Note::Script(script) => return self.script(script),
            Note::Phase(phase) => Event::Phase {
                phase: match phase {
                    observe::Phase::Baseline => Phase::Baseline,
                    observe::Phase::Search => Phase::Search,
                    observe::Phase::Verify => Phase::Verify,
                },
            },
            Note::EnvironmentStarted { index, environment, why } => {
                self.environment = index as u64;
                let (environment, why) = (environment.clone(), why.to_owned());
                Event::EnvironmentStarted { index: index as u64, environment, why }
            }
            Note::EnvironmentScored { index, environment, score, given_up } => Event::EnvironmentScored {
                index: index as u64,
                environment: environment.clone(),
                score: score.is_finite().then_some(score),
                note: given_up.map(|why| format!("given up early: {why}")).unwrap_or_default(),
            },
            Note::EnvironmentFailed { environment, why } => Event::EnvironmentScored {
                index: self.environment,
                environment: environment.clone(),
                score: None,
                note: why.to_owned(),
            },
            Note::Dropped { environment, point, choice, why } => {
                Event::Dropped { environment: environment.clone(), point, choice, why: why.to_owned() }
            }
            Note::Rounds { arms, least, round_s } if self.is_real => {
                let least_s = f64::from(least) * round_s;
                let text =
                    format!("A/B of {arms} arms: {least} rounds at least, about {round_s:.1} s each ({least_s:.0} s)");
                return self.recorder.log(Level::Info, "", text);
            }
            // Whoever asked for the one takes it, and nobody waits for simulated rounds.
            Note::SoFar(_) | Note::Rounds { .. } => return,
            Note::Importance(knobs) => Event::Importance { knobs: knobs.iter().map(Knob::from).collect() },
            Note::PointLeftOut { point, why } => {
                let text = format!("{point} is left out, as its default cannot be measured: {why}");
                return self.recorder.log(Level::Warn, "", text);
            }
            Note::Best(best) => Event::Best {
                point: best.point,
                environment: best.environment.clone(),
                choice: best.choice,
                time_us: best.time_us,
                samples: best.samples,
                default_us: best.default_us,
            },
        };
        self.recorder.record(event);
    }

    fn wishes(&mut self) -> Vec<Wish> {
        self.wishes.take(self.questions + 1)
    }

    fn directive(&mut self) -> Directive {
        self.questions += 1;
        if self.finish_at == Some(self.questions) {
            self.controls.apply(Command::Finish);
        }
        // Blocks while the run is paused.
        let wanted = self.controls.directive();
        // A run that cannot be recorded must not go on: nothing of it would be left.
        if self.recorder.has_failed() {
            return Directive::Abort;
        }
        if wanted == Directive::Abort {
            self.recorder.cut_short();
        }
        if wanted != Directive::Finish || self.is_finishing {
            return wanted;
        }
        // What an earlier process did stays as it was: a new wish counts from where that one ended.
        if self.recorder.is_retracing() && self.finish_at != Some(self.questions) {
            return Directive::Continue;
        }
        if self.controls.is_winding_up() {
            // No decision of the search: whoever goes on with the run searches on.
            self.recorder.cut_short();
            return wanted;
        }
        self.is_finishing = true;
        self.recorder.record(Event::Finishing { question: self.questions });
        wanted
    }
}

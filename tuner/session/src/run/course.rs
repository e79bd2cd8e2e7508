//! What is done once something can measure: one job shape after the other is searched and verified, and at the end everything is
//! written. A run without shapes has one: the cluster as it is.

use std::cmp::Reverse;

use gdrtune_profiles::{bindings::ceilings::Ceilings, profile::Profile, vocab::Engine};
use gdrtune_tuner::{
    bench::{Bench, BenchInfo},
    observe::{Directive, Observer},
    plan::{self, Candidate},
    search::{self, SearchOutcome, SearchPlan, StoppedBy, Strategy},
    verdict::Thresholds,
};

use super::{
    RunConfig, RunError, RunOutcome, Shape,
    draft::Searcher,
    facts,
    observer::RunObserver,
    venue::{Survey, Venue},
    verify::{self, Verified},
    wishes::Wishes,
    write,
};
use crate::{
    control::Controls,
    event::{Event, Level, Phase, RunEnd},
    recorder::Recorder,
    resume::{Ledger, Measured},
};

/// Share of the budget that is kept for the verification. Its rounds have a minimum, so it may take longer.
const VERIFY_SHARE: f64 = 0.4;

/// The folder in the output folder for what there is before the result.
const SO_FAR: &str = "unverified";

/// What is particular about several shapes.
pub(super) const ONLY_RULES: &str = "only rules are searched, and no settings but pinned ones, since a variable reaches jobs of \
                                     every shape and may not ship on the evidence of one; tune one shape to find settings, \
                                     and --pin them for several";

/// The whole run at its venue.
pub(super) struct Course<'a> {
    config: &'a RunConfig,
    recorder: &'a Recorder,
    controls: &'a Controls,
    /// Which nodes are emulated, if any are.
    pub(super) emulated: Option<String>,
    /// What is measured on, in words.
    pub(super) place: String,
    /// What the result's readers must know of the nodes.
    pub(super) notes: Vec<String>,
}

/// One shape of a run.
#[derive(Clone)]
pub(super) struct Run<'a> {
    /// The run's, with this shape's share of the budget.
    pub(super) config: RunConfig,
    /// Budget of the whole run when that was shared out, if limited.
    pub(super) total_s: Option<f64>,
    pub(super) recorder: &'a Recorder,
    pub(super) controls: &'a Controls,
    /// What is known of the venue in this shape.
    pub(super) survey: Survey,
}

/// A shape with its result.
pub(super) struct Tuned<'a> {
    pub(super) run: Run<'a>,
    pub(super) outcome: SearchOutcome,
    pub(super) verified: Verified,
    /// What the search took for best, where that is not verified.
    pub(super) unverified: Option<Candidate>,
    /// What did not hold still, in sentences.
    pub(super) warnings: Vec<String>,
}

impl Tuned<'_> {
    /// Whether there were settings to try, and time or trials were over before the first one's turn.
    fn has_tried_no_setting(&self) -> bool {
        let (tried, all) = self.environments();
        self.lacked().is_some() && tried == 1 && 1 < all
    }

    /// The option of which the user gave too little for the search to end by itself.
    const fn lacked(&self) -> Option<&'static str> {
        match self.outcome.stopped_by {
            StoppedBy::Trials => Some("--trials"),
            StoppedBy::Seconds => Some("--budget"),
            StoppedBy::Converged | StoppedBy::Request => None,
        }
    }

    /// How many environments were tried, and of how many.
    fn environments(&self) -> (usize, usize) {
        (self.outcome.environments.len(), self.run.survey.space.environments())
    }

    /// Whether the defaults stay because too little is known.
    fn is_inconclusive(&self) -> bool {
        self.verified.keeps_defaults() && (self.has_tried_no_setting() || self.verified.is_inconclusive())
    }
}

/// What came of every shape.
#[derive(Default)]
pub(super) struct Results<'a> {
    /// Whether the user asked for several shapes, so that each result needs its shape's name.
    pub(super) of_shapes: bool,
    /// Largest first.
    pub(super) tuned: Vec<Tuned<'a>>,
    /// Shapes without a result, and why.
    pub(super) untuned: Vec<(Shape, String)>,
    /// How many of those failed; the others were not begun.
    failed: u64,
    /// Whether the run was ended before it came to what it was asked for.
    is_cut: bool,
    /// Whether the run goes on: this is what it has so far.
    is_so_far: bool,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        config: &'a RunConfig,
        recorder: &'a Recorder,
        controls: &'a Controls,
        venue: &dyn Venue,
    ) -> Self {
        let (emulated, place, notes) = (venue.emulated(), venue.place(), venue.notes());
        Self { config, recorder, controls, emulated, place, notes }
    }

    /// Measures, and writes what ships.
    pub(super) fn run(&self, venue: &mut dyn Venue, earlier: Measured) -> Result<RunOutcome, RunError> {
        let mut ledger = Ledger::new(self.recorder, earlier.first.scripts, earlier.scripts);
        if let Some(why) = &self.emulated {
            self.recorder.record(Event::Emulated { why: why.clone() });
        }
        let budget = (self.config.budget_s, self.config.max_trials);
        let wishes = Wishes::new(self.recorder, self.controls, budget, (earlier.standing, earlier.granted));
        let begun = (earlier.first, earlier.finish_at);
        let mut observer = RunObserver::new(self.recorder, self.controls, begun, wishes);
        let results = if self.config.shapes.is_empty() {
            let told = earlier.ceilings;
            let Wishes { budget_s, max_trials, .. } = observer.wishes;
            let config = RunConfig { budget_s, max_trials, ..self.config.clone() };
            let tuned = self.tune(config, (venue, told), &mut ledger, &mut observer, true)?;
            Results { is_cut: tuned.unverified.is_some(), tuned: vec![tuned], ..Results::default() }
        } else {
            self.tune_shapes(venue, &mut ledger, &mut observer)?
        };
        self.write(&results, observer.failed)
    }

    fn tune_shapes(
        &self,
        venue: &mut dyn Venue,
        ledger: &mut Ledger<'_>,
        observer: &mut RunObserver<'_>,
    ) -> Result<Results<'a>, RunError> {
        self.recorder.log(Level::Info, "", format!("several job shapes: {ONLY_RULES}"));
        let mut results = Results { of_shapes: true, ..Results::default() };
        let mut first_error = None;
        let mut trials_used = 0;
        for (index, slots) in self.config.shapes.iter().enumerate() {
            let shape = venue.shape_of(slots);
            if index > 0 && observer.directive() == Directive::Finish {
                self.recorder.log(Level::Warn, "", format!("{shape} is not tuned: the run was ended early"));
                results.untuned.push((shape, "the run was ended early".to_owned()));
                results.is_cut |= self.controls.is_winding_up();
                continue;
            }
            venue.reshape(slots);
            let config = self.begin_shape(index, trials_used, &observer.wishes, &ledger.over(venue.bench()));
            match self.tune(config, (venue, None), ledger, observer, results.tuned.is_empty()) {
                // What was verified is not mixed with what was not.
                Ok(tuned) if tuned.unverified.is_some() && !results.tuned.is_empty() => {
                    results.untuned.push((shape, "the run was ended before it was verified".to_owned()));
                    results.is_cut = true;
                }
                Ok(tuned) => {
                    results.is_cut |= tuned.unverified.is_some();
                    trials_used += tuned.outcome.trials;
                    results.tuned.push(tuned);
                    results.settle();
                    self.tell(&write::shipped_profile(self, &results)?, &results);
                }
                // About this shape alone: hours of the others must not be lost with it.
                Err(
                    why @ (RunError::Usage(_) | RunError::Unusable(_) | RunError::Broken(_) | RunError::Internal(_)),
                ) => {
                    self.recorder.log(Level::Error, "", format!("{shape} is not tuned: {why}"));
                    results.untuned.push((shape, why.to_string()));
                    results.failed += 1;
                    first_error.get_or_insert(why);
                }
                Err(error) => return Err(error),
            }
        }
        if results.tuned.is_empty() {
            return Err(first_error.unwrap_or(RunError::Interrupted));
        }
        results.settle();
        Ok(results)
    }

    /// Tells what ships as far as it is known.
    fn tell(&self, profile: &Profile, results: &Results<'_>) {
        let profile = Box::new(profile.clone());
        self.recorder.record(Event::Profile { profile, left_out: results.left_out() });
    }

    /// Announces a shape; returns the run as it is for that one, with its share of what is left.
    fn begin_shape(&self, index: usize, trials_used: u64, wishes: &Wishes<'_>, bench: &dyn Bench) -> RunConfig {
        let BenchInfo { nodes, ranks, .. } = bench.info();
        let of = self.config.shapes.len();
        self.recorder.record(Event::Shape { index: index as u32, of: of as u32, nodes, ranks });
        let shapes_left = of - index;
        let mut config = self.config.clone();
        // No setting is searched, so that it does not matter what was probed.
        config.ceilings = Ceilings::default();
        config.budget_s = wishes.budget_s.map(|total| share(total, bench.now_s(), shapes_left));
        let trials_left = wishes.max_trials.map(|trials| trials.saturating_sub(trials_used));
        config.max_trials = trials_left.map(|trials| (trials / shapes_left as u64).max(1));
        // There is one environment.
        config.strategy = Strategy::Exhaustive;
        config
    }

    /// Searches and verifies one shape, where a probe had measured what is told; `is_first` where none has a result yet.
    fn tune(
        &self,
        config: RunConfig,
        (venue, told): (&mut dyn Venue, Option<Ceilings>),
        ledger: &mut Ledger<'_>,
        observer: &mut RunObserver<'_>,
        is_first: bool,
    ) -> Result<Tuned<'a>, RunError> {
        // What the engine says of itself is asked again by a resume: nothing of it may be skipped.
        let survey = venue.survey(&config, told, self.recorder, &self.controls.cancel().with_own_skips())?;
        let total_s = observer.wishes.budget_s;
        let run = Run { config, total_s, recorder: self.recorder, controls: self.controls, survey };
        let bench = &mut ledger.over(venue.bench());
        (observer.ranks, observer.is_real) = (run.survey.info.ranks, run.survey.info.engine.is_real());
        observer.wishes.begin_search(&run.survey.space, 1.0 - VERIFY_SHARE);
        let mut searcher = Searcher::new(self, &run, observer, is_first);
        let outcome = run.search(bench, &mut searcher)?;
        searcher.conclude(&outcome);
        observer.wishes.end_search();
        if outcome.points.is_empty() {
            return Err(match observer.wishes.pinned() {
                _ if self.controls.is_winding_up() => RunError::Interrupted,
                Some(pinned) => RunError::Usage(format!(
                    "nothing was measured with {pinned}, which you pinned, before the search was over: pin it earlier, or give \
                     the run more time or trials"
                )),
                None => run.nothing_measured(&outcome, observer.failed),
            });
        }
        run.warn_of_unreached(&outcome);
        if outcome.stopped_by == StoppedBy::Request && self.controls.is_winding_up() {
            return Ok(run.unverified(outcome));
        }
        let verified = match verify::verify((self, &run), bench, &outcome, observer) {
            Err(RunError::Interrupted) if self.controls.is_winding_up() => return Ok(run.unverified(outcome)),
            verified => verified?,
        };
        if self.controls.is_aborted() {
            return Err(RunError::Interrupted);
        }
        let engine = run.survey.info.engine;
        let warnings: Vec<String> = observer.unsteady().iter().map(|found| found.words(engine)).collect();
        for text in &warnings {
            self.recorder.log(Level::Warn, "", text.clone());
        }
        for loss in verified.losses() {
            self.recorder.log(Level::Warn, "", format!("what ships may be slower: {loss}"));
        }
        Ok(Tuned { run, outcome, verified, unverified: None, warnings })
    }

    /// Writes what would ship if the search had nothing more to say, on the user's wish. What goes wrong with that does not end
    /// the run.
    pub(super) fn write_so_far(&self, run: &Run<'_>, outcome: &SearchOutcome) {
        if outcome.points.is_empty() {
            let text = "nothing is written: no choice was measured yet that could ship";
            return self.recorder.log(Level::Warn, "", text);
        }
        let of_shapes = !self.config.shapes.is_empty();
        let tuned = vec![run.clone().unverified(outcome.clone())];
        let results = Results { of_shapes, tuned, is_so_far: true, ..Results::default() };
        let written = write::shipped_profile(self, &results)
            .and_then(|profile| write::files(self, &results, &profile))
            .and_then(|files| Ok(self.config.out.write_beside(SO_FAR, &files)?));
        match written {
            Ok(paths) => {
                let files = paths.iter().map(|path| path.display().to_string()).collect();
                self.recorder.record(Event::Written { files, so_far: true });
            }
            Err(error) => self.recorder.log(Level::Error, "", format!("what there is so far is not written: {error}")),
        }
    }

    fn write(&self, results: &Results<'_>, failed_trials: u64) -> Result<RunOutcome, RunError> {
        self.recorder.record(Event::Phase { phase: Phase::Write });
        let profile = write::shipped_profile(self, results)?;
        self.tell(&profile, results);
        let files = write::files(self, results, &profile)?;
        let written = self.config.out.write_all(&files)?;
        let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        if results.is_cut {
            // The files of a run that can go on are no decision of it.
            for name in &names {
                self.recorder.log(Level::Info, "", format!("wrote {name}"));
            }
        }
        self.recorder.record(Event::Written { files: names, so_far: false });
        let keeps_defaults = results.tuned.iter().all(|tuned| tuned.verified.keeps_defaults());
        let is_inconclusive = results.tuned.iter().any(Tuned::is_inconclusive);
        let end = match (results.is_cut, keeps_defaults) {
            (true, _) => RunEnd::Interrupted,
            (false, true) if is_inconclusive => RunEnd::Inconclusive,
            (false, true) => RunEnd::DefaultsBest,
            (false, false) => RunEnd::Tuned,
        };
        // A shape that was asked for and could not be measured is a failure like that of a trial.
        let failed_trials = failed_trials + results.failed;
        Ok(RunOutcome { end, summary: results.headline(), written, failed_trials, left_out: Vec::new() })
    }
}

impl Results<'_> {
    /// Brings the shapes into order, and what they ship into agreement. May be done again when there is another one: what was
    /// withdrawn stays so.
    fn settle(&mut self) {
        self.tuned.sort_by_key(|tuned| Reverse((tuned.run.survey.info.ranks, tuned.run.survey.info.nodes)));
        let verified = self.tuned.iter_mut().map(|tuned| &mut tuned.verified).collect();
        verify::agree_on_environment(verified, self.failed == 0);
    }

    /// Everything that was tried and left out, with the names of the shapes where there are several.
    fn left_out(&self) -> Vec<String> {
        let of_shape = |tuned: &Tuned<'_>| {
            let shape = tuned.run.survey.shape;
            let named = |line: &String| if self.of_shapes { format!("{shape}: {line}") } else { line.clone() };
            tuned.verified.left_out.iter().map(named).collect::<Vec<_>>()
        };
        self.tuned.iter().flat_map(of_shape).collect()
    }

    /// The outcome in one sentence, shape by shape where there are several.
    pub(super) fn headline(&self) -> String {
        self.headlines().join("; ")
    }

    /// A sentence for each shape.
    pub(super) fn headlines(&self) -> Vec<String> {
        let named = |shape: Shape, text: String| if self.of_shapes { format!("{shape}: {text}") } else { text };
        let tuned = self.tuned.iter().map(|tuned| {
            let Survey { info, shape, .. } = &tuned.run.survey;
            let headline = match &tuned.unverified {
                None if tuned.verified.keeps_defaults() && tuned.has_tried_no_setting() => no_setting_tried(tuned),
                None if tuned.verified.keeps_defaults() => format!("{}{}", tuned.verified.headline(), cut_off(tuned)),
                None => tuned.verified.headline(),
                Some(candidate) => unverified_headline(candidate, self.is_so_far),
            };
            named(*shape, format!("{}{headline}", labelled(info.engine)))
        });
        let untuned = self.untuned.iter().map(|(shape, why)| named(*shape, format!("not tuned: {why}")));
        tuned.chain(untuned).collect()
    }
}

/// Says that nothing was found out about settings, where their turn never came.
fn no_setting_tried(tuned: &Tuned<'_>) -> String {
    let (tried, all) = tuned.environments();
    let more = tuned.lacked().unwrap_or_default();
    format!(
        "inconclusive, so the defaults stay: the search was over before it tried any setting, with {tried} of {all} environments; \
         give a larger {more}"
    )
}

/// Says how far a search came that found nothing to ship and was not done.
fn cut_off(tuned: &Tuned<'_>) -> String {
    match (tuned.lacked(), tuned.environments()) {
        (Some(more), (tried, all)) if tried != all => {
            format!(" (of {all} environments {tried} were tried; a larger {more} tries more)")
        }
        _ => String::new(),
    }
}

/// What a run has that was ended early, or goes on.
fn unverified_headline(candidate: &Candidate, is_so_far: bool) -> String {
    let (rules, settings) = (candidate.rules.len(), candidate.environment.iter().count());
    let when = if is_so_far { "the run goes on" } else { "ended early" };
    match rules + settings {
        0 => format!("{when}: the search had found nothing that beats the defaults"),
        _ => format!(
            "{when}: what the search took for best so far, {rules} rule(s) and {settings} process-level setting(s), is \
             written and NOT VERIFIED"
        ),
    }
}

/// How a sentence begins that is not about measurements.
const fn labelled(engine: Engine) -> &'static str {
    match engine {
        Engine::Nccl | Engine::Native => "",
        Engine::Replay => "replayed: ",
        Engine::Sim => "simulated: ",
    }
}

/// When a shape's time is over: the rest of the run's is divided among the shapes that are left.
fn share(total_s: f64, now_s: f64, shapes_left: usize) -> f64 {
    now_s + (total_s - now_s).max(0.0) / shapes_left.max(1) as f64
}

impl<'a> Run<'a> {
    fn search(&self, bench: &mut dyn Bench, observer: &mut dyn Observer) -> Result<SearchOutcome, RunError> {
        let config = &self.config;
        let space = &self.survey.space;
        let is_idle = self.config.settings.pins.is_empty() && space.choices.values().all(Vec::is_empty);
        if !config.shapes.is_empty() && is_idle {
            let text = "of several job shapes only rules are searched, and there is no choice here to make rules of: tune one shape";
            return Err(RunError::Usage(text.to_owned()));
        }
        self.recorder.record(Event::Space {
            dimensions: space.dimensions.iter().map(|d| (d.name.clone(), d.values.clone())).collect(),
            choices: facts::all_choices(space),
            environments: space.environments() as u64,
            name: config.space.name.clone(),
        });
        let plan = SearchPlan {
            points: config.goal.weigh(&config.points),
            objective: config.goal.objective,
            budget_trials: config.max_trials.unwrap_or(u64::MAX),
            budget_s: config
                .budget_s
                .map_or(f64::INFINITY, |total| ((1.0 - VERIFY_SHARE) * (total - bench.now_s())).max(1.0)),
            strategy: config.strategy,
            seed: config.seed,
            least_gain: Thresholds::standard(config.seed).gain,
            race: config.goal.race(config.seed),
            predictions: self.survey.predictions.clone(),
        };
        Ok(search::run_search(bench, space, &plan, observer, self.controls.cancel())?)
    }

    /// What the search takes for best.
    pub(super) fn best_so_far(&self, outcome: &SearchOutcome) -> Candidate {
        plan::candidate(outcome, Thresholds::standard(self.config.seed).gain)
    }

    /// The shape as it is before its A/B.
    fn unverified(self, outcome: SearchOutcome) -> Tuned<'a> {
        let candidate = self.best_so_far(&outcome);
        Tuned {
            run: self,
            outcome,
            verified: Verified::ended_early(),
            unverified: Some(candidate),
            warnings: Vec::new(),
        }
    }

    /// Says how many points the trials did not reach: they have no pick.
    fn warn_of_unreached(&self, outcome: &SearchOutcome) {
        let (all, reached) = (self.config.points.len(), outcome.points.len());
        if reached < all && outcome.stopped_by == StoppedBy::Trials {
            let text = format!(
                "{} of {all} points have no pick: {} trials did not reach them; give more --trials, or fewer points",
                all - reached,
                outcome.trials
            );
            self.recorder.log(Level::Warn, "", text);
        }
    }

    /// What the user gave too little of, where nothing else is wrong.
    fn too_little(&self, outcome: &SearchOutcome) -> Option<String> {
        if outcome.environments.iter().any(|tried| tried.failed.is_some()) {
            return None;
        }
        let points = self.config.points.len();
        match outcome.stopped_by {
            StoppedBy::Trials => Some(format!(
                "--trials {} is too few for {points} point(s): each needs one of the default and one of a choice, so give {} or \
                 more, or fewer points",
                outcome.trials,
                2 * points
            )),
            StoppedBy::Seconds => {
                let text = "the time was over before any choice was measured: give a longer --budget, or fewer points";
                Some(text.to_owned())
            }
            StoppedBy::Converged | StoppedBy::Request => None,
        }
    }

    /// Why there is no result although the default arm runs.
    fn nothing_measured(&self, outcome: &SearchOutcome, failed: u64) -> RunError {
        // More time or trials would not help.
        if failed > outcome.trials / 2 {
            return RunError::Broken(format!(
                "nothing could be compared: {failed} of {} measurements hung, crashed or gave wrong results, each as the log says",
                outcome.trials
            ));
        }
        if let Some(text) = self.too_little(outcome) {
            return RunError::Usage(text);
        }
        let tried = outcome.environments.len();
        let why = outcome.environments.iter().find_map(|e| e.failed.clone()).unwrap_or_else(|| "no time".to_owned());
        let ran = outcome.environments.iter().filter(|e| e.trials > 0).count();
        let text = match ran {
            0 => format!("none of {tried} environments could be measured; the first: {why}"),
            _ => format!("{ran} of {tried} environments were measured, and none can be started any more: {why}"),
        };
        if self.config.settings.pins.is_empty() { RunError::Internal(text) } else { RunError::Usage(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_divided_among_the_shapes_that_are_left() {
        for (total, now, left, end) in [
            (300.0, 0.0, 3, 100.0),
            // The first took longer than its share.
            (300.0, 140.0, 2, 220.0),
            (300.0, 220.0, 1, 300.0),
            (300.0, 310.0, 2, 310.0),
        ] {
            assert!((share(total, now, left) - end).abs() < 1e-9, "{total} {now} {left}");
        }
    }
}

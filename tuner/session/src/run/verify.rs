//! The verification of a run: emits the candidates' files, and records what the A/B says.

use gdrtune_tuner::{
    bench::{Bench, Setup},
    observe::{Directive, Note, Observer, Wish},
    plan::Candidate,
    search::SearchOutcome,
    verdict::Verdict,
    verify::{Deployer, Verification, VerifyError},
};

pub(super) use gdrtune_tuner::verify::{Verified, agree_on_environment};

use super::{Course, Run, RunError, observer::RunObserver, write};
use crate::{event::Level, evidence::Judged, recheck};

/// Measures the search's candidate against the default arm.
pub(super) fn verify(
    (course, run): (&Course<'_>, &Run<'_>),
    bench: &mut dyn Bench,
    outcome: &SearchOutcome,
    observer: &mut RunObserver<'_>,
) -> Result<Verified, RunError> {
    // What was added to the run's time while the shape was searched belongs to the shape.
    let added_s = observer.wishes.budget_s.zip(run.total_s).map_or(0.0, |(now_s, then_s)| now_s - then_s);
    let (seed, until_s) = (run.config.seed, run.config.budget_s.map_or(f64::INFINITY, |until_s| until_s + added_s));
    let weights = run.config.goal.weigh(&run.config.points);
    let objective = run.config.goal.objective;
    let verification =
        Verification { outcome, weights: &weights, objective, seed, until_s, cancel: run.controls.cancel() };
    verification.run(bench, &mut RunDeployer { course, run, outcome, observer }).map_err(|error| match error {
        VerifyError::Aborted => RunError::Interrupted,
        VerifyError::Bench(error) => error.into(),
        VerifyError::Deploy(error) => error,
    })
}

struct RunDeployer<'a, 'b> {
    course: &'a Course<'a>,
    run: &'a Run<'a>,
    outcome: &'a SearchOutcome,
    observer: &'a mut RunObserver<'b>,
}

impl Observer for RunDeployer<'_, '_> {
    fn note(&mut self, note: Note<'_>) {
        self.observer.note(note);
    }

    fn wishes(&mut self) -> Vec<Wish> {
        let mut wishes = self.observer.wishes();
        if wishes.contains(&Wish::Tell) {
            self.course.write_so_far(self.run, self.outcome);
        }
        // They were asked for, and that they are there is no change.
        wishes.retain(|wish| *wish != Wish::Tell);
        wishes
    }

    fn directive(&mut self) -> Directive {
        let wanted = self.observer.directive();
        let recorder = self.run.recorder;
        if self.run.controls.is_winding_up() && !recorder.is_retracing() {
            recorder.cut_short();
            return Directive::Abort;
        }
        wanted
    }
}

impl Deployer for RunDeployer<'_, '_> {
    type Error = RunError;

    fn deploy(&mut self, candidates: &[Candidate]) -> Result<Vec<Setup>, RunError> {
        self.observer.deployed.clear();
        let mut setups = Vec::new();
        for candidate in candidates {
            let profile = write::candidate_profile(self.run, self.outcome, candidate);
            let setup = recheck::deployed(&profile, self.run.survey.info.engine)
                .map_err(|error| RunError::Internal(error.to_string()))?;
            self.observer.deployed.push((setup.clone(), candidate.environment.clone()));
            setups.push(setup);
        }
        Ok(setups)
    }

    fn failed(&mut self, failure: &str) {
        self.run.recorder.log(Level::Warn, "", format!("in the A/B: {failure}"));
    }

    fn judged(&mut self, verdict: &Verdict) {
        let recorder = self.run.recorder;
        for point in &verdict.points {
            match Judged::by(point) {
                Some(judged) => recorder.record(judged.at(point.point)),
                None => recorder.log(Level::Warn, "", format!("{}: {}", point.point, point.sentence)),
            }
        }
        for line in verdict.left_out() {
            recorder.log(Level::Info, "", line);
        }
    }
}

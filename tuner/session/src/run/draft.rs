//! What would ship if the run ended now, for whoever watches: made by the code that writes it, told when it changes.

use gdrtune_tuner::{
    observe::{Directive, Note, Observer},
    plan::Candidate,
    search::SearchOutcome,
};

use super::{
    Course, Run,
    course::{Results, Tuned},
    observer::RunObserver,
    write,
};
use crate::event::Event;

/// Watches a search and tells what it would leave.
pub(super) struct Drafter<'a, 'b> {
    course: &'a Course<'a>,
    run: &'a Run<'a>,
    observer: &'a mut RunObserver<'b>,
    /// Whether nothing was verified yet: of several shapes, what passed is not mixed with what is only searched.
    is_first: bool,
    told: Option<Candidate>,
}

impl<'a, 'b> Drafter<'a, 'b> {
    pub(super) fn new(
        course: &'a Course<'a>,
        run: &'a Run<'a>,
        observer: &'a mut RunObserver<'b>,
        is_first: bool,
    ) -> Self {
        Self { course, run, observer, is_first, told: None }
    }

    /// Tells what the search found.
    pub(super) fn conclude(mut self, outcome: &SearchOutcome) {
        // With the last times, whether or not they changed anything.
        self.told = None;
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: &SearchOutcome) {
        if !self.is_first || outcome.points.is_empty() || self.run.recorder.is_cut_short() {
            return;
        }
        let candidate = self.run.best_so_far(outcome);
        // Times get better all the time; what they are good for is what matters.
        if self.told.as_ref() == Some(&candidate) {
            return;
        }
        let profile = Box::new(write::unverified_profile(self.course, self.run, outcome, &candidate));
        self.run.recorder.record(Event::Profile { profile, left_out: Vec::new() });
        self.told = Some(candidate);
    }
}

impl Observer for Drafter<'_, '_> {
    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::SoFar(outcome) => self.tell(outcome),
            note => self.observer.note(note),
        }
    }

    fn directive(&mut self) -> Directive {
        self.observer.directive()
    }
}

/// Everything that was tried and left out, with the names of the shapes where there are several.
pub(super) fn left_out(results: &Results<'_>) -> Vec<String> {
    let of_shape = |tuned: &Tuned<'_>| {
        let shape = tuned.run.survey.shape;
        let named = |line: &String| if results.of_shapes { format!("{shape}: {line}") } else { line.clone() };
        tuned.verified.left_out.iter().map(named).collect::<Vec<_>>()
    };
    results.tuned.iter().flat_map(of_shape).collect()
}

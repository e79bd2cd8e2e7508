//! What a search has so far: told to whoever watches when it changes, and written when the user wants it. Both are made by the
//! code that makes it where the run ends there.

use gdrtune_tuner::{
    observe::{Directive, Note, Observer, Wish},
    plan::Candidate,
    search::SearchOutcome,
};

use super::{Course, Run, observer::RunObserver, write};
use crate::event::Event;

/// Watches a search.
pub(super) struct Searcher<'a, 'b> {
    course: &'a Course<'a>,
    run: &'a Run<'a>,
    observer: &'a mut RunObserver<'b>,
    /// Whether nothing was verified yet: of several shapes, what passed is not mixed with what is only searched.
    is_first: bool,
    /// Whether an environment was scored since the search was asked.
    is_due: bool,
    /// Whether the user wants the files.
    is_wanted: bool,
    /// What was told.
    told: Option<Candidate>,
}

impl<'a, 'b> Searcher<'a, 'b> {
    pub(super) fn new(
        course: &'a Course<'a>,
        run: &'a Run<'a>,
        observer: &'a mut RunObserver<'b>,
        is_first: bool,
    ) -> Self {
        Self { course, run, observer, is_first, is_due: false, is_wanted: false, told: None }
    }

    /// Tells what the search found, with its last times, whether or not they change anything.
    pub(super) fn conclude(mut self, outcome: &SearchOutcome) {
        self.told = None;
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: &SearchOutcome) {
        if !self.is_first || outcome.points.is_empty() || self.run.recorder.is_cut_short() {
            return;
        }
        let candidate = self.run.best_so_far(outcome);
        // The times behind it become better all the time.
        if self.told.as_ref() == Some(&candidate) {
            return;
        }
        let profile = Box::new(write::unverified_profile(self.course, self.run, outcome, &candidate));
        self.run.recorder.record(Event::Profile { profile, left_out: Vec::new() });
        self.told = Some(candidate);
    }
}

impl Observer for Searcher<'_, '_> {
    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::SoFar(outcome) if std::mem::take(&mut self.is_wanted) => self.course.write_so_far(self.run, outcome),
            Note::SoFar(outcome) => self.tell(outcome),
            note => {
                self.is_due |= matches!(note, Note::EnvironmentScored { .. });
                self.observer.note(note);
            }
        }
    }

    fn directive(&mut self) -> Directive {
        self.observer.directive()
    }

    fn wishes(&mut self) -> Vec<Wish> {
        if std::mem::take(&mut self.is_due) {
            return vec![Wish::Tell];
        }
        let wishes = self.observer.wishes();
        self.is_wanted = wishes.contains(&Wish::Tell);
        wishes
    }
}

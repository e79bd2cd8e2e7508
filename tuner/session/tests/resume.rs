//! A run that ended too early goes on from its store as if nothing had happened, wherever it ended.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::fs;

use common::{GRID, Place, at_trials, nothing};
use gdrtune_session::{
    event::{Command, Event, Record, RunEnd},
    resume::{Earlier, ResumeError},
    run::RunError,
};

#[test]
fn wherever_a_run_is_cut_off_it_goes_on_to_the_same_end() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let lines = whole.records().len();
    let is_written = |record: &Record| matches!(record.event, Event::Written { .. });
    // Its paths are of the other place.
    let written = whole.records().iter().position(is_written).unwrap();
    // A prime, so that all kinds of records are last once.
    for cut in (3..written).step_by(61).chain([written]) {
        let place = Place::new();
        place.begin_as(&whole.store(), cut);
        place.resume(GRID, nothing).unwrap();
        assert_eq!(place.outcome(), whole.outcome(), "cut off after {cut} of {lines} lines");
        let seqs: Vec<u64> = place.records().iter().map(|record| record.seq).collect();
        assert_eq!(seqs, (0..=lines as u64).collect::<Vec<_>>(), "one run, with one record of the resume");
    }
}

#[test]
fn an_early_end_that_the_user_wanted_is_found_again() {
    let whole = Place::new();
    whole.run(at_trials(vec![(40, Command::Finish)])).unwrap();
    let finishing = whole.records().iter().position(|r| matches!(r.event, Event::Finishing { .. })).unwrap();
    let lines = whole.records().len();
    for cut in [finishing + 1, usize::midpoint(finishing, lines)] {
        let place = Place::new();
        place.begin_as(&whole.store(), cut);
        place.resume(GRID, nothing).unwrap();
        assert_eq!(place.outcome(), whole.outcome());
    }
    // The wish of a user who resumes counts from where the run had ended.
    let place = Place::new();
    place.begin_as(&whole.store(), finishing);
    place
        .resume(GRID, |record, controls| {
            if matches!(record.event, Event::Resumed { .. }) {
                controls.apply(Command::Finish);
            }
        })
        .unwrap();
    assert_eq!(place.outcome(), whole.outcome());
}

#[test]
fn a_run_that_the_user_ended_goes_on_and_what_its_end_made_of_the_search_is_forgotten() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    for command in [Command::Stop, Command::Kill] {
        let place = Place::new();
        assert!(matches!(place.run(at_trials(vec![(70, command.clone())])), Err(RunError::Interrupted)));
        assert!(!place.out().exists());
        assert!(
            matches!(place.resume(GRID, at_trials(vec![(90, command.clone())])), Err(RunError::Interrupted)),
            "and once more"
        );
        place.resume(GRID, nothing).unwrap();
        assert_eq!(place.outcome(), whole.outcome(), "{command:?}");
    }
}

#[test]
fn a_run_that_was_wound_up_leaves_its_best_so_far_and_goes_on_to_the_same_end() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let trials = whole.records().iter().filter(|record| matches!(record.event, Event::Trial(_))).count() as u64;
    let profile = |place: &Place| fs::read_to_string(place.out().join("profile.toml")).unwrap();
    // In the search, and in the A/B.
    for number in [70, trials - 40] {
        let place = Place::new();
        place.run(at_trials(vec![(number, Command::WindUp)])).unwrap();
        assert!(profile(&place).contains("\nunverified = true\n") && profile(&place).contains("[[rule]]"), "{number}");
        let last = place.records().pop().unwrap().event;
        assert!(matches!(last, Event::Finished { end: RunEnd::Interrupted, .. }), "{last:?}");
        place.resume(GRID, nothing).unwrap();
        assert_eq!(place.outcome(), whole.outcome(), "wound up at trial {number} of {trials}");
    }
    let place = Place::new();
    assert!(
        matches!(place.run(at_trials(vec![(0, Command::WindUp)])), Err(RunError::Interrupted)),
        "nothing is known yet"
    );
    assert!(!place.out().exists());
}

#[test]
fn what_is_not_as_it_was_is_named_and_the_store_stays_as_it_is() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let place = Place::new();
    place.begin_as(&whole.store(), 100);
    let other: String = GRID.split_inclusive('\n').filter(|line| !line.contains(",ring,ll,")).collect();
    let error = place.resume(&other, nothing).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RunError::Diverged(_)), "{text}");
    assert!(text.contains("of its store has `space`: choices["), "{text}");
    let ended = |record: &Record| matches!(record.event, Event::Finished { .. });
    assert!(!place.records().iter().any(ended), "the run can still go on where all is as it was");
    place.resume(GRID, nothing).unwrap();
    assert_eq!(place.outcome(), whole.outcome());
}

#[test]
fn a_finished_run_and_one_of_an_old_gdrtune_are_refused() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let records = whole.records();
    let error = Earlier::read(&records).unwrap_err();
    assert!(error.to_string().starts_with("run r1 has finished: "), "{error}");
    let without = |is_out: fn(&Event) -> bool| {
        let mut records: Vec<Record> = records[..100].to_vec();
        records.retain(|record| !is_out(&record.event));
        Earlier::read(&records).unwrap_err().to_string()
    };
    assert_eq!(
        without(|event| matches!(event, Event::Invoked(_))),
        "run r1 cannot be resumed: gdrtune 0, which began it, did not record how it was asked for"
    );
    assert!(without(|event| matches!(event, Event::Script { .. })).ends_with("which script its trials belong to"));
    assert_eq!(Earlier::read(&records[1..]).unwrap_err(), ResumeError::NoRun);
}

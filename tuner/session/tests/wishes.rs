//! What the user wants of a run while it goes: it is done, it is in the store, and a run that goes on finds it again.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{collections::BTreeMap, fs};

use common::{GRID, Place, at_trials, nothing};
use gdrtune_profiles::vocab::{Algorithm, Choice, Environment, Protocol};
use gdrtune_session::event::{Arm, Command, Event, Failure, Phase, Trial, TrialResult, Wish};

fn pin(knob: &str, value: &str) -> Command {
    Command::Pin { knob: knob.into(), value: Some(value.into()) }
}

fn choice(algorithm: Algorithm, protocol: Protocol, channels: u16) -> Choice {
    Choice { algorithm, protocol, channels }
}

const BUFFERS: &str = "NCCL_BUFFSIZE";

fn events(place: &Place) -> Vec<Event> {
    place.records().into_iter().map(|record| record.event).collect()
}

fn trials(events: &[Event]) -> Vec<&Trial> {
    events.iter().filter_map(|event| if let Event::Trial(trial) = event { Some(trial) } else { None }).collect()
}

/// Lines of the log that warn of a command.
fn refusals(events: &[Event]) -> Vec<&str> {
    fn refusal(event: &Event) -> Option<&str> {
        if let Event::Log { text, .. } = event { text.strip_prefix("not done: ") } else { None }
    }
    events.iter().filter_map(refusal).collect()
}

fn position(events: &[Event], is_it: impl Fn(&Event) -> bool) -> usize {
    events.iter().position(is_it).unwrap()
}

fn is_search(event: &Event) -> bool {
    matches!(event, Event::Trial(Trial { arm: Arm::Search, .. }))
}

#[test]
fn a_run_with_wishes_that_is_cut_off_goes_on_to_the_same_end() {
    let commands = || {
        vec![
            (0, Command::Skip),
            (20, Command::Skip),
            (30, Command::Drop { point: None, choice: choice(Algorithm::Ring, Protocol::Ll, 1) }),
            (60, pin(BUFFERS, "1048576")),
            (69, pin("algo", "tree")),
            (80, Command::Write),
            (90, Command::Extend { seconds: Some(20.0), trials: Some(10) }),
            (110, Command::Unpin { knob: "algo".into() }),
            (100, Command::Skip),
            // In the A/B.
            (1_058, Command::Skip),
        ]
    };
    let whole = Place::new();
    whole.run(at_trials(commands())).unwrap();
    let all = events(&whole);
    assert_eq!(refusals(&all), Vec::<&str>::new());
    let wishes = all.iter().filter(|event| matches!(event, Event::Wish { .. } | Event::Extended(_))).count();
    let is_skipped = |trial: &&&Trial| matches!(trial.result, TrialResult::Failed { kind: Failure::Skipped, .. });
    let skipped: Vec<u64> = trials(&all).iter().filter(is_skipped).map(|trial| trial.trial).collect();
    assert_eq!((wishes, skipped), (5, vec![1, 21, 101, 1_059]));

    // After each of them, where the later ones are wished for again, and at places where all were granted.
    let granted = |event: &Event| matches!(event, Event::Wish { .. } | Event::Extended(_));
    let of_wishes = (0..all.len()).filter(|at| granted(&all[*at])).map(|at| at + 1);
    let last = all.iter().rposition(granted).unwrap() + 1;
    let written = position(&all, |event| matches!(event, Event::Written { so_far: false, .. }));
    for cut in of_wishes.chain((last..written).step_by(97)) {
        let place = Place::new();
        place.begin_as(&whole.store(), cut);
        let is_new = |(trial, _): &(u64, Command)| !trials(&all[..cut]).iter().any(|shown| shown.trial == *trial);
        place.resume(GRID, at_trials(commands().into_iter().filter(is_new).collect())).unwrap();
        assert_eq!(place.outcome(), whole.outcome(), "cut off after {cut} of {} lines", all.len());
        let numbers: Vec<u64> = trials(&events(&place)).iter().map(|trial| trial.trial).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "no trial is repeated");
    }
}

#[test]
fn a_skipped_measurement_is_no_failure_and_the_default_is_measured_again() {
    let place = Place::new();
    // Both points of the first round, and a choice.
    let mut is_first = true;
    place
        .run(move |record, controls| match &record.event {
            Event::Script { .. } if std::mem::take(&mut is_first) => controls.apply(Command::Skip),
            Event::Trial(trial) if trial.trial < 6 => controls.apply(Command::Skip),
            _ => {}
        })
        .unwrap();
    let all = events(&place);
    let of_default = |trial: &&Trial| trial.arm == Arm::Default && trial.trial < 9;
    let begun: Vec<bool> =
        trials(&all).iter().copied().filter(of_default).map(|trial| trial.result.has_failed()).collect();
    assert!(begun.iter().all(|has_failed| !has_failed));
    let first = position(&all, is_search);
    let is_timed = |trial: &&Trial| matches!(trial.result, TrialResult::Timed { .. });
    let timed: Vec<_> = trials(&all[..first]).into_iter().filter(is_timed).map(|trial| trial.point).collect();
    assert!(timed.len() >= 2 && timed[0] != timed[1], "{timed:?}");
    let is_drop = |event: &Event| matches!(event, Event::Dropped { why, .. } if why.contains("skip"));
    assert!(!all.iter().any(is_drop), "nothing is said against a choice");
    assert!(place.outcome().1.len() > 100);
}

#[test]
fn a_default_that_is_always_skipped_leaves_its_point_out() {
    let place = Place::new();
    place
        .run(|record, controls| match &record.event {
            // Whatever comes first in a script of the default arm before the search.
            Event::Script { items, .. } if items.iter().all(|(_, choice, _)| choice.is_none()) => {
                controls.apply(Command::Skip);
            }
            Event::Trial(trial) if trial.arm == Arm::Default && trial.trial.is_multiple_of(2) && trial.trial < 6 => {}
            Event::Trial(trial) if trial.arm == Arm::Default && trial.trial < 5 => controls.apply(Command::Skip),
            _ => {}
        })
        .unwrap();
    let all = events(&place);
    let left_out = |event: &Event| matches!(event, Event::Log { text, .. } if text.ends_with("its default cannot be measured: skipped by the user"));
    assert_eq!(all.iter().filter(|event| left_out(event)).count(), 1);
    let points: std::collections::BTreeSet<_> =
        trials(&all).iter().filter(|trial| trial.arm == Arm::Search).map(|trial| trial.point).collect();
    assert_eq!(points.len(), 1);
}

#[test]
fn pins_hold_for_what_is_searched_from_then_on_and_for_what_ships() {
    let place = Place::new();
    let mut is_open = true;
    place
        .run(move |record, controls| match &record.event {
            Event::EnvironmentStarted { index: 1.., environment, .. }
                if environment.get(BUFFERS) != Some("1048576") && std::mem::take(&mut is_open) =>
            {
                controls.apply(pin(BUFFERS, "1048576"));
                controls.apply(pin("proto", "simple"));
            }
            _ => {}
        })
        .unwrap();
    let all = events(&place);
    assert_eq!(refusals(&all), Vec::<&str>::new());
    let is_pin = |name: &'static str| move |event: &Event| matches!(event, Event::Wish { wish: Wish::Pin { knob, .. }, .. } if knob == name);
    for trial in trials(&all[position(&all, is_pin(BUFFERS))..]).iter().filter(|trial| trial.arm == Arm::Search) {
        assert_eq!(trial.environment.get(BUFFERS), Some("1048576"), "{trial:?}");
    }
    let searched = trials(&all[position(&all, is_pin("proto"))..]);
    let protocols = searched.iter().filter(|trial| trial.arm == Arm::Search).filter_map(|trial| trial.requested);
    assert!(protocols.clone().count() > 20 && protocols.into_iter().all(|choice| choice.protocol.name() == "simple"));
    let left = |event: &Event| matches!(event, Event::EnvironmentScored { note, .. } if note == "given up early: the user pinned another value");
    assert!(all.iter().any(left));
    // What is verified has them.
    let candidates = trials(&all).into_iter().filter(|trial| trial.arm == Arm::Candidate);
    let settings: std::collections::BTreeSet<_> =
        candidates.filter_map(|trial| trial.environment.get(BUFFERS)).collect();
    assert!(settings.iter().all(|value| *value == "1048576"), "{settings:?}");
    let (files, _) = place.outcome();
    assert!(!files[0].contains("protocol = \"ll"), "{}", files[0]);
}

/// Every environment of a space.
fn environments(dimensions: &BTreeMap<String, Vec<Option<String>>>) -> Vec<Environment> {
    dimensions.iter().fold(vec![Environment::new()], |environments, (name, values)| {
        let with = |environment: &Environment, value: &Option<String>| match value {
            Some(value) => environment.clone().with(name, value),
            None => environment.clone(),
        };
        environments.iter().flat_map(|e| values.iter().map(move |value| with(e, value))).collect()
    })
}

/// Pins, all at this trial, to an environment that a run without wishes does not try; and that environment.
fn pins_to_new(whole: &Place, trial: u64) -> (Vec<(u64, Command)>, Environment) {
    whole.run(nothing).unwrap();
    let all = events(whole);
    let mut spaces = all
        .iter()
        .filter_map(|event| if let Event::Space { dimensions, .. } = event { Some(dimensions) } else { None });
    let dimensions = spaces.next().unwrap();
    let is_tried = |wanted: &Environment| {
        all.iter().any(|event| matches!(event, Event::EnvironmentStarted { environment, .. } if environment == wanted))
    };
    let untried = environments(dimensions).into_iter().rfind(|environment| !is_tried(environment)).unwrap();
    let pin = |knob: &String| Command::Pin { knob: knob.clone(), value: untried.get(knob).map(str::to_owned) };
    (dimensions.keys().map(|knob| (trial, pin(knob))).collect(), untried)
}

#[test]
fn what_is_pinned_last_is_measured_before_it_may_ship() {
    // After the search has had all its share, with the wish to end it.
    let (mut commands, untried) = pins_to_new(&Place::new(), 990);
    commands.push((990, Command::Finish));
    let place = Place::new();
    place.run(at_trials(commands)).unwrap();
    let all = events(&place);
    let wish = position(&all, |event| matches!(event, Event::Wish { .. }));
    let verify = position(&all, |event| matches!(event, Event::Phase { phase: Phase::Verify }));
    let last: Vec<_> = trials(&all[wish..verify]).into_iter().filter(|trial| trial.arm == Arm::Search).collect();
    assert!((2..40).contains(&last.len()), "{} more trials", last.len());
    assert!(last.iter().all(|trial| trial.environment == untried));
    let candidates: Vec<_> = trials(&all).into_iter().filter(|trial| trial.arm == Arm::Candidate).collect();
    assert_eq!(candidates[0].environment, untried);
    let again = Place::new();
    again.begin_as(&place.store(), verify - 2);
    again.resume(GRID, nothing).unwrap();
    assert_eq!(again.outcome(), place.outcome());
}

#[test]
fn a_pin_that_comes_too_late_to_be_measured_is_named() {
    let (commands, _) = pins_to_new(&Place::with(1_000.0, 60), 59);
    let error = Place::with(1_000.0, 60).run(at_trials(commands)).unwrap_err().to_string();
    assert!(error.starts_with("nothing was measured with NCCL_BUFFSIZE "), "{error}");
}

#[test]
fn a_choice_that_is_dropped_is_not_tried_again_and_does_not_ship() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let mut best = events(&whole).into_iter().filter_map(|event| match event {
        Event::Best { point, choice: Some(choice), .. } => Some((point, choice)),
        _ => None,
    });
    let (point, choice) = best.next_back().unwrap();
    let place = Place::new();
    place.run(at_trials(vec![(40, Command::Drop { point: Some(point), choice })])).unwrap();
    let all = events(&place);
    let dropped = position(&all, |event| {
        matches!(event, Event::Dropped { why, point: p, choice: c, .. }
            if why == "the user dropped it" && (*p, *c) == (point, choice))
    });
    let again =
        trials(&all[dropped..]).into_iter().any(|trial| trial.point == point && trial.requested == Some(choice));
    assert!(!again, "{choice} at {point}");
    let choices = fs::read_to_string(place.out().join("choices.json")).unwrap();
    let picks: serde_json::Value = serde_json::from_str(&choices).unwrap();
    let pick = picks.as_array().unwrap().iter().find(|pick| pick["bytes"] == point.bytes).unwrap();
    let text = format!("{}/{}/{}", pick["choice"]["algorithm"], pick["choice"]["protocol"], pick["choice"]["channels"]);
    assert_ne!(text.replace('"', ""), choice.to_string());
}

/// When to give a command, and which.
type Moment = (fn(&Event) -> bool, Command);

#[test]
fn what_is_added_to_the_budget_is_used() {
    let ran = |place: Place, at: Option<Moment>| {
        let mut at = at;
        place
            .run(move |record, controls| {
                if let Some((_, command)) = at.take_if(|(is_it, _)| is_it(&record.event)) {
                    controls.apply(command);
                }
            })
            .unwrap();
        let all = events(&place);
        let verify = position(&all, |event| matches!(event, Event::Phase { phase: Phase::Verify }));
        let clock = |event: &Event| if let Event::ScriptEnded { clock_s, .. } = event { Some(*clock_s) } else { None };
        let clock = all[..verify].iter().rev().find_map(clock).unwrap();
        let of_search = trials(&all[..verify]).len();
        let environments = all.iter().filter(|event| matches!(event, Event::EnvironmentStarted { .. })).count();
        (clock, of_search, environments, all)
    };
    let is_trial = |event: &Event| matches!(event, Event::Trial(trial) if trial.trial == 20);
    // The solver is through by then: what is left is for the best that there is.
    let is_late = |event: &Event| matches!(event, Event::Trial(trial) if trial.trial == 56);
    let seconds = || Command::Extend { seconds: Some(20.0), trials: None };
    let (short_s, _, few, _) = ran(Place::with(12.0, 1_000), None);
    let (long_s, _, more, all) = ran(Place::with(12.0, 1_000), Some((is_trial, seconds())));
    assert!(short_s < 9.0 && short_s + 6.0 < long_s && few < more, "{short_s} {long_s}, {few} {more} environments");
    let extended =
        all.iter().find_map(|event| if let Event::Extended(extension) = event { Some(extension) } else { None });
    let extended = extended.unwrap();
    assert_eq!((extended.seconds, extended.budget_s, extended.max_trials), (Some(20.0), Some(32.0), Some(1_000)));
    assert_eq!(extended.to_string(), "budget extended: 20 s more, 32 s in all");

    let trials = || Command::Extend { seconds: None, trials: Some(100) };
    let (_, short, few, _) = ran(Place::with(1_000.0, 60), None);
    for at in [is_trial, is_late] {
        let (_, long, more, _) = ran(Place::with(1_000.0, 60), Some((at, trials())));
        assert!(short <= 60 && 100 < long && long <= 160 && few < more, "{short} {long}, {few} {more} environments");
    }
}

#[test]
fn what_cannot_be_done_is_answered() {
    let place = Place::new();
    let commands = vec![
        (30, pin("NCCL_BUFSIZE", "1048576")),
        (30, pin(BUFFERS, "1048577")),
        (31, pin("proto", "ll")),
        (31, Command::Unpin { knob: "algo".into() }),
        (31, Command::Drop { point: None, choice: choice(Algorithm::Nvls, Protocol::Simple, 8) }),
        (31, Command::Extend { seconds: None, trials: Some(0) }),
    ];
    place.run(at_trials(commands)).unwrap();
    let all = events(&place);
    let refused = refusals(&all);
    for (text, begin) in refused.iter().zip([
        "NCCL_BUFSIZE is not searched here: pin one of NCCL_BUFFSIZE, ",
        "NCCL_BUFFSIZE = 1048577 is not searched here: its values are unset, ",
        "algo is not pinned",
        "nvls/simple/8 is not searched here",
    ]) {
        assert!(text.starts_with(begin), "{text}");
    }
    assert_eq!(refused.len(), 4);
    let granted = all.iter().filter(|event| matches!(event, Event::Wish { .. } | Event::Extended(_))).count();
    assert_eq!(granted, 1);
    // The same in the A/B, where nothing is searched.
    let last = trials(&all).len() as u64 - 30;
    let place = Place::new();
    place.run(at_trials(vec![(31, pin("proto", "ll")), (last, pin("algo", "ring"))])).unwrap();
    assert_eq!(refusals(&events(&place)), ["the search is over, and what it found is being verified"]);
}

#[test]
fn what_there_is_so_far_is_written_and_changes_nothing() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let place = Place::new();
    let last = trials(&events(&whole)).len() as u64 - 30;
    place.run(at_trials([0, 70, 90, last].map(|trial| (trial, Command::Write)).to_vec())).unwrap();
    assert_eq!(place.outcome().0, whole.outcome().0, "the result is the same");
    let all = events(&place);
    let so_far = all.iter().filter(|event| matches!(event, Event::Written { so_far: true, .. })).count();
    assert_eq!(so_far, 3, "nothing was known at the first");
    let text = fs::read_to_string(place.out().join("unverified/profile.toml")).unwrap();
    assert!(text.contains("\nunverified = true\n") && text.contains("[[rule]]"), "{text}");
    let summary = fs::read_to_string(place.out().join("unverified/summary.md")).unwrap();
    assert!(summary.contains("the run goes on: what the search took for best so far"), "{summary}");
    let decisions = |place: &Place| {
        let is_decision =
            |event: &Event| !matches!(event, Event::Written { .. } | Event::Log { .. } | Event::Invoked(_));
        events(place).into_iter().filter(is_decision).collect::<Vec<_>>()
    };
    assert_eq!(decisions(&place), decisions(&whole));
}

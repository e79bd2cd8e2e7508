//! What the UI says of a run's state and gains must be what the run does and ships.

use gdrtune_profiles::{
    profile::Profile,
    vocab::{Choice, Point},
};
use gdrtune_session::event::{Decision, RunEnd, Wish};

use super::*;
use crate::ui::run::Gain;

const PROFILE: &str = include_str!("../../../../profiles/tests/golden/nccl.toml");

fn tell(state: &mut State, event: Event) {
    feed(state, [&Record { seq: 0, t_ms: 0, event }]);
}

/// A verified run whose A/B found every point twice as fast, and the profile that it wrote.
fn judged(change: impl FnOnce(&mut Profile)) -> State {
    let mut state = verifying((120, 40));
    let speedup = gdrtune_profiles::profile::Speedup { median: 2.0, low: 1.9, high: 2.1, p_faster: 1.0, repeats: 9 };
    let points: Vec<Point> = state.run.summary.points.keys().copied().collect();
    for point in points {
        let (default_us, tuned_us, decision) = (20.0, 10.0, Decision::Ship);
        tell(&mut state, Event::Verdict { point, speedup, default_us, tuned_us, decision, note: String::new() });
    }
    tell(&mut state, Event::Phase { phase: Phase::Write });
    let (mut profile, _) = Profile::parse(PROFILE, "nccl.toml").unwrap();
    profile.run.unverified = false;
    change(&mut profile);
    tell(&mut state, Event::Profile { profile: Box::new(profile), left_out: Vec::new() });
    state
}

fn n_shipping(state: &State) -> u64 {
    state.run.summary.verdicts().ship
}

#[test]
fn a_point_ships_only_where_the_profile_does() {
    let state = judged(|profile| (profile.env, profile.rule) = (Vec::new(), Vec::new()));
    assert_eq!(n_shipping(&state), 0);
    assert!(matches!(state.run.summary.gain(), Some(Gain::Verified { median, .. }) if (median - 1.0).abs() < 1e-9));

    let all = state.run.summary.points.len() as u64;
    assert_eq!(n_shipping(&judged(|profile| profile.rule.clear())), all, "settings reach every size");
    let of_rules = n_shipping(&judged(|profile| profile.env.clear()));
    assert!(0 < of_rules && of_rules < all, "rules reach theirs: {of_rules} of {all}");
}

#[test]
fn nothing_ships_of_a_run_whose_defaults_are_best() {
    let mut state = judged(|_| {});
    assert!(0 < n_shipping(&state));
    tell(&mut state, Event::Finished { end: RunEnd::DefaultsBest, summary: String::new() });
    assert_eq!(n_shipping(&state), 0);
}

#[test]
fn what_the_user_dropped_is_no_best_any_more() {
    let mut state = searching((120, 40));
    let bests = |state: &State| -> Vec<(Point, Choice)> {
        let points = state.run.summary.points.iter();
        points.filter_map(|(point, series)| Some((*point, series.best.as_ref()?.choice?))).collect()
    };
    let before = bests(&state);
    let (point, choice) = before[0];
    tell(&mut state, Event::Wish { question: 0, wish: Wish::Drop { point: Some(point), choice } });
    assert_eq!(bests(&state), before[1..], "at that point");
    tell(&mut state, Event::Wish { question: 1, wish: Wish::Drop { point: None, choice } });
    assert!(bests(&state).iter().all(|(_, best)| *best != choice), "at all of them");
}

#[test]
fn a_run_that_goes_on_is_in_the_phase_in_which_it_was_ended() {
    let mut state = searching((120, 40));
    let before = (state.run.summary.phase, state.run.summary.environment.clone());
    for _ in 0..2 {
        tell(&mut state, Event::Phase { phase: Phase::Done });
        tell(&mut state, Event::Finished { end: RunEnd::Interrupted, summary: String::new() });
        let by = gdrtune_session::event::Owner { pid: 1, host: "head".to_owned() };
        tell(&mut state, Event::Resumed { at: String::new(), trials: 1, by });
        assert_eq!((state.run.summary.phase, state.run.summary.environment.clone()), before);
    }
    press(&mut state, "F");
    assert!(state.view.overlay.is_some(), "its search can be finished");
}

//! What a run tells that would ship is what it writes, whenever it ends.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::{fs, path::PathBuf};

use gdrtune_profiles::{bindings::ceilings::Ceilings, profile::Profile, setting::SpaceSettings, space::SpaceFile};
use gdrtune_session::{
    control::Controls,
    event::{Arm, Command, Event, Invocation, Phase, Record},
    offline::{OfflineRequest, SimRequest},
    output::{Existing, OutputDir},
    recorder::Recorder,
    run::{self, Goal, OUTPUT_FILES, RunConfig, Target},
    store::{self, RunWriter},
};
use gdrtune_tuner::search::Strategy;

const RUN: &str = "r1";

/// Records and profile of a run.
struct Ran {
    records: Vec<Record>,
    written: Profile,
}

/// Tunes a simulated cluster. `hear` may give a command.
fn tune(cluster: &str, mut hear: impl FnMut(&Event) -> Option<Command> + Send + 'static) -> Ran {
    let place = tempfile::tempdir().unwrap();
    let out: PathBuf = place.path().join("out");
    let request = SimRequest::preset(cluster).unwrap();
    let config = RunConfig {
        run_id: RUN.into(),
        tool: "0".into(),
        points: request.points(),
        target: Target::Offline(OfflineRequest::Sim(request)),
        shapes: Vec::new(),
        goal: Goal::default(),
        space: SpaceFile::preset(SpaceFile::STANDARD).unwrap(),
        settings: SpaceSettings::default(),
        ceilings: Ceilings::default(),
        budget_s: Some(60.0),
        max_trials: Some(1_500),
        strategy: Strategy::Auto,
        min_lease_ms: 1_000,
        seed: 4,
        out: OutputDir::claim(&out, OUTPUT_FILES, Existing::Refuse).unwrap(),
        invocation: Invocation { args: vec!["tune".into()], ..Invocation::default() },
    };
    let controls = Controls::new();
    let told = controls.clone();
    let listener = Box::new(move |record: &Record| {
        if let Some(command) = hear(&record.event) {
            told.apply(command);
        }
    });
    let recorder = Recorder::new(RunWriter::create(place.path(), RUN).unwrap(), listener);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    run::tune(&config, None, &recorder, &controls, runtime.handle()).unwrap();
    let text = fs::read_to_string(out.join("profile.toml")).unwrap();
    Ran {
        records: store::read_run(&place.path().join("r1.jsonl")).unwrap().records,
        written: Profile::parse(&text, "profile.toml").unwrap().0,
    }
}

/// Every profile that was told, and whether that was before the verification.
fn told(ran: &Ran) -> Vec<(bool, Profile)> {
    let mut is_searching = true;
    let mut told = Vec::new();
    for record in &ran.records {
        match &record.event {
            Event::Phase { phase: Phase::Verify } => is_searching = false,
            Event::Profile { profile, .. } => told.push((is_searching, (**profile).clone())),
            _ => {}
        }
    }
    told
}

/// Ends a run at the first measurement of its candidate.
fn at_the_candidate(event: &Event) -> Option<Command> {
    matches!(event, Event::Trial(trial) if trial.arm == Arm::Candidate).then_some(Command::WindUp)
}

#[test]
fn what_is_told_is_what_is_written() {
    for cluster in ["tcp-buffers", "bimodal-channels"] {
        let whole = tune(cluster, |_| None);
        let drafts: Vec<Profile> = told(&whole).into_iter().filter(|told| told.0).map(|(_, profile)| profile).collect();
        let scored = |record: &&Record| matches!(record.event, Event::EnvironmentScored { .. });
        let n_scored = whole.records.iter().filter(scored).count();
        assert!(1 < drafts.len() && drafts.len() <= n_scored + 1, "{} drafts, {n_scored} scores", drafts.len());
        assert!(drafts.iter().all(|draft| draft.run.unverified));
        let candidate = tune(cluster, at_the_candidate);
        assert!(candidate.written.run.unverified);
        assert_eq!(drafts.last(), Some(&candidate.written), "{cluster}: what the A/B is given");
        assert_eq!(told(&whole).pop(), Some((false, whole.written)), "{cluster}");
    }
}

#[test]
fn a_run_that_is_wound_up_tells_what_it_writes() {
    // In the search, and in the A/B.
    for number in [100, 250, 420] {
        let is_then = move |event: &Event| matches!(event, Event::Trial(trial) if trial.trial == number);
        let ran = tune("tcp-buffers", move |event| is_then(event).then_some(Command::WindUp));
        assert!(ran.written.run.unverified);
        let last = told(&ran).pop().map(|(_, profile)| profile);
        assert_eq!(last, Some(ran.written), "{number}");
    }
}

#[test]
fn where_the_defaults_are_best_nothing_would_ship() {
    let ran = tune("defaults-best", |_| None);
    let (_, last) = told(&ran).pop().unwrap();
    assert_eq!((last.env.len(), last.rule.len(), last.run.unverified), (0, 0, false));
    assert_eq!(last, ran.written);
}

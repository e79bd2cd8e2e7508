//! A whole course on a simulated cluster, and what the planted truth says of its result: search, candidate, interleaved A/B
//! through emitted files, verdict. Shared by the tests and by the example `sim_truth`.

use std::sync::Arc;

use gdrtune_profiles::{
    emit::{EmitOptions, Format, emit},
    grammar::{
        env_file,
        tuner_csv::{Call, RuleTable},
    },
    knob,
    profile::{Baseline, Class, EnvSetting, FORMAT, Profile, Rule, Run, Speedup},
    vocab::{Choice, Engine, Environment, Point},
};
use gdrtune_tuner::{
    bench::{Bench, BenchInfo, Cancel, Setup},
    deployment::Deployment,
    objective::{Objective, WeightedPoint},
    observe::{Directive, Note, Observer},
    plan::{Candidate, CandidateRule},
    race::{Predictions, RaceConfig},
    search::{SearchOutcome, SearchPlan, Strategy, run_search},
    sim::{Cluster, SimConfig, Simulated},
    steadiness::{Steadiness, Unsteady},
    verdict::{Thresholds, Verdict},
    verify::{Deployer, Verification, Verified},
};

/// Most trials of a search.
pub(crate) const TRIALS: u64 = 4_000;
/// Simulated time of a whole course, in seconds, and the search's share of it.
pub(crate) const BUDGET_S: f64 = 3_600.0;
const SEARCH_SHARE: f64 = 0.6;
/// What a covered point may lose before a setting truly loses: less than any measurement tells.
const LOSS: f64 = 1.005;

/// What came of one course.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// Where the result is not the planted truth, in sentences; empty if it was found.
    pub(crate) missed: Vec<String>,
    /// Points where what ships is truly slower than the default.
    pub(crate) losing: Vec<String>,
    /// What ships.
    pub(crate) shipped: String,
    /// Whether anything ships.
    pub(crate) ships: bool,
    /// Samples of the search.
    pub(crate) trials: u64,
    /// Environments that were tried.
    pub(crate) environments: usize,
    /// Simulated seconds of the whole course.
    pub(crate) simulated_s: f64,
    /// What did not hold still.
    pub(crate) unsteady: Vec<Unsteady>,
    /// Why the verification left things out.
    pub(crate) left_out: Vec<String>,
}

/// Tunes a cluster and compares with its truth.
pub(crate) fn tune(cluster: &Cluster, seed: u64) -> Report {
    let mut bench = bench(cluster, seed);
    let (outcome, verified, steadiness) = course(&mut bench, seed);
    let unsteady = steadiness.findings();
    Report { unsteady, ..judge(&bench, &outcome, &verified) }
}

/// A cluster at the start of a run.
pub(crate) fn bench(cluster: &Cluster, seed: u64) -> Simulated {
    let config = SimConfig { seed: seed.wrapping_add(1_000), read_deployment: Some(read_deployment) };
    Simulated::new(cluster.clone(), config)
}

/// The search's plan for a cluster.
pub(crate) fn plan(cluster: &Cluster, seed: u64) -> SearchPlan {
    SearchPlan {
        points: WeightedPoint::equal(cluster.truth.points()),
        objective: Objective::GeometricMean,
        budget_trials: TRIALS,
        budget_s: SEARCH_SHARE * BUDGET_S,
        strategy: Strategy::Auto,
        seed,
        least_gain: Thresholds::standard(seed).gain,
        race: RaceConfig::standard(seed),
        predictions: Predictions::new(),
    }
}

fn course(bench: &mut Simulated, seed: u64) -> (SearchOutcome, Verified, Steadiness) {
    let (space, plan, cancel) = (bench.space(), plan(bench.cluster(), seed), Cancel::new());
    let mut files = Files::of(bench);
    let outcome = run_search(bench, &space, &plan, &mut files, &cancel).unwrap_or_else(|error| panic!("{error}"));
    let verified = verify(bench, &outcome, &mut files, seed, BUDGET_S);
    (outcome, verified, files.steadiness)
}

/// Verifies what a search found, in simulated time until `until_s`.
pub(crate) fn verify(
    bench: &mut Simulated,
    outcome: &SearchOutcome,
    files: &mut Files,
    seed: u64,
    until_s: f64,
) -> Verified {
    let (weights, cancel) = (WeightedPoint::equal(bench.cluster().truth.points()), Cancel::new());
    let verification = Verification {
        outcome,
        weights: &weights,
        objective: Objective::GeometricMean,
        seed,
        until_s,
        cancel: &cancel,
    };
    verification.run(bench, files).unwrap_or_else(|error| panic!("{error}"))
}

fn judge(bench: &Simulated, outcome: &SearchOutcome, verified: &Verified) -> Report {
    let truth = &bench.cluster().truth;
    let (environment, rules) = (verified.environment(), verified.rules());
    let shipped = |point: Point| rules.iter().find(|r| r.rule.covers(point)).map(|r| r.rule.choice);
    let ratio = |point: Point| {
        let default_us = bench.truth_us(&Environment::new(), point, None);
        default_us / bench.truth_us(&environment, point, shipped(point))
    };
    let mut report = Report {
        shipped: show(&environment, rules.iter().map(|r| &r.rule)),
        ships: !verified.keeps_defaults(),
        trials: outcome.trials,
        environments: outcome.environments.len(),
        simulated_s: bench.now_s(),
        left_out: verified.left_out.clone(),
        ..Report::default()
    };
    if environment != truth.environment {
        report.missed.push(format!("environment {environment} instead of {}", truth.environment));
    }
    if truth.nothing && report.ships {
        report.missed.push(format!("something ships: {}", report.shipped));
    }
    for gain in &truth.gains {
        let point = Point { collective: gain.collective, bytes: gain.bytes.0 };
        let found = ratio(point);
        if found < gain.least.0 {
            report.missed.push(format!("{point}: {found:.3}x instead of {:.2}x", gain.least.0));
        }
    }
    for point in truth.points() {
        let chosen = shipped(point);
        if truth.never.iter().any(|never| chosen.is_some() && never.contain(&environment, point, chosen)) {
            report.missed.push(format!("{point} runs what must never ship"));
        }
        if !environment.is_empty() || chosen.is_some() {
            let found = ratio(point);
            if found * LOSS < 1.0 {
                report.losing.push(format!("{point}: {found:.3}x"));
            }
        }
    }
    report
}

fn show<'a>(environment: &Environment, rules: impl Iterator<Item = &'a CandidateRule>) -> String {
    let rule = |rule: &CandidateRule| {
        let sizes = rule.sizes.iter().map(|&bytes| gdrtune_profiles::size::Size(bytes).to_string());
        format!("{} {} {}", rule.collective, sizes.collect::<Vec<_>>().join(","), rule.choice)
    };
    let rules: Vec<String> = rules.map(rule).collect();
    format!("{environment}; {}", if rules.is_empty() { "no rule".to_owned() } else { rules.join("; ") })
}

/// Emits the files of candidates, and watches whether the cluster holds still.
pub(crate) struct Files {
    info: BenchInfo,
    steadiness: Steadiness,
}

impl Files {
    pub(crate) fn of(bench: &Simulated) -> Self {
        Self { info: bench.info(), steadiness: Steadiness::default() }
    }
}

impl Observer for Files {
    fn note(&mut self, note: Note<'_>) {
        self.steadiness.note(&note);
    }

    fn directive(&mut self) -> Directive {
        Directive::Continue
    }
}

impl Deployer for Files {
    type Error = String;

    fn deploy(&mut self, candidates: &[Candidate]) -> Result<Vec<Setup>, String> {
        let options = EmitOptions { for_engine: Some(Engine::Sim), ..EmitOptions::plain() };
        let setup = |candidate: &Candidate| {
            let profile = profile(&self.info, candidate);
            let file = |format: Format| {
                let text = emit(&profile, format, &options).map_err(|error| error.to_string())?;
                Ok((format.file_name().to_owned(), text))
            };
            let files: Vec<(String, String)> =
                [Format::Env, Format::TunerCsv].into_iter().map(file).collect::<Result<_, String>>()?;
            Ok(Setup::Deployed(Arc::from(files)))
        };
        candidates.iter().map(setup).collect()
    }

    fn failed(&mut self, _: &str) {}

    fn judged(&mut self, _: &Verdict) {}
}

fn profile(info: &BenchInfo, candidate: &Candidate) -> Profile {
    let setting = |(name, value): (&str, &str)| EnvSetting {
        name: name.to_owned(),
        value: value.to_owned(),
        class: knob::knob(name).map_or(Class::Debugging, |knob| knob.class),
        speedup: None,
        why: String::new(),
    };
    let rule = |rule: &CandidateRule| Rule {
        collective: rule.collective,
        nodes: info.nodes,
        ranks: info.ranks,
        bytes: rule.bytes,
        algorithm: rule.choice.algorithm,
        protocol: rule.choice.protocol,
        channels: Some(rule.choice.channels),
        default_us: 1.0,
        tuned_us: 1.0,
        speedup: Speedup { median: 1.0, low: 1.0, high: 1.0, p_faster: 0.5, repeats: 1 },
    };
    Profile {
        format: FORMAT,
        cluster: gdrtune_profiles::profile::Cluster {
            nodes: info.nodes,
            ranks: info.ranks,
            gpu: None,
            nccl: None,
            fingerprint: "sha256:0".to_owned(),
        },
        run: Run {
            notes: Vec::new(),
            id: "test".to_owned(),
            tool: "test".to_owned(),
            engine: Engine::Sim,
            emulated: false,
            unverified: false,
            baseline: Baseline::Site,
            workload: "default".to_owned(),
            trials: 1,
        },
        env: candidate.environment.iter().map(setting).collect(),
        rule: candidate.rules.iter().map(rule).collect(),
    }
}

/// Reads emitted files as a job would.
pub(crate) fn read_deployment(
    files: &[(String, String)],
    points: &[Point],
    info: &BenchInfo,
) -> Result<Deployment, String> {
    let text =
        |format: Format| files.iter().find(|(name, _)| name == format.file_name()).map_or("", |(_, t)| t.as_str());
    let environment = env_file::parse(text(Format::Env)).map_err(|error| error.to_string())?;
    let (rules, problems) = RuleTable::parse(text(Format::TunerCsv));
    if let Some(problem) = problems.first() {
        return Err(problem.to_string());
    }
    let chosen = |point: &Point| -> Option<(Point, Choice)> {
        let call = Call::new(point.collective, point.bytes, info.nodes, info.ranks);
        Some((*point, rules.lookup(&call)?))
    };
    Ok(Deployment { environment, choices: points.iter().filter_map(chosen).collect() })
}

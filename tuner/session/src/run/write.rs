//! The profile and everything that is made from it.

use gdrtune_profiles::{
    emit::{EmitOptions, emit_all},
    knob,
    profile::{Baseline, Class, Cluster, EnvSetting, FORMAT, PointChoice, Profile, Rule, Speedup},
    vocab::{Choice, Environment},
};
use gdrtune_tuner::{
    plan::{Candidate, CandidateRule},
    search::SearchOutcome,
    verdict::{ShippedRule, Verdict},
};

use super::{
    Run, RunError, facts,
    summary::{PointVerdict, Summary},
    verify::{self, Verified},
};
use crate::cluster::CallMode;

/// Every file of an output folder, in the order in which they are written.
pub const OUTPUT_FILES: &[&str] = &[
    "profile.toml",
    "profile.sh",
    "profile.env",
    "nccl.conf",
    "nccl-tuner.csv",
    "profile.json",
    "choices.json",
    "summary.md",
];

/// Name and text of every output file.
pub(super) fn files(
    run: &Run<'_>,
    outcome: &SearchOutcome,
    verified: &Verified,
    emulated: bool,
) -> Result<Vec<(String, String)>, RunError> {
    let internal = |error: String| RunError::Internal(error);
    let profile = shipped_profile(run, outcome, verified, emulated);
    let text = profile.to_toml();
    // What is written must be what is read: the reader is the judge, also of our own profile.
    let (read_back, _) = Profile::parse(&text, "profile.toml").map_err(|error| internal(error.to_string()))?;
    if read_back != profile {
        return Err(internal("the profile does not read back as it was written".to_owned()));
    }
    let mut files = vec![("profile.toml".to_owned(), text)];
    let emitted = emit_all(&profile, &EmitOptions::plain()).map_err(|error| internal(error.to_string()))?;
    files.extend(emitted.into_iter().map(|(name, text)| (name.to_owned(), text)));
    let choices = serde_json::to_string_pretty(&choices(outcome)).map_err(|error| internal(error.to_string()))?;
    files.push(("choices.json".to_owned(), choices + "\n"));
    files.push(("summary.md".to_owned(), summary(run, &profile, verified)));
    Ok(files)
}

/// The search's pick for every point that can be chosen for, before any gate.
fn choices(outcome: &SearchOutcome) -> Vec<PointChoice> {
    let pick = |result: &gdrtune_tuner::search::PointResult| {
        let pick = &result.pick;
        Some(PointChoice {
            collective: pick.point.collective,
            bytes: pick.point.bytes,
            choice: pick.choice?,
            median_us: pick.median_us,
            samples: pick.samples,
        })
    };
    outcome.points.iter().filter_map(pick).collect()
}

/// What ships, with its evidence.
fn shipped_profile(run: &Run<'_>, outcome: &SearchOutcome, verified: &Verified, emulated: bool) -> Profile {
    let none = Environment::new();
    let environment = verified.verdict.as_ref().map_or(&none, |v| &v.shipped_environment);
    let env = environment.iter().map(|(name, value)| EnvSetting {
        name: name.to_owned(),
        value: value.to_owned(),
        class: class(name),
        speedup: setting_evidence(name, environment, verified),
    });
    let shipped: &[ShippedRule] = verified.verdict.as_ref().map_or(&[], |v| &v.shipped);
    let rule = shipped.iter().map(|s| rule(run, &s.rule, s.default_us, s.tuned_us, s.speedup));
    Profile { env: env.collect(), rule: rule.collect(), ..skeleton(run, outcome, emulated) }
}

/// A candidate as a profile, for the files that the A/B deploys. Its evidence is the search's estimate.
pub(super) fn candidate_profile(run: &Run<'_>, outcome: &SearchOutcome, candidate: &Candidate) -> Profile {
    let env = candidate.environment.iter().map(|(name, value)| EnvSetting {
        name: name.to_owned(),
        value: value.to_owned(),
        class: class(name),
        speedup: None,
    });
    let rules = candidate.rules.iter().map(|rule| estimated_rule(run, outcome, rule));
    Profile { env: env.collect(), rule: rules.collect(), ..skeleton(run, outcome, false) }
}

fn estimated_rule(run: &Run<'_>, outcome: &SearchOutcome, candidate: &CandidateRule) -> Rule {
    let results = outcome.points.iter().chain(&outcome.fallback);
    let within =
        results.filter(|result| candidate.covers(result.pick.point) && result.pick.choice == Some(candidate.choice));
    let pairs: Vec<(f64, f64)> =
        within.filter_map(|result| Some((result.default?.median_us, result.pick.median_us))).collect();
    let mean = |values: Vec<f64>| gdrtune_tuner::stats::geometric_mean(&values).unwrap_or(1.0);
    let default_us = mean(pairs.iter().map(|pair| pair.0).collect());
    let tuned_us = mean(pairs.iter().map(|pair| pair.1).collect());
    let median = default_us / tuned_us;
    // Not verified: the interval says nothing and the probability is a coin's.
    let speedup = Speedup { median, low: median, high: median, p_faster: 0.5, repeats: 1 };
    rule(run, candidate, default_us, tuned_us, speedup)
}

fn rule(run: &Run<'_>, rule: &CandidateRule, default_us: f64, tuned_us: f64, speedup: Speedup) -> Rule {
    let Choice { algorithm, protocol, channels } = rule.choice;
    Rule {
        collective: rule.collective,
        nodes: run.info.nodes,
        ranks: run.info.ranks,
        bytes: rule.bytes,
        algorithm,
        protocol,
        channels: (channels > 0).then_some(channels),
        default_us,
        tuned_us,
        speedup,
    }
}

fn class(name: &str) -> Class {
    knob::knob(name).map_or(Class::Debugging, |knob| knob.class)
}

/// A single setting has the environment's evidence; one of several has its own comparison's.
fn setting_evidence(name: &str, environment: &Environment, verified: &Verified) -> Option<Speedup> {
    let alone = environment.iter().count() == 1;
    let whole = verified.verdict.as_ref().and_then(|v: &Verdict| v.environment.as_ref()).and_then(|e| e.speedup);
    let ablated = verified.ablations.iter().find(|a| a.name == name).and_then(|a| a.speedup);
    if alone { whole } else { ablated }
}

fn skeleton(run: &Run<'_>, outcome: &SearchOutcome, emulated: bool) -> Profile {
    let report = run.probe.as_ref().map(|probe| &probe.report);
    Profile {
        format: FORMAT,
        cluster: Cluster {
            nodes: run.info.nodes,
            ranks: run.info.ranks,
            gpu: report.and_then(|report| report.device.clone()),
            nccl: report.and_then(|report| report.version.clone()),
            fingerprint: facts::fingerprint(run.config, run.inventories, report),
        },
        run: gdrtune_profiles::profile::Run {
            id: run.config.run_id.clone(),
            tool: run.config.tool.clone(),
            engine: run.config.cluster.engine,
            emulated,
            baseline: Baseline::Site,
            workload: workload(run.config.cluster.calls),
            trials: outcome.trials,
        },
        env: Vec::new(),
        rule: Vec::new(),
    }
}

/// The workload's name, with how its collectives are called.
fn workload(calls: CallMode) -> String {
    let graph = calls.graph.then_some(", CUDA graphs");
    let registered = calls.register_buffers.then_some(", registered buffers");
    ["default"].into_iter().chain(graph).chain(registered).collect()
}

fn summary(run: &Run<'_>, profile: &Profile, verified: &Verified) -> String {
    let points = verified.verdict.as_ref().map_or(&[][..], |v| &v.points);
    let verdicts: Vec<PointVerdict> = points
        .iter()
        .filter_map(|p| {
            Some(PointVerdict {
                point: p.point,
                speedup: p.speedup?,
                default_us: p.default_us?,
                tuned_us: p.tuned_us?,
                decision: verify::decision(p.decision),
            })
        })
        .collect();
    let emulated = facts::emulated(run.config, run.inventories);
    Summary {
        headline: &verified.headline(),
        place: &facts::place(run.config, run.inventories, emulated.as_deref()),
        profile,
        verdicts: &verdicts,
        left_out: &verified.left_out,
        files: OUTPUT_FILES,
    }
    .to_markdown()
}

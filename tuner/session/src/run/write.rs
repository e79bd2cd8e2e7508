//! The profile and everything that is made from it.

use gdrtune_profiles::{
    emit::{EmitOptions, emit_all},
    json::escape,
    knob,
    profile::{Baseline, Class, Cluster, EnvSetting, FORMAT, PointChoice, Profile, Rule, Speedup},
    vocab::{Choice, Environment, Point},
};
use gdrtune_tuner::{
    bench::BenchInfo,
    plan::{Candidate, CandidateRule},
    search::{PointResult, SearchOutcome},
    verdict::{PointVerdict, ShippedRule, Verdict},
};

use super::{
    Course, Goal, Run, RunError,
    course::{Results, Tuned},
    summary::{ShapeSummary, Summary},
    verify::Verified,
};
use crate::{cluster::CallMode, event::Knob, evidence::Judged};

/// Every file of an output folder, in the order in which they are written.
pub const OUTPUT_FILES: &[&str] = &[
    "profile.toml",
    "profile.sh",
    "profile.env",
    "nccl.conf",
    "nccl-tuner.csv",
    "nccl-tuner-stock.csv",
    "ncclx-tuner.csv",
    "ncclx-tuner.json",
    "rccl-tuner.csv",
    "ucc.conf",
    "mpirun-tune.conf",
    "mpirun.app",
    "slurm.sh",
    "k8s-configmap.yaml",
    "k8s-patch.yaml",
    "torchrun.sh",
    "Dockerfile.env",
    "profile.json",
    "choices.json",
    "summary.md",
];

/// Name and text of every output file; `profile` is what ships.
pub(super) fn files(
    course: &Course<'_>,
    results: &Results<'_>,
    profile: &Profile,
) -> Result<Vec<(String, String)>, RunError> {
    let internal = |error: String| RunError::Internal(error);
    let text = profile.to_toml();
    // What is written must be what is read: the reader is the judge, also of our own profile.
    let (read_back, _) = Profile::parse(&text, "profile.toml").map_err(|error| internal(error.to_string()))?;
    if read_back != *profile {
        return Err(internal("the profile does not read back as it was written".to_owned()));
    }
    let mut files = vec![("profile.toml".to_owned(), text)];
    let emitted = emit_all(profile, &EmitOptions::plain()).map_err(|error| internal(error.to_string()))?;
    files.extend(emitted.into_iter().map(|(name, text)| (name.to_owned(), text)));
    let choices = escape(serde_json::to_string_pretty(&choices(results)).map_err(|error| internal(error.to_string()))?);
    files.push(("choices.json".to_owned(), choices + "\n"));
    files.push(("summary.md".to_owned(), summary(course, results, profile)));
    Ok(files)
}

/// The search's pick for every point that can be chosen for, before any gate. Picks of several shapes say whose they are.
fn choices(results: &Results<'_>) -> Vec<PointChoice> {
    let of_shape = |tuned: &Tuned<'_>| {
        let BenchInfo { nodes, ranks, .. } = tuned.run.survey.info;
        let shape = results.of_shapes.then_some((nodes, ranks));
        let pick = |result: &PointResult| {
            let pick = &result.pick;
            Some(PointChoice {
                collective: pick.point.collective,
                bytes: pick.point.bytes,
                choice: pick.choice?,
                median_us: pick.median_us,
                samples: pick.samples,
                nodes: shape.map(|shape| shape.0),
                ranks: shape.map(|shape| shape.1),
            })
        };
        tuned.outcome.points.iter().filter_map(pick).collect::<Vec<_>>()
    };
    results.tuned.iter().flat_map(of_shape).collect()
}

/// What ships, with its evidence: the environment that all shapes agree on, and the rules of each, largest shape first.
pub(super) fn shipped_profile(course: &Course<'_>, results: &Results<'_>) -> Result<Profile, RunError> {
    let largest = results.tuned.first().ok_or_else(|| RunError::Internal("no shape was measured".to_owned()))?;
    if let Some(candidate) = &largest.unverified {
        return Ok(unverified_profile(course, &largest.run, &largest.outcome, candidate));
    }
    let environment = largest.verified.environment();
    let env = environment.iter().map(|(name, value)| EnvSetting {
        name: name.to_owned(),
        value: value.to_owned(),
        class: class(name),
        speedup: weakest_evidence(name, &environment, results),
        why: why(&largest.run, name, value),
    });
    let rules_of = |tuned: &Tuned<'_>| {
        let shipped = |s: &ShippedRule| rule(&tuned.run, &s.rule, s.default_us, s.tuned_us, s.speedup);
        tuned.verified.rules().iter().map(shipped).collect::<Vec<_>>()
    };
    let rule = results.tuned.iter().flat_map(rules_of).collect();
    let mut profile = skeleton(&largest.run, &largest.outcome, course.emulated.is_some());
    profile.run.trials = results.tuned.iter().map(|tuned| tuned.outcome.trials).sum();
    profile.run.notes.clone_from(&course.notes);
    Ok(Profile { env: env.collect(), rule, ..profile })
}

/// What the search takes for best, as it is written where the run is ended before its A/B.
pub(super) fn unverified_profile(
    course: &Course<'_>,
    run: &Run<'_>,
    outcome: &SearchOutcome,
    candidate: &Candidate,
) -> Profile {
    let mut profile = candidate_profile(run, outcome, candidate);
    (profile.run.emulated, profile.run.unverified) = (course.emulated.is_some(), true);
    profile.run.notes.clone_from(&course.notes);
    profile
}

/// A candidate as a profile, for the files that the A/B deploys. Its evidence is the search's estimate.
pub(super) fn candidate_profile(run: &Run<'_>, outcome: &SearchOutcome, candidate: &Candidate) -> Profile {
    let env = candidate.environment.iter().map(|(name, value)| EnvSetting {
        name: name.to_owned(),
        value: value.to_owned(),
        class: class(name),
        speedup: None,
        why: why(run, name, value),
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
        nodes: run.survey.info.nodes,
        ranks: run.survey.info.ranks,
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

/// What a value that binds a job to devices is on the nodes.
fn why(run: &Run<'_>, name: &str, value: &str) -> String {
    run.survey.bindings.why(name, value).unwrap_or_default().to_owned()
}

/// What a setting gained in the shape where it gained least.
fn weakest_evidence(name: &str, environment: &Environment, results: &Results<'_>) -> Option<Speedup> {
    let evidence = results.tuned.iter().filter_map(|tuned| setting_evidence(name, environment, &tuned.verified));
    evidence.min_by(|a, b| a.median.total_cmp(&b.median))
}

/// A single setting has the environment's evidence; one of several has its own comparison's.
fn setting_evidence(name: &str, environment: &Environment, verified: &Verified) -> Option<Speedup> {
    let alone = environment.iter().count() == 1;
    let whole = verified.verdict.as_ref().and_then(|v: &Verdict| v.environment.as_ref()).and_then(|e| e.speedup);
    let ablated = verified.ablations.iter().find(|a| a.name == name).and_then(|a| a.speedup);
    if alone { whole } else { ablated }
}

fn skeleton(run: &Run<'_>, outcome: &SearchOutcome, emulated: bool) -> Profile {
    let survey = &run.survey;
    Profile {
        format: FORMAT,
        cluster: Cluster {
            nodes: survey.info.nodes,
            ranks: survey.info.ranks,
            gpu: survey.gpu.clone(),
            nccl: survey.nccl.clone(),
            fingerprint: survey.fingerprint.clone(),
        },
        run: gdrtune_profiles::profile::Run {
            id: run.config.run_id.clone(),
            tool: run.config.tool.clone(),
            engine: survey.info.engine,
            emulated,
            unverified: false,
            baseline: Baseline::Site,
            workload: workload(&run.config.goal, survey.calls),
            trials: outcome.trials,
            notes: Vec::new(),
        },
        env: Vec::new(),
        rule: Vec::new(),
    }
}

/// The workload's name, with what counts as better and how its collectives are called.
fn workload(goal: &Goal, calls: CallMode) -> String {
    let graph = calls.graph.then(|| "CUDA graphs".to_owned());
    let registered = calls.register_buffers.then(|| "registered buffers".to_owned());
    goal.words().into_iter().chain(graph).chain(registered).collect::<Vec<_>>().join(", ")
}

fn summary(course: &Course<'_>, results: &Results<'_>, profile: &Profile) -> String {
    let shapes = results.tuned.iter().map(|tuned| ShapeSummary {
        shape: tuned.run.survey.shape,
        nodes: tuned.run.survey.info.nodes,
        ranks: tuned.run.survey.info.ranks,
        verdicts: judged(tuned.verified.verdict.as_ref().map_or(&[][..], |verdict| &verdict.points)),
        earlier: judged(&tuned.verified.earlier),
        knobs: tuned.outcome.importance.iter().map(Knob::from).collect(),
        losses: tuned.verified.losses(),
        warnings: &tuned.warnings,
        left_out: &tuned.verified.left_out,
    });
    Summary {
        headlines: &results.headlines(),
        place: &course.place,
        profile,
        of_shapes: results.of_shapes,
        shapes: &shapes.collect::<Vec<_>>(),
        files: OUTPUT_FILES,
    }
    .to_markdown()
}

fn judged(points: &[PointVerdict]) -> Vec<(Point, Judged)> {
    points.iter().filter_map(|point| Some((point.point, Judged::by(point)?))).collect()
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::emit::Format;

    use super::*;

    #[test]
    fn every_emitted_file_is_claimed_before_the_run() {
        let emitted: Vec<&str> = Format::ALL.iter().map(|format| format.file_name()).collect();
        let own = ["profile.toml", "choices.json", "summary.md"];
        let claimed: Vec<&str> = OUTPUT_FILES.iter().copied().filter(|name| !own.contains(name)).collect();
        assert_eq!(claimed, emitted);
    }
}

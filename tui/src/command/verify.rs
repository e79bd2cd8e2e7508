//! `gdrtune verify`: a profile against the defaults, measured again on the present cluster.

use std::io::{self, Write};

use gdrtune_profiles::{
    profile::Profile,
    vocab::{Collective, Engine, Point},
};
use gdrtune_session::{
    cluster::pace::PaceConfig,
    recheck::{self, Recheck, RecheckError, RecheckPlan},
};
use gdrtune_tuner::{
    bench::{BenchError, Cancel},
    observe::{Directive, Note, Observer},
    verdict::{Decision, PointVerdict},
};

use crate::{
    cli::{MeasureArgs, VerifyArgs},
    exit::{Exit, Failure},
};

pub(crate) fn verify(args: &VerifyArgs) -> Result<Exit, Failure> {
    let profile = super::read_profile(&args.profile)?.profile;
    if !matches!(profile.run.engine, Engine::Native | Engine::Nccl) {
        let text = format!(
            "a {} profile was not measured on a cluster, so there is nothing to measure again",
            profile.run.engine
        );
        return Err(Failure::usage_text(text));
    }
    let measure = measure_args(args, &profile);
    let all_points = super::points(&measure)?;
    let mut cluster = super::cluster(&args.hosts, &measure, &args.nccl)?;
    cluster.admission.allow_mixed = args.force;
    let (nodes, ranks) = cluster.shape();
    check_shape(&profile, nodes, ranks)?;
    let points = recheck::affected(&profile, nodes, ranks, &all_points);
    if points.is_empty() {
        let text = format!("{} changes nothing at these sizes: it keeps the defaults there", args.profile.display());
        return Err(Failure::usage_text(text).with_hint("choose others with --collectives and --sizes"));
    }
    let pace = PaceConfig { min_lease_ms: args.trial.min_lease_ms(), ..PaceConfig::default() };
    let plan = RecheckPlan { profile: &profile, points, pairs: args.pairs, seed: args.seed };
    let result = super::with_bench(&cluster, &plan.points, pace, |bench, _| {
        recheck::recheck(bench, &plan, &mut Progress::new(2 * args.pairs), &Cancel::new())
    })?;
    let result = result.map_err(|error| match &error {
        RecheckError::Emit(_) => Failure::usage(error),
        RecheckError::Bench(BenchError::Lost(_)) => Failure::new(Exit::NodesLost, error),
        RecheckError::Bench(BenchError::Cancelled) => Failure::new(Exit::Interrupted, error),
        RecheckError::Bench(BenchError::Setup { .. }) => Failure::new(Exit::Preflight, error),
    })?;
    for failure in &result.failures {
        writeln!(io::stderr(), "gdrtune: warning: {failure}")?;
    }
    if let Some(broken) = &result.broken {
        return Err(Failure::new(Exit::TrialsFailed, anyhow::anyhow!("{broken}")));
    }
    print(args, &profile, ranks, &result)?;
    Ok(match result.failures.is_empty() {
        _ if result.has_regression() => Exit::Regression,
        false => Exit::TrialsFailed,
        true => Exit::Done,
    })
}

/// What is measured: the profile's engine, and its collectives where none are given.
fn measure_args(args: &VerifyArgs, profile: &Profile) -> MeasureArgs {
    let mut collectives = args.collectives.clone();
    if collectives.is_empty() {
        collectives = profile.rule.iter().map(|rule| rule.collective).collect();
        collectives.sort_unstable();
        collectives.dedup();
    }
    if collectives.is_empty() {
        collectives.push(Collective::AllReduce);
    }
    MeasureArgs { engine: profile.run.engine, collectives, sizes: args.sizes.clone(), trial: args.trial.clone() }
}

/// Rules of another shape would match nothing, and the comparison would say that the profile does no harm.
fn check_shape(profile: &Profile, nodes: u32, ranks: u32) -> Result<(), Failure> {
    if recheck::has_shape(profile, nodes, ranks) {
        return Ok(());
    }
    let mut shapes = profile.rule_shapes();
    if shapes.is_empty() {
        shapes.push((profile.cluster.nodes, profile.cluster.ranks));
    }
    let wanted: Vec<String> = shapes.iter().map(|(nodes, ranks)| format!("{nodes} nodes with {ranks} ranks")).collect();
    let text = format!("the profile is for {}, and here are {nodes} with {ranks}", wanted.join(" or "));
    let hint = if profile.run.emulated && profile.run.engine == Engine::Nccl {
        "choose --ranks-per-node to match; it was measured with --emulate-nodes"
    } else {
        "choose hosts and --ranks-per-node to match"
    };
    Err(Failure::usage_text(text).with_hint(hint))
}

/// Says on standard error how far an A/B is.
pub(super) struct Progress {
    scripts: u32,
    total: u32,
}

impl Progress {
    /// Of so many sets of processes.
    pub(super) fn new(total: u32) -> Self {
        Self { scripts: 0, total }
    }
}

impl Observer for Progress {
    fn note(&mut self, note: Note<'_>) {
        if matches!(note, Note::Script(_)) {
            self.scripts += 1;
            // Nobody may be listening; the result is what counts.
            writeln!(io::stderr(), "process set {} of {}", self.scripts, self.total).ok();
        }
    }

    fn directive(&mut self) -> Directive {
        Directive::Continue
    }
}

const fn decision_words(decision: Decision) -> &'static str {
    match decision {
        Decision::Ship => "faster",
        Decision::Keep => "no sure difference",
        Decision::Regression => "SLOWER",
        Decision::TooNoisy => "too noisy to say",
        Decision::NotMeasured => "not measured",
    }
}

fn print(args: &VerifyArgs, profile: &Profile, ranks: u32, result: &Recheck) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        let rows: Vec<serde_json::Value> = result.points.iter().map(|point| json_row(point, ranks)).collect();
        let document = serde_json::json!({
            "schema_version": 1,
            "profile": profile.run.id,
            "engine": profile.run.engine,
            "ranks": ranks,
            "emulated": args.nccl.emulate_nodes,
            "pairs": result.pairs,
            "regression": result.has_regression(),
            "points": rows,
        });
        return writeln!(out, "{document:#}");
    }
    let emulated = if args.nccl.emulate_nodes { ", EMULATED nodes" } else { "" };
    writeln!(
        out,
        "# profile {}: {} process pairs, {ranks} ranks, engine {}{emulated}",
        profile.run.id, result.pairs, profile.run.engine
    )?;
    writeln!(
        out,
        "# {:>13} {:>12} {:>12} {:>12} {:>9}  {:>15} {:>10}  verdict",
        "collective", "size (B)", "default us", "profile us", "speed-up", "90 % interval", "P(faster)"
    )?;
    for PointVerdict { point, decision, speedup, default_us, tuned_us, noise, .. } in &result.points {
        write!(out, "  {:>13} {:>12} ", point.collective, point.bytes)?;
        match (speedup, default_us, tuned_us) {
            (Some(s), Some(default_us), Some(tuned_us)) => writeln!(
                out,
                "{default_us:>12.1} {tuned_us:>12.1} {:>8.2}x  {:>6.2} to {:>5.2} {:>10.3}  {}{}",
                s.median,
                s.low,
                s.high,
                s.p_faster,
                decision_words(*decision),
                noise.map(|noise| format!(": {noise}")).unwrap_or_default()
            )?,
            _ => writeln!(out, "{}", decision_words(*decision))?,
        }
    }
    Ok(())
}

fn json_row(verdict: &PointVerdict, ranks: u32) -> serde_json::Value {
    let Point { collective, bytes } = verdict.point;
    let busbw = |time_us: Option<f64>| time_us.map(|time_us| collective.busbw_gbs(ranks, bytes, time_us));
    serde_json::json!({
        "collective": collective,
        "bytes": bytes,
        "default_us": verdict.default_us,
        "profile_us": verdict.tuned_us,
        "default_busbw_gbs": busbw(verdict.default_us),
        "profile_busbw_gbs": busbw(verdict.tuned_us),
        "speedup": verdict.speedup,
        "verdict": decision_words(verdict.decision),
    })
}

//! `gdrtune verify`: a profile against the defaults, measured again on the present cluster.

mod report;

use std::io::{self, Write};

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{
    profile::Profile,
    vocab::{Collective, Engine, Environment},
};
use gdrtune_session::{
    cluster::{ClusterBench, pace::PaceConfig},
    evidence::Judged,
    fit,
    hardware::Difference,
    open::Present,
    recheck::{self, Recheck, RecheckError, RecheckPlan},
    run::began_at,
    verifications::{self, Asked, SCHEMA_VERSION, Verification, VerifiedPoint},
};
use gdrtune_tuner::{
    bench::{BenchError, Cancel},
    observe::{Directive, Note, Observer, Silent},
    verdict::PointVerdict,
};

use super::runs::age_of;
use crate::{
    cli::{MeasureArgs, VerifyArgs},
    exit::{Exit, Failure},
    hosts::Place,
    paths,
    ui::ago,
};

/// Measures again, and keeps what came of it.
///
/// # Errors
/// Wrong use: a profile that says nothing of this cluster. Preflight: hosts that cannot be used, or have other GPUs.
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
    let hear = |place: &Place| if args.quiet { super::warn_of(place) } else { super::announce(place) };
    let mut cluster = super::cluster_heard(&args.hosts, &measure, &args.nccl, &hear)?;
    cluster.admission.allow_mixed = args.force;
    let (nodes, ranks) = cluster.shape();
    check_shape(&profile, nodes, ranks)?;
    let points = recheck::affected(&profile, nodes, ranks, &all_points);
    if points.is_empty() {
        let text = format!("{} changes nothing at these sizes: it keeps the defaults there", args.profile.display());
        let failure = Failure::usage_text(text);
        // Where nothing is set, there are no others.
        let sets_nothing = profile.env.is_empty() && profile.rule.is_empty();
        return Err(if sets_nothing {
            failure
        } else {
            failure.with_hint("choose others with --collectives and --sizes")
        });
    }
    let asked = Asked {
        points: points.iter().copied().collect(),
        data_type: measure.sizes.data_type,
        emulated: args.nccl.emulate_nodes,
        graph: args.nccl.calls.graph,
        register_buffers: args.nccl.calls.register_buffers,
    };
    if let Some(limit_s) = args.if_older_than
        && let Some(exit) = recent(args, &profile, &asked, (nodes, ranks), limit_s)?
    {
        return Ok(exit);
    }
    let pace = PaceConfig { min_lease_ms: args.trial.min_lease_ms(), ..PaceConfig::default() };
    let plan = RecheckPlan { profile: &profile, points, pairs: args.pairs, seed: args.seed };
    let id = Verification::new_id();
    let measured =
        super::with_bench(&cluster, &plan.points, pace, |bench, present| measure_again(args, &plan, bench, present))??;
    for failure in &measured.result.failures {
        super::say(&format!("warning: {failure}"));
    }
    if let Some(broken) = &measured.result.broken {
        return Err(Failure::new(Exit::TrialsFailed, anyhow::anyhow!("{broken}")));
    }
    keep(&profile, &measured.verification(&profile, id, asked, (nodes, ranks)));
    report::print(args, &profile, ranks, &measured)?;
    Ok(match measured.result.failures.is_empty() {
        _ if measured.result.has_regression() => Exit::Regression,
        false => Exit::TrialsFailed,
        true => Exit::Done,
    })
}

/// What came of it, and where.
struct Measured {
    result: Recheck,
    /// What is otherwise than where the profile was measured.
    differences: Vec<Difference>,
    hosts: String,
    nccl: Option<String>,
}

fn measure_again(
    args: &VerifyArgs,
    plan: &RecheckPlan<'_>,
    bench: &mut ClusterBench<'_>,
    present: &Present,
) -> Result<Measured, Failure> {
    let cancel = Cancel::new();
    let report = match plan.profile.run.engine {
        // One call is enough for NCCL to say what it is.
        Engine::Nccl => {
            let first = plan.points.get(..1).unwrap_or_default();
            Some(bench.probe(Environment::new(), first, &cancel).map_err(|error| failure(error.into()))?.report)
        }
        _ => None,
    };
    if let Some(Difference { from, to, .. }) = fit::gpu(plan.profile, report.as_ref()).filter(|_| !args.force) {
        let text = format!("the profile is of another GPU: {from}, and here is {to}");
        let refused = Failure::new(Exit::Preflight, anyhow::Error::msg(text));
        return Err(refused.with_hint("tune here, or measure all the same with --force"));
    }
    // The store of the profile's run only says more.
    let records = super::records_of(plan.profile).ok();
    let differences = fit::differences(plan.profile, records.as_deref(), present, report.as_ref());
    for difference in &differences {
        super::say(&format!("warning: {}", difference_words(difference)));
    }
    let (mut progress, mut silent) = (Progress::new(2 * args.pairs), Silent);
    let observer: &mut dyn Observer = if args.quiet { &mut silent } else { &mut progress };
    let result = recheck::recheck(bench, plan, observer, &cancel).map_err(failure)?;
    let names: Vec<&str> = present.request.hosts.iter().map(|host| host.name.as_str()).collect();
    let nccl = report.and_then(|report| report.version);
    Ok(Measured { result, differences, hosts: fold(&names), nccl })
}

fn failure(error: RecheckError) -> Failure {
    match &error {
        RecheckError::Emit(_) => Failure::usage(error),
        RecheckError::Bench(BenchError::Lost(_)) => Failure::new(Exit::NodesLost, error),
        RecheckError::Bench(BenchError::Cancelled) => Failure::new(Exit::Interrupted, error),
        RecheckError::Bench(BenchError::Setup { .. }) => Failure::new(Exit::Preflight, error),
    }
}

fn difference_words(Difference { what, from, to }: &Difference) -> String {
    if *what == fit::FINGERPRINT {
        return "the nodes are not those of the profile: CPUs, kernel, interfaces or ranks (its fingerprint is another)".to_owned();
    }
    format!("{what}: the profile was measured with {from}, and here is {to}")
}

impl Measured {
    fn verification(&self, profile: &Profile, id: String, asked: Asked, (nodes, ranks): (u32, u32)) -> Verification {
        let verified = |point: &PointVerdict| {
            let Judged { speedup, default_us, tuned_us: profile_us, decision, .. } = Judged::by(point)?;
            Some(VerifiedPoint { point: point.point, default_us, profile_us, speedup, decision })
        };
        Verification {
            schema_version: SCHEMA_VERSION,
            id,
            run: profile.run.id.clone(),
            engine: profile.run.engine,
            hosts: self.hosts.clone(),
            nodes,
            ranks,
            nccl: self.nccl.clone(),
            pairs: self.result.pairs,
            asked: Some(asked),
            differences: self.differences.iter().map(difference_words).collect(),
            failures: self.result.failures.clone(),
            points: self.result.points.iter().filter_map(verified).collect(),
        }
    }
}

/// Keeps a verification for the profile's course. It was measured whether or not that works.
fn keep(profile: &Profile, verification: &Verification) {
    let kept = paths::verifications_dir().and_then(|dir| {
        verifications::keep(&dir, profile, verification).map_err(|error| Failure::from(anyhow::Error::from(error)))
    });
    if let Err(failure) = kept {
        super::say(&format!("warning: not kept for the profile's course: {:#}", failure.error));
    }
}

/// The last verification of what is `asked` at this shape, where it is no older than `limit_s`: it is told again, and so is its
/// exit code.
fn recent(
    args: &VerifyArgs,
    profile: &Profile,
    asked: &Asked,
    shape: (u32, u32),
    limit_s: f64,
) -> Result<Option<Exit>, Failure> {
    let kept = verifications::kept(&paths::verifications_dir()?, profile).map_err(anyhow::Error::from)?;
    let Some(last) = kept.all.iter().rev().find(|one| one.answers(asked, shape, args.pairs)) else {
        return Ok(None);
    };
    // One of a time that is yet to come is none to rely on.
    let Some(age_s) = began_at(&last.id).and_then(age_of) else { return Ok(None) };
    if limit_s < age_s as f64 {
        return Ok(None);
    }
    let age = ago(age_s);
    report::print_recent(args, last, &age)?;
    Ok(Some(match last.failures.is_empty() {
        _ if last.has_regression() => Exit::Regression,
        false => Exit::TrialsFailed,
        true => Exit::Done,
    }))
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

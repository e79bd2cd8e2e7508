//! `summary.md`: what was gained, how sure that is, and on what it was measured. For people.

use std::fmt::Write as _;

use gdrtune_profiles::{
    profile::{Profile, Speedup},
    size::Size,
    vocab::{Engine, Point},
};

use crate::event::Decision;

/// What the A/B says of one point.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PointVerdict {
    /// The point.
    pub point: Point,
    /// Default time over candidate time.
    pub speedup: Speedup,
    /// Median of the default arm in microseconds.
    pub default_us: f64,
    /// Median of the candidate in microseconds.
    pub tuned_us: f64,
    /// What follows.
    pub decision: Decision,
}

/// What the summary is about.
pub(super) struct Summary<'a> {
    /// One sentence: the outcome.
    pub headline: &'a str,
    /// What was measured on, in words.
    pub place: &'a str,
    /// The profile as written.
    pub profile: &'a Profile,
    /// The last A/B, point by point.
    pub verdicts: &'a [PointVerdict],
    /// What was tried and left out, and why.
    pub left_out: &'a [String],
    /// Files that were written beside this one.
    pub files: &'a [&'a str],
}

impl Summary<'_> {
    /// The whole text.
    pub(super) fn to_markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let run = &self.profile.run;
        writeln!(out, "# gdrtune run {}\n\n{}\n", run.id, self.headline)?;
        writeln!(out, "Measured on {}: {}.", self.place, engine_words(run.engine))?;
        let cluster = &self.profile.cluster;
        if let (Some(nccl), Some(gpu)) = (&cluster.nccl, &cluster.gpu) {
            writeln!(out, "NCCL {nccl} on {gpu}.")?;
        }
        if run.emulated {
            writeln!(out, "Nodes were **emulated**: what is called a node shared its machine with others.")?;
        }
        writeln!(
            out,
            "{} nodes, {} ranks, {} trials in the search; default arm: {}.\n",
            self.profile.cluster.nodes,
            self.profile.cluster.ranks,
            run.trials,
            match run.baseline {
                gdrtune_profiles::profile::Baseline::Site => "the site's own environment",
                gdrtune_profiles::profile::Baseline::Stock => "nothing set at all",
            }
        )?;
        self.settings(out)?;
        self.table(out)?;
        if !self.left_out.is_empty() {
            writeln!(out, "## Tried and left out\n")?;
            for line in self.left_out {
                writeln!(out, "- {line}")?;
            }
            writeln!(out)?;
        }
        writeln!(out, "## Files\n")?;
        self.files.iter().try_for_each(|file| writeln!(out, "- `{file}`"))
    }

    fn settings(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "## Settings\n")?;
        if self.profile.env.is_empty() && self.profile.rule.is_empty() {
            return writeln!(out, "None: keep the defaults.\n");
        }
        for setting in &self.profile.env {
            let evidence = setting.speedup.map_or_else(String::new, |s| format!(": {}", speedup_words(&s)));
            writeln!(out, "- `{}={}`{evidence}", setting.name, setting.value)?;
        }
        for rule in &self.profile.rule {
            let range = match rule.bytes.max {
                Some(max) => format!("{} to {} bytes", rule.bytes.min, max),
                None => format!("{} bytes and more", rule.bytes.min),
            };
            let choice = rule.choice();
            writeln!(out, "- {} {range}: {choice}: {}", rule.collective, speedup_words(&rule.speedup))?;
        }
        writeln!(out)
    }

    fn table(&self, out: &mut String) -> std::fmt::Result {
        if self.verdicts.is_empty() {
            return Ok(());
        }
        writeln!(out, "## Default against candidate\n")?;
        writeln!(
            out,
            "Interleaved, each arm in fresh processes that read the emitted files. The interval covers 90 %; P(faster) is the\n\
             bootstrap probability, over processes, that the ratio of medians exceeds 1. Points that are not here run as without \
             the profile.\n"
        )?;
        writeln!(
            out,
            "| collective | size | default us | candidate us | speed-up | 90 % interval | P(faster) | verdict |"
        )?;
        writeln!(out, "|---|---:|---:|---:|---:|---|---:|---|")?;
        for v in self.verdicts {
            writeln!(
                out,
                "| {} | {} | {:.1} | {:.1} | {:.2}x | {:.2} to {:.2} | {:.3} | {} |",
                v.point.collective,
                Size(v.point.bytes),
                v.default_us,
                v.tuned_us,
                v.speedup.median,
                v.speedup.low,
                v.speedup.high,
                v.speedup.p_faster,
                decision_words(v.decision)
            )?;
        }
        writeln!(out)
    }
}

fn speedup_words(s: &Speedup) -> String {
    format!(
        "{:.2}x ({:.2} to {:.2}, P(faster) {:.3}, {} processes per arm)",
        s.median, s.low, s.high, s.p_faster, s.repeats
    )
}

const fn decision_words(decision: Decision) -> &'static str {
    match decision {
        Decision::Ship => "faster",
        Decision::Keep => "no sure gain",
        Decision::Regression => "**slower**",
        Decision::TooNoisy => "too noisy to say",
    }
}

const fn engine_words(engine: Engine) -> &'static str {
    match engine {
        Engine::Nccl => "NVIDIA's NCCL on GPUs",
        Engine::Native => {
            "gdrtune's own engine on host memory, not NCCL. What it says about interfaces is about the network path; its \
             choices of algorithm, protocol and channels hold for this engine alone"
        }
        Engine::Replay => "a **replayed** grid of recorded measurements",
        Engine::Sim => "a **simulated** cluster",
    }
}

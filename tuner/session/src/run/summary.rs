//! `summary.md`: what was gained, how sure that is, and on what it was measured. For people.

use std::fmt::Write as _;

use gdrtune_profiles::{
    profile::{Profile, Rule, Speedup},
    size::Size,
    vocab::{Engine, Point},
};

use crate::event::Decision;

/// Why no settings were searched.
const ONLY_RULES: &str = "Only rules were searched: a variable reaches jobs of every shape, so it may not ship on the evidence of \
                          one. Tune one shape to find settings, and pin them for several.";

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

/// One job shape.
pub(super) struct ShapeSummary<'a> {
    /// `4x8`.
    pub name: String,
    /// Nodes, emulated ones too.
    pub nodes: u32,
    /// Ranks over all nodes.
    pub ranks: u32,
    /// Its outcome in one sentence.
    pub headline: String,
    /// The last A/B, point by point.
    pub verdicts: Vec<PointVerdict>,
    /// What was tried and left out, and why.
    pub left_out: &'a [String],
}

/// What the summary is about.
pub(super) struct Summary<'a> {
    /// One sentence: the outcome.
    pub headline: &'a str,
    /// What was measured on, in words.
    pub place: &'a str,
    /// The profile as written.
    pub profile: &'a Profile,
    /// Every shape, largest first.
    pub shapes: &'a [ShapeSummary<'a>],
    /// Shapes without a result, and why.
    pub untuned: &'a [String],
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
        let baseline = match run.baseline {
            gdrtune_profiles::profile::Baseline::Site => "the site's own environment",
            gdrtune_profiles::profile::Baseline::Stock => "nothing set at all",
        };
        let trials = run.trials;
        match self.only_shape() {
            Some(shape) => {
                let (nodes, ranks) = (shape.nodes, shape.ranks);
                let counts = format!("{nodes} nodes, {ranks} ranks, {trials} trials in the search");
                writeln!(out, "{counts}; default arm: {baseline}.\n\n## Settings\n")?;
                self.settings(out, &self.profile.rule)?;
                shape.table(out, "##")?;
                shape.left_out(out, "##")?;
            }
            None => {
                let names: Vec<&str> = self.shapes.iter().map(|shape| shape.name.as_str()).collect();
                let names = names.join(", ");
                writeln!(out, "Job shapes {names}; {trials} trials in the searches; default arm: {baseline}.\n")?;
                writeln!(out, "{ONLY_RULES}\n")?;
                self.sections(out)?;
            }
        }
        writeln!(out, "## Files\n")?;
        self.files.iter().try_for_each(|file| writeln!(out, "- `{file}`"))
    }

    /// The shape of a run that has no other.
    fn only_shape(&self) -> Option<&ShapeSummary<'_>> {
        match (self.shapes, self.untuned) {
            ([shape], []) => Some(shape),
            _ => None,
        }
    }

    fn sections(&self, out: &mut String) -> std::fmt::Result {
        if !self.profile.env.is_empty() {
            writeln!(out, "## Settings of every shape\n")?;
            self.settings(out, &[])?;
        }
        for shape in self.shapes {
            let ShapeSummary { name, nodes, ranks, headline, .. } = shape;
            writeln!(out, "## Shape {name}: {nodes} nodes, {ranks} ranks\n\n{headline}\n\n### Rules\n")?;
            let of_shape = |rule: &&Rule| (rule.nodes, rule.ranks) == (*nodes, *ranks);
            let rules: Vec<Rule> = self.profile.rule.iter().filter(of_shape).cloned().collect();
            if rules.is_empty() {
                writeln!(out, "None: keep the defaults.\n")?;
            } else {
                rules.iter().try_for_each(|rule| write_rule(out, rule))?;
                writeln!(out)?;
            }
            shape.table(out, "###")?;
            shape.left_out(out, "###")?;
        }
        if !self.untuned.is_empty() {
            writeln!(out, "## Shapes without a result\n")?;
            self.untuned.iter().try_for_each(|line| writeln!(out, "- {line}"))?;
            writeln!(out)?;
        }
        Ok(())
    }

    fn settings(&self, out: &mut String, rules: &[Rule]) -> std::fmt::Result {
        if self.profile.env.is_empty() && rules.is_empty() {
            return writeln!(out, "None: keep the defaults.\n");
        }
        for setting in &self.profile.env {
            let evidence = setting.speedup.map_or_else(String::new, |s| format!(": {}", speedup_words(&s)));
            writeln!(out, "- `{}={}`{evidence}", setting.name, setting.value)?;
        }
        rules.iter().try_for_each(|rule| write_rule(out, rule))?;
        writeln!(out)
    }
}

fn write_rule(out: &mut String, rule: &Rule) -> std::fmt::Result {
    let range = match rule.bytes.max {
        Some(max) => format!("{} to {} bytes", rule.bytes.min, max),
        None => format!("{} bytes and more", rule.bytes.min),
    };
    let choice = rule.choice();
    writeln!(out, "- {} {range}: {choice}: {}", rule.collective, speedup_words(&rule.speedup))
}

impl ShapeSummary<'_> {
    /// The A/B under a heading of this depth.
    fn table(&self, out: &mut String, heading: &str) -> std::fmt::Result {
        if self.verdicts.is_empty() {
            return Ok(());
        }
        writeln!(out, "{heading} Default against candidate\n")?;
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
        for v in &self.verdicts {
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

    fn left_out(&self, out: &mut String, heading: &str) -> std::fmt::Result {
        if self.left_out.is_empty() {
            return Ok(());
        }
        writeln!(out, "{heading} Tried and left out\n")?;
        self.left_out.iter().try_for_each(|line| writeln!(out, "- {line}"))?;
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

//! `summary.md`: what was gained, how sure that is, and on what it was measured. For people.

use std::fmt::Write as _;

use gdrtune_profiles::{
    profile::{Cluster, Profile, Rule, Speedup},
    size::Size,
    vocab::{Engine, Point},
};

use gdrtune_tuner::verdict::Loss;

use super::{Shape, course::ONLY_RULES};
use crate::{
    event::{Decision, Knob},
    evidence::Judged,
    report::shape_words,
};

/// One job shape.
pub(super) struct ShapeSummary<'a> {
    /// As the user named it.
    pub shape: Shape,
    /// Nodes, emulated ones too.
    pub nodes: u32,
    /// Ranks over all nodes.
    pub ranks: u32,
    /// The last A/B, point by point.
    pub verdicts: Vec<(Point, Judged)>,
    /// What earlier A/Bs said of points that what is left of the candidate does not change.
    pub earlier: Vec<(Point, Judged)>,
    /// Where what ships may be slower, by less than would keep it from shipping.
    pub losses: Vec<Loss>,
    /// What did not hold still while this was measured.
    pub warnings: &'a [String],
    /// What each knob did in the search.
    pub knobs: Vec<Knob>,
    /// What was tried and left out, and why.
    pub left_out: &'a [String],
}

/// What the summary is about.
pub(super) struct Summary<'a> {
    /// The outcome in one sentence for each shape.
    pub headlines: &'a [String],
    /// What was measured on, in words.
    pub place: &'a str,
    /// The profile as written.
    pub profile: &'a Profile,
    /// Whether the user asked for several shapes.
    pub of_shapes: bool,
    /// Every shape with a result, largest first.
    pub shapes: &'a [ShapeSummary<'a>],
    /// Files that were written beside this one.
    pub files: &'a [&'a str],
}

/// What is among a run's number of trials.
const OF_DEFAULT: &str = "those of the default arm included";

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
        writeln!(out, "# gdrtune run {}\n", run.id)?;
        let bullet = if self.of_shapes { "- " } else { "" };
        self.headlines.iter().try_for_each(|headline| writeln!(out, "{bullet}{headline}"))?;
        writeln!(out)?;
        writeln!(out, "Measured on {}: {}.", self.place, engine_words(run.engine))?;
        let cluster = &self.profile.cluster;
        if let (Some(nccl), Some(gpu)) = (&cluster.nccl, &cluster.gpu) {
            writeln!(out, "NCCL {nccl} on {gpu}.")?;
        }
        if run.workload != "default" {
            writeln!(out, "Workload: {}.", run.workload)?;
        }
        if run.emulated {
            writeln!(out, "Nodes were **emulated**: what is called a node shared its machine with others.")?;
        }
        if run.unverified {
            writeln!(
                out,
                "**Not verified**: this was written before the run's A/B. Speed-ups are estimates of its search, which flatter."
            )?;
            let verify =
                if run.engine.is_real() { "; `gdrtune verify profile.toml` measures what is here" } else { "" };
            writeln!(out, "`gdrtune runs resume {}` goes on with a run that was ended{verify}.", run.id)?;
        }
        run.notes.iter().try_for_each(|note| writeln!(out, "**Note:** {note}."))?;
        let baseline = match run.baseline {
            gdrtune_profiles::profile::Baseline::Site => "the site's own environment",
            gdrtune_profiles::profile::Baseline::Stock => "nothing set at all",
        };
        let trials = run.trials;
        if self.of_shapes {
            let shapes: Vec<String> = self.shapes.iter().map(|shape| shape.shape.to_string()).collect();
            let shapes = shapes.join(", ");
            writeln!(
                out,
                "Job shapes {shapes}; {trials} trials in the searches, {OF_DEFAULT}; default arm: {baseline}.\n"
            )?;
            writeln!(out, "Of several shapes {ONLY_RULES}.\n")?;
        } else {
            let Cluster { nodes, ranks, .. } = cluster;
            let place = shape_words(*nodes, *ranks);
            writeln!(out, "{place}, {trials} trials in the search, {OF_DEFAULT}; default arm: {baseline}.\n")?;
            writeln!(out, "## Settings\n")?;
            self.settings(out, &self.profile.rule)?;
        }
        self.sections(out)?;
        writeln!(out, "## Files\n")?;
        self.files.iter().try_for_each(|file| writeln!(out, "- `{file}`"))?;
        if self.profile.run.engine == Engine::Nccl && !(self.profile.env.is_empty() && self.profile.rule.is_empty()) {
            writeln!(
                out,
                "\nTo deploy: `gdrtune install profile.toml --to DIR`. To see later whether it is still faster:\n\
                 `gdrtune verify profile.toml`. Both with the hosts and ranks per node of the jobs."
            )?;
        }
        Ok(())
    }

    fn sections(&self, out: &mut String) -> std::fmt::Result {
        if self.of_shapes && !self.profile.env.is_empty() {
            writeln!(out, "## Settings of every shape\n")?;
            self.settings(out, &[])?;
        }
        for shape in self.shapes {
            if self.of_shapes {
                self.rules_of(shape, out)?;
            }
            let heading = if self.of_shapes { "###" } else { "##" };
            shape.warnings(out)?;
            shape.table(out, heading, self.profile.run.engine)?;
            shape.left_out(out, heading)?;
            shape.knobs(out, heading)?;
        }
        Ok(())
    }

    /// Begins a shape's section with its rules.
    fn rules_of(&self, shape: &ShapeSummary<'_>, out: &mut String) -> std::fmt::Result {
        let ShapeSummary { shape, nodes, ranks, .. } = shape;
        writeln!(out, "## Shape {shape}: {}\n", shape_words(*nodes, *ranks))?;
        let is_of_shape = |rule: &&Rule| (rule.nodes, rule.ranks) == (*nodes, *ranks);
        let mut rules = self.profile.rule.iter().filter(is_of_shape).peekable();
        if rules.peek().is_none() {
            return writeln!(out, "No rule: keep the defaults.\n");
        }
        rules.try_for_each(|rule| write_rule(out, rule))?;
        writeln!(out)
    }

    fn settings(&self, out: &mut String, rules: &[Rule]) -> std::fmt::Result {
        if self.profile.env.is_empty() && rules.is_empty() {
            return writeln!(out, "None: keep the defaults.\n");
        }
        for setting in &self.profile.env {
            let evidence = setting.speedup.map_or_else(String::new, |s| format!(": {}", speedup_words(&s)));
            let why = if setting.why.is_empty() { String::new() } else { format!(" ({})", setting.why) };
            writeln!(out, "- `{}={}`{evidence}{why}", setting.name, setting.value)?;
        }
        rules.iter().try_for_each(|rule| write_rule(out, rule))?;
        writeln!(out)
    }
}

fn write_rule(out: &mut String, rule: &Rule) -> std::fmt::Result {
    let (range, choice) = (rule.bytes, rule.choice());
    writeln!(out, "- {} {range}: {choice}: {}", rule.collective, speedup_words(&rule.speedup))
}

fn write_rows(out: &mut String, rows: &[(Point, Judged)], words: fn(Decision) -> String) -> std::fmt::Result {
    writeln!(
        out,
        "| collective | size | default (us) | candidate (us) | speed-up | 90 % interval | P(faster) | verdict |"
    )?;
    writeln!(out, "|---|---:|---:|---:|---:|---|---:|---|")?;
    for (point, v) in rows {
        writeln!(
            out,
            "| {} | {} | {:.1} | {:.1} | {:.2}x | {:.2} to {:.2} | {:.3} | {}{} |",
            point.collective,
            Size(point.bytes),
            v.default_us,
            v.tuned_us,
            v.speedup.median,
            v.speedup.low,
            v.speedup.high,
            v.speedup.p_faster,
            words(v.decision),
            if v.note.is_empty() { String::new() } else { format!(": {}", v.note) }
        )?;
    }
    Ok(())
}

impl ShapeSummary<'_> {
    /// The A/B under a heading of this depth.
    fn table(&self, out: &mut String, heading: &str, engine: Engine) -> std::fmt::Result {
        if self.verdicts.is_empty() {
            return self.earlier_table(out, heading);
        }
        writeln!(out, "{heading} Default against candidate\n")?;
        let arms = arms_words(engine);
        writeln!(
            out,
            "{arms} The interval covers 90 %; P(faster) is the\n\
             bootstrap probability, over processes, that the ratio of medians exceeds 1. Points that are not here run as without \
             the profile. A rule is judged over all its sizes, so one without a sure gain of its own may lie in its range.\n"
        )?;
        write_rows(out, &self.verdicts, emphasised)?;
        writeln!(out)?;
        if !self.losses.is_empty() {
            writeln!(out, "What ships may be slower here; of many sizes, one looks so by chance now and then:\n")?;
            self.losses.iter().try_for_each(|loss| writeln!(out, "- {loss}"))?;
            writeln!(out)?;
        }
        self.earlier_table(out, heading)
    }

    /// What was left out, with what its A/B said.
    fn earlier_table(&self, out: &mut String, heading: &str) -> std::fmt::Result {
        if self.earlier.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "{heading} Left out after an A/B\n\n\
             Sizes that nothing which ships changes, with what the A/B said before the candidate was reduced. A size may have been \
             faster\nby itself, and its rule, or the environment that it was measured in, not.\n"
        )?;
        write_rows(out, &self.earlier, |decision| {
            if decision == Decision::Ship { "faster".to_owned() } else { emphasised(decision) }
        })?;
        writeln!(out)
    }

    fn warnings(&self, out: &mut String) -> std::fmt::Result {
        self.warnings.iter().try_for_each(|warning| writeln!(out, "**Warning:** {warning}.\n"))
    }

    fn left_out(&self, out: &mut String, heading: &str) -> std::fmt::Result {
        if self.left_out.is_empty() {
            return Ok(());
        }
        writeln!(out, "{heading} Tried and left out\n")?;
        self.left_out.iter().try_for_each(|line| writeln!(out, "- {line}"))?;
        writeln!(out)
    }

    fn knobs(&self, out: &mut String, heading: &str) -> std::fmt::Result {
        if self.knobs.is_empty() {
            return Ok(());
        }
        writeln!(out, "{heading} What the knobs did\n")?;
        writeln!(
            out,
            "By a model of all environments that the search tried: the value expected best against the one expected worst, in the \
             best\nenvironment found, with the best choices in each; the interval is two standard deviations to each side.\n"
        )?;
        self.knobs.iter().try_for_each(|knob| writeln!(out, "- {knob}"))?;
        writeln!(out)
    }
}

fn speedup_words(s: &Speedup) -> String {
    format!(
        "{:.2}x ({:.2} to {:.2}, P(faster) {:.3}, {} processes per arm)",
        s.median, s.low, s.high, s.p_faster, s.repeats
    )
}

/// What the A/B decides, for people.
pub(crate) const fn decision_words(decision: Decision) -> &'static str {
    match decision {
        Decision::Ship => "faster",
        Decision::Keep => "no sure gain",
        Decision::Regression => "slower",
        Decision::TooNoisy => "too noisy to say",
    }
}

fn emphasised(decision: Decision) -> String {
    let words = decision_words(decision);
    if decision == Decision::Regression { format!("**{words}**") } else { words.to_owned() }
}

/// How the two arms of an A/B were measured, in a sentence.
pub(crate) const fn arms_words(engine: Engine) -> &'static str {
    match engine {
        Engine::Nccl | Engine::Native => {
            "Both arms were measured interleaved, each in fresh processes that read the emitted files."
        }
        Engine::Sim => "Both arms ran interleaved on the simulated cluster, each in simulated processes of its own.",
        Engine::Replay => "Both arms were drawn interleaved from the recorded grid: no process was started.",
    }
}

/// What measures, for people, as Markdown.
pub(crate) const fn engine_words(engine: Engine) -> &'static str {
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

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Collective;

    use super::*;
    use crate::event::KnobEffect;

    #[test]
    fn a_section_says_what_is_noisy_lost_unsteady_and_important() {
        let point = Point { collective: Collective::AllReduce, bytes: 1024 };
        let speedup = Speedup { median: 0.987, low: 0.978, high: 0.996, p_faster: 0.02, repeats: 21 };
        let judged = Judged {
            speedup,
            default_us: 12.0,
            tuned_us: 12.2,
            decision: Decision::TooNoisy,
            note: "spread 40 %, need about 300 s more".to_owned(),
        };
        let knob = Knob {
            name: "NCCL_BUFFSIZE".to_owned(),
            best: None,
            worst: Some("1048576".to_owned()),
            factor: 1.6,
            low: 1.4,
            high: 1.8,
            effect: KnobEffect::Mattered,
        };
        let shape = ShapeSummary {
            shape: Shape { nodes: 2, ranks_per_node: 1 },
            nodes: 2,
            ranks: 2,
            earlier: vec![(
                Point { bytes: 4096, ..point },
                Judged { decision: Decision::Ship, note: String::new(), ..judged.clone() },
            )],
            verdicts: vec![(point, judged)],
            losses: vec![Loss { point, speedup }],
            warnings: &["the default arm became 12 % slower".to_owned()],
            knobs: vec![knob],
            left_out: &[],
        };
        let mut text = String::new();
        shape.warnings(&mut text).unwrap();
        shape.table(&mut text, "##", Engine::Native).unwrap();
        shape.knobs(&mut text, "##").unwrap();
        for want in [
            "**Warning:** the default arm became 12 % slower.\n",
            "| 0.020 | too noisy to say: spread 40 %, need about 300 s more |\n",
            "- allreduce 1K loses 1.3 % [0.4 %, 2.2 %]\n",
            "## Left out after an A/B\n",
            "| allreduce | 4K |",
            "| 0.020 | faster |\n",
            "## What the knobs did\n",
            "- NCCL_BUFFSIZE mattered: 1.60x (1.40 to 1.80) faster with it unset than with 1048576\n",
        ] {
            assert!(text.contains(want), "{want}: {text}");
        }
        let fresh = "in fresh processes that read the emitted files.";
        assert!(text.contains(fresh), "{text}");
        for (engine, want) in [(Engine::Sim, "on the simulated cluster"), (Engine::Replay, "no process was started")] {
            let mut text = String::new();
            shape.table(&mut text, "##", engine).unwrap();
            assert!(text.contains(want) && !text.contains(fresh), "{text}");
        }
    }
}

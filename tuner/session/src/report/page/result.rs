//! What came of the run: the labels, one sentence, and what ships with its evidence.

use gdrtune_profiles::profile::{Class, Profile, Rule, Speedup};

use super::{count, duration, factor, interval, microseconds, shape_words};
use crate::{
    event::{Decision, RunEnd, without},
    evidence::Judged,
    report::{
        block::{Block, Column, Table, Text},
        seen::Seen,
    },
};

pub(super) fn blocks(seen: &Seen) -> Vec<Block> {
    let mut blocks = banners(seen);
    blocks.push(Block::heading(2, "Result"));
    blocks.push(Block::paragraph(headline(seen)));
    blocks.push(Block::Figures(figures(seen)));
    match &seen.profile {
        Some(profile) => blocks.extend(settings(seen, profile)),
        None => blocks.push(Block::paragraph(
            "The store has no profile: the run did not come to one, or is of an older gdrtune.",
        )),
    }
    blocks
}

/// What the numbers must not be mistaken for, in a word or a few, and in a sentence.
pub(super) fn labels(seen: &Seen) -> Vec<(&'static str, Text)> {
    let mut labels: Vec<(&'static str, Text)> = Vec::new();
    if let Some((word, text)) = seen.started.engine.label().and_then(|label| label.split_once(": ")) {
        labels.push((word, format!("{text}.").into()));
    }
    if let Some(why) = &seen.emulated {
        labels.push(("Emulated nodes", why.as_str().into()));
    }
    if seen.profile.as_ref().is_some_and(|profile| profile.run.unverified) {
        let text = "what is here was written before the run's A/B; gains are estimates of its search, which flatter.";
        labels.push(("Not verified", text.into()));
    }
    labels
}

/// The labels, and what else is to be known before anything is read.
fn banners(seen: &Seen) -> Vec<Block> {
    let labels = labels(seen).into_iter().map(|(word, text)| Block::Banner { word, text });
    let mut banners: Vec<Block> = labels.collect();
    let mut banner = |word, text: Text| banners.push(Block::Banner { word, text });
    if !seen.left_out.is_empty() {
        banner("Fewer hosts", format!("measured {}.", without(&seen.left_out)).into());
    }
    for note in seen.profile.iter().flat_map(|profile| &profile.run.notes) {
        banner("Note", format!("{note}.").into());
    }
    banners
}

fn headline(seen: &Seen) -> Text {
    let Some((end, summary)) = &seen.end else {
        return Text::strong("The run has not ended")
            .then(": it goes on, or its process was killed. This is what its store has.");
    };
    let word = match end {
        RunEnd::Tuned => "Tuned",
        RunEnd::DefaultsBest => "The defaults stay",
        RunEnd::Inconclusive => "Inconclusive",
        RunEnd::Interrupted => "Interrupted",
        RunEnd::NodesLost => "Nodes lost",
        RunEnd::Failed => "Failed",
    };
    Text::strong(word).then(format!(": {summary}"))
}

/// Points that an A/B judged.
fn judged(seen: &Seen) -> impl Iterator<Item = (String, &Judged)> {
    let points = seen.shapes.iter().flat_map(|shape| &shape.points);
    points.filter_map(|(point, known)| Some((point.to_string(), known.verdict.as_ref()?)))
}

fn figures(seen: &Seen) -> Vec<(&'static str, Text)> {
    let ships = |profile: &Profile| {
        let what = [count(profile.env.len() as u64, "setting"), count(profile.rule.len() as u64, "rule")];
        let nothing = profile.env.is_empty() && profile.rule.is_empty();
        let label = if profile.run.unverified { "Best so far, not verified" } else { "Ships" };
        (label, Text::from(if nothing { "nothing".to_owned() } else { what.join(", ") }))
    };
    let mut figures: Vec<_> = seen.profile.iter().map(ships).collect();
    let (all, faster) = (judged(seen).count(), judged(seen).filter(|(_, verdict)| verdict.decision == Decision::Ship));
    if 0 < all {
        figures.push((
            "Faster for sure",
            format!("at {} of {} in the A/B", faster.count(), count(all as u64, "point")).into(),
        ));
        let sure = judged(seen).filter(|(_, verdict)| verdict.decision == Decision::Ship);
        if let Some((point, best)) = sure.max_by(|a, b| a.1.speedup.median.total_cmp(&b.1.speedup.median)) {
            let gain = format!("{} ({}) at {point}", factor(best.speedup.median), interval(&best.speedup));
            figures.push(("Largest of these gains", gain.into()));
        }
    }
    let failed: Vec<String> = seen.failed.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    let failed = if failed.is_empty() { String::new() } else { format!(", of these {}", failed.join(", ")) };
    figures.push(("Trials", format!("{}{failed}", seen.trials).into()));
    figures.push(("Took", duration(seen.t_ms).into()));
    figures
}

fn settings(seen: &Seen, profile: &Profile) -> Vec<Block> {
    if profile.env.is_empty() && profile.rule.is_empty() {
        return vec![Block::paragraph("No setting and no rule: keep the defaults.")];
    }
    let mut blocks = Vec::new();
    if !profile.env.is_empty() {
        blocks.push(Block::Table(environment_table(profile)));
    }
    if !profile.rule.is_empty() {
        blocks.push(Block::Table(rule_table(profile, seen.has_shapes)));
    }
    blocks
}

/// What an A/B says of a gain, in the columns of both tables; of what none has seen, the estimate alone.
fn evidence(profile: &Profile, speedup: Option<&Speedup>) -> [Text; 4] {
    let verified = speedup.filter(|_| !profile.run.unverified);
    let text = |text: Option<String>| Text::from(text.unwrap_or_default());
    [
        text(speedup.map(|speedup| factor(speedup.median))),
        text(verified.map(interval)),
        text(verified.map(|speedup| format!("{:.3}", speedup.p_faster))),
        text(verified.map(|speedup| speedup.repeats.to_string())),
    ]
}

const EVIDENCE: [Column; 4] = [
    Column::Numbers("speed-up"),
    Column::Numbers("90 % interval"),
    Column::Numbers("P(faster)"),
    Column::Numbers("processes per arm"),
];

fn environment_table(profile: &Profile) -> Table {
    let columns =
        [&[Column::Words("variable"), Column::Words("value")][..], &EVIDENCE, &[Column::Words("what it is")]].concat();
    let rows = profile.env.iter().map(|setting| {
        let class = match setting.class {
            Class::System => "",
            Class::Debugging => {
                "NVIDIA's manual counts it among variables for debugging, which are not to be kept without a reason."
            }
        };
        let alone = if setting.speedup.is_some() { "" } else { "Not measured alone." };
        let about = [alone, class, &setting.why].map(str::trim).join(" ");
        let mut row = vec![Text::code(&setting.name), Text::code(&setting.value)];
        row.extend(evidence(profile, setting.speedup.as_ref()));
        row.push(about.trim().into());
        row
    });
    Table::new(format!("Process-level settings{}", that_ship(profile)), &columns, rows.collect())
}

fn rule_table(profile: &Profile, has_shapes: bool) -> Table {
    let own = ["rule", "choice"].map(Column::Words);
    let times = ["default (us)", "tuned (us)"].map(Column::Numbers);
    let shape = if has_shapes { &[Column::Words("shape")][..] } else { &[] };
    let columns = [&own[..], &times, &EVIDENCE, shape].concat();
    let row = |rule: &Rule| {
        let Rule { collective, bytes, default_us, tuned_us, speedup, .. } = rule;
        let mut row: Vec<Text> = vec![
            format!("{collective} {bytes}").into(),
            Text::code(rule.choice().to_string()),
            microseconds(*default_us).into(),
            microseconds(*tuned_us).into(),
        ];
        row.extend(evidence(profile, Some(speedup)));
        if has_shapes {
            row.push(shape_words(rule.nodes, rule.ranks).into());
        }
        row
    };
    let ship = that_ship(profile);
    let caption = format!("Rules{ship}: the choice for a range of sizes (times are geometric means over them)");
    Table::new(caption, &columns, profile.rule.iter().map(row).collect())
}

const fn that_ship(profile: &Profile) -> &'static str {
    if profile.run.unverified { " that the search took for best so far, not verified" } else { " that ship" }
}

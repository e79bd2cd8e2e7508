//! Rules about the tuner CSV. Most are about NVIDIA's example plugin: it forces one channel on whatever no rule gives a count.

use std::collections::BTreeSet;

use super::{Check, Hit, LintFile, Options, Rule};
use crate::{
    grammar::tuner_csv::TableRule,
    lint::tuner_csv::TunerFile,
    matrix::{self, Condition},
    size::Size,
    vocab::Collective,
};

pub(super) const RULES: &[Rule] = &[
    Rule::error(
        "csv-no-rule",
        "a line that the plugin reads as something else",
        "Unknown collectives become allreduce, unknown algorithms ring, unknown protocols simple, and gaps between commas close, without a message.",
        "NCCL plugins/tuner/example/plugin.c",
        Check::File(no_rule),
    ),
    Rule::error(
        "csv-one-channel",
        "-1 channels for NVIDIA's example plugin",
        "It sets one channel before it looks for a rule, so -1 is one channel and not NCCL's own count, whatever its README says.",
        "NCCL plugins/tuner/example/plugin.c; ROCm/rccl pull request 1985",
        Check::File(one_channel),
    ),
    Rule::warning(
        "csv-sizes-uncovered",
        "sizes of a collective that no rule covers, for NVIDIA's example plugin",
        "What no rule matches gets one channel.",
        "NCCL plugins/tuner/example/plugin.c",
        Check::File(sizes_uncovered),
    ),
    Rule::warning(
        "csv-collectives-uncovered",
        "collectives that no rule covers, for NVIDIA's example plugin",
        "Every call of theirs gets one channel.",
        "NCCL plugins/tuner/example/plugin.c",
        Check::File(collectives_uncovered),
    ),
    Rule::error(
        "csv-never-matches",
        "a rule whose smallest size is above its largest",
        "It never matches.",
        "NCCL plugins/tuner/example/plugin.c",
        Check::File(never_matches),
    ),
    Rule::warning(
        "csv-shadowed",
        "a rule behind one that always matches first",
        "The first match in the file's order wins.",
        "NCCL plugins/tuner/example/plugin.c",
        Check::File(shadowed),
    ),
    Rule::error(
        "csv-impossible",
        "an algorithm and protocol that the collective cannot run",
        "NCCL skips the rule, with a line in its log.",
        "NCCL src/graph/tuning.cc",
        Check::File(impossible),
    ),
    Rule::warning(
        "csv-4g-bound",
        "4294967295 as the largest size",
        "That is 4 GiB - 1 and no wildcard: the field has 64 bits.",
        "NCCL plugins/tuner/example/plugin.c",
        Check::File(bound_4g),
    ),
];

/// Calls do not get larger than this; a rule up to here is for all.
const LARGEST_CALL: u64 = 1 << 40;

fn no_rule(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let broken = file.tuner.iter().flat_map(|tuner| &tuner.broken);
    hits.extend(broken.map(|(line, cause)| {
        let fix = "write collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]";
        Hit::new(*line, (cause.clone(), fix.to_owned()))
    }));
}

/// The file, where it is for NVIDIA's plugin.
fn stock<'a>(file: &'a LintFile<'_>) -> Option<&'a TunerFile> {
    file.tuner.as_ref().filter(|tuner| !tuner.is_ours)
}

const OURS: &str = "a comment that names gdrtune's plugin says that this file is for that one";

fn one_channel(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let rules = stock(file).into_iter().flat_map(|tuner| tuner.table.rules());
    hits.extend(rules.filter(|rule| rule.choice.channels == 0).map(|rule| {
        let message = "NVIDIA's example plugin takes -1 channels for one channel".to_owned();
        Hit::new(rule.line, (message, format!("write the number of channels; {OURS}")))
    }));
}

/// What a rule asks of a call besides collective and size; absent is anything.
type Shape = (Option<u32>, Option<u32>, Option<u32>, Option<bool>);

fn shape(rule: &TableRule) -> Shape {
    (rule.nodes, rule.ranks, rule.num_pipe_ops, rule.reg_buff)
}

/// Whether everything that `inner` matches, `outer` matches.
fn holds(outer: Shape, inner: Shape) -> bool {
    fn part<T: PartialEq + Copy>(outer: Option<T>, inner: Option<T>) -> bool {
        outer.is_none() || outer == inner
    }
    part(outer.0, inner.0) && part(outer.1, inner.1) && part(outer.2, inner.2) && part(outer.3, inner.3)
}

fn sizes_uncovered(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let Some(tuner) = stock(file) else { return };
    for collective in Collective::ALL.iter().copied() {
        let shapes: BTreeSet<Shape> = tuner.of(collective).map(shape).collect();
        for wanted in shapes {
            let mut rules: Vec<&TableRule> = tuner.of(collective).filter(|rule| holds(shape(rule), wanted)).collect();
            rules.sort_by_key(|rule| rule.min_bytes);
            let Some(first) = rules.first() else { continue };
            // Up to where, and the rule that goes that far.
            let (mut next, mut last) = (0_u64, *first);
            for rule in &rules {
                if next < rule.min_bytes {
                    break;
                }
                if next <= rule.max_bytes {
                    (next, last) = (rule.max_bytes.saturating_add(1), rule);
                }
            }
            if LARGEST_CALL <= next {
                continue;
            }
            let end = rules.iter().map(|rule| rule.min_bytes).find(|min| next < *min);
            let to = end.map_or("on".to_owned(), |end| format!("to {}", Size(end - 1)));
            let message = format!("{collective} from {} {to} gets one channel", Size(next));
            let fix = format!("cover every size, up to 9223372036854775807, with explicit channels; {OURS}");
            hits.push(Hit::new(last.line, (message, fix)));
        }
    }
}

fn collectives_uncovered(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let Some(tuner) = stock(file) else { return };
    let Some(first) = tuner.table.rules().first() else { return };
    let choosing = Collective::ALL.iter().copied().filter(|collective| collective.has_choice());
    let missing: Vec<&str> =
        choosing.filter(|collective| tuner.of(*collective).next().is_none()).map(Collective::name).collect();
    if !missing.is_empty() {
        let message = format!("every call of {} gets one channel", missing.join(", "));
        hits.push(Hit::new(first.line, (message, format!("add rules for what the jobs call; {OURS}"))));
    }
}

fn never_matches(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let rules = file.tuner.iter().flat_map(|tuner| tuner.table.rules());
    hits.extend(rules.filter(|rule| rule.max_bytes < rule.min_bytes).map(|rule| {
        let message = format!("min_bytes {} is above max_bytes {}", rule.min_bytes, rule.max_bytes);
        Hit::new(rule.line, (message, "swap them".to_owned()))
    }));
}

fn cell(rule: &TableRule) -> Option<&'static matrix::Cell> {
    let fits = |cell: &&matrix::Cell| cell.collective == rule.collective && cell.algorithm == rule.choice.algorithm;
    matrix::NCCL.iter().find(fits).filter(|cell| cell.protocols.contains(&rule.choice.protocol))
}

fn shadowed(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    /// Longer files are looked through only so far back, for the time's sake.
    const LOOK_BACK: usize = 2000;
    let rules = file.tuner.as_ref().map_or(&[][..], |tuner| tuner.table.rules());
    for (idx, rule) in rules.iter().enumerate() {
        // What a cluster may not have is skipped there, and the search goes on.
        let always = |other: &&TableRule| cell(other).is_some_and(|cell| cell.condition == Condition::Always);
        let covers = |other: &&TableRule| {
            let range = other.min_bytes <= rule.min_bytes && rule.max_bytes <= other.max_bytes;
            range && rule.min_bytes <= rule.max_bytes && holds(shape(other), shape(rule))
        };
        let before = &rules[idx.saturating_sub(LOOK_BACK)..idx];
        let same = |other: &&TableRule| other.collective == rule.collective;
        if let Some(first) = before.iter().filter(same).filter(always).find(covers) {
            let message = format!("the rule of line {} always matches first", first.line);
            hits.push(Hit::new(rule.line, (message, "put the narrower rule first, or remove this one".to_owned())));
        }
    }
}

fn impossible(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    // The native engine has other cells; its files name our plugin.
    let rules = stock(file).into_iter().flat_map(|tuner| tuner.table.rules());
    hits.extend(rules.filter(|rule| cell(rule).is_none()).map(|rule| {
        let (algorithm, protocol) = (rule.choice.algorithm, rule.choice.protocol);
        let message = format!("{} cannot run {algorithm} with {protocol}", rule.collective);
        let known = matrix::NCCL.iter().filter(|cell| cell.collective == rule.collective);
        let names: Vec<&str> = known.map(|cell| cell.algorithm.name()).collect();
        Hit::new(rule.line, (message, format!("use one of {}; only ring and tree run ll and ll128", names.join(", "))))
    }));
}

fn bound_4g(file: &LintFile<'_>, _: &Options<'_>, hits: &mut Vec<Hit>) {
    let rules = file.tuner.iter().flat_map(|tuner| tuner.table.rules());
    hits.extend(rules.filter(|rule| rule.max_bytes == u64::from(u32::MAX)).map(|rule| {
        let message = "4294967295 is 4 GiB - 1, and larger calls do not match".to_owned();
        Hit::new(rule.line, (message, "close the range with 9223372036854775807".to_owned()))
    }));
}

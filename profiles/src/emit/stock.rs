//! Rules for NVIDIA's example tuner plugin, which runs with one channel whatever no rule gives a count: every size of every
//! collective has a row with explicit channels.
//!
//! Source: NCCL `plugins/tuner/example/plugin.c` at 2.30.7 (`pluginGetCollInfo` sets `*nChannels = 1` before it looks for a
//! rule). What was not measured is said beside each such row.

use super::{
    EmitError,
    plan::{Plan, comment, push_line},
    tuner_csv::{self, UNBOUNDED, max_bytes},
};
use crate::{
    grammar::tuner_csv::{Call, HEADER, TableRule},
    matrix,
    profile::{ByteRange, Profile, Rule},
    vocab::{Algorithm, Choice, Collective, Point, Protocol},
};

/// Up to here, calls without any rule get LL on one channel, beyond it Simple on all. On the measured grid
/// (`benches/search/data/h200-emulated-4nodes.csv`) ring's LL on one channel is as fast as its Simple, or faster, up to 64 KiB, slower
/// from 256 KiB on, and 3 to 30 times slower at 4 MiB.
const LARGEST_LL: u64 = 64 << 10;

/// A row, and what to say about it.
struct Row {
    comment: String,
    collective: Collective,
    bytes: (u64, u64),
    choice: Choice,
    /// Nodes and ranks; absent is any.
    shape: Option<(u32, u32)>,
}

pub(super) fn emit(plan: &Plan<'_>) -> Result<String, EmitError> {
    let rules = plan.live_rules();
    let mut text = plan.head_text();
    text.push_str("# for NVIDIA's example tuner plugin (NCCL 2.28 and later): NCCL_TUNER_CONFIG_FILE=/absolute/path/of/this/file\n");
    text.push_str("# it forces one channel where no row matches, so the last rows cover what was not measured\n");
    push_line(&mut text, &format!("# {HEADER}"));
    if rules.is_empty() {
        text.push_str("# no rule holds: do not load that plugin, which would force one channel on every call\n");
    }
    let most = matrix::max_channels(plan.profile.nccl_version());
    let rows = rows(plan.profile, rules, most);
    for row in &rows {
        push_line(&mut text, &format!("# {}\n{}", comment(&row.comment), line(row)));
    }
    for rule in plan.profile.rule.iter().filter(|_| !plan.rules_are_live) {
        let row = measured(plan.profile, rule, most);
        push_line(&mut text, &format!("# {}\n#{}", comment(&row.comment), line(&row)));
    }
    read_back(plan, &text, &rows)?;
    Ok(text)
}

/// The measured rules in their order, then what fills their gaps, then what is for every other call.
fn rows(profile: &Profile, rules: &[Rule], most: u16) -> Vec<Row> {
    let mut rows: Vec<Row> = rules.iter().map(|rule| measured(profile, rule, most)).collect();
    let mut shapes: Vec<(Collective, u32, u32)> = Vec::new();
    for shape in rules.iter().map(|rule| (rule.collective, rule.nodes, rule.ranks)) {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    rows.extend(shapes.into_iter().flat_map(|shape| gaps(rules, shape, most)));
    let choosing = Collective::ALL.iter().copied().filter(|collective| collective.has_choice() && !rules.is_empty());
    rows.extend(choosing.flat_map(|collective| fallback(collective, most)));
    rows
}

fn measured(profile: &Profile, rule: &Rule, most: u16) -> Row {
    let mut comment = Plan::rule_comment(profile, rule);
    if rule.channels.is_none() {
        comment.push_str("; measured with NCCL's channel count, which is put here by its rule of thumb");
    }
    let (collective, shape) = (rule.collective, Some((rule.nodes, rule.ranks)));
    Row { comment, collective, bytes: (rule.bytes.min, max_bytes(rule)), choice: choice(rule, most), shape }
}

/// A rule's choice with a number of channels.
fn choice(rule: &Rule, most: u16) -> Choice {
    Choice { channels: rule.channels.unwrap_or_else(|| usual_channels(rule, most)), ..rule.choice() }
}

/// The channels that NCCL takes at most for a rule's largest size: as many as have enough bytes for their threads
/// (NCCL `src/enqueue.cc`, `topoGetAlgoInfo`: `nBytes < nc * nt * threadThreshold` takes one away; thresholds in
/// `src/include/comm.h`, 512 threads a channel). More than the communicator has are not used.
fn usual_channels(rule: &Rule, most: u16) -> u16 {
    const THREADS: u64 = 512;
    let threshold = match (rule.algorithm, rule.protocol) {
        // NCCL src/graph/tuning.cc: a ring's LL needs as much for each of its ranks.
        (Algorithm::Ring, Protocol::Ll) => 8 * u64::from(rule.ranks),
        (_, Protocol::Ll | Protocol::Ll128) => 8,
        (_, Protocol::Simple) => 64,
    };
    let enough = max_bytes(rule) / (THREADS * threshold);
    u16::try_from(enough).unwrap_or(most).clamp(1, most)
}

/// Rows for the sizes of a collective and shape that its rules leave out.
///
/// They take the choice of the next larger rule: what is right for larger calls is at worst a few times slower for smaller
/// ones, and the other way round [`LARGEST_LL`] tells how much. Beyond the largest rule only its own Simple goes on.
fn gaps(rules: &[Rule], (collective, nodes, ranks): (Collective, u32, u32), most: u16) -> Vec<Row> {
    let is_of = |rule: &&Rule| (rule.collective, rule.nodes, rule.ranks) == (collective, nodes, ranks);
    let mut ordered: Vec<&Rule> = rules.iter().filter(is_of).collect();
    ordered.sort_by_key(|rule| rule.bytes.min);
    let row = |bytes: (u64, u64), rule: &Rule, which: &str| Row {
        comment: format!("not measured: the choice of the next {which} rule, as no row would be one channel"),
        collective,
        bytes,
        choice: choice(rule, most),
        shape: Some((nodes, ranks)),
    };
    let mut rows = Vec::new();
    let mut next = 0_u64;
    for rule in &ordered {
        if next < rule.bytes.min {
            rows.push(row((next, rule.bytes.min - 1), rule, "larger"));
        }
        next = next.max(max_bytes(rule).saturating_add(1));
    }
    let last = ordered.iter().max_by_key(|rule| max_bytes(rule));
    if let Some(last) = last.filter(|last| next <= UNBOUNDED && last.protocol == Protocol::Simple) {
        rows.push(row((next, UNBOUNDED), last, "smaller"));
    }
    rows
}

/// Rows for calls of a collective that no rule is for, on any nodes and ranks.
fn fallback(collective: Collective, most: u16) -> [Row; 2] {
    let row = |bytes: ByteRange, protocol, channels, why: &str| Row {
        comment: format!("not measured, for {collective} of other sizes and shapes: {why}"),
        collective,
        bytes: (bytes.min, bytes.max.unwrap_or(UNBOUNDED)),
        choice: Choice { algorithm: Algorithm::Ring, protocol, channels },
        shape: None,
    };
    [
        row(
            ByteRange { min: 0, max: Some(LARGEST_LL) },
            Protocol::Ll,
            1,
            "a ring runs everywhere, LL is for small calls",
        ),
        row(
            ByteRange { min: LARGEST_LL + 1, max: None },
            Protocol::Simple,
            most,
            "all channels that the communicator has",
        ),
    ]
}

fn line(row: &Row) -> String {
    let Row { collective, bytes: (min, max), choice: Choice { algorithm, protocol, channels }, shape, .. } = row;
    let (nodes, ranks) = shape.map_or(("-1".to_owned(), "-1".to_owned()), |(n, r)| (n.to_string(), r.to_string()));
    format!("{collective},{min},{max},{algorithm},{protocol},{channels},{nodes},{ranks},-1,-1")
}

fn read_back(plan: &Plan<'_>, text: &str, rows: &[Row]) -> Result<(), EmitError> {
    let table = tuner_csv::read(plan, text)?;
    let is_row = |(read, row): (&TableRule, &Row)| {
        (read.collective, read.min_bytes, read.max_bytes, read.choice)
            == (row.collective, row.bytes.0, row.bytes.1, row.choice)
            && (read.nodes, read.ranks) == (row.shape.map(|shape| shape.0), row.shape.map(|shape| shape.1))
    };
    if table.rules().len() != rows.len() || !table.rules().iter().zip(rows).all(is_row) {
        return Err(plan.read_back_error("other rows came back"));
    }
    let rules = plan.live_rules();
    let is_as_measured = |rule: &Rule, bytes: u64| {
        let call = Call::new(rule.collective, bytes, rule.nodes, rule.ranks);
        let (shape, point) = ((rule.nodes, rule.ranks), Point { collective: rule.collective, bytes });
        let Some(first) = rules.iter().find(|rule| rule.covers(shape, point)) else { return true };
        let (choice, channels) = table.example_plugin(&call);
        choice == Some((first.algorithm, first.protocol)) && first.channels.is_none_or(|count| count == channels)
    };
    let ends = |rule: &Rule| [rule.bytes.min, max_bytes(rule)];
    if rules.iter().all(|rule| ends(rule).into_iter().all(|bytes| is_as_measured(rule, bytes))) {
        return Ok(());
    }
    Err(plan.read_back_error("a rule is not as it was measured"))
}

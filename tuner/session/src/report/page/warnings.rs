//! What speaks against the numbers: noise, drift, slow and lost nodes, failures; and what doctor said.

use gdrtune_fleet::hosts::fold;

use super::{MAX_TEXT, count, list};
use crate::{
    doctor::Status,
    event::Decision,
    report::{
        block::{Block, Text, shortened},
        diagnosis::{Diagnosis, Found},
        seen::{Logged, Seen},
    },
};

/// Lines of the log that are shown.
const MAX_LINES: usize = 60;

pub(super) fn blocks(seen: &Seen) -> Vec<Block> {
    let lines = lines(seen);
    let mut blocks = vec![Block::heading(2, "Warnings")];
    blocks.push(if lines.is_empty() {
        Block::paragraph("None: nothing drifted or stalled that the run noticed, and no node was slow or lost.")
    } else {
        Block::List(lines)
    });
    blocks.push(Block::heading(2, "Doctor findings"));
    match &seen.doctor {
        Some(diagnosis) => blocks.extend(diagnosed(diagnosis)),
        None => blocks.push(Block::Paragraph(doctor(seen))),
    }
    blocks
}

/// What doctor said, at its own time.
fn diagnosed(diagnosis: &Diagnosis) -> Vec<Block> {
    let [fail, warn, pass, skip] =
        [Status::Fail, Status::Warn, Status::Pass, Status::Skip].map(|status| diagnosis.of(status).count());
    let text = format!(
        "{fail} FAIL, {warn} WARN, {pass} PASS and {skip} SKIP, as doctor said of its hosts, at another time than the run."
    );
    let troubles: Vec<Text> = diagnosis.troubles().map(trouble).collect();
    let troubles = (!troubles.is_empty()).then(|| list(troubles, MAX_LINES));
    std::iter::once(Block::paragraph(text)).chain(troubles).collect()
}

fn trouble(found: &Found) -> Text {
    let text = Text::strong(found.status.clone())
        .then(" ")
        .then(Text::code(found.id.clone()))
        .then(" on ")
        .then(Text::code(shortened(&fold(&found.hosts), MAX_TEXT)))
        .then(format!(": {}", shortened(&found.evidence, 2 * MAX_TEXT)));
    match &found.fix {
        Some(fix) => text.then(format!("; fix: {}", shortened(fix, 2 * MAX_TEXT))),
        None => text,
    }
}

fn lines(seen: &Seen) -> Vec<Text> {
    let slow = seen.slow.iter().map(|(host, why)| {
        let why = shortened(why, MAX_TEXT);
        Text::strong("slow node").then(": ").then(Text::code(host)).then(format!(" {why}"))
    });
    let noisy = seen.shapes.iter().flat_map(|shape| shape.points.values()).filter_map(|point| point.verdict.as_ref());
    let noisy = noisy.filter(|verdict| verdict.decision == Decision::TooNoisy).count() as u64;
    let noisy = (noisy > 0).then(|| {
        let text = format!(": {} could not be judged; the table above says what it would take", count(noisy, "point"));
        Text::strong("noise").then(text)
    });
    let failed = seen.failed.iter().map(|(kind, number)| Text::strong("trials").then(format!(": {number} {kind}")));
    let more = seen.logs.len().saturating_sub(MAX_LINES);
    let cut = (0 < more).then(|| {
        let at_least = if seen.is_log_cut { "at least " } else { "" };
        Text::from(format!("and {at_least}{more} more in the run's log"))
    });
    let logs = seen.logs.iter().take(MAX_LINES).map(logged);
    slow.take(MAX_LINES).chain(noisy).chain(failed).chain(logs).chain(cut).collect()
}

fn logged(line: &Logged) -> Text {
    let word = if line.is_error { "error" } else { "warning" };
    let hosts: Vec<&String> = line.hosts.iter().filter(|host| !host.is_empty()).collect();
    let from = if hosts.is_empty() {
        Text::default()
    } else {
        Text::from(" of ").then(Text::code(shortened(&fold(&hosts), MAX_TEXT)))
    };
    let times = if line.count > 1 { format!(" ({} times)", line.count) } else { String::new() };
    Text::strong(word).then(from).then(format!(": {}{times}", shortened(&line.text, 2 * MAX_TEXT)))
}

fn doctor(seen: &Seen) -> Text {
    if !seen.started.engine.is_real() {
        return "There are no hosts to look at: nothing ran on any.".into();
    }
    let hosts = &seen.started.hosts;
    // A part of the names would be other hosts.
    let hosts = if MAX_TEXT < hosts.len() { "HOSTS".into() } else { shell_words::quote(hosts) };
    Text::from("The run's record has none, since a run measures and does not look for causes. ")
        .then(Text::code(format!("gdrtune doctor -w {hosts} --json")))
        .then(" looks for what is wrong with these hosts and the way between them, and changes nothing; ")
        .then(Text::code("gdrtune report --doctor FILE"))
        .then(" puts what it printed here.")
}

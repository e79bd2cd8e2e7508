//! `gdrtune runs show`: a run on one page.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use gdrtune_profiles::vocab::Point;
use gdrtune_session::{
    event::{Event, Record, without},
    index, store,
};

use crate::{
    cli::RunArgs,
    exit::{Exit, Failure},
    headless::{place, verdict_text},
};

pub(super) fn show(args: &RunArgs) -> Result<Exit, Failure> {
    let path = super::find(args)?;
    let run = store::read_run(&path).map_err(Failure::usage)?;
    let mut out = io::stdout().lock();
    let mut page = Page::default();
    for record in &run.records {
        page.take(record);
    }
    for (name, text) in &page.lines {
        writeln!(out, "{name:<10} {text}")?;
    }
    let end = page.end.unwrap_or_else(|| super::unfinished(&path).to_owned());
    let seconds = run.records.last().map_or(0.0, |record| record.t_ms as f64 / 1e3);
    writeln!(out, "{:<10} {}, {} failed, in {seconds:.1} s", "trials", page.trials, page.failed)?;
    writeln!(out, "{:<10} {end}", "end")?;
    writeln!(out, "{:<10} {}", "store", path.display())?;
    // A reduced candidate is measured again: the last verdict of a point counts.
    for verdict in page.verdicts.values() {
        writeln!(out, "{verdict}")?;
    }
    for file in &page.files {
        writeln!(out, "wrote {file}")?;
    }
    Ok(Exit::Done)
}

/// What a run's records come to.
#[derive(Default)]
struct Page {
    lines: Vec<(&'static str, String)>,
    trials: u64,
    failed: u64,
    shape: u32,
    verdicts: BTreeMap<(u32, Point), String>,
    files: Vec<String>,
    end: Option<String>,
}

impl Page {
    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::RunStarted { run, tool, engine, hosts, nodes, ranks, seed, .. } => {
                self.lines.push(("run", format!("{run}, gdrtune {tool}")));
                let text = format!("engine {engine}, {}, seed {seed}", place(*nodes, hosts, *ranks));
                self.lines.push(("on", text));
            }
            Event::Invoked(invocation) => {
                self.lines.push(("command", format!("gdrtune {}", invocation.args.join(" "))));
                self.lines.push(("folder", invocation.dir.clone()));
            }
            Event::Emulated { why } => self.lines.push(("emulated", why.clone())),
            Event::Resumed { at, trials, .. } => {
                self.end = None;
                self.lines.push(("resumed at", format!("{at}: {trials} trials were not repeated")));
            }
            Event::Shape { index, .. } => self.shape = *index,
            Event::NodeSet { hosts, nodes, ranks, left_out } => {
                let text = format!("{}, {}", place(*nodes, hosts, *ranks), without(left_out));
                self.lines.push(("from then", text));
                self.verdicts.clear();
            }
            Event::Trial(trial) => {
                self.trials += 1;
                self.failed += u64::from(trial.result.has_failed());
            }
            Event::Verdict { point, speedup, default_us, tuned_us, decision, note } => {
                let text = verdict_text(*point, speedup, *default_us, *tuned_us, *decision, note);
                self.verdicts.insert((self.shape, *point), text);
            }
            Event::Wish { wish, .. } => self.lines.push(("wish", wish.to_string())),
            Event::Extended(extension) => self.lines.push(("wish", extension.to_string())),
            Event::Written { files, so_far: false } => self.files.clone_from(files),
            Event::Finished { end, summary } => self.end = Some(format!("{}: {summary}", index::end_name(*end))),
            _ => {}
        }
    }
}

//! `gdrtune runs show`: a run on one page.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::Path,
};

use gdrtune_profiles::vocab::Point;
use gdrtune_session::{
    event::{Event, Record, without},
    index, store,
};

use super::super::page::Page;
use crate::{
    cli::RunArgs,
    exit::{Exit, Failure},
    headless::{place, verdict_text},
};

/// Columns of what stands before an item.
const LABEL: usize = 10;

/// Of what somebody may paste: it stays on one line.
const COMMAND: &str = "command";

pub(super) fn show(args: &RunArgs) -> Result<Exit, Failure> {
    let path = super::find(args)?;
    let run = store::read_run(&path).map_err(Failure::usage)?;
    let shown = text(&run.records, &path, &|| super::unfinished(&path));
    io::stdout().lock().write_all(shown.as_bytes())?;
    Ok(Exit::Done)
}

/// The page of a run's records; `unfinished` says what one without an end is.
fn text(records: &[Record], path: &Path, unfinished: &dyn Fn() -> &'static str) -> String {
    let mut digest = Digest::default();
    for record in records {
        digest.take(record);
    }
    let mut page = Page::default();
    for (name, text) in &digest.lines {
        match *name {
            COMMAND => page.line(&format!("{name:<LABEL$} {text}")),
            _ => page.labelled(LABEL, name, text),
        }
    }
    let end = digest.end.unwrap_or_else(|| unfinished().to_owned());
    let seconds = records.last().map_or(0.0, |record| record.t_ms as f64 / 1e3);
    page.labelled(LABEL, "trials", &format!("{}, {} failed, in {seconds:.1} s", digest.trials, digest.failed));
    page.labelled(LABEL, "end", &end);
    page.line(&format!("{:<LABEL$} {}", "store", path.display()));
    // A reduced candidate is measured again: the last verdict of a point counts.
    for verdict in digest.verdicts.values() {
        page.hanging(verdict);
    }
    for file in &digest.files {
        page.line(&format!("wrote {file}"));
    }
    page.into_text()
}

/// What a run's records come to.
#[derive(Default)]
struct Digest {
    lines: Vec<(&'static str, String)>,
    trials: u64,
    failed: u64,
    shape: u32,
    verdicts: BTreeMap<(u32, Point), String>,
    files: Vec<String>,
    end: Option<String>,
}

impl Digest {
    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::RunStarted { run, tool, engine, hosts, nodes, ranks, seed, .. } => {
                self.lines.push(("run", format!("{run}, gdrtune {tool}")));
                let text = format!("engine {engine}, {}, seed {seed}", place(*nodes, hosts, *ranks));
                self.lines.push(("on", text));
            }
            Event::Invoked(invocation) => {
                self.lines.push((COMMAND, format!("gdrtune {}", invocation.args.join(" "))));
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

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Collective, Engine};
    use gdrtune_session::event::{Failure as Kind, RunEnd, Trial, TrialResult};

    use super::*;
    use crate::ui::text::width;

    #[test]
    fn what_a_store_holds_is_no_command_to_a_terminal_and_fits() {
        let hostile = "a\u{1b}]0;title\u{7}\r\nend        tuned";
        let text = format!(
            r#"{{"type":"run_started","run":"r","tool":"0.1.0","engine":"{}","hosts":{},"nodes":1,"ranks":2,"points":[],"seed":1,"budget_s":null,"schema_version":1}}"#,
            Engine::Sim,
            serde_json::to_string(hostile).unwrap()
        );
        let trial = |kind| {
            Event::Trial(Trial {
                trial: 0,
                arm: gdrtune_session::event::Arm::Search,
                environment: gdrtune_profiles::vocab::Environment::new(),
                point: Point { collective: Collective::AllReduce, bytes: 1024 },
                requested: None,
                selected: None,
                process: 0,
                item: None,
                result: TrialResult::Failed { kind, detail: String::new(), ran: None },
            })
        };
        let words = format!("{hostile} {}", "and so on ".repeat(20));
        let events = [
            serde_json::from_str(&text).unwrap(),
            trial(Kind::Substituted),
            trial(Kind::Unsupported),
            trial(Kind::Skipped),
            trial(Kind::Hung),
            Event::Finished { end: RunEnd::Tuned, summary: words },
        ];
        let records: Vec<Record> = (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 100, event }).collect();
        let shown = super::text(&records, Path::new("r.jsonl"), &|| "killed");
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown}");
        assert_eq!(shown.lines().filter(|line| line.starts_with("end ")).count(), 1, "{shown}");
        assert!(shown.contains("\ntrials     4, 1 failed, in 0.1 s\n"), "{shown}");
        assert!(shown.lines().all(|line| width(line) <= 80), "{shown}");
    }
}

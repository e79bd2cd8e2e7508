//! `gdrtune explain`: why a profile decides as it does, for a call, a variable or over all sizes. Reads files only.

mod json;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::io::{self, Write as _};

use gdrtune_profiles::{
    emit, knob,
    profile::Profile,
    vocab::{Collective, Point},
};
use gdrtune_session::{
    event::{Phase, RunEnd},
    evidence,
    explain::{self as session, Answer, SettingAnswer, Story, Subject},
};

use super::{
    page::Page,
    subject::{self, Loaded},
};
use crate::{
    cli::ExplainArgs,
    exit::{Exit, Failure},
    ui::text as words,
};

/// Tells what decides, and why.
///
/// # Errors
/// Wrong use: no profile and no run, a shape that is not clear, or a variable that nobody knows.
pub(crate) fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let printed = print(&subject::load(&args.subject)?, args)?;
    io::stdout().lock().write_all(printed.as_bytes())?;
    Ok(Exit::Done)
}

fn print(loaded: &Loaded, args: &ExplainArgs) -> Result<String, Failure> {
    let shape = shape(args, loaded)?;
    let story = loaded.records.as_deref().and_then(|records| session::story(records, Some(shape)));
    let explained = Explained { loaded, story: story.as_ref(), shape };
    Ok(match (args.env.as_deref(), args.collective, args.size) {
        (Some(name), ..) => explained.setting(name, args.json)?,
        (None, Some(collective), Some(bytes)) => explained.call(Point { collective, bytes }, args.json)?,
        (None, collective, _) => explained.table(collective, args),
    })
}

/// What is explained.
struct Explained<'a> {
    loaded: &'a Loaded,
    story: Option<&'a Story>,
    shape: (u32, u32),
}

impl<'a> Explained<'a> {
    fn subject(&self) -> Subject<'a> {
        Subject { profile: &self.loaded.profile, story: self.story, picks: &self.loaded.picks, shape: self.shape }
    }

    fn profile(&self) -> &'a Profile {
        &self.loaded.profile
    }

    fn call(&self, point: Point, as_json: bool) -> Result<String, Failure> {
        // Every size is in some stretch, so there is an answer.
        let answer: Answer<'_> = session::answer(self.subject(), point)
            .ok_or_else(|| Failure::from(anyhow::Error::msg("no stretch of sizes holds this one")))?;
        Ok(if as_json { document(self, &json::call(&answer, self.profile())) } else { text::call(self, &answer) })
    }

    fn setting(&self, name: &str, as_json: bool) -> Result<String, Failure> {
        let answer: SettingAnswer<'_> = session::setting(self.subject(), name).ok_or_else(|| {
            let near = knob::nearest(name).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            Failure::usage_text(format!("--env: nothing here knows a variable `{name}`{near}"))
        })?;
        Ok(if as_json { document(self, &json::setting(&answer)) } else { settings::setting(self, &answer) })
    }

    fn table(&self, collective: Option<Collective>, args: &ExplainArgs) -> String {
        let collectives = collective.map_or_else(|| self.collectives(), |one| vec![one]);
        if args.json {
            return document(self, &json::table(self, &collectives));
        }
        let mut page = Page::default();
        if args.table {
            self.worth(&mut page);
        } else {
            self.head(&mut page);
            page.line("");
            if collective.is_none() {
                settings::list(self, &mut page);
            }
        }
        for collective in collectives {
            table::table(self, collective, &mut page);
        }
        if !args.table {
            page.words("One size: gdrtune explain ... COLLECTIVE SIZE; one variable: gdrtune explain ... --env NAME");
        }
        page.into_text()
    }

    /// Those that something is known of: rules, or measured points. Without any, the usual one.
    fn collectives(&self) -> Vec<Collective> {
        let has_rule = |collective: Collective| self.profile().rule.iter().any(|rule| rule.collective == collective);
        let is_measured = |collective: Collective| {
            self.story.is_some_and(|story| story.points.keys().any(|point| point.collective == collective))
        };
        let known = |collective: &Collective| has_rule(*collective) || is_measured(*collective);
        let all: Vec<Collective> = Collective::ALL.iter().copied().filter(known).collect();
        if all.is_empty() { vec![Collective::AllReduce] } else { all }
    }

    /// What is explained, and what its numbers are worth.
    fn head(&self, page: &mut Page) {
        let run = &self.profile().run;
        let of_run = if self.loaded.name.contains(&run.id) { String::new() } else { format!(", run {}", run.id) };
        page.words(&format!("{}{of_run}, engine {}, workload {}", self.loaded.name, run.engine, run.workload));
        self.worth(page);
        for note in self.loaded.notes.iter().chain(&run.notes) {
            page.words(&format!("note: {note}"));
        }
        let shapes = self.profile().rule_shapes();
        if !shapes.is_empty() && !shapes.contains(&self.shape) {
            page.words(&format!("note: there are no rules for {}, but for {}", shape_words(self.shape), list(&shapes)));
        } else if shapes.len() > 1 {
            page.words(&format!("note: there are rules for {}; --nodes and --ranks choose", list(&shapes)));
        }
        let Some(story) = self.story else { return };
        if !story.shapes.contains(&self.shape) && story.points.is_empty() {
            let measured = list(&story.shapes);
            page.words(&format!("note: nothing was measured on {}, but on {measured}", shape_words(self.shape)));
        } else if shapes.len() < 2 && story.shapes.len() > 1 {
            page.words(&format!("note: the run is of {}; --nodes and --ranks choose", list(&story.shapes)));
        }
    }

    /// What the numbers are worth: without it none of them is shown.
    fn worth(&self, page: &mut Page) {
        for label in emit::labels(self.profile()) {
            page.words(label);
        }
        if let Some(words) = self.story.and_then(unfinished_words) {
            page.words(&words);
        }
    }
}

/// How and where a run was broken off; `None` where it did all that it was to do.
fn unfinished_words(story: &Story) -> Option<String> {
    let how = match story.end {
        Some((RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive, _)) => return None,
        Some((RunEnd::Interrupted, _)) => "was interrupted",
        Some((RunEnd::NodesLost, _)) => "lost too many nodes",
        Some((RunEnd::Failed, _)) => "failed",
        None => "has no end: it was killed, or still runs,",
    };
    let place = match story.phase {
        None | Some(Phase::Connect) => "before anything was measured",
        Some(Phase::Baseline) => "while the defaults were measured",
        Some(Phase::Search) => "in the search",
        Some(Phase::Verify) => "in the A/B",
        Some(Phase::Write | Phase::Done) => "while files were written",
    };
    let rest = if story.is_decided { "" } else { ": what has no verdict is not decided" };
    Some(format!("UNFINISHED: the run {how} {place}{rest}"))
}

fn shape_words((nodes, ranks): (u32, u32)) -> String {
    words::shape(nodes, ranks)
}

fn list(shapes: &[(u32, u32)]) -> String {
    shapes.iter().map(|shape| shape_words(*shape)).collect::<Vec<_>>().join("; ")
}

/// A document with what all of them begin with.
fn document(explained: &Explained<'_>, body: &serde_json::Value) -> String {
    let run = &explained.profile().run;
    let mut whole = serde_json::json!({
        "schema_version": 1,
        "run": run.id,
        "engine": run.engine,
        "labels": emit::labels(explained.profile()),
        "notes": explained.loaded.notes.iter().chain(&run.notes).collect::<Vec<_>>(),
        "nodes": explained.shape.0,
        "ranks": explained.shape.1,
        "run_store": explained.story.is_some(),
        "shapes": explained.story.map(|story| &story.shapes),
        "run_end": explained.story.and_then(|story| story.end.as_ref()).map(|(end, _)| end),
        "last_phase": explained.story.and_then(|story| story.phase),
        "decided": explained.story.map(|story| story.is_decided),
    });
    if let (Some(whole), Some(body)) = (whole.as_object_mut(), body.as_object()) {
        whole.extend(body.clone());
    }
    gdrtune_profiles::json::document(&whole)
}

/// The job's shape: as the user says, completed by the shapes that are known.
fn shape(args: &ExplainArgs, loaded: &Loaded) -> Result<(u32, u32), Failure> {
    let profile = &loaded.profile;
    let measured = (profile.cluster.nodes, profile.cluster.ranks);
    let of_run = loaded.records.as_deref().map(evidence::shapes).unwrap_or_default();
    let mut known: Vec<(u32, u32)> = Vec::new();
    for shape in profile.rule_shapes().into_iter().chain(of_run).chain([measured]) {
        if !known.contains(&shape) {
            known.push(shape);
        }
    }
    let fits = |shape: &&(u32, u32)| {
        args.nodes.is_none_or(|nodes| nodes == shape.0) && args.ranks.is_none_or(|ranks| ranks == shape.1)
    };
    let fitting: Vec<(u32, u32)> = known.iter().filter(fits).copied().collect();
    match (args.nodes, args.ranks, fitting.as_slice()) {
        (Some(nodes), Some(ranks), _) if ranks < nodes => {
            Err(Failure::usage_text(format!("--ranks {ranks}: {nodes} nodes have as many ranks at least")))
        }
        (Some(nodes), Some(ranks), _) => Ok((nodes, ranks)),
        // Of several, the first of the profile, which is the largest.
        (None, None, _) => Ok(known.first().copied().unwrap_or(measured)),
        (_, _, [one]) => Ok(*one),
        (_, _, []) => Err(Failure::usage_text(format!("no such shape is known, but {}", list(&known)))
            .with_hint("give both --nodes and --ranks to ask about any other")),
        (_, _, several) => {
            Err(Failure::usage_text(format!("several shapes fit: {}: give both --nodes and --ranks", list(several))))
        }
    }
}

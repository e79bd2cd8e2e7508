//! What the search tells: its space, its environments, and what the user wants of it.

use std::fmt::Write as _;

use gdrtune_session::event::{Event, Level, Wish};

use crate::ui::{
    run::{EnvironmentInPlay, Run, Space},
    text,
};

impl Run {
    /// Events about the search that come a few times in a run, and those of which nothing is shown.
    pub(super) fn ingest_search(&mut self, t_ms: u64, event: Event) {
        match event {
            Event::Space { dimensions, environments, choices, name } => {
                self.summary.n_environments = Some(environments);
                let sizes = [text::count(environments, "environment"), text::count(choices.len() as u64, "choice")];
                let name = if name.is_empty() { name } else { format!(" {name}") };
                self.note(t_ms, Level::Info, format!("space{name}: {}", sizes.join(", ")));
                let allowed = std::mem::take(&mut self.summary.search.space.allowed);
                self.summary.search.space = Space { dimensions, choices, allowed };
            }
            Event::Predicted { point, times_us } => {
                let allowed = times_us.iter().map(|(choice, _)| (choice.algorithm, choice.protocol)).collect();
                self.summary.search.space.allowed.insert(point, allowed);
            }
            Event::EnvironmentStarted { index, environment, why } => {
                self.forget_current();
                let settings = environment.to_string();
                self.note(t_ms, Level::Info, format!("environment {}: {settings} ({why})", text::nth(index)));
                let overlay = self.environment_number(&environment);
                self.summary.search.start(index, overlay, settings.clone(), why.clone());
                self.summary.environment = Some(EnvironmentInPlay { index, settings, why });
            }
            Event::EnvironmentScored { index, score, note, .. } => {
                let mut line = match score {
                    Some(score) if 0.0 < score => {
                        format!("environment {}: best is {} the default", text::nth(index), text::ratio(1.0 / score))
                    }
                    Some(_) | None => format!("environment {}: no score", text::nth(index)),
                };
                if !note.is_empty() {
                    // Writing to a String cannot fail.
                    write!(line, " ({note})").unwrap_or_default();
                }
                // The search scores an environment after each of its rounds; what did not change was said.
                if self.last_score.as_ref() != Some(&line) {
                    self.note(t_ms, if score.is_some() { Level::Info } else { Level::Warn }, line.clone());
                    self.last_score = Some(line);
                }
                self.summary.search.score(index, score, note);
            }
            Event::Importance { knobs } => {
                for knob in &knobs {
                    self.note(t_ms, Level::Info, knob.to_string());
                }
                self.summary.search.knobs = knobs;
            }
            Event::Wish { wish, .. } => {
                self.note(t_ms, Level::Info, format!("as you wished: {wish}"));
                let pins = &mut self.summary.search.pins;
                match wish {
                    Wish::Pin { knob, value } => drop(pins.insert(knob, value)),
                    Wish::Unpin { knob } => drop(pins.remove(&knob)),
                    Wish::Drop { point, choice } => self.summary.give_up(point, choice),
                }
            }
            // The frequent ones are taken by `ingest`, and those about the whole run after them; the log has what matters of the
            // site and the engine; the others are for a resume.
            Event::Invoked(_)
            | Event::Site { .. }
            | Event::Ceilings(_)
            | Event::Probed(_)
            | Event::Script { .. }
            | Event::ScriptEnded { .. }
            | Event::Finishing { .. }
            | Event::Trial(_)
            | Event::Log { .. }
            | Event::Node { .. }
            | Event::Dropped { .. }
            | Event::Best { .. }
            | Event::Verdict { .. }
            | Event::RunStarted { .. }
            | Event::Resumed { .. }
            | Event::Shape { .. }
            | Event::NodeSet { .. }
            | Event::NodeFacts { .. }
            | Event::SlowNode { .. }
            | Event::Emulated { .. }
            | Event::Phase { .. }
            | Event::WorkersStarted { .. }
            | Event::Extended(_)
            | Event::Profile { .. }
            | Event::Written { .. }
            | Event::Finished { .. } => {}
        }
    }
}

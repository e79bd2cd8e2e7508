//! Whether a run that is taken up does what it did before: every decision is held against the stored one.

use std::collections::VecDeque;

use serde_json::Value;

use crate::event::{Event, Level, Phase, Record};

/// A resumed run that does something else than it did before, so that what it has measured does not fit any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run cannot go on: record {seq} of its store has {difference}")]
pub struct Divergence {
    /// Number of the stored record.
    pub seq: u64,
    /// What was there, and what is there now.
    pub difference: String,
}

/// The stored decisions that were not made again yet, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Retrace {
    decisions: VecDeque<(u64, Event)>,
    /// Lines of the log that need not be said again.
    logs: Vec<(Level, String, String)>,
    /// What would ship, as it was told last.
    profile: Option<Event>,
}

/// What to do with an event of a resumed run.
#[derive(Debug, PartialEq)]
pub(crate) enum Told {
    /// It is new.
    New(Event),
    /// It is in the store.
    Before,
    /// It is another one than is in the store.
    Differs(Divergence),
}

impl Retrace {
    /// The decisions of a stored run.
    pub(super) fn of(records: &[Record]) -> Self {
        let mut retrace = Self::default();
        for record in records {
            match &record.event {
                Event::Log { level, host, text } => retrace.logs.push((*level, host.clone(), text.clone())),
                // All but what the run is was decided for other nodes.
                Event::NodeSet { .. } => {
                    retrace.decisions.truncate(1);
                    retrace.profile = None;
                }
                profile @ Event::Profile { .. } => retrace.profile = Some(profile.clone()),
                event if is_decision(event) => retrace.decisions.push_back((record.seq, event.clone())),
                _ => {}
            }
        }
        retrace
    }

    /// Whether there is nothing to hold against any more.
    pub(crate) fn is_over(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Holds an event against the store.
    pub(crate) fn hold(&mut self, event: Event) -> Told {
        if let Event::Log { level, host, text } = &event {
            let is_known = |(l, h, t): &(Level, String, String)| (l, h, t) == (level, host, text);
            let Some(at) = self.logs.iter().position(is_known) else { return Told::New(event) };
            self.logs.swap_remove(at);
            return Told::Before;
        }
        if matches!(event, Event::Profile { .. }) {
            // It follows from decisions, so what was told between those that are in the store is there too.
            let is_known = !self.is_over() || self.profile.take_if(|last| *last == event).is_some();
            return if is_known { Told::Before } else { Told::New(event) };
        }
        if !is_decision(&event) {
            return Told::New(event);
        }
        let Some((seq, stored)) = self.decisions.pop_front() else {
            // From here on a line is news even if it was said before.
            self.logs.clear();
            return Told::New(event);
        };
        if stored == event {
            return Told::Before;
        }
        Told::Differs(Divergence { seq, difference: difference(&stored, &event) })
    }
}

/// Whether an event follows from what was asked for and measured alone. The others tell of processes, machines and time.
pub(crate) const fn is_decision(event: &Event) -> bool {
    match event {
        Event::Phase { phase } => !matches!(phase, Phase::Connect | Phase::Done),
        Event::RunStarted { .. }
        | Event::Emulated { .. }
        | Event::Shape { .. }
        | Event::Space { .. }
        | Event::EnvironmentStarted { .. }
        | Event::EnvironmentScored { .. }
        | Event::Site { .. }
        | Event::Ceilings(_)
        | Event::Probed(_)
        | Event::Predicted { .. }
        | Event::Script { .. }
        | Event::Trial(_)
        | Event::ScriptEnded { .. }
        | Event::Finishing { .. }
        | Event::Wish { .. }
        | Event::Extended(_)
        | Event::Dropped { .. }
        | Event::Best { .. }
        | Event::Importance { .. }
        | Event::Verdict { .. } => true,
        // Files that were only asked for say nothing of how the run goes on.
        Event::Written { so_far, .. } => !*so_far,
        Event::Invoked(_)
        | Event::Resumed { .. }
        | Event::Node { .. }
        | Event::NodeFacts { .. }
        | Event::SlowNode { .. }
        | Event::NodeSet { .. }
        | Event::WorkersStarted { .. }
        | Event::Profile { .. }
        | Event::Log { .. }
        | Event::Finished { .. } => false,
    }
}

/// The first place where two events differ: `space: dimensions.NCCL_BUFFSIZE[1] was "1048576" and is nothing`.
fn difference(stored: &Event, now: &Event) -> String {
    // Events always serialize: they were read from a store, or are about to be written to one.
    let value = |event: &Event| serde_json::to_value(event).unwrap_or_default();
    let (stored, now) = (value(stored), value(now));
    let kind = |value: &Value| value["type"].as_str().unwrap_or("a record").to_owned();
    if kind(&stored) != kind(&now) {
        return format!("`{}`, and now comes `{}`", kind(&stored), kind(&now));
    }
    let (path, was, is) = first_difference(String::new(), &stored, &now);
    format!("`{}`: {} was {was} and is {is}", kind(&stored), path.trim_start_matches('.'))
}

/// Path of the first difference and both values there.
fn first_difference(path: String, stored: &Value, now: &Value) -> (String, String, String) {
    let steps: Vec<String> = match (stored, now) {
        (Value::Object(a), Value::Object(b)) => a.keys().chain(b.keys()).cloned().collect(),
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).map(|index| index.to_string()).collect(),
        _ => Vec::new(),
    };
    let is_array = stored.is_array();
    for step in steps {
        let (a, b) = if is_array {
            let index: usize = step.parse().unwrap_or_default();
            (stored.get(index), now.get(index))
        } else {
            (stored.get(&step), now.get(&step))
        };
        if a != b {
            let path = if is_array { format!("{path}[{step}]") } else { format!("{path}.{step}") };
            return first_difference(path, a.unwrap_or(&Value::Null), b.unwrap_or(&Value::Null));
        }
    }
    let text = |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    (path, text(stored), text(now))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn space(values: &[&str]) -> Event {
        let values = values.iter().map(|value| Some((*value).to_owned())).collect();
        let dimensions = BTreeMap::from([("NCCL_BUFFSIZE".to_owned(), values)]);
        Event::Space { dimensions, choices: Vec::new(), environments: 2, name: String::new() }
    }

    fn log(text: &str) -> Event {
        Event::Log { level: Level::Info, host: String::new(), text: text.to_owned() }
    }

    /// What would ship, with a rule of the golden profile or without.
    fn profile(n_rules: usize) -> Event {
        let text = include_str!("../../../../profiles/tests/golden/nccl.toml");
        let (mut profile, _) = gdrtune_profiles::profile::Profile::parse(text, "golden").unwrap();
        profile.rule.truncate(n_rules);
        Event::Profile { profile: Box::new(profile), left_out: Vec::new() }
    }

    #[test]
    fn what_would_ship_is_told_again_only_where_the_store_lacks_it() {
        let stored = [space(&["1"]), profile(0), space(&["2"]), profile(1)];
        let mut told = retrace(&stored);
        let held = stored.map(|event| told.hold(event));
        assert_eq!(held, [Told::Before, Told::Before, Told::Before, Told::Before]);
        assert_eq!(told.hold(profile(1)), Told::New(profile(1)), "it was told once");
        let mut cut_off = retrace(&[space(&["1"]), profile(0), space(&["2"])]);
        let held = [space(&["1"]), profile(0), space(&["2"]), profile(1)].map(|event| cut_off.hold(event));
        assert_eq!(held, [Told::Before, Told::Before, Told::Before, Told::New(profile(1))]);
        let mut old = retrace(&[space(&["1"]), space(&["2"])]);
        let held = [space(&["1"]), profile(0), space(&["2"])].map(|event| old.hold(event));
        assert_eq!(held, [Told::Before, Told::Before, Told::Before], "a run of a gdrtune that did not tell it");
    }

    fn retrace(events: &[Event]) -> Retrace {
        let record = |(seq, event): (u64, &Event)| Record { seq, t_ms: 0, event: event.clone() };
        Retrace::of(&(0..).zip(events).map(record).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_stored_is_not_told_again_and_what_differs_is_named() {
        let search = || Event::Phase { phase: Phase::Search };
        let mut told = retrace(&[Event::Phase { phase: Phase::Connect }, space(&["1", "2"]), log("a"), search()]);
        assert_eq!(told.hold(log("new")), Told::New(log("new")));
        assert_eq!(told.hold(space(&["1", "2"])), Told::Before);
        assert_eq!(told.hold(log("a")), Told::Before);
        assert_eq!(told.hold(log("a")), Told::New(log("a")), "it was said once");
        assert!(!told.is_over());
        assert_eq!(told.hold(search()), Told::Before);
        assert!(told.is_over());
        assert_eq!(told.hold(space(&["3"])), Told::New(space(&["3"])));

        let node_set = Event::NodeSet { hosts: "a".into(), nodes: 1, ranks: 1, left_out: Vec::new() };
        let mut told = retrace(&[search(), space(&["1"]), node_set, space(&["2"])]);
        let held = [search(), space(&["2"])].map(|event| told.hold(event));
        assert_eq!(held, [Told::Before, Told::Before], "what was decided for other nodes is left");

        for (now, expected) in [
            (space(&["1", "4"]), r#"`space`: dimensions.NCCL_BUFFSIZE[1] was "2" and is "4""#),
            (space(&["1"]), r#"`space`: dimensions.NCCL_BUFFSIZE[1] was "2" and is nothing"#),
            (search(), "`space`, and now comes `phase`"),
        ] {
            let Told::Differs(difference) = retrace(&[log("x"), space(&["1", "2"])]).hold(now) else { panic!() };
            assert_eq!(difference.to_string(), format!("the run cannot go on: record 1 of its store has {expected}"));
        }
    }
}

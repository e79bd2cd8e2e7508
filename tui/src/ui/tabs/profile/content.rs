//! The lines of each section.

use std::fmt::Write as _;

use gdrtune_profiles::{
    diff::{Change, Context, Diff},
    emit::{EmitOptions, emit},
    knob,
    profile::{Class, EnvSetting, Profile, Rule, Speedup},
};

use super::{Origin, Section};
use crate::ui::{
    run::Draft,
    state::State,
    text::{self, one_line},
};

/// A line, in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row(pub(crate) Vec<(Look, String)>);

/// How a part looks. What it says stands in its words too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Dim,
    Title,
    Good,
    Warn,
    Bad,
}

impl Row {
    fn new(look: Look, text: impl Into<String>) -> Self {
        Self(vec![(look, text.into())])
    }

    /// A text on as many lines as it needs, the first of which begins with `head`.
    fn wrapped(look: Look, head: &str, text: &str, columns: usize) -> Vec<Self> {
        let lines = text::wrap(&one_line(text), columns.saturating_sub(text::width(head))).into_iter().enumerate();
        let indent = " ".repeat(text::width(head));
        lines
            .map(|(index, line)| Self::new(look, format!("{}{line}", if index == 0 { head } else { &indent })))
            .collect()
    }
}

/// The text of a section's file, if it has one, and the lines to show.
pub(super) fn make(state: &State, origin: &Origin) -> (Option<String>, Vec<Row>) {
    let columns = usize::from(origin.columns);
    let Some(draft) = &origin.draft else { return (None, nothing_yet(origin.is_over, columns)) };
    match origin.section {
        Section::Rules => (Some(draft.profile.to_toml()), rules(state, draft, origin.is_over, columns)),
        Section::Diff => diff(draft, origin, columns),
        Section::Toml => file(Ok(draft.profile.to_toml()), true, columns),
        Section::Emitted(format) => {
            let text = emit(&draft.profile, format, &EmitOptions::plain()).map_err(|error| error.to_string());
            file(text, format != gdrtune_profiles::emit::Format::Json, columns)
        }
    }
}

fn nothing_yet(is_over: bool, columns: usize) -> Vec<Row> {
    let text = if is_over {
        "The run told nothing that would ship: it ended before its first environment was scored, or it is of a gdrtune that \
         did not tell it."
    } else {
        "Nothing yet: what would ship is known when the first environment has a score."
    };
    Row::wrapped(Look::Dim, " ", text, columns)
}

/// Settings and rules with their evidence, and what was left out.
fn rules(state: &State, draft: &Draft, is_over: bool, columns: usize) -> Vec<Row> {
    let Draft { profile, left_out, .. } = draft;
    let mut rows = Vec::new();
    if profile.run.unverified {
        let text = "NOT VERIFIED: gains are estimates of the search, which flatter; the A/B tells which of this ships.";
        rows.extend(Row::wrapped(Look::Warn, " ! ", text, columns));
    }
    if draft.is_empty() {
        let text = match (profile.run.unverified, is_over) {
            (true, false) => "Nothing would ship: the search has found nothing yet that beats the defaults.",
            (true, true) => "Nothing would ship: the search had found nothing that beats the defaults.",
            (false, _) => "The defaults stay: nothing ships.",
        };
        rows.extend(Row::wrapped(Look::Plain, " ", text, columns));
        let reason = state.shown().ended.as_ref().filter(|_| !profile.run.unverified);
        rows.extend(reason.map(|ended| Row::wrapped(Look::Plain, " ", &ended.summary, columns)).unwrap_or_default());
    }
    if !profile.env.is_empty() {
        rows.push(Row::new(Look::Title, "Settings of every process"));
        rows.extend(profile.env.iter().flat_map(|setting| setting_rows(setting, columns)));
    }
    rows.extend(rule_rows(state, profile, columns));
    if !left_out.is_empty() {
        rows.push(Row::new(Look::Title, "Tried and left out"));
        rows.extend(left_out.iter().flat_map(|line| Row::wrapped(Look::Plain, " - ", line, columns)));
    }
    rows
}

/// How many processes of each arm are behind it.
fn processes(speedup: &Speedup) -> String {
    if speedup.repeats == 1 { "1 process".to_owned() } else { format!("{} processes", speedup.repeats) }
}

/// `1.42x [1.30-1.51]`.
fn evidence(speedup: &Speedup) -> String {
    let Speedup { median, low, high, .. } = speedup;
    format!("{} [{low:.2}-{high:.2}]", text::ratio(*median))
}

/// A setting with what it gained, and what it does.
fn setting_rows(setting: &EnvSetting, columns: usize) -> Vec<Row> {
    let EnvSetting { name, value, class, speedup, why } = setting;
    let words = |s: &Speedup| format!("{}, {}", evidence(s), processes(s));
    let gained = speedup.as_ref().map_or_else(|| "not measured alone".to_owned(), words);
    let set = format!(" {name}={}", one_line(value));
    let mut rows = if text::width(&set) + 3 + text::width(&gained) <= columns {
        let look = if speedup.is_some() { Look::Good } else { Look::Dim };
        vec![Row(vec![(Look::Plain, format!("{set}   ")), (look, gained)])]
    } else {
        let mut rows = Row::wrapped(Look::Plain, " ", set.trim_start(), columns);
        rows.extend(Row::wrapped(Look::Dim, "   ", &gained, columns));
        rows
    };
    let help = knob::knob(name).map_or("not in the catalogue of knobs", |knob| knob.help);
    let class = if *class == Class::Debugging { " (debugging: re-check it with every NCCL)" } else { "" };
    rows.extend(Row::wrapped(Look::Dim, "   ", &format!("{help}{class}"), columns));
    if !why.is_empty() {
        rows.extend(Row::wrapped(Look::Dim, "   ", &one_line(why), columns));
    }
    rows
}

/// The cells of a rule's row; the last ones are left out where the rows are too wide.
fn rule_cells(state: &State, profile: &Profile, rule: &Rule) -> [String; 5] {
    let is_estimate = profile.run.unverified;
    let gain =
        if is_estimate { format!("{} estimate", text::ratio(rule.speedup.median)) } else { evidence(&rule.speedup) };
    let behind = if is_estimate {
        state.run.samples_behind(profile, rule).map(|samples| text::count(samples as u64, "sample")).unwrap_or_default()
    } else {
        processes(&rule.speedup)
    };
    let times = [rule.default_us, rule.tuned_us].map(text::microseconds).join(" -> ") + " us";
    [rule.bytes.to_string(), rule.choice().to_string(), gain, behind, times]
}

/// The rules under a heading for each collective, and for each shape where there are several.
fn rule_rows(state: &State, profile: &Profile, columns: usize) -> Vec<Row> {
    let cells: Vec<[String; 5]> = profile.rule.iter().map(|rule| rule_cells(state, profile, rule)).collect();
    let mut widths = [0; 5];
    for row in &cells {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = text::width(cell).max(*width));
    }
    // Two spaces before each cell.
    let fits = |n: &usize| widths.iter().take(*n).map(|width| width + 2).sum::<usize>() <= columns;
    let n_cells = (3..=5).rev().find(fits).unwrap_or(3);
    let of_shapes = 1 < profile.rule_shapes().len();
    let mut rows = Vec::new();
    let mut heading = String::new();
    for (rule, cells) in profile.rule.iter().zip(cells) {
        let shape = if of_shapes { format!(" on {}", text::shape(rule.nodes, rule.ranks)) } else { String::new() };
        let next = format!("{}{shape}", rule.collective);
        if next != heading {
            heading = next;
            rows.push(Row::new(Look::Title, heading.clone()));
        }
        let look = |index| match index {
            2 if profile.run.unverified => Look::Plain,
            2 => Look::Good,
            0 | 1 => Look::Plain,
            _ => Look::Dim,
        };
        let padded = cells.into_iter().zip(widths).enumerate().take(n_cells);
        let pad = |(index, (cell, width)): (usize, (String, usize))| (look(index), format!("  {cell:width$}"));
        rows.push(Row(padded.map(pad).collect()));
    }
    rows
}

/// Against the defaults, and against the loaded profile.
fn diff(draft: &Draft, origin: &Origin, columns: usize) -> (Option<String>, Vec<Row>) {
    let defaults = Diff::from_defaults(&draft.profile);
    let mut text = format!("# from the defaults\n{defaults}");
    let mut rows = vec![Row::new(Look::Title, "From the defaults to this")];
    rows.extend(diff_rows(&defaults, "Nothing differs: jobs run as they do now.", columns));
    if let Some(other) = &origin.other {
        let diff = Diff::between(&other.profile, &draft.profile);
        let name = one_line(&other.name);
        // Writing to a String cannot fail.
        write!(text, "# from {name}\n{diff}").unwrap_or_default();
        rows.extend(Row::wrapped(Look::Title, "", &format!("From {name} to this"), columns));
        rows.extend(diff_rows(&diff, "Nothing differs: jobs run the same with either.", columns));
    } else {
        rows.push(Row::new(Look::Dim, " o loads a profile to compare with"));
    }
    (Some(text), rows)
}

fn diff_rows(diff: &Diff, same: &str, columns: usize) -> Vec<Row> {
    let context =
        |context: &Context| Row::wrapped(Look::Dim, "   ", &format!("measured differently: {context}"), columns);
    let mut rows: Vec<Row> = diff.context.iter().flat_map(context).collect();
    for change in &diff.env {
        rows.extend(Row::wrapped(look_of(&change.value), " ", &change.to_string(), columns));
    }
    for change in &diff.rule {
        rows.extend(Row::wrapped(look_of(&change.choice), " ", &change.to_string(), columns));
    }
    if diff.is_empty() {
        rows.extend(Row::wrapped(Look::Plain, " ", same, columns));
    }
    rows
}

const fn look_of<T>(change: &Change<T>) -> Look {
    match change {
        Change::Added(_) => Look::Good,
        Change::Removed(_) => Look::Bad,
        Change::Changed { .. } => Look::Warn,
    }
}

/// A file as it would be written. What a line goes on with on the next row is marked there.
fn file(text: Result<String, String>, has_comments: bool, columns: usize) -> (Option<String>, Vec<Row>) {
    let text = match text {
        Ok(text) => text,
        Err(error) => return (None, Row::wrapped(Look::Bad, " x ", &format!("cannot be written: {error}"), columns)),
    };
    let mut rows = Vec::new();
    for line in text.lines() {
        let look = if has_comments && line.starts_with('#') { Look::Dim } else { Look::Plain };
        let parts = cut(&one_line(line), columns.saturating_sub(2)).into_iter().enumerate();
        let margin = |index| if index == 0 { " " } else { ">" };
        rows.extend(parts.map(|(index, part)| Row(vec![(Look::Dim, margin(index).to_owned()), (look, part)])));
    }
    (Some(text), rows)
}

/// Cuts a line into parts of at most so many columns, wherever that is.
fn cut(line: &str, columns: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut used = 0;
    for c in line.chars() {
        let width = text::width(c.encode_utf8(&mut [0; 4]));
        if columns < used + width {
            parts.push(String::new());
            used = 0;
        }
        used += width;
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_columns_and_lose_nothing() {
        for (line, columns, expected) in [
            ("", 4, vec![""]),
            ("abcd", 4, vec!["abcd"]),
            ("abcde", 4, vec!["abcd", "e"]),
            ("日本語", 4, vec!["日本", "語"]),
            ("a日本", 4, vec!["a日", "本"]),
        ] {
            assert_eq!(cut(line, columns), expected, "{line}");
        }
    }
}

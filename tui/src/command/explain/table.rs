//! Decisions of a collective over all sizes.

use gdrtune_profiles::{
    profile::Stretch,
    vocab::{Collective, Point},
};
use gdrtune_session::{event::Decision, explain::PointStory};

use super::{Explained, Page, shape_words, text::choice_words};
use crate::{
    command::page::{COLUMNS, interval, own_choice},
    ui::text::{count, width, wrap},
};

/// Columns beside sizes and choice: blanks between, times and the speed-up with its interval.
const NUMBERS: usize = 4 + 20 + 22;

/// A row for each stretch of sizes, and an empty line.
pub(super) fn table(explained: &Explained<'_>, collective: Collective, page: &mut Page) {
    page.line(&format!("{collective} on {}", shape_words(explained.shape)));
    let stretches = explained.profile().stretches(collective, explained.shape);
    let has_rules = stretches.iter().any(|stretch| stretch.rule.is_some());
    let sizes = stretches.iter().map(|stretch| width(&stretch.bytes.to_string()));
    let sizes = sizes.chain([width("sizes")]).max().unwrap_or_default();
    let rules = stretches.iter().filter_map(|stretch| stretch.rule);
    let choices = rules.map(|(_, rule)| width(&rule.choice().to_string()));
    let choices = choices.chain([width("choice")]).max().unwrap_or_default();
    // Numbers stand clear of the words of sizes without a rule as far as there is room.
    let own = own_choice(explained.profile().run.engine);
    let choices = choices.max(width(own)).min(COLUMNS.saturating_sub(sizes + NUMBERS));
    let numbers =
        if has_rules { format!("{:>11}{:>9}  speed-up (90 %)", "default us", "tuned us") } else { String::new() };
    page.line(&format!("  {:<sizes$}  {:<choices$}{numbers}", "sizes", "choice"));
    for stretch in stretches {
        let before = format!("  {:<sizes$}  ", stretch.bytes);
        let choice = choice_words(explained, stretch);
        if let Some((_, rule)) = stretch.rule {
            let speedup = interval(&rule.speedup);
            let numbers = format!("{:>11.1}{:>9.1}  {speedup}", rule.default_us, rule.tuned_us);
            row(&format!("{before}{choice:<choices$}"), &numbers, page);
            continue;
        }
        // Its words take the room of the numbers.
        let before = format!("{before}{choice}  ");
        let room = COLUMNS.saturating_sub(width(&before)).max(1);
        for (number, line) in wrap(&kept(explained, collective, stretch), room).iter().enumerate() {
            let before = if number == 0 { before.as_str() } else { "" };
            page.line(&format!("{before:<indent$}{line}", indent = COLUMNS - room));
        }
    }
    page.line("");
}

/// Numbers of a line, or where they have no room, of the next.
fn row(before: &str, numbers: &str, page: &mut Page) {
    if width(before) + width(numbers) <= COLUMNS {
        return page.line(&format!("{before}{numbers}"));
    }
    page.line(before);
    page.line(&format!("{numbers:>COLUMNS$}"));
}

/// What the run found in a stretch without a rule, in a few words.
fn kept(explained: &Explained<'_>, collective: Collective, stretch: Stretch<'_>) -> String {
    let any = Point { collective, bytes: 0 };
    let measured: Vec<&PointStory> = explained
        .subject()
        .measured(any)
        .filter(|(bytes, _)| stretch.bytes.contains(*bytes))
        .map(|(_, story)| story)
        .collect();
    if measured.is_empty() {
        return if explained.story.is_some() { "not measured".to_owned() } else { String::new() };
    }
    let judged = |decision: Option<Decision>| {
        let alike = |story: &&&PointStory| story.judged.as_ref().map(|judged| judged.decision) == decision;
        measured.iter().filter(alike).count()
    };
    let is_decided = explained.story.is_some_and(|story| story.is_decided);
    // Where no rule covers a size that gained, it is the settings that ship, or nothing does.
    let has_settings = !explained.profile().env.is_empty();
    let words = [
        (judged(None), if is_decided { "nothing found to try" } else { "not decided" }),
        (
            judged(Some(Decision::Ship)),
            if has_settings { "surely faster with the settings" } else { "faster but no rule passed" },
        ),
        (judged(Some(Decision::Keep)), "no sure gain"),
        (judged(Some(Decision::TooNoisy)), "too noisy"),
        (judged(Some(Decision::Regression)), "slower"),
    ];
    let found = words.iter().filter(|(number, _)| *number > 0);
    let found: Vec<(usize, &str)> = found.copied().collect();
    let sizes = count(measured.len() as u64, "size");
    if let [(_, only)] = found.as_slice() {
        return format!("{sizes}: {only}");
    }
    let found: Vec<String> = found.iter().map(|(number, what)| format!("{number} {what}")).collect();
    format!("{sizes}: {}", found.join(", "))
}

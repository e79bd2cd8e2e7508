//! Decisions of a collective over all sizes.

use gdrtune_profiles::{
    profile::Stretch,
    vocab::{Collective, Point},
};
use gdrtune_session::{event::Decision, explain::PointStory};

use super::{Explained, Page, shape_words, text::choice_words};
use crate::{command::page::interval, ui::text::count};

/// A row for each stretch of sizes, and an empty line.
pub(super) fn table(explained: &Explained<'_>, collective: Collective, page: &mut Page) {
    page.line(&format!("{collective} on {}", shape_words(explained.shape)));
    page.line(&format!("  {:<19}{:<18}{:>10}{:>9}  speed-up (90 %)", "sizes", "choice", "default us", "tuned us"));
    for stretch in explained.profile().stretches(collective, explained.shape) {
        let choice = choice_words(explained, stretch);
        let sizes = stretch.bytes.to_string();
        match stretch.rule {
            Some((_, rule)) => page.line(&format!(
                "  {sizes:<19}{choice:<18}{:>10.1}{:>9.1}  {}",
                rule.default_us,
                rule.tuned_us,
                interval(&rule.speedup)
            )),
            None => page.line(&format!("  {sizes:<19}{choice:<18}  {}", kept(explained, collective, stretch))),
        }
    }
    page.line("");
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
    let words = [
        (judged(None), "nothing found to try"),
        (judged(Some(Decision::Keep)) + judged(Some(Decision::Ship)), "no sure gain"),
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

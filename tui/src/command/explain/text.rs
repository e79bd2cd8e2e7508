//! One call in words.

use std::fmt::Write as _;

use gdrtune_profiles::{
    profile::{PointChoice, Rule, Stretch},
    size::Size,
    vocab::{Choice, Environment, Point},
};
use gdrtune_session::{
    event::Decision,
    evidence::Judged,
    explain::{Answer, Crossing, Neighbour, OwnChoice, Tried},
};

use super::{Explained, Page, shape_words};
use crate::{
    command::page::{COLUMNS, evidence, own_choice},
    ui::text::{self, failure_name},
};

/// Choices that were tried with the settings that ship, and are shown; of others and of failed ones half as many. `--json` has all.
const SHOWN: usize = 8;

/// The whole page.
pub(super) fn call(explained: &Explained<'_>, answer: &Answer<'_>) -> String {
    let mut page = Page::default();
    let decided = choice_words(explained, answer.stretch);
    page.line(&format!("{} on {}: {decided}", answer.point, shape_words(explained.shape)));
    explained.head(&mut page);
    page.line("");
    decision(explained, answer, &mut page);
    own(explained, answer, &mut page);
    here(answer, &mut page);
    for (label, neighbour) in [("smaller", &answer.below), ("larger", &answer.above)] {
        if let Some(neighbour) = neighbour {
            page.item(label, &neighbour_words(explained, answer, neighbour));
        }
    }
    settings(explained, &mut page);
    let sentences = explained.story.map(|story| story.left_out_at(answer.point)).unwrap_or_default();
    for sentence in sentences {
        page.item("left out", sentence);
    }
    tried(explained, answer, &mut page);
    page.into_text()
}

/// A choice, or whose it is.
pub(super) fn choice_words(explained: &Explained<'_>, stretch: Stretch<'_>) -> String {
    match stretch.rule {
        Some((_, rule)) => rule.choice().to_string(),
        None => own_choice(explained.profile().run.engine).to_owned(),
    }
}

fn decision(explained: &Explained<'_>, answer: &Answer<'_>, page: &mut Page) {
    let sizes = answer.stretch.bytes;
    let Some((place, rule)) = answer.stretch.rule else {
        page.item(
            "decided by",
            &format!("no rule: none for sizes {sizes}, so it is {}", choice_words(explained, answer.stretch)),
        );
        return;
    };
    let all = explained.profile().rule.len();
    page.item("decided by", &format!("rule {} of {all}, which holds for {sizes}", place + 1));
    page.item("evidence", &rule_words(rule));
    if !answer.hidden.is_empty() {
        let places: Vec<String> = answer.hidden.iter().map(|place| (place + 1).to_string()).collect();
        page.item("", &format!("hides rule {}, which comes later: the first that holds wins", places.join(", ")));
    }
}

/// What a rule gained over all its sizes.
fn rule_words(rule: &Rule) -> String {
    format!(
        "over all sizes of the rule {:.1} us without it, {:.1} us with it: {}",
        rule.default_us,
        rule.tuned_us,
        evidence(&rule.speedup)
    )
}

fn own(explained: &Explained<'_>, answer: &Answer<'_>, page: &mut Page) {
    let label = if answer.stretch.rule.is_some() { "replaces" } else { "which is" };
    // The default arm has none of the profile's settings.
    let without = if explained.profile().env.is_empty() { "" } else { " without the settings" };
    let whose = format!("{}{without}", own_choice(explained.profile().run.engine));
    if let [(_, OwnChoice::Unknown)] = answer.own.as_slice() {
        page.item(label, &format!("{whose}, which is not known: no record here says what that is"));
        return;
    }
    let here = |bytes: u64| bytes == answer.point.bytes;
    let told = answer.own.iter().map(|(bytes, own)| {
        let at = if here(*bytes) { "here".to_owned() } else { format!("at {}", Size(*bytes)) };
        format!("{at} {}", own_words(own))
    });
    let unmeasured =
        if answer.own.iter().any(|(bytes, _)| here(*bytes)) { "" } else { " (this size was not measured)" };
    page.item(label, &format!("{whose}: {}{unmeasured}", told.collect::<Vec<_>>().join("; ")));
}

fn own_words(own: &OwnChoice) -> String {
    match own {
        OwnChoice::Ran(ran) => {
            let all: u32 = ran.iter().map(|(_, count)| count).sum();
            let most: Vec<String> = ran.iter().take(3).map(|(choice, count)| format!("{choice} ({count})")).collect();
            match ran.as_slice() {
                [(only, _)] => format!("{only}, as {} of the default arm tell", text::count(u64::from(all), "sample")),
                _ => format!("by samples of the default arm {}", most.join(", ")),
            }
        }
        OwnChoice::Predicted(choice, time_us) => {
            format!("{choice} by its own prediction ({time_us:.1} us; channels are not predicted)")
        }
        OwnChoice::Unknown => "not known".to_owned(),
    }
}

/// What was measured at this very size.
fn here(answer: &Answer<'_>, page: &mut Page) {
    let label = format!("at {}", Size(answer.point.bytes));
    if let Some(story) = answer.story {
        if let Some(judged) = &story.judged {
            page.item(&label, &judged_words(judged));
        }
        if let Some(times) = story.default {
            let spread = times.spread.map(|spread| format!(", spread {:.0} %", spread * 100.0)).unwrap_or_default();
            let samples = text::count(u64::from(times.samples), "sample");
            let sets = text::count(u64::from(times.processes), "process set");
            let words = format!("default arm {:.1} us: {samples} of {sets}{spread}", times.median_us);
            page.item(if story.judged.is_some() { "" } else { &label }, &words);
        }
    }
    if let Some(pick) =
        answer.pick.filter(|pick| Some(pick.choice) != answer.stretch.rule.map(|(_, rule)| rule.choice()))
    {
        page.item("the search", &pick_words(pick));
    }
}

fn pick_words(pick: &PointChoice) -> String {
    let samples = text::count(u64::from(pick.samples), "sample");
    format!("took {} for best here ({:.1} us, {samples}), which does not ship", pick.choice, pick.median_us)
}

fn judged_words(judged: &Judged) -> String {
    let Judged { speedup, default_us, tuned_us, decision, note } = judged;
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    format!("last A/B {default_us:.1} to {tuned_us:.1} us, {}: {}{note}", evidence(speedup), decided(*decision))
}

/// What a verdict says of a size. Whether something ships there is the matter of rules and settings as a whole.
const fn decided(decision: Decision) -> &'static str {
    match decision {
        Decision::Ship => "surely faster",
        Decision::Keep => "no sure gain",
        Decision::Regression => "surely slower",
        Decision::TooNoisy => "too noisy to say",
    }
}

fn neighbour_words(explained: &Explained<'_>, answer: &Answer<'_>, neighbour: &Neighbour<'_>) -> String {
    let other = choice_words(explained, neighbour.stretch);
    let rule = neighbour.stretch.rule.map(|(place, _)| format!(" (rule {})", place + 1)).unwrap_or_default();
    let mut words = format!("{} is {other}{rule}", neighbour.stretch.bytes);
    if !neighbour.crossings.is_empty() {
        let own = choice_words(explained, answer.stretch);
        let told: Vec<String> =
            neighbour.crossings.iter().map(|crossing| crossing_words(*crossing, &own, &other)).collect();
        write!(words, ": {}", told.join("; ")).ok();
    } else if explained.story.is_none() {
        words.push_str(". What decided is in the run's store, which is not here");
    }
    if neighbour.stretch.rule.is_none() {
        words.push_str(&kept_words(explained, answer.point, neighbour.stretch));
    }
    words
}

fn crossing_words(Crossing { bytes, own_us, other_us }: Crossing, own: &str, other: &str) -> String {
    let time =
        |time_us: Option<f64>| time_us.map_or_else(|| "was not measured".to_owned(), |us| format!("took {us:.1} us"));
    format!("at {} {own} {}, {other} {}", Size(bytes), time(own_us), time(other_us))
}

/// Why nothing ships at the measured size of a stretch that is nearest to a point.
fn kept_words(explained: &Explained<'_>, point: Point, stretch: Stretch<'_>) -> String {
    let distance = |bytes: u64| bytes.abs_diff(point.bytes);
    let measured = explained.subject().measured(point).filter(|(bytes, _)| stretch.bytes.contains(*bytes));
    let Some((bytes, story)) = measured.min_by_key(|(bytes, _)| distance(*bytes)) else { return String::new() };
    let is_decided = explained.story.is_some_and(|story| story.is_decided);
    let why = match &story.judged {
        Some(judged) => judged_words(judged),
        None if is_decided => "the search had nothing there for the A/B".to_owned(),
        None => "not decided, as the run has not come to an end of its A/B".to_owned(),
    };
    format!(". No rule at {}: {why}", Size(bytes))
}

fn settings(explained: &Explained<'_>, page: &mut Page) {
    let environment = explained.profile().environment();
    if !environment.is_empty() {
        let set: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        page.item("settings", &format!("of every call: {}; --env NAME tells why", set.join(", ")));
    }
}

/// What else was tried here, the fastest first, and what failed.
fn tried(explained: &Explained<'_>, answer: &Answer<'_>, page: &mut Page) {
    let Some(story) = answer.story else { return };
    let environment = explained.profile().environment();
    let shipped = answer.stretch.rule.map(|(_, rule)| rule.choice());
    let is_shipped = |tried: &&Tried| tried.environment == environment && tried.choice == shipped;
    let others: Vec<&Tried> = story.tried.iter().filter(|tried| !is_shipped(tried)).collect();
    if others.is_empty() {
        return;
    }
    // Of sizes without a rule, the environment alone may not have been measured.
    let ships = story.time_us(&environment, shipped).filter(|_| shipped.is_some() || !environment.is_empty());
    let default_us = story.default.map(|times| times.median_us);
    let reference_us = ships.or(default_us);
    page.line("");
    if let Some(us) = reference_us {
        let whose = if ships.is_some() { "what ships" } else { "the default arm" };
        page.words(&format!("Times are compared with the {us:.1} us of {whose}."));
    }
    page.line("tried in the search      median us  samples  why not");
    if let Some(own) = story.tried.iter().find(is_shipped).filter(|own| own.choice.is_some()) {
        row(own, &environment, "ships", page);
    }
    let is_here = |tried: &&&Tried| tried.environment == environment;
    let timed = || others.iter().filter(|tried| tried.times.is_some());
    let failed = || others.iter().filter(|tried| tried.times.is_none());
    // What has the settings that ship comes first: of the others it is not the choice that keeps them from shipping.
    let here = timed().filter(is_here).take(SHOWN);
    let elsewhere = timed().filter(|tried| !is_here(tried)).take(SHOWN / 2);
    let shown: Vec<&Tried> = here.chain(elsewhere).chain(failed().take(SHOWN / 2)).copied().collect();
    for tried in &shown {
        row(tried, &environment, &why(tried, &environment, reference_us), page);
    }
    if shown.iter().any(|tried| tried.times.is_some() && is_given_up(tried)) {
        page.words("What was given up early was that far behind the leader then, by the few samples of that time.");
    }
    let is_faster = |tried: &&Tried| tried.times.zip(reference_us).is_some_and(|(times, us)| times.median_us < us);
    if shown.iter().any(is_faster) {
        page.words(
            "Times of the search are of few samples, and not of the same minutes as the default arm's: only the A/B, which \
             interleaves both, decides.",
        );
    }
    if let more @ 1.. = others.len() - shown.len() {
        page.words(&format!("{more} more, slower or failed too: --json has all"));
    }
}

/// Columns before the reason.
const BEFORE_WHY: usize = 45;

fn row(tried: &Tried, shipped: &Environment, why: &str, page: &mut Page) {
    let choice = tried.choice.map_or_else(|| "own choice".to_owned(), |choice: Choice| choice.to_string());
    let (median, samples) = match tried.times {
        Some(times) => (format!("{:.1}", times.median_us), times.samples.to_string()),
        None => ("-".to_owned(), "0".to_owned()),
    };
    let is_shipped = tried.environment == *shipped;
    let elsewhere = if is_shipped { String::new() } else { format!(" [{}]", environment_words(&tried.environment)) };
    let mut before = format!("  {choice:<22}{median:>10}{samples:>9}");
    for line in text::wrap(&format!("{why}{elsewhere}"), COLUMNS - BEFORE_WHY) {
        page.line(&format!("{before:<BEFORE_WHY$}{line}"));
        before.clear();
    }
}

fn environment_words(environment: &Environment) -> String {
    if environment.is_empty() { "nothing set".to_owned() } else { environment.to_string() }
}

fn why(tried: &Tried, shipped: &Environment, reference_us: Option<f64>) -> String {
    let failures = tried.failures.iter().map(|(kind, count, words)| match count {
        1 => format!("{}: {words}", failure_name(*kind)),
        _ => format!("{}, {count} times: {words}", failure_name(*kind)),
    });
    let mut reasons: Vec<String> = Vec::new();
    if let (Some(times), Some(reference_us), true) = (tried.times, reference_us, tried.failures.is_empty()) {
        let settings = if tried.environment == *shipped { "" } else { ", with settings that do not ship" };
        reasons.push(format!("{:.2} times as long{settings}", times.median_us / reference_us));
    }
    reasons.extend(failures);
    // Why it was given up is of a time when it had few samples: its median is not behind by as much.
    reasons.extend(tried.dropped.iter().filter(|_| is_given_up(tried)).map(|why| match tried.times {
        Some(_) => format!("given up early: {why}"),
        None => why.clone(),
    }));
    reasons.join("; ")
}

/// Whether the search gave it up for another reason than a failure, which says so itself.
fn is_given_up(tried: &Tried) -> bool {
    tried.dropped.is_some() && tried.failures.is_empty()
}

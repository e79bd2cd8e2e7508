//! `gdrtune runs trend`: the course of what a profile gains, over its verifications.

use std::io::{self, Write as _};

use gdrtune_profiles::{profile::Profile, size::Size, vocab::Collective};
use gdrtune_session::verifications::{self, Course, Drift, Of, Step, Verification};
use serde_json::{Value, json};

use super::super::{page::Page, read_profile, say};
use crate::{
    cli::TrendArgs,
    exit::{Exit, Failure},
    paths,
    ui::{Charset, Glyphs, text},
};

/// Steps of a course that are drawn; earlier ones are counted.
const DRAWN: usize = 12;

/// Prints the courses.
///
/// # Errors
/// Wrong use: no profile. Nothing matched: nothing was verified, or not kept.
pub(super) fn trend(args: &TrendArgs) -> Result<Exit, Failure> {
    let profile = read_profile(&args.profile)?.profile;
    let dir = paths::verifications_dir()?;
    let kept = verifications::kept(&dir, &profile).map_err(anyhow::Error::from)?;
    for problem in &kept.unreadable {
        say(&format!("left out: {problem}"));
    }
    let courses = verifications::courses(&profile, &kept.all);
    if courses.is_empty() {
        let text = format!("no verification of {} is kept in {}", args.profile.display(), dir.display());
        let failure = Failure::new(Exit::NothingMatched, anyhow::Error::msg(text));
        let hint = "gdrtune verify measures, and keeps what it found";
        return Err(if profile.run.engine.is_real() { failure.with_hint(hint) } else { failure });
    }
    let charset = if args.ascii { Charset::Ascii } else { Charset::of_environment(|name| std::env::var(name).ok()) };
    let name = args.profile.display().to_string();
    let printed = if args.json {
        gdrtune_profiles::json::document(&document(&profile, &kept.all, &courses))
    } else {
        page(&name, &profile, &kept.all, &courses, &Glyphs::of(charset))
    };
    io::stdout().lock().write_all(printed.as_bytes())?;
    Ok(Exit::Done)
}

fn page(name: &str, profile: &Profile, all: &[Verification], courses: &[Course<'_>], glyphs: &Glyphs) -> String {
    let mut page = Page::default();
    let day =
        |one: Option<&Verification>| one.map(|one| one.id.chars().take(10).collect::<String>()).unwrap_or_default();
    let days = format!("{} to {}", day(all.first()), day(all.last()));
    page.words(&format!(
        "{name}, run {}: {} from {days}",
        profile.run.id,
        text::count(all.len() as u64, "verification")
    ));
    versions(all, &mut page);
    page.line("");
    let mut calls = None;
    for course in courses {
        let (collective, (nodes, ranks)) = (collective_of(course), course.shape);
        if calls.replace((collective, course.shape)) != Some((collective, course.shape)) {
            page.line(&format!("{collective} on {}", text::shape(nodes, ranks)));
            page.line(&format!(
                "  {:<24}{:>8}{:>8}{:>8}  {:<DRAWN$}  drift",
                "sizes", "shipped", "first", "last", "course"
            ));
        }
        course_lines(course, glyphs, &mut page);
    }
    page.into_text()
}

fn collective_of(course: &Course<'_>) -> Collective {
    match course.of {
        Of::Rule(_, rule) => rule.collective,
        Of::Uncovered(collective) => collective,
    }
}

/// Where the library changed, as that may be why.
fn versions(all: &[Verification], page: &mut Page) {
    for pair in all.windows(2) {
        if let [before, after] = pair
            && let (Some(from), Some(to)) = (&before.nccl, &after.nccl)
            && from != to
        {
            page.words(&format!("NCCL {to} since {}, {from} before", after.id));
        }
    }
}

fn course_lines(course: &Course<'_>, glyphs: &Glyphs, page: &mut Page) {
    let ratio = |step: Option<&Step<'_>>| step.map(|step| text::ratio(step.median)).unwrap_or_default();
    let shipped = match course.of {
        Of::Rule(_, rule) => text::ratio(rule.speedup.median),
        Of::Uncovered(_) => String::new(),
    };
    let (drift, chance) = drift_words(course.drift);
    let name = match course.of {
        Of::Rule(_, rule) => rule.bytes.to_string(),
        Of::Uncovered(_) => "without a rule".to_owned(),
    };
    page.line(&format!(
        "  {name:<24}{shipped:>8}{:>8}{:>8}  {:<DRAWN$}  {drift}",
        ratio(course.steps.first()),
        ratio(course.steps.last()),
        sparkline(&course.steps, glyphs),
    ));
    let sizes: Vec<String> = course.sizes.iter().map(|bytes| Size(*bytes).to_string()).collect();
    let left_out = match course.left_out {
        0 => String::new(),
        number => format!("; {} of other sizes left out", text::count(number as u64, "verification")),
    };
    page.line(&format!("    at {}{left_out}{chance}", sizes.join(", ")));
}

/// The medians from the least to the most of them; the last of many.
fn sparkline(steps: &[Step<'_>], glyphs: &Glyphs) -> String {
    let medians: Vec<f64> = steps.iter().skip(steps.len().saturating_sub(DRAWN)).map(|step| step.median).collect();
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let most = medians.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top = (glyphs.bars.len() - 1) as f64;
    // What does not move is in the middle.
    let part = |median: f64| if least < most { (median - least) / (most - least) } else { 0.5 };
    medians.iter().filter_map(|median| glyphs.bars.get((part(*median) * top).round() as usize)).copied().collect()
}

/// What it is, and how sure, where a chance is known.
fn drift_words(drift: Drift) -> (String, String) {
    let words = |up: &str, down: &str, change: f64| {
        format!("{} {:+.0} %", if change < 0.0 { down } else { up }, change * 100.0)
    };
    match drift {
        Drift::TooFew => ("-".to_owned(), String::new()),
        Drift::Steady => ("steady".to_owned(), String::new()),
        Drift::Trend { change, p } => (words("rising", "falling", change), format!("; Mann-Kendall p {p:.3}")),
        Drift::Step(change) => (words("higher", "lower", change), "; first and last do not overlap".to_owned()),
    }
}

fn document(profile: &Profile, all: &[Verification], courses: &[Course<'_>]) -> Value {
    let step = |step: &Step<'_>| json!({"verification": step.verification.id, "median": step.median, "low": step.low, "high": step.high});
    let course = |course: &Course<'_>| {
        let (rule, shipped) = match course.of {
            Of::Rule(place, rule) => (Some(place + 1), Some(rule.speedup)),
            Of::Uncovered(_) => (None, None),
        };
        let (kind, change, p) = match course.drift {
            Drift::TooFew => ("too_few", None, None),
            Drift::Steady => ("steady", None, None),
            Drift::Trend { change, p } => ("trend", Some(change), Some(p)),
            Drift::Step(change) => ("step", Some(change), None),
        };
        json!({
            "collective": collective_of(course),
            "rule": rule,
            "nodes": course.shape.0,
            "ranks": course.shape.1,
            "sizes": course.sizes,
            "shipped": shipped,
            "steps": course.steps.iter().map(step).collect::<Vec<_>>(),
            "left_out": course.left_out,
            "drift": {"kind": kind, "change": change, "p": p},
        })
    };
    json!({
        "schema_version": 1,
        "run": profile.run.id,
        "verifications": all.iter().map(|one| json!({
            "id": one.id,
            "hosts": one.hosts,
            "nccl": one.nccl,
            "regression": one.has_regression(),
            "differences": one.differences,
        })).collect::<Vec<_>>(),
        "courses": courses.iter().map(course).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{
        profile::Speedup,
        vocab::{Engine, Point},
    };
    use gdrtune_session::{event::Decision, verifications::VerifiedPoint};

    use super::*;

    fn verification(day: u32, nccl: &str, gains: &[(u64, f64)]) -> Verification {
        let verified = |&(bytes, median): &(u64, f64)| VerifiedPoint {
            point: Point { collective: Collective::AllReduce, bytes },
            default_us: 100.0,
            profile_us: 100.0 / median,
            speedup: Speedup { median, low: median * 0.99, high: median * 1.01, p_faster: 0.99, repeats: 9 },
            decision: Decision::Ship,
        };
        Verification {
            schema_version: 1,
            id: format!("2026-12-{day:02}T02:00:00Z-0000"),
            run: "r".into(),
            engine: Engine::Nccl,
            hosts: "n[1-4]".into(),
            nodes: 4,
            ranks: 32,
            nccl: Some(nccl.into()),
            pairs: 9,
            asked: None,
            differences: Vec::new(),
            failures: Vec::new(),
            points: gains.iter().map(verified).collect(),
        }
    }

    #[test]
    fn a_course_is_drawn_and_its_drift_is_named() {
        let text = include_str!("../../../../profiles/tests/golden/nccl.toml");
        let profile = Profile::parse(text, "golden").unwrap().0;
        let all: Vec<Verification> = [1.13, 1.12, 1.10, 1.09, 1.05]
            .iter()
            .zip(1..)
            .map(|(gain, day)| {
                let version = if day < 4 { "2.28.9" } else { "2.29.1" };
                verification(
                    day,
                    version,
                    &[(1024, *gain), (4096, *gain), (1 << 20, 1.21), (1 << 24, 1.1 - 0.1 * *gain)],
                )
            })
            .chain([verification(6, "2.29.1", &[(4096, 1.0)])])
            .collect();
        let courses = verifications::courses(&profile, &all);
        let shown = page("tuned/profile.toml", &profile, &all, &courses, &Glyphs::of(Charset::Unicode));
        insta::assert_snapshot!("trend", shown);
        assert!(shown.lines().all(|line| text::width(line) <= 80), "{shown}");
        let ascii = page("p", &profile, &all, &courses, &Glyphs::of(Charset::Ascii));
        assert!(ascii.is_ascii(), "{ascii}");
    }
}

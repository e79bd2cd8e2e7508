//! What a verification says: a table, a line, or JSON.

use std::io::{self, Write as _};

use gdrtune_profiles::{profile::Profile, size::Size, vocab::Point};
use gdrtune_session::{
    event::Decision as Stored,
    evidence::Judged,
    recheck::Recheck,
    verifications::{MIN_PAIRS, Verification, VerifiedPoint},
};
use gdrtune_tuner::{
    stats::geometric_mean,
    verdict::{Decision, PointVerdict},
};

use super::{super::page::Page, Measured, difference_words};
use crate::{cli::VerifyArgs, ui::text::count};

/// A decision over the profile in words.
const fn decision_words(decision: Decision) -> &'static str {
    match decision {
        Decision::Ship => "faster",
        Decision::Keep => "no sure difference",
        Decision::Regression => "SLOWER",
        Decision::TooNoisy => "too noisy to say",
        Decision::NotMeasured => "not measured",
    }
}

/// Prints it as the user wants it.
pub(super) fn print(args: &VerifyArgs, profile: &Profile, ranks: u32, measured: &Measured) -> io::Result<()> {
    let result = &measured.result;
    let mut out = io::stdout().lock();
    if args.json {
        let rows: Vec<serde_json::Value> = result.points.iter().map(|point| json_row(point, ranks)).collect();
        let document = serde_json::json!({
            "schema_version": 1,
            "measured": true,
            "profile": profile.run.id,
            "engine": profile.run.engine,
            "ranks": ranks,
            "emulated": args.nccl.emulate_nodes,
            "pairs": result.pairs,
            "nccl": measured.nccl,
            "differences": measured.differences.iter().map(difference_words).collect::<Vec<_>>(),
            "regression": result.has_regression(),
            "points": rows,
        });
        return write!(out, "{}", gdrtune_profiles::json::document(&document));
    }
    if args.quiet {
        let judged = |point: &PointVerdict| {
            Judged::by(point).map(|judged| (point.point, judged.decision, judged.speedup.median))
        };
        let points: Vec<(Point, Stored, f64)> = result.points.iter().filter_map(judged).collect();
        return writeln!(out, "{}: {} ({} pairs)", args.profile.display(), line(&points, result.pairs), result.pairs);
    }
    out.write_all(table(args.nccl.emulate_nodes, profile, ranks, result).as_bytes())
}

/// The table, in 80 columns.
fn table(is_emulated: bool, profile: &Profile, ranks: u32, result: &Recheck) -> String {
    let mut page = Page::default();
    page.line(&format!(
        "# profile {}: {} process pairs, {ranks} ranks, engine {}",
        profile.run.id, result.pairs, profile.run.engine
    ));
    if is_emulated {
        page.line("# EMULATED nodes");
    }
    if let Some(why) = too_few(result.pairs) {
        page.line(&format!("# {why}"));
    }
    page.line("# the interval is of the speed-up; P is the probability that it is faster");
    page.line(&format!(
        "# {:>7} {:>10} {:>10} {:>8} {:>13} {:>5}  verdict",
        "size", "default us", "profile us", "speed-up", "90 % interval", "P"
    ));
    let mut collective = None;
    for PointVerdict { point, decision, speedup, default_us, tuned_us, noise, .. } in &result.points {
        if collective.replace(point.collective) != Some(point.collective) {
            page.line(point.collective.name());
        }
        let size = Size(point.bytes).to_string();
        let decision = decision_words(*decision);
        match (speedup, default_us, tuned_us) {
            (Some(s), Some(default_us), Some(tuned_us)) => {
                let interval = format!("{:.2} to {:.2}", s.low, s.high);
                page.line(&format!(
                    "  {size:>7} {default_us:>10.1} {tuned_us:>10.1} {:>7.2}x {interval:>13} {:>5.3}  {decision}",
                    s.median, s.p_faster
                ));
            }
            _ => page.line(&format!("  {size:>7} {decision}")),
        }
        if let Some(noise) = noise {
            page.line(&format!("  {:>7} {noise}", ""));
        }
    }
    page.into_text()
}

/// What keeps every verdict from being sure.
fn too_few(pairs: u32) -> Option<String> {
    (pairs < MIN_PAIRS)
        .then(|| format!("{pairs} pairs are too few to be sure of any gain or loss: it takes {MIN_PAIRS}"))
}

fn json_row(verdict: &PointVerdict, ranks: u32) -> serde_json::Value {
    let Point { collective, bytes } = verdict.point;
    let busbw = |time_us: Option<f64>| time_us.map(|time_us| collective.busbw_gbs(ranks, bytes, time_us));
    serde_json::json!({
        "collective": collective,
        "bytes": bytes,
        "default_us": verdict.default_us,
        "profile_us": verdict.tuned_us,
        "default_busbw_gbs": busbw(verdict.default_us),
        "profile_busbw_gbs": busbw(verdict.tuned_us),
        "speedup": verdict.speedup,
        "verdict": decision_words(verdict.decision),
    })
}

/// Prints what an earlier verification found.
pub(super) fn print_recent(args: &VerifyArgs, last: &Verification, age: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        let mut document = serde_json::json!(last);
        document["measured"] = false.into();
        document["regression"] = last.has_regression().into();
        return write!(out, "{}", gdrtune_profiles::json::document(&document));
    }
    let point = |verified: &VerifiedPoint| (verified.point, verified.decision, verified.speedup.median);
    let points: Vec<(Point, Stored, f64)> = last.points.iter().map(point).collect();
    writeln!(out, "{}: verified {age}, so nothing is measured: {}", args.profile.display(), line(&points, last.pairs))
}

/// The whole in a line: what got slower, or else how much of it is still faster.
fn line(points: &[(Point, Stored, f64)], pairs: u32) -> String {
    let slower = points.iter().filter(|(_, decision, _)| *decision == Stored::Regression);
    let slower: Vec<String> = slower.map(|(point, _, median)| format!("{point} {median:.2}x")).collect();
    if !slower.is_empty() {
        return format!("REGRESSION: slower with the profile at {}", slower.join(", "));
    }
    let mean = geometric_mean(&points.iter().map(|(.., median)| *median).collect::<Vec<_>>());
    let mean = mean.map(|mean| format!("; {mean:.2}x over all")).unwrap_or_default();
    if let Some(why) = too_few(pairs) {
        return format!("nothing is sure: {why}{mean}");
    }
    let number = |wanted: Stored| points.iter().filter(|(_, decision, _)| *decision == wanted).count();
    let others = [(Stored::Keep, "no sure difference"), (Stored::TooNoisy, "too noisy")];
    let others = others.iter().map(|(wanted, what)| (number(*wanted), what)).filter(|(number, _)| *number > 0);
    let others: Vec<String> = others.map(|(number, what)| format!(", {number} {what}")).collect();
    let others = others.concat();
    let all = count(points.len() as u64, "size");
    format!("no regression: {} of {all} faster{others}{mean}", number(Stored::Ship))
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{profile::Speedup, vocab::Collective};
    use gdrtune_tuner::verdict::Noise;

    use super::*;
    use crate::ui::text;

    #[test]
    fn a_line_names_what_got_slower_or_counts_what_is_faster() {
        let at = |bytes, decision, median| (Point { collective: Collective::AllReduce, bytes }, decision, median);
        for (points, expected) in [
            (vec![at(1024, Stored::Ship, 1.21)], "no regression: 1 of 1 size faster; 1.21x over all"),
            (
                vec![at(1024, Stored::Ship, 1.21), at(4096, Stored::Keep, 1.0), at(16384, Stored::TooNoisy, 1.0)],
                "no regression: 1 of 3 sizes faster, 1 no sure difference, 1 too noisy; 1.07x over all",
            ),
            (
                vec![at(1024, Stored::Ship, 1.21), at(4096, Stored::Regression, 0.8)],
                "REGRESSION: slower with the profile at allreduce 4K 0.80x",
            ),
            (vec![], "no regression: 0 of 0 sizes faster"),
        ] {
            assert_eq!(line(&points, 9), expected);
        }
        let few = line(&[at(1024, Stored::Keep, 0.44)], 3);
        assert_eq!(
            few,
            "nothing is sure: 3 pairs are too few to be sure of any gain or loss: it takes 5; 0.44x over all"
        );
    }

    #[test]
    fn a_table_fits_into_80_columns() {
        let profile =
            Profile::parse(include_str!("../../../../profiles/tests/golden/native.toml"), "golden").unwrap().0;
        let speedup = Speedup { median: 0.95, low: 0.9, high: 10.01, p_faster: 0.4, repeats: 3 };
        let point = |collective, bytes, decision, noise| PointVerdict {
            point: Point { collective, bytes },
            decision,
            speedup: Some(speedup),
            default_us: Some(1_234_567.8),
            tuned_us: Some(1_200_000.1),
            noise,
            sentence: String::new(),
        };
        let noise = Noise { spread: 0.4, rounds: 90.0, seconds: Some(300.0) };
        let lost =
            PointVerdict { speedup: None, ..point(Collective::ReduceScatter, 16 << 30, Decision::NotMeasured, None) };
        let points = vec![
            point(Collective::AllReduce, 1 << 20, Decision::Keep, None),
            point(Collective::AllReduce, 1025, Decision::TooNoisy, Some(noise)),
            lost,
        ];
        let result = Recheck { points, pairs: 3, failures: Vec::new(), broken: None };
        let shown = table(true, &profile, 8, &result);
        insta::assert_snapshot!("verify", shown);
        assert!(shown.lines().all(|line| text::width(line) <= 80), "{shown}");
    }
}

//! What a verification says: a table, a line, or JSON.

use std::io::{self, Write as _};

use gdrtune_profiles::{profile::Profile, vocab::Point};
use gdrtune_session::{
    event::Decision as Stored,
    verifications::{Verification, VerifiedPoint},
};
use gdrtune_tuner::{
    stats::geometric_mean,
    verdict::{Decision, PointVerdict},
};

use super::{Measured, difference_words, stored};
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
        let points = result
            .points
            .iter()
            .filter_map(|point| Some((point.point, stored(point.decision)?, point.speedup?.median)));
        return writeln!(
            out,
            "{}: {} ({} pairs)",
            args.profile.display(),
            line(&points.collect::<Vec<_>>()),
            result.pairs
        );
    }
    let emulated = if args.nccl.emulate_nodes { ", EMULATED nodes" } else { "" };
    writeln!(
        out,
        "# profile {}: {} process pairs, {ranks} ranks, engine {}{emulated}",
        profile.run.id, result.pairs, profile.run.engine
    )?;
    writeln!(
        out,
        "# {:>13} {:>12} {:>12} {:>12} {:>9}  {:>15} {:>10}  verdict",
        "collective", "size (B)", "default us", "profile us", "speed-up", "90 % interval", "P(faster)"
    )?;
    for PointVerdict { point, decision, speedup, default_us, tuned_us, noise, .. } in &result.points {
        write!(out, "  {:>13} {:>12} ", point.collective, point.bytes)?;
        match (speedup, default_us, tuned_us) {
            (Some(s), Some(default_us), Some(tuned_us)) => writeln!(
                out,
                "{default_us:>12.1} {tuned_us:>12.1} {:>8.2}x  {:>6.2} to {:>5.2} {:>10.3}  {}{}",
                s.median,
                s.low,
                s.high,
                s.p_faster,
                decision_words(*decision),
                noise.map(|noise| format!(": {noise}")).unwrap_or_default()
            )?,
            _ => writeln!(out, "{}", decision_words(*decision))?,
        }
    }
    Ok(())
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
    writeln!(out, "{}: verified {age}, so nothing is measured: {}", args.profile.display(), line(&points))
}

/// The whole in a line: what got slower, or else how much of it is still faster.
fn line(points: &[(Point, Stored, f64)]) -> String {
    let slower = points.iter().filter(|(_, decision, _)| *decision == Stored::Regression);
    let slower: Vec<String> = slower.map(|(point, _, median)| format!("{point} {median:.2}x")).collect();
    if !slower.is_empty() {
        return format!("REGRESSION: slower with the profile at {}", slower.join(", "));
    }
    let number = |wanted: Stored| points.iter().filter(|(_, decision, _)| *decision == wanted).count();
    let others = [(Stored::Keep, "no sure difference"), (Stored::TooNoisy, "too noisy")];
    let others = others.iter().map(|(wanted, what)| (number(*wanted), what)).filter(|(number, _)| *number > 0);
    let others: Vec<String> = others.map(|(number, what)| format!(", {number} {what}")).collect();
    let others = others.concat();
    let mean = geometric_mean(&points.iter().map(|(.., median)| *median).collect::<Vec<_>>());
    let mean = mean.map(|mean| format!("; {mean:.2}x over all")).unwrap_or_default();
    let all = count(points.len() as u64, "size");
    format!("no regression: {} of {all} faster{others}{mean}", number(Stored::Ship))
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Collective;

    use super::*;

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
            assert_eq!(line(&points), expected);
        }
    }
}

//! `gdrtune workload predict`: what a profile does to the communication time of a step.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use gdrtune_profiles::{
    emit, json,
    profile::Profile,
    size::Size,
    vocab::Point,
    workload::{Counting, Workload, other_ranks},
};
use gdrtune_tuner::predict::{Origin, PointTimes, Prediction, Ratio, StepSums, Unknown, predict as predicted};
use serde_json::{Value, json};

use super::{
    COLUMNS, calls,
    evidence::{self, Evidence},
    show::{interval, percent},
};
use crate::{
    cli::PredictArgs,
    command::{presets, read_profile},
    exit::{Exit, Failure},
    profile_file::ProfileFile,
    ui::text,
};

pub(super) fn predict(args: &PredictArgs) -> Result<Exit, Failure> {
    let workload = presets::workload_argument(&args.workload)?;
    if workload.counting == Counting::Weights {
        let text = format!(
            "the workload {} has weights, no calls per step: a time per step needs per_step (workload import --steps)",
            workload.name
        );
        return Err(Failure::usage_text(text));
    }
    let ProfileFile { path, profile, .. } = read_profile(&args.profile)?;
    let evidence = evidence::of_profile(&args.evidence, &path, &profile)?;
    let prediction = predicted(&workload, &profile, evidence.shape, &evidence.measured);
    if prediction.points.is_empty() {
        let error = anyhow::Error::msg(format!(
            "none of the workload's sizes has a time: {}; {}",
            unknown_words(&prediction),
            measured_words(&evidence)
        ));
        let hint = format!("tune for this workload: `gdrtune tune --workload {} ...`", args.workload);
        return Err(Failure::new(Exit::NothingMatched, error).with_hint(hint));
    }
    if let Some(warning) = other_ranks(&workload.name, workload.ranks, &[evidence.shape.1]) {
        super::super::say(&format!("warning: {warning}"));
    }
    // Of a step with calls that nobody measured, nothing can be said as a whole.
    let step_ms = args.step_ms.filter(|_| prediction.unknown.is_empty());
    let step = Step::of(prediction.sums(), args.overlap, step_ms)?;
    let report =
        Report { args, workload: &workload, profile: &profile, evidence: &evidence, prediction: &prediction, step };
    let printed = if args.json { json::document(&report.document()) } else { report.text() };
    io::stdout().write_all(printed.as_bytes())?;
    Ok(Exit::Done)
}

/// Times of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    sums: StepSums,
    /// Part of the communication that is not hidden behind computation.
    exposed: f64,
    /// The whole step with the defaults, in microseconds.
    whole_us: Option<f64>,
}

impl Step {
    /// # Errors
    /// A step that is shorter than the communication that is not hidden in it.
    fn of(sums: StepSums, overlap: f64, step_ms: Option<f64>) -> Result<Self, Failure> {
        let (exposed, whole_us) = (1.0 - overlap, step_ms.map(|ms| ms * 1e3));
        match whole_us {
            Some(whole_us) if whole_us < sums.default_us * exposed => Err(Failure::usage_text(format!(
                "--step-ms {}: communication alone takes {:.3} ms with --overlap {overlap}; of this step at least {} of it must be hidden",
                whole_us / 1e3,
                sums.default_us * exposed / 1e3,
                percent(1.0 - whole_us / sums.default_us)
            ))),
            whole_us => Ok(Self { sums, exposed, whole_us }),
        }
    }

    /// Default time over tuned time of all communication, with its interval.
    fn ratio(&self) -> Ratio {
        let StepSums { default_us, tuned_us, least_us, most_us } = self.sums;
        Ratio { median: default_us / tuned_us, low: default_us / most_us, high: default_us / least_us }
    }

    /// The whole step with the profile, in microseconds, and its ratio.
    fn tuned(&self) -> Option<(f64, Ratio)> {
        let whole_us = self.whole_us?;
        let with = |comm_us: f64| whole_us - (self.sums.default_us - comm_us) * self.exposed;
        let ratio = |comm_us: f64| whole_us / with(comm_us);
        let StepSums { tuned_us, least_us, most_us, .. } = self.sums;
        Some((with(tuned_us), Ratio { median: ratio(tuned_us), low: ratio(most_us), high: ratio(least_us) }))
    }
}

struct Report<'a> {
    args: &'a PredictArgs,
    workload: &'a Workload,
    profile: &'a Profile,
    evidence: &'a Evidence,
    prediction: &'a Prediction,
    step: Step,
}

impl Report<'_> {
    fn text(&self) -> String {
        let (nodes, ranks) = self.evidence.shape;
        let Self { workload, profile, prediction, .. } = self;
        let mut printed = String::new();
        let mut say = |words: &str| {
            for line in text::wrap(words, COLUMNS) {
                // Writing to a string cannot fail.
                writeln!(printed, "{}", super::super::printable(&line)).ok();
            }
        };
        if let Some(words) = self.share_words() {
            say(&words);
        }
        say(&format!(
            "workload {}, profile {} for {}",
            workload.name,
            self.args.profile.display(),
            text::shape(nodes, ranks)
        ));
        for label in emit::labels(profile) {
            say(label);
        }
        say(&format!("times: {}", self.evidence.origin));
        writeln!(printed).ok();
        let head = ["size", "calls", "default us", "tuned us"];
        writeln!(printed, "{:<13}{:>9}{:>9}{:>12}{:>12}  change", "collective", head[0], head[1], head[2], head[3])
            .ok();
        for times in &prediction.points {
            writeln!(printed, "{}", row(times)).ok();
        }
        writeln!(printed).ok();
        let mut say = |words: &str| {
            for line in text::wrap(words, COLUMNS) {
                writeln!(printed, "{line}").ok();
            }
        };
        self.sums_words().iter().for_each(|words| say(words));
        printed
    }

    /// How much has a time, where that is not all.
    fn share_words(&self) -> Option<String> {
        // Rounded down: what is not all is not shown as all.
        let share = (self.prediction.measured_share() * 1e3).floor() / 1e3;
        let words = format!("only {} of the bytes were measured: no prediction for the step", percent(share));
        (!self.prediction.unknown.is_empty()).then_some(words)
    }

    fn sums_words(&self) -> Vec<String> {
        let StepSums { default_us, tuned_us, .. } = self.step.sums;
        let ms = |us: f64| format!("{:.3} ms", us / 1e3);
        let what = if self.prediction.unknown.is_empty() { "communication a step" } else { "what was measured of it" };
        let mut words = vec![format!(
            "{what}: {} before, {} after: {}, if all changes are at the same end of their intervals",
            ms(default_us),
            ms(tuned_us),
            interval(self.step.ratio())
        )];
        if self.step.exposed < 1.0 {
            let hidden = percent(self.args.overlap);
            words.push(format!(
                "not hidden behind computation: {} before, {} after, assuming that {hidden} of it is hidden, before and after",
                ms(default_us * self.step.exposed),
                ms(tuned_us * self.step.exposed)
            ));
        } else {
            words.push(
                "assuming that no communication is hidden behind computation; --overlap says how much is".to_owned(),
            );
        }
        if let (Some(whole_us), Some((after_us, ratio))) = (self.step.whole_us, self.step.tuned()) {
            let Ratio { median, low, high } = ratio;
            let change = format!("{median:.3}x ({low:.3} to {high:.3})");
            words.push(format!(
                "step: {} before, {} after: {change}, assuming that computation takes as long as before",
                ms(whole_us),
                ms(after_us)
            ));
        }
        if self.prediction.points.iter().any(|times| matches!(times.origin, Origin::Between(..))) {
            words.push("~: interpolated between the measured sizes around it, linearly in the logarithms".to_owned());
        }
        if !self.prediction.unknown.is_empty() {
            words.push(format!("left out of all sums: {}", unknown_words(self.prediction)));
        }
        if self.profile.run.unverified {
            words.push("the profile is not verified: its speed-ups are the search's estimates".to_owned());
        }
        words
    }

    fn document(&self) -> Value {
        let ratio = |ratio: Ratio| json!({"median": ratio.median, "low": ratio.low, "high": ratio.high});
        let point = |times: &PointTimes| {
            let between = match times.origin {
                Origin::Measured => None,
                Origin::Between(low, high) => Some([low, high]),
            };
            json!({
                "collective": times.point.collective,
                "bytes": times.point.bytes,
                "calls": times.calls,
                "default_us": times.default_us,
                "tuned_us": times.default_us / times.ratio.median,
                "speedup": ratio(times.ratio),
                "interpolated_between": between,
            })
        };
        let left = |(point, calls, why): &(Point, f64, Unknown)| json!({"collective": point.collective, "bytes": point.bytes, "calls": calls, "why": why_words(*why)});
        let StepSums { default_us, tuned_us, least_us, most_us } = self.step.sums;
        let (nodes, ranks) = self.evidence.shape;
        json!({
            "schema_version": 1,
            "workload": self.workload.name,
            "run": self.profile.run.id,
            "nodes": nodes,
            "ranks": ranks,
            "labels": emit::labels(self.profile),
            "unverified": self.profile.run.unverified,
            "times_from": self.evidence.origin,
            "communication": {
                "default_us": default_us,
                "tuned_us": tuned_us,
                "least_us": least_us,
                "most_us": most_us,
                "speedup": ratio(self.step.ratio()),
            },
            "measured_share_of_bytes": self.prediction.measured_share(),
            "workload_ranks": self.workload.ranks,
            "overlap": self.args.overlap,
            "exposed": {"default_us": default_us * self.step.exposed, "tuned_us": tuned_us * self.step.exposed},
            "step": self.step.tuned().map(|(tuned_us, speedup)| json!({
                "default_us": self.step.whole_us,
                "tuned_us": tuned_us,
                "speedup": ratio(speedup),
            })),
            "points": self.prediction.points.iter().map(point).collect::<Vec<_>>(),
            "left_out": self.prediction.unknown.iter().map(left).collect::<Vec<_>>(),
        })
    }
}

fn row(times: &PointTimes) -> String {
    let PointTimes { point, calls: count, default_us, ratio, origin } = *times;
    let mark = if origin == Origin::Measured { ' ' } else { '~' };
    let change = if ratio == Ratio::NONE { "as before".to_owned() } else { interval(ratio) };
    let (size, tuned_us) = (Size(point.bytes), text::microseconds(default_us / ratio.median));
    let default_us = text::microseconds(default_us);
    let size = format!("{mark}{size}");
    format!("{:<13}{size:>9}{:>9}{default_us:>12}{tuned_us:>12}  {change}", point.collective, calls(count))
}

/// Sizes without a time, by the reason.
fn unknown_words(prediction: &Prediction) -> String {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for (point, count, why) in &prediction.unknown {
        let (why, what) = (why_words(*why), format!("{point} x{}", calls(*count)));
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, sizes)) => sizes.push(what),
            None => reasons.push((why, vec![what])),
        }
    }
    // The first few of many: a workload may have thousands.
    let few = |sizes: &[String]| match sizes.len() {
        0..=6 => sizes.join(", "),
        all => format!("{}, ... ({all} sizes)", sizes[..5].join(", ")),
    };
    let words: Vec<String> = reasons.iter().map(|(why, sizes)| format!("{}: {why}", few(sizes))).collect();
    words.join("; ")
}

fn why_words(why: Unknown) -> String {
    match why {
        Unknown::Collective => "the collective was not measured".to_owned(),
        Unknown::Below(first) => format!("smaller than {}, the first that was measured", Size(first)),
        Unknown::Above(last) => format!("larger than {}, the last that was measured", Size(last)),
        Unknown::Effect => "what the profile's variables do was not measured there".to_owned(),
    }
}

/// What there is to find.
fn measured_words(evidence: &Evidence) -> String {
    let measured = text::count(evidence.measured.len() as u64, "point");
    let (nodes, ranks) = evidence.shape;
    format!("{measured} for {} by {}", text::shape(nodes, ranks), evidence.origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_saves_nothing() {
        let sums = StepSums { default_us: 100.0, tuned_us: 50.0, least_us: 40.0, most_us: 80.0 };
        let step = Step::of(sums, 0.5, Some(0.2)).unwrap();
        assert_eq!(step.ratio(), Ratio { median: 2.0, low: 1.25, high: 2.5 });
        let (tuned_us, ratio) = step.tuned().unwrap();
        assert_eq!(
            (tuned_us, ratio),
            (175.0, Ratio { median: 200.0 / 175.0, low: 200.0 / 190.0, high: 200.0 / 170.0 })
        );
        let all_hidden = Step::of(sums, 1.0, Some(0.05)).unwrap();
        assert!((all_hidden.tuned().unwrap().0 - 50.0).abs() < 1e-9);
        let refused = Step::of(sums, 0.0, Some(0.05)).unwrap_err().error.to_string();
        assert!(
            refused.contains("communication alone takes 0.100 ms") && refused.contains("at least 50.0 %"),
            "{refused}"
        );
    }
}

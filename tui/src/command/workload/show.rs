//! `gdrtune workload show`: where the bytes are.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write as _},
};

use gdrtune_profiles::{
    json,
    size::Size,
    vocab::{Collective, Point},
    workload::{Counting, Workload},
};
use gdrtune_tuner::predict::{Measured, Ratio, default_time};
use serde_json::{Value, json};

use super::{calls, evidence, iec};
use crate::{
    cli::ShowWorkloadArgs,
    command::{presets, read_profile, say},
    exit::{Exit, Failure},
    ui::text,
};

/// Sizes of a collective that have a line each; of more, those of a doubling share one.
const LINES: usize = 24;

/// Columns of the longest bar, so that a line has 80.
const BAR: usize = 25;

pub(super) fn show(args: &ShowWorkloadArgs) -> Result<Exit, Failure> {
    let workload = presets::workload_argument(&args.workload)?;
    let evidence = match (&args.profile, &args.evidence.run) {
        (Some(path), _) => {
            let file = read_profile(path)?;
            Some(evidence::of_profile(&args.evidence, &file.path, &file.profile)?)
        }
        (None, Some(run)) => Some(evidence::of_run(&args.evidence, run)?),
        (None, None) => None,
    };
    let measured = evidence.as_ref().map_or(&[][..], |evidence| &evidence.measured);
    let picture = Picture::of(&workload, measured);
    let printed = if args.json {
        json::document(&picture.document(evidence.as_ref().map(|evidence| evidence.origin.as_str())))
    } else {
        picture.text()
    };
    io::stdout().write_all(printed.as_bytes())?;
    if let Some(evidence) = &evidence {
        let (nodes, ranks) = evidence.shape;
        say(&format!("times of {}, by {}", text::shape(nodes, ranks), evidence.origin));
        let without = picture.lines.iter().filter(|line| line.time_us.is_none()).count();
        if 0 < without {
            let sizes = text::count(without as u64, "size");
            say(&format!("no time for {sizes}: outside of what was measured, so not in the shares of time"));
        }
    }
    Ok(Exit::Done)
}

/// A size, or sizes of a doubling.
struct Line {
    low: Point,
    high: u64,
    calls: f64,
    bytes: f64,
    /// Time of all its calls with the defaults, where it is known of every size.
    time_us: Option<f64>,
}

struct Picture<'a> {
    workload: &'a Workload,
    lines: Vec<Line>,
    has_times: bool,
}

impl<'a> Picture<'a> {
    fn of(workload: &'a Workload, measured: &[Measured]) -> Self {
        let line = |(point, calls): &(Point, f64)| Line {
            low: *point,
            high: point.bytes,
            calls: *calls,
            bytes: point.bytes as f64 * calls,
            time_us: default_time(*point, measured).map(|time_us| time_us * calls),
        };
        Self { workload, lines: workload.calls.iter().map(line).collect(), has_times: !measured.is_empty() }
    }

    /// What a part of `lines` is of all, by `value`.
    fn total(&self, value: impl Fn(&Line) -> f64) -> f64 {
        self.lines.iter().map(value).sum()
    }

    /// What is counted, as the head of a column.
    fn word(&self) -> &'static str {
        match self.workload.counting {
            Counting::CallsPerStep => "calls",
            Counting::Weights => "weight",
        }
    }

    /// The headline's sums.
    fn sums(&self, all_calls: f64, bytes: f64) -> String {
        let (number, bytes) = (calls(all_calls), iec(bytes));
        match self.workload.counting {
            Counting::CallsPerStep if number == "1" => format!("1 call and {bytes} a step"),
            Counting::CallsPerStep => format!("{number} calls and {bytes} a step"),
            Counting::Weights => format!("weights of {number} in all, {bytes} by them"),
        }
    }

    /// The lines of a collective: one for each size, or one for each doubling.
    fn folded(&self, collective: Collective) -> Vec<Line> {
        let own: Vec<&Line> = self.lines.iter().filter(|line| line.low.collective == collective).collect();
        let bin = |line: &Line| if own.len() <= LINES { line.low.bytes } else { u64::from(line.low.bytes.ilog2()) };
        let mut folded: BTreeMap<u64, Line> = BTreeMap::new();
        for line in &own {
            let add = |sum: &mut Line| {
                sum.high = sum.high.max(line.high);
                (sum.calls, sum.bytes) = (sum.calls + line.calls, sum.bytes + line.bytes);
                sum.time_us = sum.time_us.zip(line.time_us).map(|(sum, own)| sum + own);
            };
            folded.entry(bin(line)).and_modify(add).or_insert(Line { ..**line });
        }
        folded.into_values().collect()
    }

    fn text(&self) -> String {
        let Workload { name, about, .. } = self.workload;
        let word = self.word();
        let (bytes, all_calls) = (self.total(|line| line.bytes), self.total(|line| line.calls));
        let time = self.total(|line| line.time_us.unwrap_or_default());
        let mut printed = String::new();
        for line in head(name, about) {
            // Writing to a string cannot fail.
            writeln!(printed, "{line}").ok();
        }
        let least = if self.lines.iter().any(|line| line.time_us.is_none()) { "at least " } else { "" };
        let times = if 0.0 < time {
            format!(", {least}{} with the defaults", text::duration_label(time))
        } else {
            String::new()
        };
        writeln!(printed, "{}{times}", self.sums(all_calls, bytes)).ok();
        for collective in Collective::ALL {
            let lines = self.folded(*collective);
            if lines.is_empty() {
                continue;
            }
            let share = lines.iter().map(|line| line.bytes).sum::<f64>() / bytes;
            writeln!(printed, "\n{collective}, {} of the bytes", percent(share)).ok();
            let of_time = if self.has_times { format!("{:>8}", "of time") } else { String::new() };
            writeln!(printed, "{:>17} {word:>9} {:>10}{:>9}{of_time}", "size", "bytes", "share").ok();
            for line in &lines {
                writeln!(printed, "{}", self.row(line, bytes, time).trim_end()).ok();
            }
        }
        printed
    }

    fn row(&self, line: &Line, bytes: f64, time: f64) -> String {
        let size = if line.high == line.low.bytes {
            Size(line.high).to_string()
        } else {
            format!("{}-{}", iec(line.low.bytes as f64).replace(' ', ""), iec(line.high as f64).replace(' ', ""))
        };
        let share = line.bytes / bytes;
        let of_time = match line.time_us {
            _ if !self.has_times => String::new(),
            Some(own) => format!("{:>8}", percent(own / time)),
            None => format!("{:>8}", "?"),
        };
        let bar = "#".repeat((share * BAR as f64).round() as usize);
        format!("{size:>17} {:>9} {:>10}{:>9}{of_time}  {bar}", calls(line.calls), iec(line.bytes), percent(share))
    }

    fn document(&self, origin: Option<&str>) -> Value {
        let (bytes, all_calls) = (self.total(|line| line.bytes), self.total(|line| line.calls));
        let time = self.total(|line| line.time_us.unwrap_or_default());
        let point = |line: &Line| {
            json!({
                "collective": line.low.collective,
                "bytes": line.low.bytes,
                "calls": line.calls,
                "share_of_calls": line.calls / all_calls,
                "share_of_bytes": line.bytes / bytes,
                "default_us": line.time_us.map(|time_us| time_us / line.calls),
                "share_of_time": line.time_us.map(|time_us| time_us / time),
            })
        };
        json!({
            "schema_version": 1,
            "name": self.workload.name,
            "about": self.workload.about,
            "per_step": self.workload.counting == Counting::CallsPerStep,
            "calls": all_calls,
            "bytes": bytes,
            "default_us": (self.has_times).then_some(time),
            "times_from": origin,
            "points": self.lines.iter().map(point).collect::<Vec<_>>(),
        })
    }
}

/// The name and what it is: on one line where that fits, so that no word of a sentence is cut off its number for the name's sake.
fn head(name: &str, about: &str) -> Vec<String> {
    let (name, about) = (text::one_line(name), text::one_line(about));
    let both = if about.is_empty() { name.clone() } else { format!("{name}: {about}") };
    if text::width(&both) <= super::COLUMNS {
        return vec![both];
    }
    [text::wrap(&name, super::COLUMNS), text::wrap(&about, super::COLUMNS)].concat()
}

/// `99.9 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `1.12x (1.08 to 1.16)`.
pub(super) fn interval(ratio: Ratio) -> String {
    format!("{:.2}x ({:.2} to {:.2})", ratio.median, ratio.low, ratio.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_has_whole_words_and_units() {
        let short = head("job", "2 ranks, 2 sizes");
        assert_eq!(short, ["job: 2 ranks, 2 sizes"]);
        let long = "PyTorch DDP: 40 gradient buckets of 25 MiB, a first one of 1 MiB";
        assert_eq!(head("ddp-25mb-buckets", long), ["ddp-25mb-buckets", long]);
        assert_eq!(head("job", ""), ["job"]);
        for (counting, per_step, expected) in [
            ("per_step", "1", "1 call and 1.0 MiB a step"),
            ("per_step", "0.5", "0.5 calls and 512 KiB a step"),
            ("weight", "3", "weights of 3 in all, 3.0 MiB by them"),
        ] {
            let text = format!("[[call]]\ncollective = \"allreduce\"\nbytes = \"1M\"\n{counting} = {per_step}\n");
            let workload = Workload::parse(&text, "w.toml").unwrap();
            let picture = Picture::of(&workload, &[]);
            let line = picture.text().lines().nth(1).unwrap().to_owned();
            assert_eq!(line, expected);
        }
    }
}

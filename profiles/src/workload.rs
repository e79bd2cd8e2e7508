//! Workload files: what a job calls, and how often in a step. For choosing what counts, not for running the job.
//!
//! ```toml
//! ranks = 8              # of the communicator, where that is known
//! [[call]]
//! collective = "allreduce"
//! bytes = "25M"          # a size, a list or a range, as in --sizes; a range steps by `factor` (default 4)
//! per_step = 40          # calls of each size in one step of the job; or `weight`, where nothing is known of steps
//! ```

pub mod estimate;
pub mod import;
mod write;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

pub use self::write::whole_elements;
use crate::{
    size::parse_sizes,
    source::{Preset, Source, TextError},
    vocab::{Collective, Point},
};

/// Factor between the sizes of a range, where the file names none: that of `--factor`.
const FACTOR: u64 = 4;
/// Points of one workload at most: a search measures each of them many times.
const MOST_POINTS: usize = 4096;
/// Calls of one size in a step at most, and the largest weight.
const MOST_CALLS: f64 = 1e9;

/// What a job calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name: the preset's, or the file's without folders and ending.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// What the weights are.
    pub counting: Counting,
    /// Ranks of the communicator that its calls are of, where that is known.
    pub ranks: Option<u64>,
    /// Every collective and size once, in point order, with its weight above 0.
    pub calls: Vec<(Point, f64)>,
}

/// What the weights of a workload are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Calls in one step of the job, so that times add up to a time per step.
    CallsPerStep,
    /// Numbers of which only the ratios matter.
    Weights,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    about: String,
    ranks: Option<Spanned<u64>>,
    #[serde(default)]
    call: Vec<Spanned<CallFields>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFields {
    collective: Collective,
    bytes: Spanned<Text>,
    factor: Option<Spanned<u64>>,
    per_step: Option<Spanned<f64>>,
    weight: Option<Spanned<f64>>,
}

/// A text, or a whole number in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;
        impl serde::de::Visitor<'_> for TextOrNumber {
            type Value = Text;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a whole number")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}

impl Workload {
    /// The workloads that gdrtune brings along.
    pub const PRESETS: &[Preset] = &[
        Preset { name: "ddp-25mb-buckets", text: include_str!("../workloads/ddp-25mb-buckets.toml") },
        Preset { name: "fsdp", text: include_str!("../workloads/fsdp.toml") },
        Preset { name: "tensor-parallel", text: include_str!("../workloads/tensor-parallel.toml") },
        Preset { name: "moe-alltoall", text: include_str!("../workloads/moe-alltoall.toml") },
        Preset { name: "nccl-tests", text: include_str!("../workloads/nccl-tests.toml") },
    ];

    /// Its points.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        self.calls.iter().map(|(point, _)| *point)
    }

    /// The preset of this name.
    ///
    /// # Errors
    /// [`TextError::UnknownPreset`] names the nearest.
    pub fn preset(name: &str) -> Result<Self, TextError> {
        match Self::PRESETS.iter().find(|preset| preset.name == name) {
            Some(preset) => Self::parse(preset.text, preset.name),
            None => Err(TextError::unknown_preset("workload", name, Self::PRESETS)),
        }
    }

    /// Reads a workload file. `file` names the text in messages, and gives the workload its name.
    ///
    /// # Errors
    /// [`TextError`] says file, line, column, cause and the nearest valid name.
    pub fn parse(text: &str, file: &str) -> Result<Self, TextError> {
        let source = Source { text, file };
        let File { about, ranks, call } = source.fields(source.table()?)?;
        if let Some(none) = ranks.as_ref().filter(|ranks| *ranks.get_ref() == 0) {
            return Err(source.wrong(none, "a communicator has 1 rank or more"));
        }
        let ranks = ranks.map(Spanned::into_inner);
        let Some(first) = call.first() else {
            let start = Spanned::new(0..0, ());
            return Err(source.wrong(&start, "a workload without calls: begin with [[call]], collective and bytes"));
        };
        let counting = if first.get_ref().per_step.is_some() { Counting::CallsPerStep } else { Counting::Weights };
        let mut calls: BTreeMap<Point, f64> = BTreeMap::new();
        for call in &call {
            let weight = weight(source, call, counting)?;
            for bytes in sizes(source, call.get_ref())? {
                let point = Point { collective: call.get_ref().collective, bytes };
                *calls.entry(point).or_default() += weight;
            }
            if MOST_POINTS < calls.len() {
                let cause = format!("over {MOST_POINTS} sizes: name those that matter");
                return Err(source.wrong(&call.get_ref().bytes, cause));
            }
        }
        Ok(Self { name: source.stem(), about, counting, ranks, calls: calls.into_iter().collect() })
    }
}

/// What to know where the workload `name` is of communicators of `ranks` ranks, and no time is: those are of `measured` ranks.
pub fn other_ranks(name: &str, ranks: Option<u64>, measured: &[u32]) -> Option<String> {
    let ranks = ranks.filter(|ranks| measured.iter().all(|of| u64::from(*of) != *ranks))?;
    let measured: Vec<String> = measured.iter().map(ToString::to_string).collect();
    let measured = measured.join(" and ");
    Some(format!(
        "workload {name} is of {ranks} ranks, times are of {measured}: the same calls of other numbers of ranks take other times"
    ))
}

fn sizes(source: Source<'_>, call: &CallFields) -> Result<Vec<u64>, TextError> {
    let factor = match &call.factor {
        Some(factor) if !(2..=1024).contains(factor.get_ref()) => {
            return Err(source.wrong(factor, "a range steps by a factor of 2 to 1024"));
        }
        factor => factor.as_ref().map_or(FACTOR, |factor| *factor.get_ref()),
    };
    let sizes = parse_sizes(&call.bytes.get_ref().0, factor).map_err(|error| source.wrong(&call.bytes, error))?;
    if sizes.first() == Some(&0) {
        Err(source.wrong(&call.bytes, "a call of 0 bytes takes no time"))
    } else {
        Ok(sizes)
    }
}

fn weight(source: Source<'_>, call: &Spanned<CallFields>, counting: Counting) -> Result<f64, TextError> {
    let CallFields { per_step, weight, .. } = call.get_ref();
    let (name, value) = match (per_step, weight, counting) {
        (Some(_), Some(weight), _) => return Err(source.wrong(weight, "write either per_step or weight")),
        (Some(value), None, Counting::CallsPerStep) => ("per_step", value),
        (None, Some(value), Counting::Weights) => ("weight", value),
        (None, None, Counting::Weights) => return Ok(1.0),
        (_, _, Counting::CallsPerStep) => {
            return Err(source.wrong(call, "no per_step here, but above: write it for every call"));
        }
        (Some(value), None, Counting::Weights) => {
            return Err(source.wrong(value, "per_step here, but not above: write it for every call"));
        }
    };
    let number = *value.get_ref();
    if 0.0 < number && number <= MOST_CALLS {
        return Ok(number);
    }
    Err(source.wrong(value, format!("{name} must be above 0 and at most {MOST_CALLS}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        let workload = Workload::parse(text, "w.toml").map_err(|error| error.to_string())?;
        let calls = workload.calls.iter().map(|(point, weight)| format!("{point} x{weight}"));
        Ok(format!("{} {:?}: {}", workload.name, workload.counting, calls.collect::<Vec<_>>().join(", ")))
    }

    #[test]
    fn calls_of_a_step_add_up() {
        let call = |collective: &str, rest: &str| format!("[[call]]\ncollective = \"{collective}\"\n{rest}\n");
        let text = call("allreduce", "bytes = \"25M\"\nper_step = 40")
            + &call("allgather", "bytes = 4096\nper_step = 0.5")
            + &call("allreduce", "bytes = \"1K,25M\"\nper_step = 2");
        let want = "w CallsPerStep: allreduce 1K x2, allreduce 25M x42, allgather 4K x0.5";
        assert_eq!(shown(&text).as_deref(), Ok(want));
        let weights =
            call("broadcast", "bytes = \"1K-16K\"\nweight = 3") + &call("reduce", "bytes = \"1K-8K\"\nfactor = 8");
        let want = "w Weights: broadcast 1K x3, broadcast 4K x3, broadcast 16K x3, reduce 1K x1, reduce 8K x1";
        assert_eq!(shown(&weights).as_deref(), Ok(want));
    }

    #[test]
    fn errors_name_place_cause_and_the_nearest_name() {
        let good = "[[call]]\ncollective = \"allreduce\"\nbytes = \"1K\"\nper_step = 1\n";
        for (text, message) in [
            (good.replace("allreduce", "all_reduce"), "w.toml:2:14: unknown name `all_reduce`: use one of allreduce,"),
            (good.replace("allreduce", "all_reduce"), "did you mean `allreduce`?"),
            (good.replace("per_step", "per_stp"), "did you mean `per_step`?"),
            (
                good.replace("[[call]]", "[[cal]]"),
                "w.toml:1:3: unknown field `cal`: use one of about, ranks, call; did you mean",
            ),
            (
                good.replace("\"1K\"", "\"12T\""),
                "w.toml:3:9: `12T` is not a size: write bytes or a whole number with K",
            ),
            (good.replace("\"1K\"", "-4"), "w.toml:3:9: "),
            (format!("ranks = 0\n{good}"), "w.toml:1:9: a communicator has 1 rank or more"),
            (good.replace("\"1K\"", "0"), "w.toml:3:9: a call of 0 bytes takes no time"),
            (good.replace("\"1K\"", "\"4K-1K\""), "w.toml:3:9: the range `4K-1K` runs backwards"),
            (
                good.replace("\"1K\"", "true"),
                "w.toml:3:9: invalid type: boolean `true`, expected a text or a whole number",
            ),
            (good.replace("bytes = \"1K\"\n", ""), "w.toml:1:1: missing field `bytes`"),
            (good.replace("= 1\n", "= 0\n"), "w.toml:4:12: per_step must be above 0 and at most"),
            (good.replace("= 1\n", "= nan\n"), "w.toml:4:12: per_step must be above 0"),
            (good.replace("= 1\n", "= 1\nweight = 1\n"), "w.toml:5:10: write either per_step or weight"),
            (good.replace("= 1\n", "= 1\nfactor = 1\n"), "w.toml:5:10: a range steps by a factor of 2 to 1024"),
            (format!("{good}{}", good.replace("per_step = 1\n", "")), "w.toml:5:1: no per_step here, but above"),
            (format!("{}{good}", good.replace("per_step = 1\n", "")), "w.toml:7:12: per_step here, but not above"),
            (String::new(), "w.toml:1:1: a workload without calls: begin with [[call]]"),
            ("[[call]".to_owned(), "w.toml:1:"),
        ] {
            let error = shown(&text).unwrap_err();
            assert!(error.contains(message), "{text}\n{error}");
        }
        let unknown = Workload::preset("ddp-25mb-bucket").unwrap_err().to_string();
        assert!(unknown.ends_with("nccl-tests, or a TOML file; did you mean `ddp-25mb-buckets`?"), "{unknown}");
    }

    #[test]
    fn presets_are_read_and_say_what_they_are() {
        for preset in Workload::PRESETS {
            let workload = Workload::preset(preset.name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(workload.name, preset.name);
            assert!(!workload.about.is_empty() && workload.about.len() < 69, "{}", preset.name);
            assert!(preset.text.starts_with("# "), "{}: where its numbers come from", preset.name);
            let counts = preset.name != "nccl-tests";
            assert_eq!(workload.counting == Counting::CallsPerStep, counts, "{}", preset.name);
            // Whole elements of every type that can be measured.
            assert!(workload.calls.iter().all(|(point, _)| point.bytes % 4 == 0), "{}", preset.name);
        }
        let ddp = Workload::preset("ddp-25mb-buckets").unwrap();
        let bucket = Point { collective: Collective::AllReduce, bytes: 25 << 20 };
        assert!(ddp.calls.contains(&(bucket, 40.0)));
    }

    proptest! {
        #[test]
        fn any_text_is_refused(text in "\\PC{0,80}") {
            prop_assert!(Workload::parse(&text, "w.toml").is_err());
        }

        #[test]
        fn any_damage_is_taken_or_refused(
            preset in 0..Workload::PRESETS.len(),
            at in 0.0_f64..1.0,
            damage in "\\PC{0,3}|[\"'\\[\\]{}=\n0-9-]{1,4}",
            removed in 0_usize..9,
        ) {
            let text: Vec<char> = Workload::PRESETS[preset].text.chars().collect();
            let start = (at * text.len() as f64) as usize;
            let end = (start + removed).min(text.len());
            let broken: String = text[..start].iter().copied().chain(damage.chars()).chain(text[end..].iter().copied()).collect();
            if let Ok(workload) = Workload::parse(&broken, "w.toml") {
                prop_assert!(!workload.calls.is_empty() && workload.calls.is_sorted_by_key(|(point, _)| *point));
                prop_assert!(workload.calls.iter().all(|(point, weight)| 0 < point.bytes && 0.0 < *weight));
            }
        }
    }
}

//! A workload of what was found.

use std::collections::BTreeMap;

use super::{
    communicator::{Communicator, Steps, communicators},
    tally::{LeftOut, Reason, Tally},
};
use crate::{
    size::Size,
    vocab::{Collective, Point},
    workload::{Counting, Workload, whole_elements},
};

/// Bins of a doubling of the size that are tried, where sizes are too many: the finest first.
const BINS_PER_DOUBLING: [f64; 3] = [4.0, 2.0, 1.0];

/// What all sources have.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Communicators, the one with the most bytes first.
    pub communicators: Vec<Communicator>,
    left_out: BTreeMap<Reason, LeftOut>,
    notes: Vec<String>,
}

/// What of it becomes the workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Communicators by number from 1, name or id; none is the first.
    pub communicators: Vec<String>,
    /// Steps of the job that the sources are of, where the user knows.
    pub steps: Option<u64>,
    /// Most different sizes of the workload: neighbours become one.
    pub points: usize,
    /// The workload's name.
    pub name: String,
}

/// A selection that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSelected {
    /// Nothing was found.
    #[error("no collective of two or more ranks in it{0}")]
    Nothing(String),
    /// No communicator, or several.
    #[error("{how_many} `{word}`: there are {known}")]
    Unknown {
        /// No, or several.
        how_many: &'static str,
        /// What was asked for.
        word: String,
        /// What there is.
        known: String,
    },
    /// Communicators of different sizes: what is best differs between them.
    #[error("communicators of {0} and of {1} ranks are tuned apart: choose those of one size")]
    Sizes(u32, u32),
}

/// A workload, and what to know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The workload.
    pub workload: Workload,
    /// Ranks of its communicator.
    pub ranks: u32,
    /// Numbers of the chosen communicators, from 1.
    pub chosen: Vec<usize>,
    /// How its numbers came about, in sentences.
    pub notes: Vec<String>,
    /// What is not in it, and why, in sentences.
    pub left_out: Vec<String>,
}

impl Found {
    pub(super) fn of(tally: Tally) -> Self {
        let (streams, points, left_out, notes) = tally.into_parts();
        Self { communicators: communicators(&streams, &points), left_out, notes }
    }

    /// The workload of some communicators.
    ///
    /// # Errors
    /// [`NotSelected`].
    pub fn workload(&self, selection: &Selection) -> Result<Imported, NotSelected> {
        let chosen = self.chosen(&selection.communicators)?;
        let first = &self.communicators[chosen[0]];
        if let Some(other) = chosen.iter().map(|at| &self.communicators[*at]).find(|other| other.ranks != first.ranks) {
            return Err(NotSelected::Sizes(first.ranks, other.ranks));
        }
        let mut notes = self.notes.clone();
        let (counting, mut calls) = self.counted(&chosen, selection.steps, &mut notes);
        round(&mut calls, &mut notes);
        merge(&mut calls, selection.points, &mut notes);
        let about = format!("{} ranks, {} sizes, from a running job", first.ranks, calls.len());
        let workload = Workload {
            name: selection.name.clone(),
            about,
            counting,
            ranks: Some(first.ranks.into()),
            calls: calls.into_iter().collect(),
        };
        let left_out = self.left_out(&chosen);
        let chosen = chosen.into_iter().map(|at| at + 1).collect();
        Ok(Imported { workload, ranks: first.ranks, chosen, notes, left_out })
    }

    fn chosen(&self, words: &[String]) -> Result<Vec<usize>, NotSelected> {
        if self.communicators.is_empty() {
            let left: Vec<String> = self.left_out.iter().map(|(reason, left)| told(*reason, left)).collect();
            let left = if left.is_empty() { String::new() } else { format!("; left out: {}", left.join("; ")) };
            return Err(NotSelected::Nothing(left));
        }
        let mut chosen = if words.is_empty() { vec![0] } else { Vec::new() };
        for word in words {
            let at = self.one(word)?;
            if !chosen.contains(&at) {
                chosen.push(at);
            }
        }
        Ok(chosen)
    }

    /// The communicator of a number, a name, or the beginning of an id.
    fn one(&self, word: &str) -> Result<usize, NotSelected> {
        let all = || self.communicators.iter().enumerate();
        let number = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(at) = number.filter(|at| *at < self.communicators.len()) {
            return Ok(at);
        }
        let by = |is: &dyn Fn(&String) -> bool| -> Vec<usize> {
            all().filter(|(_, communicator)| communicator.names.iter().any(is)).map(|(at, _)| at).collect()
        };
        let exact = by(&|name| name == word);
        let found = if exact.is_empty() { by(&|name| !word.is_empty() && name.starts_with(word)) } else { exact };
        match found.as_slice() {
            [only] => Ok(*only),
            none_or_several => {
                let how_many =
                    if none_or_several.is_empty() { "no communicator" } else { "several communicators begin with" };
                let known: Vec<String> = all().map(|(at, communicator)| communicator.label(at + 1)).collect();
                Err(NotSelected::Unknown { how_many, word: word.to_owned(), known: known.join(", ") })
            }
        }
    }

    /// Calls per step where steps are known, or all calls as weights.
    fn counted(
        &self,
        chosen: &[usize],
        steps: Option<u64>,
        notes: &mut Vec<String>,
    ) -> (Counting, BTreeMap<Point, f64>) {
        let first = &self.communicators[chosen[0]];
        let counted = Counted::of(first, steps);
        notes.push(counted.told());
        notes.extend(self.longer_step(&counted));
        let mut calls: BTreeMap<Point, f64> = BTreeMap::new();
        for at in chosen {
            let communicator = &self.communicators[*at];
            for (point, count) in counted.per_step(communicator, *at == chosen[0]) {
                *calls.entry(point).or_default() += count;
            }
        }
        (if matches!(counted, Counted::All) { Counting::Weights } else { Counting::CallsPerStep }, calls)
    }

    /// What another communicator repeats less often may be the step: tensor-parallel calls repeat with every layer.
    fn longer_step(&self, counted: &Counted<'_>) -> Option<String> {
        let Counted::Repeats(_, own, ..) = counted else { return None };
        let repeats = |communicator: &Communicator| match communicator.steps {
            Steps::Repeats { steps, .. } => Some(steps),
            _ => None,
        };
        let all = self.communicators.iter().enumerate();
        let (at, fewest) = all.filter_map(|(at, other)| Some((at, repeats(other)?))).min_by_key(|(_, steps)| *steps)?;
        (2 * fewest <= *own).then(|| {
            format!(
                "communicator {} repeats {fewest} times: if those are the job's steps, say --steps {fewest}",
                at + 1
            )
        })
    }

    fn left_out(&self, chosen: &[usize]) -> Vec<String> {
        let others: Vec<&Communicator> = self
            .communicators
            .iter()
            .enumerate()
            .filter(|(at, _)| !chosen.contains(at))
            .map(|(_, other)| other)
            .collect();
        let calls: u64 = others.iter().map(|other| other.call_count()).sum();
        let of_others = (!others.is_empty()).then(|| {
            let groups = if others.len() == 1 { "1 other communicator" } else { "other communicators" };
            format!("{} of {groups}: --comm chooses", counted(calls, "call"))
        });
        self.left_out.iter().map(|(reason, left)| told(*reason, left)).chain(of_others).collect()
    }
}

/// What calls are divided by.
enum Counted<'a> {
    /// Steps that the user or the source tells; in words.
    By(f64, &'static str),
    /// The first communicator's repeats: a step, how often it is seen, calls outside of that, and steps of all calls.
    Repeats(&'a BTreeMap<Point, u64>, usize, u64, f64),
    /// Nothing: they are weights.
    All,
}

impl<'a> Counted<'a> {
    fn of(first: &'a Communicator, steps: Option<u64>) -> Self {
        match (steps, &first.steps) {
            (Some(steps), _) => Self::By(steps.max(1) as f64, "as was said"),
            (None, Steps::Marked(steps)) => Self::By((*steps).max(1) as f64, "by the marks of the profiler"),
            (None, Steps::Repeats { calls, steps, outside }) => {
                let length: u64 = calls.values().sum();
                Self::Repeats(calls, *steps, *outside, first.call_count() as f64 / length.max(1) as f64)
            }
            (None, Steps::Unknown) => Self::All,
        }
    }

    fn told(&self) -> String {
        match self {
            Self::By(steps, how) => format!("{steps} steps, {how}"),
            Self::Repeats(calls, steps, outside, _) => {
                let length: u64 = calls.values().sum();
                format!(
                    "a step has {}, which repeat {steps} times; {} before and behind that are left out; if that is no step, \
                     --steps N says how many there are",
                    counted(length, "call"),
                    counted(*outside, "call")
                )
            }
            Self::All => {
                "the calls do not repeat themselves, so they are weights, and times per step are not known: --steps N \
                          says how many steps they are of"
                    .to_owned()
            }
        }
    }

    fn per_step(&self, communicator: &Communicator, is_first: bool) -> Vec<(Point, f64)> {
        let (calls, steps) = match self {
            Self::Repeats(calls, ..) if is_first => (*calls, 1.0),
            Self::By(steps, _) | Self::Repeats(.., steps) => (&communicator.calls, *steps),
            Self::All => (&communicator.calls, 1.0),
        };
        calls.iter().map(|(point, count)| (*point, *count as f64 / steps)).collect()
    }
}

impl Communicator {
    /// `2 (8 ranks, dp)`.
    fn label(&self, number: usize) -> String {
        let name = self.names.first().map_or(String::new(), |name| format!(", {name}"));
        format!("{number} ({} ranks{name})", self.ranks)
    }
}

/// A sentence about what is not counted.
fn told(reason: Reason, left: &LeftOut) -> String {
    let example = &left.example;
    let calls = counted(left.calls, "call");
    match reason {
        Reason::PointToPoint => {
            let transfers = counted(left.calls, "send or receive");
            format!("{transfers} ({example}): no choice of NCCL's is made for them")
        }
        Reason::OtherCollective => format!("{calls} that gdrtune does not measure ({example})"),
        Reason::UnknownType => format!("{calls} of an unknown type ({example})"),
        Reason::Empty => format!("{calls} of 0 bytes ({example})"),
        Reason::NoSize => format!("{calls} without a size ({example})"),
        Reason::Alone => format!("{calls} on communicators of one rank ({example})"),
        Reason::Broken => format!("{} cut off or mixed with others ({example})", counted(left.calls, "line or entry")),
        Reason::Lost => format!(
            "{calls} that the plugin did not keep ({example}): those under NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES (8192), and more between \
             two dumps than NCCL_INSPECTOR_DUMP_COLL_RING_SIZE"
        ),
    }
}

/// `1 call`, `2 calls`.
fn counted(number: u64, noun: &str) -> String {
    let plural = match noun {
        "send or receive" => "sends and receives",
        "line or entry" => "lines or entries",
        "size" => "sizes",
        _ => "calls",
    };
    format!("{number} {}", if number == 1 { noun } else { plural })
}

/// What is measured is a whole number of elements.
fn round(calls: &mut BTreeMap<Point, f64>, notes: &mut Vec<String>) {
    let odd = calls.keys().filter(|point| whole_elements(point.bytes) != point.bytes).count();
    if 0 < odd {
        let sizes = counted(odd as u64, "size");
        notes.push(format!("{sizes} rounded up to a multiple of 4 bytes, so that every type can be measured"));
        let mut rounded: BTreeMap<Point, f64> = BTreeMap::new();
        for (point, count) in std::mem::take(calls) {
            *rounded.entry(Point { bytes: whole_elements(point.bytes), ..point }).or_default() += count;
        }
        *calls = rounded;
    }
}

/// Makes one size of neighbours, their mean by calls, until there are few enough, or one for each doubling.
fn merge(calls: &mut BTreeMap<Point, f64>, most: usize, notes: &mut Vec<String>) {
    let before = calls.len();
    if before <= most {
        return;
    }
    let mut merged = BTreeMap::new();
    for bins in BINS_PER_DOUBLING {
        merged = in_bins(calls, bins);
        if merged.len() <= most {
            break;
        }
    }
    let (low, high) = (calls.keys().map(|point| point.bytes).min(), calls.keys().map(|point| point.bytes).max());
    if let (Some(low), Some(high)) = (low, high) {
        notes.push(format!(
            "{before} different sizes from {} to {} became {}: neighbours are one size, their mean by calls; --points says how \
             many",
            Size(low),
            Size(high),
            merged.len()
        ));
    }
    *calls = merged;
}

fn in_bins(calls: &BTreeMap<Point, f64>, per_doubling: f64) -> BTreeMap<Point, f64> {
    let mut bins: BTreeMap<(Collective, i64), (f64, f64)> = BTreeMap::new();
    for (point, count) in calls {
        let bin = ((point.bytes.max(1) as f64).log2() * per_doubling).round() as i64;
        let (bytes, all) = bins.entry((point.collective, bin)).or_default();
        *bytes += point.bytes as f64 * count;
        *all += count;
    }
    let mut merged: BTreeMap<Point, f64> = BTreeMap::new();
    for ((collective, _), (bytes, count)) in bins {
        let mean = whole_elements((bytes / count).round().max(1.0) as u64);
        *merged.entry(Point { collective, bytes: mean }).or_default() += count;
    }
    merged
}

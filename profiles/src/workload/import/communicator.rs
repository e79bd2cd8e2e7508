//! Communicators of streams: which ranks belong together, which communicators are each other's likes, and their step.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{period::period, tally::Stream};
use crate::vocab::Point;

/// A communicator, with all that are like it.
///
/// Jobs have many of a kind: each tensor-parallel group is one, with the same calls as the others. A rank belongs to one of
/// them, so one says it all.
#[derive(Debug, Clone, PartialEq)]
pub struct Communicator {
    /// Number of ranks.
    pub ranks: u32,
    /// What sources call it: ids and names, without repeats.
    pub names: Vec<String>,
    /// How many communicators have these calls; where ids are missing, as few as the ranks that were seen can be.
    pub alike: usize,
    /// How many of their ranks were seen.
    pub seen: usize,
    /// How often each was called, by the rank with the most calls.
    pub calls: BTreeMap<Point, u64>,
    /// Steps of the job that these calls are of.
    pub steps: Steps,
}

/// How many steps calls are of.
#[derive(Debug, Clone, PartialEq)]
pub enum Steps {
    /// The source marks them.
    Marked(u64),
    /// The calls repeat themselves.
    Repeats {
        /// How often each is called in a step.
        calls: BTreeMap<Point, u64>,
        /// Steps in the part that repeats, whole ones.
        steps: usize,
        /// Calls that are outside of it: what the job called before and behind.
        outside: u64,
    },
    /// Nobody knows.
    Unknown,
}

impl Communicator {
    /// Bytes of all calls, by the size column.
    pub fn bytes(&self) -> f64 {
        self.calls.iter().map(|(point, calls)| point.bytes as f64 * *calls as f64).sum()
    }

    /// Number of calls.
    pub fn call_count(&self) -> u64 {
        self.calls.values().sum()
    }
}

/// Ranks of one communicator, or a rank alone where its communicator is not told.
struct Instance {
    streams: Vec<usize>,
    /// The stream with the most calls.
    longest: usize,
    is_named: bool,
}

/// The communicators of `streams`, the one with the most bytes first. `points` are those of the symbols.
pub(super) fn communicators(streams: &[Stream], points: &[Point]) -> Vec<Communicator> {
    let classes = classes(streams);
    let mut communicators: Vec<Communicator> =
        classes.iter().map(|class| communicator(class, streams, points)).collect();
    communicators
        .sort_by(|a, b| b.bytes().total_cmp(&a.bytes()).then(a.ranks.cmp(&b.ranks)).then(a.names.cmp(&b.names)));
    communicators
}

fn total(stream: &Stream) -> u64 {
    stream.counts.values().sum()
}

fn instances(streams: &[Stream]) -> Vec<Instance> {
    let mut instances: Vec<Instance> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (number, stream) in streams.iter().enumerate() {
        let id = stream.label.id.as_str();
        match known.get(id).and_then(|at| instances.get_mut(*at)) {
            Some(instance) if !id.is_empty() => {
                instance.streams.push(number);
                if total(&streams[instance.longest]) < total(stream) {
                    instance.longest = number;
                }
            }
            _ => {
                known.insert(id, instances.len());
                instances.push(Instance { streams: vec![number], longest: number, is_named: !id.is_empty() });
            }
        }
    }
    // Those with the most calls first: the others may be cut off.
    instances.sort_by_key(|instance| std::cmp::Reverse(total(&streams[instance.longest])));
    instances
}

/// Communicators that are each other's likes: of as many ranks, with the same calls (or the first of them, where a log ends
/// early), and without a rank that is in both.
fn classes(streams: &[Stream]) -> Vec<Vec<Instance>> {
    let mut classes: Vec<(Vec<Instance>, BTreeSet<u32>)> = Vec::new();
    for instance in instances(streams) {
        let owners: BTreeSet<u32> = instance.streams.iter().map(|stream| streams[*stream].owner).collect();
        let own = &streams[instance.longest];
        let is_like = |(class, others): &&mut (Vec<Instance>, BTreeSet<u32>)| {
            let first = &streams[class[0].longest];
            let within = |(point, calls): (&Point, &u64)| first.counts.get(point).is_some_and(|most| calls <= most);
            first.label.ranks == own.label.ranks && own.counts.iter().all(within) && others.is_disjoint(&owners)
        };
        match classes.iter_mut().find(is_like) {
            Some((class, others)) => {
                class.push(instance);
                others.extend(owners);
            }
            None => classes.push((vec![instance], owners)),
        }
    }
    classes.into_iter().map(|(class, _)| class).collect()
}

fn communicator(class: &[Instance], streams: &[Stream], points: &[Point]) -> Communicator {
    let longest = &streams[class[0].longest];
    let with_id = class.iter().filter(|instance| instance.is_named).count();
    let ranks_alone = class.len() - with_id;
    let mut names = Vec::new();
    for label in class.iter().map(|instance| &streams[instance.longest].label) {
        for name in [&label.name, &label.id] {
            if !name.is_empty() && !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    Communicator {
        ranks: longest.label.ranks,
        names,
        alike: with_id + ranks_alone.div_ceil(longest.label.ranks.max(1) as usize),
        seen: class.iter().map(|instance| instance.streams.len()).sum(),
        calls: longest.counts.clone(),
        steps: steps(longest, points),
    }
}

fn steps(stream: &Stream, points: &[Point]) -> Steps {
    if let Some(steps) = stream.steps {
        return Steps::Marked(steps);
    }
    let Some(found) = period(&stream.order) else { return Steps::Unknown };
    let mut calls: BTreeMap<Point, u64> = BTreeMap::new();
    for symbol in &stream.order[found.start..found.start + found.length] {
        if let Some(point) = points.get(usize::from(*symbol)) {
            *calls.entry(*point).or_default() += 1;
        }
    }
    let outside = (stream.order.len() - found.covered) as u64;
    Steps::Repeats { calls, steps: found.covered / found.length, outside }
}

//! The points that a profile speaks of: what is measured again where nobody names others.

use std::collections::BTreeSet;

use gdrtune_profiles::{
    profile::{ByteRange, Profile, Rule},
    vocab::{Collective, DataType, Point},
};

use crate::{event::Record, evidence};

/// Sizes of a range without an end, as `tune` takes them where none are named.
const USUAL: (u64, u64) = (1 << 10, 64 << 20);

/// An end above this is none: ranges for all sizes are written with it, and nobody measures 1 TiB.
const LARGEST: u64 = 1 << 40;

/// What a profile promises something of in jobs of `shape` (nodes, ranks): the points of its run's A/B where `records`, the run's
/// store, have them; where they do not, each rule's range in steps of `factor`, with its ends, and for variables the usual sizes.
///
/// Sizes are whole elements. `factor` is at least 2.
pub fn promised(
    profile: &Profile,
    shape: (u32, u32),
    records: Option<&[Record]>,
    data_type: DataType,
    factor: u64,
) -> Vec<Point> {
    let measured = records.map(|records| evidence::measured(records, shape)).unwrap_or_default();
    let is_compared = measured.iter().any(|one| one.ratio.is_some());
    let mut points: BTreeSet<Point> = measured
        .iter()
        .filter(|one| one.ratio.is_some() || !is_compared)
        .map(|one| one.point)
        .filter(|point| 0 < point.bytes && point.bytes.is_multiple_of(data_type.bytes()))
        .collect();
    let has_evidence = !points.is_empty();
    let covers = |rule: &Rule, point: &Point| point.collective == rule.collective && rule.bytes.contains(point.bytes);
    for rule in profile.rule.iter().filter(|rule| (rule.nodes, rule.ranks) == shape) {
        // One that was edited since may be of other sizes than the run.
        if !points.iter().any(|point| covers(rule, point)) {
            points.extend(of_range(rule.collective, rule.bytes, data_type, factor));
        }
    }
    if !has_evidence && !profile.env.is_empty() {
        let mut collectives: BTreeSet<Collective> = profile.rule.iter().map(|rule| rule.collective).collect();
        if collectives.is_empty() {
            collectives.insert(Collective::AllReduce);
        }
        let everything = ByteRange { min: 0, max: None };
        points.extend(collectives.into_iter().flat_map(|one| of_range(one, everything, data_type, factor)));
    }
    points.into_iter().collect()
}

/// A range's ends, and what lies between them of 1 KiB times powers of `factor`.
fn of_range(collective: Collective, bytes: ByteRange, data_type: DataType, factor: u64) -> Vec<Point> {
    let (least, most) = USUAL;
    let max = bytes.max.filter(|max| *max <= LARGEST);
    let element = data_type.bytes();
    let low = if bytes.min == 0 { least.min(max.unwrap_or(least)) } else { bytes.min };
    let Some(low) = low.checked_next_multiple_of(element).filter(|low| *low <= LARGEST) else { return Vec::new() };
    let high = max.unwrap_or(most.max(low));
    let high = high - high % element;
    let steps = std::iter::successors(Some(least), |size| size.checked_mul(factor.max(2)));
    let between = steps.take_while(|size| *size < high).filter(|size| low < *size);
    let mut sizes: Vec<u64> = [low, high].into_iter().chain(between).collect();
    // A range may be narrower than an element, or be for nothing but empty calls.
    sizes.retain(|size| 0 < *size && (low..=high).contains(size) && bytes.contains(*size));
    sizes.into_iter().map(|bytes| Point { collective, bytes }).collect()
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::profile::Speedup;

    use super::*;
    use crate::event::{Decision, Event};

    const PROFILE: &str = include_str!("../../../../profiles/tests/golden/nccl.toml");

    fn of_profile(profile: &Profile, records: Option<&[Record]>, factor: u64) -> Vec<u64> {
        let points = promised(profile, (4, 32), records, DataType::F32, factor);
        assert!(points.iter().all(|point| point.collective == Collective::AllReduce));
        points.into_iter().map(|point| point.bytes).collect()
    }

    fn verdict(bytes: u64) -> Event {
        Event::Verdict {
            point: Point { collective: Collective::AllReduce, bytes },
            speedup: Speedup { median: 1.2, low: 1.1, high: 1.3, p_faster: 1.0, repeats: 9 },
            default_us: 12.0,
            tuned_us: 10.0,
            decision: Decision::Ship,
            note: String::new(),
        }
    }

    fn store(events: Vec<Event>) -> Vec<Record> {
        let set = Event::NodeSet { hosts: "n[1-4]".into(), nodes: 4, ranks: 32, left_out: Vec::new() };
        let events = std::iter::once(set).chain(events);
        (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 0, event }).collect()
    }

    #[test]
    fn a_range_beyond_every_size_promises_nothing() {
        for min in [u64::MAX, u64::MAX - 6, 1 << 63] {
            let range = ByteRange { min, max: None };
            assert_eq!(of_range(Collective::AllReduce, range, DataType::F32, 4), [], "{min}");
        }
    }

    #[test]
    fn a_profile_without_its_run_promises_its_rules_ranges() {
        let mut profile = Profile::parse(PROFILE, "golden").unwrap().0;
        let usual: Vec<u64> = (0..9).map(|step| 1024 << (2 * step)).collect();
        assert_eq!(of_profile(&profile, None, 4), usual, "variables reach every size");
        profile.env.clear();
        for (min, max, factor, expected) in [
            (0, Some(65536), 4, vec![1024, 4096, 16384, 65536]),
            (0, Some(65536), 1024, vec![1024, 65536]),
            (16 << 20, None, 4, vec![16 << 20, 64 << 20]),
            // Ends that are no whole elements are taken inside.
            (524_289, Some(2_097_153), 4, vec![524_292, 1 << 20, 2 << 20]),
            (1 << 30, None, 4, vec![1 << 30]),
            (0, Some(8), 4, vec![8]),
            (0, Some(u64::MAX), 256, vec![1024, 256 << 10, 64 << 20]),
            (5, Some(7), 4, vec![]),
            (0, Some(0), 4, vec![]),
        ] {
            profile.rule.truncate(1);
            profile.rule[0].bytes = ByteRange { min, max };
            assert_eq!(of_profile(&profile, None, factor), expected, "{min} to {max:?}");
        }
        // Rules of other shapes say nothing of this one.
        profile.rule[0].nodes = 2;
        assert_eq!(of_profile(&profile, None, 4), Vec::<u64>::new());
    }

    #[test]
    fn a_profile_with_its_run_promises_what_the_run_compared() {
        let mut profile = Profile::parse(PROFILE, "golden").unwrap().0;
        let records = store(vec![verdict(2048), verdict(32 << 20), verdict(6)]);
        assert_eq!(of_profile(&profile, Some(&records), 4), [2048, 32 << 20]);
        // A rule that the run says nothing of.
        profile.env.clear();
        profile.rule[1].bytes = ByteRange { min: 512 << 10, max: Some(1 << 20) };
        assert_eq!(of_profile(&profile, Some(&records), 4), [2048, 512 << 10, 1 << 20, 32 << 20]);
    }
}

//! From what the search found to a candidate that can be verified: one environment and rules over ranges of bytes.
//!
//! **Ranges.** A rule covers measured sizes that are neighbours and have the same choice. Between two measured sizes with
//! different answers the boundary is their geometric mean (the halfway point on the log scale that sizes are drawn on):
//! the lower side includes it. A rule never reaches beyond the smallest and the largest size that were measured, because
//! nothing is known there; so no rule is unbounded. Must not measure, and must not decide what ships: see
//! [`crate::verdict`].

use std::collections::BTreeSet;

use gdrtune_profiles::{
    profile::ByteRange,
    size::Size,
    vocab::{Choice, Collective, Environment, Point},
};

use crate::search::{PointResult, SearchOutcome};

/// A choice for a range of sizes, not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateRule {
    /// The collective.
    pub collective: Collective,
    /// Sizes that it covers.
    pub bytes: ByteRange,
    /// The choice.
    pub choice: Choice,
    /// The measured sizes within, rising; never empty.
    pub sizes: Vec<u64>,
}

impl CandidateRule {
    /// The rule in words, with the sizes that it was found at.
    pub fn name(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|&bytes| Size(bytes).to_string()).collect();
        format!("{} {} {}", self.collective, sizes.join(", "), self.choice)
    }

    /// The measured points within.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        let collective = self.collective;
        self.sizes.iter().map(move |bytes| Point { collective, bytes: *bytes })
    }

    /// Whether the point is one of those that were measured for this rule.
    pub fn covers(&self, point: Point) -> bool {
        self.collective == point.collective && self.sizes.contains(&point.bytes)
    }
}

/// What is verified against the default arm.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidate {
    /// Process-level settings.
    pub environment: Environment,
    /// Rules, by collective and size.
    pub rules: Vec<CandidateRule>,
}

impl Candidate {
    /// Whether it changes nothing: the defaults are best as far as the search knows, and there is nothing to verify.
    pub fn is_empty(&self) -> bool {
        self.environment.is_empty() && self.rules.is_empty()
    }

    /// Whether a call at this point can run differently: variables reach every call, rules those that they cover. Both arms
    /// of an A/B are the same elsewhere, and what it says there is noise.
    pub fn changes(&self, point: Point) -> bool {
        !self.environment.is_empty() || self.rule_of(point).is_some()
    }

    /// The rule of a point, if any.
    pub fn rule_of(&self, point: Point) -> Option<&CandidateRule> {
        self.rules.iter().find(|rule| rule.covers(point))
    }
}

/// The candidate of a search: its environment, and rules where the search says that the choice beats the default by
/// more than `gain` (relative).
///
/// If nothing beats the default anywhere and the environment's score is no gain either, the candidate is empty.
pub fn candidate(outcome: &SearchOutcome, gain: f64) -> Candidate {
    let rules = rules(&outcome.points, gain);
    let best = outcome.environments.iter().filter(|tried| tried.environment == outcome.environment);
    let score = best.map(|tried| tried.score).fold(f64::INFINITY, f64::min);
    if rules.is_empty() && 1.0 / (1.0 + gain) < score {
        return Candidate::default();
    }
    Candidate { environment: outcome.environment.clone(), rules }
}

/// What can still ship when the environment does not: the first environment and the choices found under it.
pub fn fallback(outcome: &SearchOutcome, gain: f64) -> Candidate {
    Candidate { environment: outcome.first_environment.clone(), rules: rules(&outcome.fallback, gain) }
}

fn rules(points: &[PointResult], gain: f64) -> Vec<CandidateRule> {
    let measured: Vec<Point> = points.iter().map(|result| result.pick.point).collect();
    let wins = |result: &PointResult| {
        let default_us = result.default?.median_us;
        let choice = result.pick.choice?;
        // The best of many looks better than it is (the winner's curse): one standard error is taken off.
        let sober_us = result.pick.expected_us * result.pick.deviation.exp();
        (1.0 + gain <= default_us / sober_us).then_some((result.pick.point, choice))
    };
    let winners: Vec<(Point, Choice)> = points.iter().filter_map(wins).collect();
    merge(&measured, &winners)
}

/// Merges winners that are neighbours among the measured points and have the same choice.
///
/// Both lists may be in any order; winners are among the measured points.
pub fn merge(measured: &[Point], winners: &[(Point, Choice)]) -> Vec<CandidateRule> {
    let measured: BTreeSet<Point> = measured.iter().copied().chain(winners.iter().map(|(point, _)| *point)).collect();
    let mut sorted = winners.to_vec();
    sorted.sort_unstable_by_key(|(point, _)| *point);
    sorted.dedup_by_key(|(point, _)| *point);
    let mut rules: Vec<CandidateRule> = Vec::new();
    for (point, choice) in sorted {
        let below = measured.range(..point).next_back().filter(|below| below.collective == point.collective);
        if let Some(rule) = rules.last_mut()
            && rule.choice == choice
            && below.is_some_and(|below| rule.covers(*below))
        {
            rule.sizes.push(point.bytes);
            continue;
        }
        let bytes = ByteRange { min: 0, max: None };
        rules.push(CandidateRule { collective: point.collective, bytes, choice, sizes: vec![point.bytes] });
    }
    for rule in &mut rules {
        rule.bytes = range(&measured, rule.collective, &rule.sizes);
    }
    rules
}

fn range(measured: &BTreeSet<Point>, collective: Collective, sizes: &[u64]) -> ByteRange {
    let (first, last) = (sizes.first().copied().unwrap_or(0), sizes.last().copied().unwrap_or(0));
    let at = |bytes| Point { collective, bytes };
    let below = measured.range(at(0)..at(first)).next_back();
    let above = measured.range(at(last)..).find(|point| last < point.bytes && point.collective == collective);
    ByteRange {
        min: below.map_or(first, |below| boundary(below.bytes, first) + 1),
        max: Some(above.map_or(last, |above| boundary(last, above.bytes))),
    }
}

/// Largest size that belongs to the lower one of two neighbours.
fn boundary(low: u64, high: u64) -> u64 {
    let middle = (low as f64).sqrt() * (high as f64).sqrt();
    (middle as u64).clamp(low, high.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Algorithm, Protocol};
    use proptest::prelude::*;

    use super::*;

    fn choice(channels: u16) -> Choice {
        Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels }
    }

    fn point(bytes: u64) -> Point {
        Point { collective: Collective::AllReduce, bytes }
    }

    fn summary(rules: &[CandidateRule]) -> Vec<(u64, Option<u64>, u16)> {
        rules.iter().map(|rule| (rule.bytes.min, rule.bytes.max, rule.choice.channels)).collect()
    }

    #[test]
    fn neighbours_merge_and_ranges_meet_halfway() {
        let measured = [1024, 4096, 16384, 65536].map(point);
        let wins = |list: &[(u64, u16)]| list.iter().map(|(b, c)| (point(*b), choice(*c))).collect::<Vec<_>>();
        for (winners, want) in [
            (wins(&[]), vec![]),
            (wins(&[(1024, 1), (4096, 1), (16384, 1), (65536, 1)]), vec![(1024, Some(65536), 1)]),
            (wins(&[(1024, 1), (4096, 1), (16384, 2)]), vec![(1024, Some(8192), 1), (8193, Some(32768), 2)]),
            // A size in between that the default wins splits the rule.
            (wins(&[(1024, 1), (16384, 1)]), vec![(1024, Some(2048), 1), (8193, Some(32768), 1)]),
        ] {
            assert_eq!(summary(&merge(&measured, &winners)), want);
        }
        let other = Point { collective: Collective::Broadcast, bytes: 2048 };
        let rules = merge(&[other, measured[0]], &[(measured[0], choice(1)), (other, choice(1))]);
        assert_eq!(summary(&rules), [(1024, Some(1024), 1), (2048, Some(2048), 1)]);
    }

    #[test]
    fn rules_change_what_they_cover_and_variables_everything() {
        let rules = merge(&[1024, 4096].map(point), &[(point(4096), choice(1))]);
        let mut candidate = Candidate { environment: Environment::new(), rules };
        assert_eq!([1024, 4096].map(|bytes| candidate.changes(point(bytes))), [false, true]);
        candidate.environment = Environment::new().with("NCCL_BUFFSIZE", "1048576");
        assert!(candidate.changes(point(1024)));
    }

    proptest! {
        #[test]
        fn each_winner_has_one_rule_and_no_loser_has_any(
            sizes in proptest::collection::btree_map(0u64..1 << 40, 0u16..4, 1..20),
        ) {
            let measured: Vec<Point> = sizes.keys().map(|bytes| point(*bytes)).collect();
            let winners: Vec<_> =
                sizes.iter().filter(|(_, c)| **c > 0).map(|(b, c)| (point(*b), choice(*c))).collect();
            let rules = merge(&measured, &winners);
            for (bytes, channels) in &sizes {
                let matching: Vec<u16> =
                    rules.iter().filter(|r| r.bytes.contains(*bytes)).map(|r| r.choice.channels).collect();
                prop_assert_eq!(matching, if *channels > 0 { vec![*channels] } else { vec![] });
            }
        }
    }
}

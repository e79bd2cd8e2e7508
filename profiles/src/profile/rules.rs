//! What is wrong with a profile's rules: shapes, sizes, choices, times, and rules that hide each other.

use super::{
    Problem, Profile, Rule, Step,
    problem::{shape_problem, speedup_problem},
};
use crate::{matrix, size::Size};

impl Profile {
    pub(super) fn check_rules(&self, problems: &mut Vec<Problem>) {
        for (idx, rule) in self.rule.iter().enumerate() {
            self.check_rule(idx, rule, problems);
            problems.extend(self.overlap(idx, rule));
        }
    }

    fn check_rule(&self, idx: usize, rule: &Rule, problems: &mut Vec<Problem>) {
        let at = |field| vec![Step::Field("rule"), Step::Item(idx), Step::Field(field)];
        problems.extend(shape_problem(rule.nodes, rule.ranks).map(|(field, m)| Problem::error(at(field), m)));
        if let Some(max) = rule.bytes.max.filter(|max| *max < rule.bytes.min) {
            let message = format!("the sizes run backwards: min {} is above max {max}", rule.bytes.min);
            problems.push(Problem::error(at("bytes"), message));
        }
        let version = self.nccl_version();
        let Rule { collective, algorithm, protocol, .. } = *rule;
        if let Err(error) = matrix::check(self.run.engine, version, collective, algorithm, protocol) {
            let field = match error {
                matrix::InvalidChoice::NoChoice(_) => "collective",
                matrix::InvalidChoice::Algorithm { .. } => "algorithm",
                matrix::InvalidChoice::Protocol { .. } => "protocol",
            };
            problems.push(Problem::error(at(field), error.to_string()));
        }
        if let Some(channels) = rule.channels {
            let most = matrix::max_channels(version);
            if !(1..=most).contains(&channels) {
                let message = format!("{channels} channels cannot be: write 1 to {most}, or leave them out");
                problems.push(Problem::error(at("channels"), message));
            }
        }
        for (field, time_us) in [("default_us", rule.default_us), ("tuned_us", rule.tuned_us)] {
            if !time_us.is_finite() || time_us <= 0.0 {
                let message = format!("{field} is not a time: write microseconds above 0");
                problems.push(Problem::error(at(field), message));
            }
        }
        problems.extend(speedup_problem(&rule.speedup).map(|message| Problem::error(at("speedup"), message)));
    }

    /// The first earlier rule for the same calls that takes sizes away from this one.
    fn overlap(&self, idx: usize, rule: &Rule) -> Option<Problem> {
        let is_before_and_overlaps = |earlier: &&Rule| {
            (earlier.collective, earlier.nodes, earlier.ranks) == (rule.collective, rule.nodes, rule.ranks)
                && earlier.bytes.max.is_none_or(|max| rule.bytes.min <= max)
                && rule.bytes.max.is_none_or(|max| earlier.bytes.min <= max)
        };
        let earlier = self.rule[..idx].iter().find(is_before_and_overlaps)?;
        let from = Size(earlier.bytes.min.max(rule.bytes.min));
        let to = match (earlier.bytes.max, rule.bytes.max) {
            (None, None) => "on".to_owned(),
            (Some(max), None) | (None, Some(max)) => format!("to {}", Size(max)),
            (Some(a), Some(b)) => format!("to {}", Size(a.min(b))),
        };
        let message = format!(
            "an earlier rule for {} on {} nodes and {} ranks overlaps: the first one ({}) wins from {from} {to}",
            rule.collective,
            rule.nodes,
            rule.ranks,
            earlier.choice(),
        );
        Some(Problem::warning(vec![Step::Field("rule"), Step::Item(idx), Step::Field("bytes")], message))
    }
}

//! A `ucc.conf` that hands the calls that rules are for to NCCL.
//!
//! UCC chooses a layer for each call, never NCCL's algorithm in it: the rules are for a tuner plugin here as everywhere.

use super::{
    EmitError,
    plan::{Plan, push_line},
};
use crate::{
    grammar::ucc::{self, VARIABLE, collective_name},
    profile::Rule,
    vocab::Collective,
};

pub(super) fn emit(plan: &Plan<'_>) -> Result<String, EmitError> {
    let mut text = plan.head_text();
    text.push_str("# for UCC_CONFIG_FILE or ~/.ucc.conf; UCC chooses the layer of a call, and NCCL and its tuner plugin what it runs\n");
    text.push_str(
        "# NCCL gets the calls that rules are for: whether another layer of UCC's is faster was not measured\n",
    );
    let tokens = tokens(&plan.profile.rule);
    if !tokens.is_empty() {
        let mark = if plan.rules_are_live { "" } else { "#" };
        push_line(&mut text, &format!("{mark}{VARIABLE}={}", tokens.join("#")));
    }
    read_back(plan, &text)?;
    Ok(text)
}

/// One token for each collective and shape, in the order of their first rules.
fn tokens(rules: &[Rule]) -> Vec<String> {
    let mut keys: Vec<(Collective, u32)> = Vec::new();
    for key in rules.iter().map(|rule| (rule.collective, rule.ranks)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let token = |(collective, ranks): &(Collective, u32)| {
        let of_key: Vec<&Rule> = rules.iter().filter(|r| (r.collective, r.ranks) == (*collective, *ranks)).collect();
        let name = collective_name(*collective);
        match sizes(&of_key).filter(|_| has_nccls_sizes(*collective)) {
            Some(sizes) => format!("{name}:{sizes}:cuda:[{ranks}-{ranks}]:inf"),
            None => format!("{name}:cuda:[{ranks}-{ranks}]:inf"),
        }
    };
    keys.iter().map(token).collect()
}

/// Whether UCC's message size is NCCL's. Of a reduce-scatter it is one block, or all of them where it works in place (UCC
/// `src/utils/ucc_coll_utils.c`, `ucc_coll_args_msgsize`).
const fn has_nccls_sizes(collective: Collective) -> bool {
    !matches!(collective, Collective::ReduceScatter)
}

/// The rules' sizes, those that touch each other together; nothing where they are all sizes.
fn sizes(rules: &[&Rule]) -> Option<String> {
    // The end of a range is not in it.
    let end = |rule: &Rule| rule.bytes.max.and_then(|max| max.checked_add(1));
    let mut ranges: Vec<(u64, Option<u64>)> = rules.iter().map(|rule| (rule.bytes.min, end(rule))).collect();
    ranges.sort_by_key(|range| range.0);
    let mut merged: Vec<(u64, Option<u64>)> = Vec::new();
    for (from, to) in ranges {
        match merged.last_mut() {
            Some((_, None)) => {}
            Some((_, Some(last))) if from <= *last => {
                let reached = *last;
                if let Some((_, end)) = merged.last_mut() {
                    *end = to.map(|to| to.max(reached));
                }
            }
            _ => merged.push((from, to)),
        }
    }
    if merged == [(0, None)] {
        return None;
    }
    let text = |(from, to): &(u64, Option<u64>)| match to {
        Some(to) => format!("{from}-{to}"),
        None => format!("{from}-inf"),
    };
    Some(merged.iter().map(text).collect::<Vec<_>>().join(","))
}

fn read_back(plan: &Plan<'_>, text: &str) -> Result<(), EmitError> {
    let tokens = ucc::parse(text).map_err(|error| plan.read_back_error(error.to_string()))?;
    let takes = |rule: &Rule, bytes| tokens.iter().any(|token| token.matches(rule.collective, bytes, rule.ranks));
    let missing = plan.live_rules().iter().find(|rule| {
        let ends = [Some(rule.bytes.min), rule.bytes.max, rule.bytes.max.is_none().then_some(u64::MAX)];
        !ends.into_iter().flatten().all(|bytes| takes(rule, bytes))
    });
    match missing {
        Some(rule) => Err(plan.read_back_error(format!("{} {} is not handed to NCCL", rule.collective, rule.bytes))),
        None if plan.live_rules().is_empty() && !tokens.is_empty() => {
            Err(plan.read_back_error("calls are handed to NCCL that no rule is for"))
        }
        None => Ok(()),
    }
}

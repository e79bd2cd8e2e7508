//! `NCCL_ALGO` and `NCCL_PROTO`: set only in the grammar of the measured NCCL, per collective where that has one, and never so
//! that a collective is left without an algorithm.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Setting, comment, debugging_comment, evidence};
use crate::{
    grammar::algo::{self, Dialect, Enabled, Listed},
    profile::{Profile, Rule},
    vocab::{Algorithm, Collective, Engine, Protocol},
};

const ALGORITHMS: &str = "NCCL_ALGO";
const PROTOCOLS: &str = "NCCL_PROTO";

/// Makes comments of lists that would break a collective or that the measured NCCL does not read, and names the collectives
/// in those that leave them out.
pub(super) fn guard(profile: &Profile, settings: &mut [Setting]) {
    // A simulated or recorded cluster has a NCCL of no version; what it reads, it was measured with.
    if profile.run.engine != Engine::Nccl {
        return;
    }
    let dialect = profile.nccl_version().map(Dialect::of);
    let (mut algorithms, mut protocols) = (Enabled::new(), Enabled::new());
    for setting in settings.iter_mut() {
        let guarded = match setting.name.as_str() {
            ALGORITHMS => rewritten(setting, dialect, &mut algorithms),
            PROTOCOLS => rewritten(setting, dialect, &mut protocols),
            _ => continue,
        };
        if let Err(why) = guarded {
            setting.is_live = false;
            setting.comments.push(comment(&format!("NOT SET: {why}")));
        }
    }
    let unserved = algo::unserved(&algorithms, &protocols);
    if unserved.is_empty() {
        return;
    }
    let names: Vec<&str> = unserved.into_iter().map(Collective::name).collect();
    for setting in settings.iter_mut().filter(|setting| [ALGORITHMS, PROTOCOLS].contains(&setting.name.as_str())) {
        setting.is_live = false;
        setting.comments.push(format!("NOT SET: nothing is left for {}, whose calls would fail", names.join(", ")));
    }
}

/// Reads a list into `enabled`, and writes it per collective where it was not.
fn rewritten<T: Listed>(
    setting: &mut Setting,
    dialect: Option<Dialect>,
    enabled: &mut Enabled<T>,
) -> Result<(), String> {
    let dialect = dialect.ok_or("its grammar depends on NCCL's version, which the profile does not name")?;
    let list = algo::parse(&setting.value, dialect).map_err(|error| format!("NCCL would not read it: {error}"))?;
    let names_all = setting.value.split(';').all(|entry| entry.is_empty() || entry.contains(':'));
    if dialect == Dialect::V224Plus && !names_all {
        setting.value = algo::emit(&list, dialect).map_err(|error| error.to_string())?;
    }
    *enabled = list;
    Ok(())
}

/// Adds lists for the collectives that have one choice at every size; says in `remarks` what has none.
pub(super) fn add(profile: &Profile, is_live: bool, settings: &mut Vec<Setting>, remarks: &mut Vec<String>) {
    if profile.rule.is_empty() {
        return;
    }
    if settings.iter().any(|setting| [ALGORITHMS, PROTOCOLS].contains(&setting.name.as_str())) {
        return remarks
            .push("no lists are made from the rules: the profile sets NCCL_ALGO or NCCL_PROTO itself".to_owned());
    }
    let Some(Dialect::V224Plus) = profile.nccl_version().map(Dialect::of) else {
        let why = "only NCCL 2.24 and later reads NCCL_ALGO per collective, and the profile names no such version";
        return remarks.push(format!("no lists are made from the rules: {why}"));
    };
    let mut of_collective: BTreeMap<Collective, Vec<&Rule>> = BTreeMap::new();
    for rule in &profile.rule {
        of_collective.entry(rule.collective).or_default().push(rule);
    }
    let (mut algorithms, mut protocols, mut comments) = (Enabled::new(), Enabled::new(), Vec::new());
    for (collective, rules) in of_collective {
        match only_choice(&rules) {
            Ok(rule) => {
                algorithms.insert(collective, BTreeSet::from([rule.algorithm]));
                protocols.insert(collective, BTreeSet::from([rule.protocol]));
                comments.extend(
                    rules
                        .iter()
                        .map(|rule| format!("{collective} {}: {}", rule.bytes, evidence(profile, &rule.speedup))),
                );
            }
            Err(why) => remarks.push(format!("{collective} is in no list: {why}")),
        }
    }
    comments.push(
        "from the rules, without their channels; it beats a tuner plugin, and holds for jobs of every shape".to_owned(),
    );
    comments.push(debugging_comment(profile));
    let lists = [(ALGORITHMS, written::<Algorithm>(&algorithms)), (PROTOCOLS, written::<Protocol>(&protocols))];
    settings.extend(lists.into_iter().filter_map(|(name, value)| {
        Some(Setting { name: name.to_owned(), value: value?, is_live, comments: comments.clone() })
    }));
}

fn written<T: Listed>(enabled: &Enabled<T>) -> Option<String> {
    algo::emit(enabled, Dialect::V224Plus).ok()
}

/// The rule whose algorithm and protocol all the rules of a collective have, where these cover every size of one shape.
fn only_choice<'a>(rules: &[&'a Rule]) -> Result<&'a Rule, &'static str> {
    let [first, ..] = rules else { return Err("it has no rule") };
    if rules.iter().any(|rule| (rule.nodes, rule.ranks) != (first.nodes, first.ranks)) {
        return Err("a variable holds for jobs of every shape, and its rules are for several");
    }
    if rules.iter().any(|rule| (rule.algorithm, rule.protocol) != (first.algorithm, first.protocol)) {
        return Err("no choice wins at every size");
    }
    if first.protocol == Protocol::Ll128 {
        return Err("naming LL128 skips NCCL's test of whether the links keep its stores whole");
    }
    let mut ranges: Vec<_> = rules.iter().map(|rule| rule.bytes).collect();
    ranges.sort_by_key(|range| range.min);
    let mut next = Some(0_u64);
    for range in ranges {
        // None: every size is covered already.
        let Some(from) = next else { break };
        if from < range.min {
            return Err("its rules leave sizes to NCCL");
        }
        next = range.max.map(|max| from.max(max.saturating_add(1)));
    }
    if next.is_some() { Err("its rules leave sizes to NCCL") } else { Ok(first) }
}

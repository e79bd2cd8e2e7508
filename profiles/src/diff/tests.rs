use proptest::prelude::*;

use super::*;
use crate::{
    profile::{Class, EnvSetting, Speedup},
    vocab::{Algorithm, Protocol},
};

fn golden() -> Profile {
    Profile::parse(include_str!("../../tests/golden/nccl.toml"), "golden").unwrap().0
}

/// A rule of 4 nodes and 32 ranks; the channels tell choices apart.
fn rule(min: u64, max: Option<u64>, channels: u16) -> Rule {
    let speedup = Speedup { median: 1.1, low: 1.0, high: 1.2, p_faster: 0.99, repeats: 9 };
    Rule {
        collective: Collective::AllReduce,
        nodes: 4,
        ranks: 32,
        bytes: ByteRange { min, max },
        algorithm: Algorithm::Ring,
        protocol: Protocol::Ll,
        channels: Some(channels),
        default_us: 11.0,
        tuned_us: 10.0,
        speedup,
    }
}

fn with_rules(rule: Vec<Rule>) -> Profile {
    Profile { rule, ..golden() }
}

fn setting(name: &str, value: &str) -> EnvSetting {
    EnvSetting { name: name.into(), value: value.into(), class: Class::System, speedup: None, why: String::new() }
}

fn lines(from: &Profile, to: &Profile) -> Vec<String> {
    Diff::between(from, to).to_string().lines().map(str::to_owned).collect()
}

#[test]
fn rules_are_split_where_they_differ_and_only_there() {
    let (k4, k16, k64) = (4 << 10, 16 << 10, 64 << 10);
    for (from, to, expected) in [
        (vec![rule(k4, Some(k16), 1)], vec![rule(k4, Some(k16), 1)], vec![]),
        (vec![], vec![rule(k4, Some(k16), 1)], vec!["+ allreduce 4K to 16K on 4 nodes, 32 ranks: ring/ll/1"]),
        (vec![rule(k4, None, 1)], vec![], vec!["- allreduce 4K and more on 4 nodes, 32 ranks: ring/ll/1"]),
        // The middle of a longer range has another choice.
        (
            vec![rule(0, Some(k64), 1)],
            vec![rule(0, Some(k4 - 1), 1), rule(k4, Some(k4), 2), rule(k4 + 1, Some(k64), 1)],
            vec!["~ allreduce 4K on 4 nodes, 32 ranks: ring/ll/1 -> ring/ll/2"],
        ),
        // Cut in other places, and the same.
        (vec![rule(0, Some(k64), 1)], vec![rule(0, Some(k4), 1), rule(k4 + 1, Some(k64), 1)], vec![]),
        (vec![rule(0, Some(u64::MAX), 1)], vec![rule(0, None, 1)], vec![]),
        // The first match wins, so the second rule only has what is left.
        (vec![rule(k4, Some(k16), 1), rule(0, Some(k64), 2)], vec![rule(0, Some(k64), 2)], {
            vec!["~ allreduce 4K to 16K on 4 nodes, 32 ranks: ring/ll/1 -> ring/ll/2"]
        }),
        (
            vec![rule(k4, Some(k64), 1)],
            vec![rule(k16, None, 1)],
            vec![
                "- allreduce 4K to below 16K on 4 nodes, 32 ranks: ring/ll/1",
                "+ allreduce above 64K on 4 nodes, 32 ranks: ring/ll/1",
            ],
        ),
        // A range that runs backwards holds for nothing.
        (vec![rule(k16, Some(k4), 1)], vec![], vec![]),
    ] {
        assert_eq!(lines(&with_rules(from), &with_rules(to)), expected);
    }
}

#[test]
fn rules_of_other_calls_are_others() {
    let from = with_rules(vec![rule(0, None, 1)]);
    let to = with_rules(vec![Rule { nodes: 2, ranks: 16, ..rule(0, None, 1) }]);
    let expected = [
        "+ allreduce 0 and more on 2 nodes, 16 ranks: ring/ll/1",
        "- allreduce 0 and more on 4 nodes, 32 ranks: ring/ll/1",
    ];
    assert_eq!(lines(&from, &to), expected);
}

#[test]
fn settings_are_compared_by_value_and_what_was_measured_on_is_said() {
    let (mut from, mut to) = (with_rules(vec![]), with_rules(vec![]));
    from.env = vec![setting("A", "1"), setting("B", "1"), setting("C", "1")];
    to.env = vec![setting("B", "2"), setting("C", "1"), setting("D", "")];
    to.env[1].class = Class::Debugging;
    (to.cluster.nodes, to.cluster.gpu, to.run.id) = (8, None, "another run".into());
    let expected = ["# nodes: 4 -> 8", "# GPU: NVIDIA H200 -> none", "- A=1", "~ B=1 -> 2", "+ D="];
    assert_eq!(lines(&from, &to), expected);
    assert!(Diff { env: Vec::new(), ..Diff::between(&from, &to) }.is_empty(), "jobs notice no nodes");
}

#[test]
fn against_the_defaults_everything_is_added() {
    let diff = Diff::from_defaults(&golden());
    assert_eq!((diff.context.len(), diff.env.len(), diff.rule.len()), (0, 3, 2));
    assert!(diff.to_string().lines().all(|line| line.starts_with("+ ")), "{diff}");
    assert!(!diff.is_empty());
}

#[test]
fn many_rules_are_compared_quickly() {
    let many = |channels| (0..20_000).map(|n| rule(n * 10, Some(n * 10 + 14), channels)).collect();
    let start = std::time::Instant::now();
    assert_eq!(Diff::between(&with_rules(many(1)), &with_rules(many(2))).rule.len(), 1);
    // A scan of all rules for each range takes minutes.
    assert!(start.elapsed().as_secs() < 10);
}

/// The choice of the first rule that matches, as a tuner plugin takes it.
fn choice_at(rules: &[Rule], bytes: u64) -> Option<Choice> {
    rules.iter().find(|rule| rule.bytes.contains(bytes)).map(Rule::choice)
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let one = (0_u64..30, proptest::option::of(0_u64..30), 1_u16..4);
    proptest::collection::vec(one.prop_map(|(min, max, channels)| rule(min, max, channels)), 0..6)
}

fn environment() -> impl Strategy<Value = Vec<EnvSetting>> {
    let names = proptest::collection::btree_map("[A-D]", "[1-3]", 0..4);
    names.prop_map(|names| names.iter().map(|(name, value)| setting(name, value)).collect())
}

fn profile() -> impl Strategy<Value = Profile> {
    (environment(), rules()).prop_map(|(env, rule)| Profile { env, rule, ..golden() })
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(profile in profile()) {
        prop_assert_eq!(Diff::between(&profile, &profile), Diff::default());
    }

    #[test]
    fn each_size_is_in_one_change_if_its_choice_differs_and_in_none_if_not(from in rules(), to in rules()) {
        let changes = Diff::between(&with_rules(from.clone()), &with_rules(to.clone())).rule;
        for bytes in (0..40).chain([u64::MAX]) {
            let there: Vec<&RuleChange> = changes.iter().filter(|change| change.bytes.contains(bytes)).collect();
            let expected = Change::between(choice_at(&from, bytes), choice_at(&to, bytes));
            prop_assert_eq!(there.len(), usize::from(expected.is_some()), "{}", bytes);
            prop_assert_eq!(there.first().map(|change| &change.choice), expected.as_ref());
        }
        let alike = |pair: &[RuleChange]| {
            pair[0].choice == pair[1].choice && pair[0].bytes.max.map(|max| max + 1) == Some(pair[1].bytes.min)
        };
        prop_assert!(!changes.windows(2).any(alike), "neighbours that differ alike are one: {:?}", changes);
    }

    #[test]
    fn a_diff_takes_one_environment_to_the_other(from in profile(), to in profile()) {
        let mut environment = from.environment();
        for EnvChange { name, value } in Diff::between(&from, &to).env {
            match value {
                Change::Added(value) => prop_assert_eq!(environment.0.insert(name, value), None),
                Change::Removed(value) => prop_assert_eq!(environment.0.remove(&name), Some(value)),
                Change::Changed { from, to } => prop_assert_eq!(environment.0.insert(name, to), Some(from)),
            }
        }
        prop_assert_eq!(environment, to.environment());
    }

    #[test]
    fn the_way_back_is_the_same_changes_turned_round(from in profile(), to in profile()) {
        let turned = |line: String| match line.split_once(' ') {
            Some(("+", rest)) => format!("- {rest}"),
            Some(("-", rest)) => format!("+ {rest}"),
            _ => line,
        };
        let there = lines(&from, &to).into_iter().filter(|line| !line.starts_with('~')).map(turned);
        let back = lines(&to, &from).into_iter().filter(|line| !line.starts_with('~'));
        prop_assert_eq!(there.collect::<Vec<_>>(), back.collect::<Vec<_>>());
    }
}

#[test]
fn the_same_choice_with_other_evidence_is_named_where_the_intervals_do_not_overlap() {
    let measured = |min: u64, max: Option<u64>, low: f64, high: f64| {
        let mut rule = rule(min, max, 1);
        rule.speedup = Speedup { median: f64::midpoint(low, high), low, high, p_faster: 0.99, repeats: 9 };
        rule
    };
    let (k4, k16, k64) = (4 << 10, 16 << 10, 64 << 10);
    let from = with_rules(vec![measured(0, Some(k16), 1.5, 1.7), measured(k16 + 1, None, 1.1, 1.3)]);
    let mut to = with_rules(vec![measured(k4, Some(k64), 1.2, 1.4), rule(k64 + 1, None, 2)]);
    let shown =
        |from: &Profile, to: &Profile| evidence_changes(from, to).iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected =
        ["! allreduce 4K to 16K on 4 nodes, 32 ranks: ring/ll/1: 1.60x (1.50 to 1.70) -> 1.30x (1.20 to 1.40)"];
    assert_eq!(shown(&from, &to), expected);
    to.env[0].speedup = Some(Speedup { median: 1.01, low: 1.0, high: 1.02, p_faster: 0.6, repeats: 9 });
    let setting = "! NCCL_IB_HCA==mlx5_0:1,mlx5_1:1: 1.21x (1.17 to 1.25) -> 1.01x (1.00 to 1.02)";
    assert_eq!(shown(&from, &to)[0], setting);
    to.run.unverified = true;
    assert!(shown(&from, &to).is_empty(), "estimates have no intervals");
}

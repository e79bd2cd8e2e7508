//! The tuner plugin at every version of its interface: live, by rule file, and where NCCL does not take it.

use std::fs;

use gdrtune_profiles::vocab::Collective;
use gdrtune_wire::{Item, ItemOutcome};

use crate::lab::{Lab, PLUGIN, TREE_LL, chosen, connect, item, run, selected, timed, unsupported};

/// A version of NCCL for each interface: v2 to v6.
const VERSIONS: [&str; 5] = ["22105", "22203", "22403", "22809", "23007"];

/// How often rank 0 ran this.
fn count(log: &str, line: &str) -> usize {
    log.lines().filter(|other| *other == line).count()
}

#[test]
fn choices_are_followed_through_every_interface() {
    for version in VERSIONS {
        let lab = Lab::live().with("STANDIN_NCCL_VERSION", version);
        let log = lab.path("log");
        let lab = lab.with("STANDIN_NCCL_LOG", &log);
        for outcomes in lab.outcomes(2, &[chosen(TREE_LL), Item { choice: None, ..chosen(TREE_LL) }]) {
            assert_eq!(selected(&outcomes[0]), "tree/ll/4", "{version}");
            // v2 shows no costs, so nobody but NCCL knows its own choice.
            let own = if version == "22105" { "" } else { "ring/simple" };
            assert_eq!(selected(&outcomes[1]), own, "{version}");
            assert_eq!(timed(&outcomes[1]).predictions.is_empty(), version == "22105", "{version}");
        }
        let log = lab.log();
        assert_eq!(
            (count(&log, "allreduce 4096 tree ll 4"), count(&log, "allreduce 4096 ring simple 2")),
            (5, 5),
            "{version}: {log}"
        );
    }
}

#[test]
fn rules_are_followed_through_every_interface_and_the_rest_is_left_to_nccl() {
    for version in VERSIONS {
        let lab = Lab::new();
        let plugin = lab.path(PLUGIN);
        let (rules, log) = (lab.path("nccl-tuner.csv"), lab.path("log"));
        let lines = "allreduce,0,4096,tree,ll,4,2,2,-1,-1\nreduce,0,4096,ring,ll,1,9,-1,-1,-1\n";
        fs::write(&rules, lines).unwrap();
        fs::write(lab.path("profile.env"), format!("NCCL_TUNER_PLUGIN={plugin}\nGDRTUNE_RULES={rules}\n")).unwrap();
        let lab = lab
            .with("STANDIN_NCCL_VERSION", version)
            .with("STANDIN_NCCL_LOG", &log)
            .with("NCCL_TUNER_PLUGIN", &plugin)
            .with("GDRTUNE_RULES", &rules)
            // A node that has the plugin for choices as well: the files alone count.
            .with("GDRTUNE_TUNER_PLUGIN", &plugin);
        let folder = lab.path("");
        let start = |rank| lab.start_rank_with(&["--ab", &folder], rank, 2);
        let items = [
            item(Collective::AllReduce, 4096),
            item(Collective::AllReduce, 8192),
            item(Collective::Reduce, 4096),
            chosen(TREE_LL),
        ];
        for outcomes in run(connect((0..2).map(start).collect()), &items) {
            let own = if version == "22105" { "" } else { "ring/simple" };
            assert_eq!(outcomes[..3].iter().map(selected).collect::<Vec<_>>(), ["tree/ll/4", own, own], "{version}");
            assert!(unsupported(outcomes[3].clone()).starts_with("choices need the tuner plugin"));
        }
        let log = lab.log();
        for (line, times) in
            [("allreduce 4096 tree ll 4", 5), ("allreduce 8192 ring simple 2", 5), ("reduce 4096 ring simple 2", 5)]
        {
            assert_eq!(count(&log, line), times, "{version}: {log}");
        }
    }
}

#[test]
fn a_plugin_that_nccl_does_not_ask_is_said_once_with_the_words_of_its_log() {
    let unasked = "the tuner plugin was not called: NCCL 2.28.9 runs without it";
    for (lab, expected) in [
        (Lab::live().with("STANDIN_NCCL_BYPASS", "1"), unasked.to_owned()),
        (
            Lab::live().with("STANDIN_NCCL_VERSION", "22005"),
            "the tuner plugin was not called: NCCL 2.20.5 runs without it (2.21 is the first that can load it)"
                .to_owned(),
        ),
        (
            Lab::logged().with("STANDIN_NCCL_BYPASS", "1"),
            format!(
                "{unasked}; its log says: Successfully loaded external tuner plugin {{path}}; TUNER/gdrtune: live mode: \
                     choices come from this process"
            ),
        ),
        (
            Lab::logged().with("STANDIN_NCCL_BYPASS", "unopened"),
            format!("{unasked}; its log says: TUNER/Plugin: {{path}}: cannot allocate memory in static TLS block"),
        ),
    ] {
        let expected = expected.replace("{path}", &lab.path(PLUGIN));
        let outcomes = lab.outcomes(2, &[chosen(TREE_LL), Item { choice: None, ..chosen(TREE_LL) }]);
        for outcomes in outcomes {
            assert_eq!(outcomes[0], ItemOutcome::Unsupported(expected.clone()));
            assert!(timed(&outcomes[1]).checked, "what needs no choice still runs");
        }
    }
}

#[test]
fn a_plugin_that_one_rank_lacks_makes_no_choice_on_any() {
    let lab = Lab::live();
    let without = lab.clone().with("STANDIN_NCCL_BYPASS", "1");
    let outcomes = run(connect(vec![lab.start_rank(0, 2), without.start_rank(1, 2)]), &[chosen(TREE_LL)]);
    let whys: Vec<String> = outcomes.into_iter().flatten().map(unsupported).collect();
    assert_eq!(whys[0], "the tuner plugin was not called on another rank, so choices cannot be made");
    assert!(whys[1].starts_with("the tuner plugin was not called: "), "{}", whys[1]);
}

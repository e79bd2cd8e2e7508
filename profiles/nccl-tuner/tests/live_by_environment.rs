//! `GDRTUNE_LIVE`, in a program of its own: the mode never goes back.

mod support;

use std::path::Path;

use gdrtune_nccl_tuner::gdrtune_tuner_set;
use support::{ALL_REDUCE, LL, Query, TREE, Tuner, last, set_variable, turn};

#[test]
fn the_variable_switches_live_mode_and_recording_on_when_it_is_1() {
    const RULES: &str = "allreduce,0,8,tree,ll,1,-1,-1\n";
    let _turn = turn();
    for value in ["0", "", "yes"] {
        set_variable("GDRTUNE_LIVE", Some(Path::new(value)));
        let tuner = Tuner::with_rules(4, RULES);
        assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 8)), Some((TREE, LL, 1)), "{value:?} leaves the rules in place");
    }
    set_variable("GDRTUNE_LIVE", Some(Path::new("1")));
    let tuner = Tuner::with_rules(4, RULES);
    assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 8)), None);
    let decision = last().expect("the call before this one was recorded");
    assert_eq!((decision.calls, decision.bytes), (1, 8), "nothing was recorded by rules");
    assert_eq!(gdrtune_tuner_set(ALL_REDUCE, 0, 0, 2), 0);
    assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 8)), Some((TREE, LL, 2)));
}

//! What ran is read in NCCL's log, and wins over what was asked for.

use std::fs;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};
use gdrtune_wire::{Item, NetworkUse};

use crate::lab::{Lab, TREE_LL, chosen, item, selected};

/// More channels than the stand-in's communicator has.
const RING: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 32 };

#[test]
fn the_log_of_rank_0_says_what_ran_and_other_ranks_have_the_plugins_word() {
    let items = [
        chosen(TREE_LL),
        chosen(RING),
        Item { choice: None, ..chosen(RING) },
        Item { check: false, ..chosen(TREE_LL) },
        item(Collective::AllGather, 8192),
        item(Collective::SendRecv, 4096),
    ];
    for (version, expected) in [
        ("22105", ["tree/ll/4", "ring/simple/32", "ring/simple", "tree/ll/4", "ring/simple", ""]),
        ("22304", ["tree/ll/4", "ring/simple/32", "ring/simple", "tree/ll/4", "ring/simple", ""]),
        ("22403", ["tree/ll/4", "ring/simple/8", "ring/simple/2", "tree/ll/4", "ring/simple/2", ""]),
        ("23007", ["tree/ll/4", "ring/simple/8", "ring/simple/2", "tree/ll/4", "ring/simple/2", ""]),
    ] {
        let outcomes = Lab::logged().with("STANDIN_NCCL_VERSION", version).outcomes(2, &items);
        assert_eq!(outcomes[0].iter().map(selected).collect::<Vec<_>>(), expected, "{version}");
        assert_eq!(selected(&outcomes[1][1]), "ring/simple/32", "{version}");
    }
}

#[test]
fn another_choice_than_the_one_asked_for_is_told_as_what_ran() {
    for (substitute, expected) in
        [("ring:simple:2", "ring/simple/2"), ("tree:simple:4", "tree/simple/4"), ("tree:ll:1", "tree/ll/1")]
    {
        let fault = format!("substitute:allreduce:tree:ll:{substitute}");
        let lab = Lab::logged().with("STANDIN_NCCL_FAULT", &fault);
        let outcomes = lab.outcomes(2, &[chosen(TREE_LL), Item { check: false, ..chosen(TREE_LL) }]);
        assert_eq!(outcomes[0].iter().map(selected).collect::<Vec<_>>(), [expected, expected]);
        // Without the log nobody would know.
        assert_eq!(selected(&outcomes[1][0]), "tree/ll/4");
    }
}

#[test]
fn channels_and_connections_are_reported_where_there_is_a_log() {
    let network = |path: &str, gdr: [u32; 2]| NetworkUse {
        paths: vec![path.to_owned()],
        sends: 3,
        gdr_sends: gdr[0],
        receives: 3,
        gdr_receives: gdr[1],
    };
    for (gdr, expected) in [
        ("", network("NET/Socket/0", [0, 0])),
        ("1", network("NET/IB/0", [3, 3])),
        ("send", network("NET/IB/0", [3, 0])),
    ] {
        let lab = Lab::logged().with("STANDIN_NCCL_CHANNELS", "3").with("STANDIN_NCCL_GDR", gdr);
        for report in lab.reports(2) {
            assert_eq!((report.channels, report.network), (Some(3), Some(expected.clone())));
        }
    }
    let report = Lab::logged().reports(1).remove(0);
    assert_eq!((report.channels, report.network), (Some(8), Some(NetworkUse::default())), "no other node");
    for report in Lab::live().reports(2) {
        assert_eq!((report.channels, report.network), (None, None));
    }
}

#[test]
fn a_log_that_cannot_be_written_costs_its_news_and_nothing_else() {
    // A full disk.
    let full = Lab::logged().with("NCCL_DEBUG_FILE", "/dev/full").with("GDRTUNE_NCCL_LOG", "/dev/full");
    // A path that is not there for this worker: NCCL must not write to standard output instead.
    let lab = Lab::logged();
    let (lost, other) = (lab.path("lost/log"), lab.path("other"));
    let lost = lab.with("GDRTUNE_NCCL_LOG", &lost).with("NCCL_DEBUG_FILE", &other);
    for lab in [full, lost] {
        for outcomes in lab.outcomes(2, &[chosen(TREE_LL)]) {
            assert_eq!(selected(&outcomes[0]), "tree/ll/4");
        }
        assert!(lab.reports(1)[0].network.is_none());
    }
    assert!(fs::metadata(&other).is_err(), "NCCL was told not to log");
}

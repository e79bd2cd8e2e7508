//! Choices: they switch inside a communicator, and what cannot run is said.

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};
use gdrtune_wire::Item;

use crate::lab::{Lab, TREE_LL, chosen, item, timed, unsupported};

#[test]
fn choices_switch_inside_a_communicator_and_are_read_back() {
    let lab = Lab::live();
    let log = lab.path("log");
    let lab = lab.with("STANDIN_NCCL_LOG", &log).with("STANDIN_NCCL_COSTS", "allreduce:tree:ll=300,allreduce:*:*=3000");
    let ring = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 0 };
    let items = [
        chosen(TREE_LL),
        chosen(ring),
        Item { check: false, ..chosen(TREE_LL) },
        Item { choice: None, ..chosen(ring) },
        Item { choice: Some(Choice { channels: 8, ..ring }), ..item(Collective::AllGather, 8192) },
    ];
    for outcomes in lab.outcomes(2, &items) {
        let selected: Vec<String> = outcomes.iter().map(|o| timed(o).selected.unwrap().to_string()).collect();
        assert_eq!(selected, ["tree/ll/4", "ring/simple", "tree/ll/4", "ring/simple", "ring/simple/8"]);
        for (index, least_us) in [(0, 300.0), (1, 3000.0), (2, 300.0), (3, 3000.0)] {
            let times = timed(&outcomes[index]);
            assert!(least_us <= times.mean_us && least_us <= times.min_us + 1.0, "{index}: {times:?}");
        }
    }
    // Check, warm-up and three timed calls; sizes are whole buffers.
    let log = lab.log();
    let count = |line: &str| log.lines().filter(|other| *other == line).count();
    assert_eq!(count("allreduce 4096 tree ll 4"), 5 + 4, "{log}");
    assert_eq!(count("allgather 8192 ring simple 8"), 5, "{log}");
    // How ranks agree is left to NCCL.
    assert!(count("allreduce 16 ring simple 2") > items.len() && !log.contains("allreduce 16 tree"), "{log}");
}

#[test]
fn a_choice_that_did_not_run_is_not_timed() {
    let ll128 = Choice { protocol: Protocol::Ll128, ..TREE_LL };
    let nvls = Choice { algorithm: Algorithm::Nvls, ..TREE_LL };
    let send_recv = Item { choice: Some(TREE_LL), ..item(Collective::SendRecv, 4096) };
    for (lab, item, expected) in [
        (
            Lab::live(),
            chosen(ll128),
            "NCCL 2.28.9 does not allow tree/ll128/4 for allreduce 4K here, and takes ring/simple",
        ),
        (Lab::live(), chosen(nvls), "does not allow nvls/ll/4 for allreduce 4K here"),
        (Lab::live(), send_recv, "NCCL has no choice for sendrecv"),
        (Lab::new(), chosen(TREE_LL), "choices need the tuner plugin, and this worker was started without it"),
    ] {
        let why = unsupported(lab.outcome(2, item));
        assert!(why.contains(expected), "{why}");
    }
}

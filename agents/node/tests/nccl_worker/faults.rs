//! What goes wrong: each fault is told by its name, and costs no more than it must.

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};
use gdrtune_wire::{FromWorker, ItemOutcome, Script, ToWorker};

use crate::lab::{Lab, TREE_LL, chosen, item, outcome, timed};

#[test]
fn a_wrong_result_on_one_rank_is_wrong_on_all_and_the_next_choice_runs() {
    let lab = Lab::live().with("STANDIN_NCCL_FAULT", "wrong:allreduce:tree:ll:1");
    let right = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels: 1 };
    let outcomes = lab.outcomes(3, &[chosen(TREE_LL), chosen(right)]);
    for (rank, outcomes) in outcomes.iter().enumerate() {
        let ItemOutcome::Wrong { elements, first } = &outcomes[0] else { panic!("{:?}", outcomes[0]) };
        if rank == 1 {
            assert!(*elements == 1 && first.starts_with("element 0 of 1024 on rank 1: expected "), "{first}");
        } else {
            assert_eq!((*elements, first.as_str()), (0, "right on this rank, wrong on another one"));
        }
        assert_eq!(timed(&outcomes[1]).selected, Some(right));
    }
}

#[test]
fn a_crash_and_a_hang_leave_the_others_to_be_ended() {
    for fault in ["crash:allreduce:tree:ll:1", "hang:allreduce:tree:ll:1"] {
        let lab = Lab::live().with("STANDIN_NCCL_FAULT", fault);
        let mut workers = lab.connected(2);
        for worker in &mut workers {
            worker.send(&ToWorker::Run(Script { id: 1, items: vec![item(Collective::Reduce, 64), chosen(TREE_LL)] }));
        }
        for worker in &mut workers {
            assert!(timed(&outcome(worker)).checked);
        }
        if fault.starts_with("crash") {
            assert_eq!(workers[1].receive(), None);
            assert!(!workers[1].end().success());
        }
        for worker in &mut workers {
            // The end of the input ends even a rank that hangs in the library.
            drop(worker.to.take());
            assert_eq!(worker.receive(), None);
        }
    }
}

#[test]
fn errors_of_the_libraries_end_the_worker_with_their_words() {
    for (name, value, expected) in [
        (
            "STANDIN_NCCL_FAULT",
            "error:allreduce:tree:ll:0",
            "rank 0 of 2, allreduce 4K with tree/ll/4: cannot start allreduce: NCCL 2.28.9: invalid usage (run with \
             NCCL_DEBUG=WARN for details) (5): no algorithm/protocol available for function",
        ),
        (
            "STANDIN_CUDA_FAULT",
            "copy:4096",
            "rank 0 of 2, allreduce 4K with tree/ll/4: cannot copy to the GPU: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal \
             memory access was encountered",
        ),
        (
            "STANDIN_CUDA_BROKEN",
            "1",
            "cannot run on the GPU: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
        ),
    ] {
        let lab = Lab::live().with(name, value);
        let mut workers = lab.connecting(2);
        for worker in &mut workers {
            worker.send(&ToWorker::Run(Script { id: 1, items: vec![chosen(TREE_LL)] }));
        }
        let failure = loop {
            match workers[0].receive() {
                Some(FromWorker::Failed(why)) => break why,
                Some(FromWorker::Connected { .. }) => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(failure.contains(expected), "{failure}");
        assert!(!workers[0].end().success());
    }
}

#[test]
fn a_communicator_that_cannot_be_made_says_why() {
    let text = "Could not find: net interface eth9";
    let lab = Lab::new().with("STANDIN_NCCL_INIT_ERROR", text);
    let mut workers = lab.connecting(2);
    let failure = workers[1].failure();
    assert!(failure.starts_with("rank 1 of 2, connect: cannot make the communicator: NCCL 2.28.9: "), "{failure}");
    assert!(failure.ends_with(&format!(" (2): {text}")), "{failure}");
}

#[test]
fn a_communicator_that_cannot_be_made_says_what_nccl_warned_of_before() {
    let texts = "NET/IB : no device|Connect to 10.0.0.2 failed|Bootstrap : timed out";
    let lab = Lab::logged().with("STANDIN_NCCL_INIT_ERROR", texts);
    let failure = lab.connecting(2)[0].failure();
    let expected = " (2): Bootstrap : timed out; NCCL's log warns: Connect to 10.0.0.2 failed";
    assert!(failure.ends_with(expected), "{failure}");
}

#[test]
fn a_rank_that_is_late_delays_the_others_and_changes_nothing_else() {
    let lab = Lab::live().with("STANDIN_NCCL_FAULT", "late:allreduce:tree:ll:1");
    for outcomes in lab.outcomes(3, &[chosen(TREE_LL), item(Collective::Reduce, 64)]) {
        assert_eq!(timed(&outcomes[0]).selected, Some(TREE_LL));
        assert!(timed(&outcomes[0]).checked && timed(&outcomes[1]).checked);
    }
}

//! Items: what runs, what is right, what is refused.

use gdrtune_profiles::vocab::{Collective, DataType, ReduceOp};
use gdrtune_wire::{Item, ItemOutcome};

use crate::lab::{Lab, MAX_BYTES, connect, item, run, timed, unsupported};

#[test]
fn every_collective_is_right_in_every_type_and_place() {
    let mut items = Vec::new();
    for &collective in Collective::ALL {
        for &data_type in DataType::ALL {
            items.push(Item { data_type, root: 1, ..item(collective, 6000) });
        }
        if collective.has_choice() {
            items.push(Item { in_place: true, root: 2, ..item(collective, 4096) });
        }
        if collective.reduces() {
            items.extend(ReduceOp::ALL.iter().map(|&op| Item { op, ..item(collective, 1000) }));
        }
    }
    for (rank, outcomes) in Lab::new().outcomes(3, &items).into_iter().enumerate() {
        for (item, outcome) in items.iter().zip(outcomes) {
            let ItemOutcome::Timed(times) = outcome else { panic!("rank {rank}: {outcome:?} for {item:?}") };
            assert!(times.checked && times.min_us <= times.median_us && times.median_us <= times.max_us);
            assert!(times.mean_us > 0.0 && times.selected.is_none());
        }
    }
}

#[test]
fn items_that_cannot_run_are_refused_and_the_next_one_runs() {
    let lab = Lab::new().with("STANDIN_CUDA_MEMORY", "300000");
    let items = [
        item(Collective::AllReduce, 400_000),
        item(Collective::AllReduce, 1024),
        item(Collective::AllReduce, 500_000),
        item(Collective::AllReduce, 2 * MAX_BYTES),
        item(Collective::AllGather, 4),
        Item { root: 2, ..item(Collective::Reduce, 64) },
        Item { in_place: true, ..item(Collective::AllToAll, 64) },
        item(Collective::AllReduce, 100_000),
    ];
    for outcomes in lab.outcomes(2, &items) {
        for (index, expected) in [
            (0, "out of memory: two buffers of 400000 bytes"),
            (2, "out of memory: two buffers of 500000 bytes"),
            (3, "2097152 bytes do not fit buffers of 1048576"),
            (4, "4 bytes are less than one float32 for each rank"),
            (5, "there is no root 2 among 2 ranks"),
            (6, "alltoall has no in-place form"),
        ] {
            let why = unsupported(outcomes[index].clone());
            assert!(why.starts_with(expected), "{why}");
        }
        assert!(timed(&outcomes[1]).checked && timed(&outcomes[7]).checked);
    }
}

#[test]
fn memory_that_one_rank_lacks_is_refused_on_all() {
    let lab = Lab::new();
    let poor = lab.clone().with("STANDIN_CUDA_MEMORY", "100000");
    let items = [item(Collective::AllReduce, 200_000), item(Collective::AllReduce, 2000)];
    for outcomes in run(connect(vec![lab.start_rank(0, 2), poor.start_rank(1, 2)]), &items) {
        assert!(unsupported(outcomes[0].clone()).starts_with("out of memory"));
        assert!(timed(&outcomes[1]).checked);
    }
}

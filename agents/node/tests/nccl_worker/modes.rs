//! What workers do when memory runs out, with calls in CUDA graphs, and with registered buffers.
//!
//! What a stand-in cannot show: that the real libraries behave as it does. See `benches/gpu`.

use std::path::Path;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Point, Protocol, ReduceOp};
use gdrtune_wire::{FromWorker, Item, ItemOutcome, MOST_GRAPH_CALLS, Script, ToWorker};

use crate::lab::{self, Lab, MAX_BYTES, TREE_LL, timed};

fn item(bytes: u64) -> Item {
    lab::item(Collective::AllReduce, bytes)
}

/// What came of an item, in short.
fn told(outcome: &ItemOutcome) -> &str {
    match outcome {
        ItemOutcome::Timed(times) => {
            assert!(times.checked && times.mean_us > 0.0, "{times:?}");
            "timed"
        }
        ItemOutcome::Unsupported(why) => why,
        other @ ItemOutcome::Wrong { .. } => panic!("{other:?}"),
    }
}

#[test]
fn a_size_without_room_is_said_once_and_larger_ones_are_not_tried() {
    let lab = Lab::new().with("STANDIN_CUDA_MEMORY", "3145728").with_log("STANDIN_CUDA_LOG").with_room(8 << 20);
    let items = [1 << 18, 2 << 20, 1 << 20, 2 << 20, 4 << 20, 1 << 10].map(item);
    for outcomes in lab.outcomes(2, &items) {
        let outcomes: Vec<&str> = outcomes.iter().map(told).collect();
        let full = "out of memory: two buffers of 2M bytes have no room on Stand-in GPU of rank 0 \
                    (CUDA_ERROR_OUT_OF_MEMORY, 3.0 MiB free of 3.0 MiB)";
        let again = "out of memory: two buffers of 2M bytes are not tried, as 2M had no room";
        let larger = "out of memory: two buffers of 4M bytes are not tried, as 2M had no room";
        assert_eq!(outcomes[0], "timed");
        assert!(outcomes[1] == full || outcomes[1] == full.replace("Stand-in GPU", "the GPU"), "{}", outcomes[1]);
        assert_eq!(outcomes[2..], ["timed", again, larger, "timed"]);
    }
    // The script's largest, once on each rank; after the refusal of 2M, neither it nor the largest again.
    let refused = |bytes: usize| lab.count("STANDIN_CUDA_LOG", &format!("refused {bytes}"));
    assert_eq!((refused(8 << 20), refused(4 << 20), refused(2 << 20)), (2, 2, 2));
}

#[test]
fn the_rank_that_has_no_room_is_named_on_all() {
    let (rich, poor) = (Lab::new(), Lab::new().with("STANDIN_CUDA_MEMORY", "1048576"));
    let ranks = lab::connect(vec![rich.start_rank(0, 3), poor.start_rank(1, 3), rich.start_rank(2, 3)]);
    let outcomes = lab::run(ranks, &[item(1 << 20), item(1 << 19), item(1 << 10)]);
    for (rank, outcomes) in outcomes.iter().enumerate() {
        let gpu = if rank == 1 { "Stand-in GPU" } else { "the GPU" };
        let expected = format!("out of memory: two buffers of 1M bytes have no room on {gpu} of rank 1 (CUDA_ERROR_");
        assert!(told(&outcomes[0]).starts_with(&expected), "{rank}: {:?}", outcomes[0]);
        let expected = "out of memory: two buffers of 512K bytes have no room ";
        assert!(told(&outcomes[1]).starts_with(expected), "{rank}: {:?}", outcomes[1]);
        assert_eq!(told(&outcomes[2]), "timed", "{rank}");
    }
}

fn graphed(mut item: Item) -> Item {
    item.graph = true;
    item
}

#[test]
fn every_collective_is_right_in_graphs() {
    let lab = Lab::new().with_log("STANDIN_NCCL_LOG");
    let mut items = Vec::new();
    for &collective in Collective::ALL {
        let point = Point { collective, bytes: 6000 };
        items.push(graphed(Item { point, root: 1, ..item(0) }));
        if collective.has_choice() {
            items.push(graphed(Item { point, root: 2, in_place: true, ..item(0) }));
        }
    }
    for (rank, outcomes) in lab.outcomes(3, &items).iter().enumerate() {
        for (item, outcome) in items.iter().zip(outcomes) {
            assert_eq!(told(outcome), "timed", "rank {rank}: {item:?}");
            let times = timed(outcome);
            assert!(times.min_us <= times.median_us && times.median_us <= times.max_us, "{times:?}");
        }
    }
    // The first one sets up without a graph; then, twice: check, warm-up, and three calls launched twice.
    assert_eq!(lab.count("STANDIN_NCCL_LOG", "reduce 6000 ring simple 2"), 1 + 2 * (1 + 1 + 2 * 3));
}

#[test]
fn choices_hold_in_graphs_and_are_read_back_from_the_capture() {
    let costs = "allreduce:tree:ll=300,allreduce:*:*=2000";
    let lab =
        Lab::live().with("STANDIN_NCCL_COSTS", costs).with("STANDIN_NCCL_CHANNELS", "4").with_log("STANDIN_NCCL_LOG");
    let ring = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 0 };
    let plain = [Some(TREE_LL), None, Some(ring)].map(|choice| Item { choice, ..item(4096) });
    let mut items = plain.clone().map(graphed).to_vec();
    items.extend(plain);
    for outcomes in lab.outcomes(2, &items) {
        let selected: Vec<String> = outcomes.iter().map(|o| timed(o).selected.unwrap().to_string()).collect();
        assert_eq!(selected, ["tree/ll/4", "ring/simple", "ring/simple", "tree/ll/4", "ring/simple", "ring/simple"]);
        for (index, least_us) in [(0, 300.0), (1, 2000.0), (2, 2000.0)] {
            let (graph, plain) = (timed(&outcomes[index]), timed(&outcomes[index + 3]));
            assert!(least_us <= graph.mean_us && least_us <= graph.min_us + 1.0, "{index}: {graph:?}");
            assert!(!graph.predictions.is_empty());
            assert_eq!(graph.predictions, plain.predictions, "{index}");
        }
    }
    // In a graph: the first call, check, warm-up, three calls twice. Without: check, warm-up, three calls.
    assert_eq!(lab.count("STANDIN_NCCL_LOG", "allreduce 4096 tree ll 4"), 9 + 5);
}

#[test]
fn a_choice_or_result_that_is_wrong_is_found_in_graphs() {
    let lab = Lab::live().with("STANDIN_NCCL_FAULT", "wrong:allreduce:tree:ll:1");
    let ll128 = Choice { protocol: Protocol::Ll128, ..TREE_LL };
    let items = [Some(TREE_LL), Some(ll128), None].map(|choice| graphed(Item { choice, ..item(4096) }));
    for outcomes in lab.outcomes(2, &items) {
        assert!(matches!(outcomes[0], ItemOutcome::Wrong { .. }), "{:?}", outcomes[0]);
        assert!(told(&outcomes[1]).starts_with("NCCL 2.28.9 does not allow tree/ll128/4 for allreduce 4K here"));
        assert_eq!(told(&outcomes[2]), "timed");
    }
}

#[test]
fn a_graph_holds_so_many_calls_and_no_more() {
    let lab = Lab::new().with_log("STANDIN_NCCL_LOG");
    let items = [graphed(Item { iterations: MOST_GRAPH_CALLS + 100, warmup: 0, ..item(4096) })];
    for outcomes in lab.outcomes(2, &items) {
        assert_eq!(told(&outcomes[0]), "timed");
    }
    assert_eq!(lab.count("STANDIN_NCCL_LOG", "allreduce 4096 ring simple 2"), 2 + 2 * MOST_GRAPH_CALLS as usize);
}

#[test]
fn a_capture_that_is_refused_is_unsupported_on_all_ranks_and_the_next_item_runs() {
    let driver = ["libcuda.so", "libcuda.so.1"];
    for (poor, expected) in [
        (
            Lab::new().with("STANDIN_CUDA_CAPTURE", "0"),
            "cannot capture calls into a CUDA graph: CUDA_ERROR_NOT_SUPPORTED: operation not supported",
        ),
        (
            Lab::new().without("gdrtune_standin_cuda", &driver, "cuGraphInstantiateWithFlags"),
            "cannot capture calls into a CUDA graph: the driver has no cuGraphInstantiateWithFlags: CUDA 11.4 or later has it",
        ),
        (
            Lab::new().with("STANDIN_NCCL_CAPTURE", "0"),
            "cannot capture allreduce: NCCL 2.28.9: invalid usage (run with NCCL_DEBUG=WARN for details) (5): NCCL cannot be \
             captured in a graph with this driver",
        ),
    ] {
        let rich = Lab::new();
        let ranks = lab::connect(vec![rich.start_rank(0, 2), poor.start_rank(1, 2)]);
        let outcomes = lab::run(ranks, &[graphed(item(4096)), item(4096), graphed(item(64))]);
        let other = "another rank cannot capture the call into a CUDA graph";
        for (outcomes, why) in outcomes.iter().zip([other, expected]) {
            let outcomes: Vec<&str> = outcomes.iter().map(told).collect();
            assert_eq!(outcomes, [why, "timed", why]);
        }
    }
}

/// Ranks that run different things fail in the launch, with their graphs alive; the stand-in ends a process whose
/// communicator ends before its graphs.
#[test]
fn a_launch_that_fails_ends_the_worker_in_good_order() {
    let lab = Lab::new();
    let mut workers = lab.connected(2);
    for (worker, op) in workers.iter_mut().zip([ReduceOp::Sum, ReduceOp::Max]) {
        let differing = graphed(Item { op, check: false, warmup: 0, ..item(4096) });
        worker.send(&ToWorker::Run(Script { id: 1, items: vec![graphed(item(4096)), differing] }));
    }
    for worker in &mut workers {
        assert!(matches!(worker.receive(), Some(FromWorker::Item { outcome: ItemOutcome::Timed(_), .. })));
        let failure = worker.failure();
        assert!(
            failure.ends_with("cannot launch a CUDA graph: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"),
            "{failure}"
        );
        assert_eq!(worker.end().code(), Some(1));
    }
}

#[test]
fn registered_buffers_come_from_nccl_and_leave_nothing_behind() {
    let lab = Lab::new().with_log("STANDIN_NCCL_MEMORY_LOG").registered();
    let items = [item(4096), graphed(item(8192)), item(4096)];
    // The stand-in ends a process that has left something behind, or frees what is registered.
    for outcomes in lab.outcomes(2, &items) {
        assert!(outcomes.iter().all(|outcome| told(outcome) == "timed"), "{outcomes:?}");
    }
    // Two buffers on two ranks, once for all sizes.
    let counts = ["allocate", "register", "deregister", "free"]
        .map(|what| lab.count("STANDIN_NCCL_MEMORY_LOG", &format!("{what} {MAX_BYTES}")));
    assert_eq!(counts, [4; 4]);
    // Without that, NCCL's allocator is not asked.
    let lab = Lab::new().with_log("STANDIN_NCCL_MEMORY_LOG");
    assert_eq!(told(&lab.outcomes(2, &items)[0][0]), "timed");
    assert!(!Path::new(&lab.path("STANDIN_NCCL_MEMORY_LOG")).exists());
}

#[test]
fn registered_buffers_without_room_are_refused_and_smaller_ones_registered() {
    let lab = Lab::new().with("STANDIN_CUDA_MEMORY", "1048576").with_log("STANDIN_NCCL_MEMORY_LOG").registered();
    let items = [1 << 20, 1 << 16, 1 << 20].map(item);
    for outcomes in lab.outcomes(2, &items) {
        let outcomes: Vec<&str> = outcomes.iter().map(told).collect();
        assert!(outcomes[0].starts_with("out of memory: two buffers of 1M bytes have no room on "), "{}", outcomes[0]);
        assert_eq!(outcomes[1], "timed");
        assert!(outcomes[2].starts_with("out of memory: two buffers of 1M bytes are not tried"), "{}", outcomes[2]);
    }
    let counts =
        ["register", "deregister", "free"].map(|what| lab.count("STANDIN_NCCL_MEMORY_LOG", &format!("{what} 131072")));
    assert_eq!(counts, [4; 3]);
}

#[test]
fn a_failure_with_registered_buffers_ends_the_worker_in_good_order() {
    let lab = Lab::live()
        .with("STANDIN_NCCL_FAULT", "error:allreduce:tree:ll:0")
        .with_log("STANDIN_NCCL_MEMORY_LOG")
        .registered();
    let mut workers = lab.connected(1);
    let failing = Item { choice: Some(TREE_LL), ..item(4096) };
    workers[0].send(&ToWorker::Run(Script { id: 1, items: vec![failing] }));
    let failure = workers[0].failure();
    assert!(failure.contains("cannot start allreduce: "), "{failure}");
    assert_eq!(workers[0].end().code(), Some(1));
    // The aborted communicator forgets by itself; the memory is freed after.
    let counts = ["register", "deregister", "free"]
        .map(|what| lab.count("STANDIN_NCCL_MEMORY_LOG", &format!("{what} {MAX_BYTES}")));
    assert_eq!(counts, [2, 0, 2]);
}

#[test]
fn an_nccl_that_cannot_register_fails_the_start_and_is_named() {
    for function in ["ncclMemAlloc", "ncclCommRegister", "ncclCommDeregister"] {
        let lab = Lab::new().without("gdrtune_standin_nccl", &["libnccl.so.2"], function);
        let failure = lab.clone().registered().start_rank(0, 1).failure();
        let (start, end) = (
            "rank 0 of 1, bootstrap: cannot register buffers: NCCL 2.28.9 (libnccl.so.2) has no ",
            format!(" has no {function}: NVIDIA's NCCL has it since 2.19"),
        );
        assert!(failure.starts_with(start) && failure.ends_with(&end), "{failure}");
        // It is no matter where nobody asks for that.
        assert_eq!(told(&lab.outcomes(1, &[item(64)])[0][0]), "timed");
    }
}

//! What a worker needs before it can connect.

use std::{fs, path::Path};

use crate::lab::{Lab, connect, report};

#[test]
fn ranks_on_one_gpu_of_one_node_are_refused_before_nccl_is_asked() {
    let lab = Lab::new().with("NCCL_HOSTID", "one");
    let failure = lab.connecting(2)[0].failure();
    let expected = "rank 1 does not fit this rank: it uses the GPU 0000:01:00.0 (Stand-in GPU) of rank 0";
    assert!(failure.contains(expected), "{failure}");
    // With a GPU each, they may share a node.
    let lab = Lab::new().with("STANDIN_CUDA_DEVICES", "2").with("NCCL_HOSTID", "one");
    let start = |rank: u32| lab.clone().with("GDRTUNE_LOCAL_RANK", &rank.to_string()).start_rank(rank, 2);
    for worker in &mut connect((0..2).map(start).collect()) {
        report(worker);
    }
}

#[test]
fn missing_and_unfit_libraries_are_named() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    let no_driver = Lab::new();
    fs::remove_file(no_driver.path("libcuda.so")).unwrap();
    fs::remove_file(no_driver.path("libcuda.so.1")).unwrap();
    let missing = Path::new(empty).join("libnccl.so.2");
    let missing = missing.to_str().unwrap();
    let lab = Lab::live();
    let not_ours = lab.path("libnccl.so.2");
    let cases = [
        (Lab::new().with("GDRTUNE_NCCL_LIB", missing), "cannot load NCCL: "),
        (Lab::new().with("GDRTUNE_NCCL_LIB", missing), "libnccl.so.2: cannot open shared object file"),
        (Lab::new().with("STANDIN_NCCL_VERSION", "21805"), "is NCCL 2.18.5: 2.19 to 2.32 can be used"),
        (Lab::new().with("STANDIN_NCCL_VERSION", "23300"), "is NCCL 2.33.0: 2.19 to 2.32 can be used"),
        (Lab::new().with("STANDIN_CUDA_DEVICES", "0"), "cannot use a GPU: CUDA shows no device"),
        (Lab::new().with("GDRTUNE_GPU", "3"), "GDRTUNE_GPU=3 cannot be used: CUDA shows 1 devices here"),
        (
            Lab::new().with("GDRTUNE_TUNER_PLUGIN", &not_ours).with("NCCL_TUNER_PLUGIN", &not_ours),
            "undefined symbol: gdrtune_tuner_set",
        ),
    ];
    for (lab, expected) in cases {
        let failure = lab.start_rank(0, 1).failure();
        assert!(failure.contains(expected), "{failure}");
    }
    // A machine with a driver has it in the linker's cache.
    let has_driver = Path::new("/proc/driver/nvidia").exists();
    if !has_driver {
        let failure = no_driver.start_rank(0, 1).failure();
        assert!(failure.contains("cannot load the CUDA driver: libcuda.so.1: cannot open"), "{failure}");
        assert!(failure.contains("this node has no NVIDIA driver, or the container hides it"), "{failure}");
    }
}

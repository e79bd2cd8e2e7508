use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_assert_eq, proptest},
    sample::select,
};

use super::*;
use crate::{version::Version, vocab::Choice};

/// As NCCL starts its lines.
const START: &str = "gpu-1:4711:4713 [0] NCCL INFO ";

/// One of each form that has parts.
const DAMAGED: [&str; 7] = [
    "Channel 17/1 : 1[0] -> 0[0] [send] via NET/IB/1(3)/GDRDMA(PCI)/Shared",
    "CollNet 00/1 : 5 [send] via COLLNET/SHARP/0/GDRDMA",
    "GPU Direct RDMA Enabled for GPU 0 / HCA 100000000000001 (distance 4 <= 5), read 1 mode Default",
    "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
    "[Rank 3] ncclCommInitRank comm 0x5 rank 3 nranks 16 cudaDev 1 nvmlDev 1 busId 1c000 commId 0x6 - Init START",
    "Pattern 4, crossNic 0, nChannels 2, bw 24.0/24.0, type NVL/PHB, sameChannels 1",
    "Comm config netName reset to NCCL_NET=Socket",
];

fn read(message: &str) -> Option<Fact<'_>> {
    fact(message.as_bytes())
}

fn ran(collective: Option<Collective>, bytes: u64, choice: (Algorithm, Protocol), channels: Option<u16>) -> Ran {
    Ran { collective, bytes, algorithm: choice.0, protocol: choice.1, channels }
}

#[test]
fn calls_of_every_version_are_read() {
    let all_reduce = Some(Collective::AllReduce);
    for (message, expected) in [
        (
            "AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
            Some(ran(all_reduce, 65536, (Algorithm::Ring, Protocol::Ll), Some(2))),
        ),
        (
            "AllGather: 4294967296 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={3..18}",
            Some(ran(Some(Collective::AllGather), 1 << 32, (Algorithm::NvlsTree, Protocol::Simple), Some(16))),
        ),
        (
            "ReduceScatter: 8 Bytes -> Algo COLLNET_DIRECT proto LL128 channel{Lo..Hi}={0..0}",
            Some(ran(Some(Collective::ReduceScatter), 8, (Algorithm::CollNetDirect, Protocol::Ll128), Some(1))),
        ),
        (
            "Broadcast: 16 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..3}",
            Some(ran(Some(Collective::Broadcast), 16, (Algorithm::Pat, Protocol::Simple), Some(4))),
        ),
        // 2.23.
        (
            "AllReduce: 65536 Bytes -> Algo 1 proto 2 time 34.812500",
            Some(ran(all_reduce, 65536, (Algorithm::Ring, Protocol::Simple), None)),
        ),
        // 2.20 to 2.22.
        ("65536 Bytes -> Algo 0 proto 0 time 12.500000", Some(ran(None, 65536, (Algorithm::Tree, Protocol::Ll), None))),
        ("65536 Bytes -> Algo 9 proto 0 time 12.500000", None),
        ("Gather: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}", None),
        ("AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1", None),
        ("AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={4..1}", None),
        ("AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..65535}", None),
        ("AllReduce: -1 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}", None),
        ("AllReduce: 65536 Bytes -> Algo Unknown proto LL channel{Lo..Hi}={0..1}", None),
        ("AllReduce: 65536 Bytes -> Algo RING proto LL", None),
        // Other kernels than those of the choice.
        ("AllReduce [Symmetric]: 65536 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512 nWorks 1", None),
        ("AllGather [Copy Engine]: 65536 Bytes -> cudaMemcpy", None),
    ] {
        assert_eq!(read(&format!("{START}{message}")), expected.map(Fact::Run), "{message}");
        assert_eq!(read(message), None, "only NCCL's own lines count");
    }
}

#[test]
fn connections_are_read() {
    let network = |channel, [rank, peer]: [u32; 2], side, path: &'static str, proxy, is_gdr| {
        let mut parts = path.split('/').skip(1);
        let (network, device) = (parts.next().unwrap_or_default(), parts.next().and_then(number).unwrap_or_default());
        let way = Way::Network(side, NetworkWay { path, network, device, proxy, is_gdr });
        Some(Fact::Connection(Connection { channel: Some(channel), rank: Some(rank), peer: Some(peer), way }))
    };
    let local = |channel, way| {
        Some(Fact::Connection(Connection {
            channel: Some(channel),
            rank: Some(0),
            peer: Some(1),
            way: Way::Local(way),
        }))
    };
    for (message, expected) in [
        (
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA",
            network(0, [0, 1], Side::Send, "NET/IB/0", None, true),
        ),
        (
            "Channel 01/0 : 1[0] -> 0[0] [receive] via NET/IB/12/GDRDMA/Shared",
            network(1, [0, 1], Side::Receive, "NET/IB/12", None, true),
        ),
        // 2.26 and later, where a CPU has a chip-to-chip link.
        (
            "Channel 01/0 : 1[0] -> 0[0] [receive] via NET/IB/1/GDRDMA(PCI)",
            network(1, [0, 1], Side::Receive, "NET/IB/1", None, true),
        ),
        (
            "Channel 17/1 : 1[0] -> 0[0] [send] via NET/IB/1(3)/Shared",
            network(17, [1, 0], Side::Send, "NET/IB/1", Some(3), false),
        ),
        (
            "Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket/0",
            network(1, [0, 1], Side::Receive, "NET/Socket/0", None, false),
        ),
        // 2.10 to 2.18 (aws-ofi-nccl's documents): addresses in the place of devices.
        (
            "Channel 00 : 1[101d0] -> 8[101c0] [send] via NET/AWS Libfabric/3/GDRDMA",
            network(0, [1, 8], Side::Send, "NET/AWS Libfabric/3", None, true),
        ),
        (
            "CollNet 00/1 : 5 [send] via COLLNET/SHARP/0/GDRDMA",
            Some(Fact::Connection(Connection {
                channel: Some(0),
                rank: Some(5),
                peer: None,
                way: Way::Network(
                    Side::Send,
                    NetworkWay { path: "COLLNET/SHARP/0", network: "SHARP", device: 0, proxy: None, is_gdr: true },
                ),
            })),
        ),
        ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket", None),
        ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET//0", None),
        ("Channel 01/0 : 1[0] -> 0[0] [receive] via NET/IB/x", None),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", local(0, "P2P/CUMEM")),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read", local(0, "P2P/direct pointer/read")),
        ("Channel 03 : 0[0] -> 1[1] via SHM/direct/direct", local(3, "SHM/direct/direct")),
        ("went via a friend", None),
        ("Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1", None),
        ("Channel 00/02 : 0 1 2 3", None),
    ] {
        assert_eq!(read(&format!("{START}{message}")), expected, "{message}");
    }
}

#[test]
fn what_decides_about_direct_access_is_read() {
    let pair =
        |gpu, hca, distance, level, is_enabled| Some(Fact::Pair(PairVerdict { gpu, hca, distance, level, is_enabled }));
    let hca = |network, device, name, is_enabled| Some(Fact::HcaGdr { network, device, name, is_enabled });
    let joined =
        |name, is_start| Some(Fact::Joined(Joined { name, rank: 3, ranks: 16, gpu: 1, bus_id: 0x1c000, is_start }));
    let variable = |name, value| Some(Fact::Variable { name, value });
    for (message, expected) in [
        // 2.19 (NVIDIA/nccl#1151), 2.22, 2.24, 2.28.
        ("GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)", pair("ca000", "0", 7, 4, false)),
        ("GPU Direct RDMA Enabled for GPU 1c000 / HCA a (distance 4 <= 4), read 0", pair("1c000", "a", 4, 4, true)),
        ("GPU Direct RDMA Disabled for GPU 3 / HCA 0 (distance 6 > 4)", pair("3", "0", 6, 4, false)),
        (
            "GPU Direct RDMA Enabled for GPU 0 / HCA 100000000000001 (distance 4 <= 5), read 1 mode Default",
            pair("0", "100000000000001", 4, 5, true),
        ),
        ("GPU Direct RDMA Disabled for GPU 3 / HCA 0 (distance", None),
        // NVIDIA/nccl#1537.
        ("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", hca("IB", 0, "mlx5_0", false)),
        ("NET/AWS Libfabric : GPU Direct RDMA Enabled for HCA 1 'cxi1'", hca("AWS Libfabric", 1, "cxi1", true)),
        (
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ib0:192.168.11.1<0>",
            Some(Fact::Hcas("[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]")),
        ),
        // 2.28 says this after `No device found.`.
        ("NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>", Some(Fact::Hcas(""))),
        ("NET/IB : No device found.", Some(Fact::NoHca)),
        ("Failed to open libibverbs.so[.1]", Some(Fact::NoVerbs)),
        ("DMA-BUF is available on GPU device 0", Some(Fact::DmaBuf)),
        ("Using network IB", Some(Fact::Network("IB"))),
        ("Assigned NET plugin AWS Libfabric to comm", Some(Fact::Network("AWS Libfabric"))),
        ("NCCL version 2.28.9+cuda13.0", Some(Fact::Version(Version { major: 2, minor: 28, patch: 9 }))),
        ("cudaDriverVersion 12040", Some(Fact::CudaDriver(12040))),
        // 2.19, 2.28, 2.30, and a part of another communicator.
        (
            "comm 0x55cc8aa86c70 rank 3 nranks 16 cudaDev 1 nvmlDev 1 busId 1c000 commId 0x65e0bd6ee7449db4 - Init START",
            joined(CommunicatorName::Id(0x65e0_bd6e_e744_9db4), true),
        ),
        (
            "ncclCommInitRank comm 0x5 rank 3 nranks 16 cudaDev 1 nvmlDev 1 busId 1c000 commId 0x6 - Init COMPLETE",
            joined(CommunicatorName::Id(6), false),
        ),
        (
            "[Rank 3] ncclCommInitRank comm 0x5 rank 3 nranks 16 cudaDev 1 nvmlDev 1 busId 1c000 commId 0x6 - Init START",
            joined(CommunicatorName::Id(6), true),
        ),
        (
            "ncclCommSplit comm 0x5 rank 3 nranks 16 cudaDev 1 nvmlDev 1 busId 1c000 parent 0x4 splitCount 2 color -7 key 3- Init START",
            joined(CommunicatorName::Part { number: 2, color: -7 }, true),
        ),
        (
            "ncclCommSplit comm 0x5 rank 3 nranks 16 cudaDev 1 nvmlDev 1 busId 1c000 parent 0x4 splitCount 2 color 7 key 3 - Init COMPLETE",
            joined(CommunicatorName::Part { number: 2, color: 7 }, false),
        ),
        (
            "Pattern 4, crossNic 0, nChannels 2, bw 24.0/24.0, type NVL/PHB, sameChannels 1",
            Some(Fact::Pattern { inter: "PHB" }),
        ),
        ("NVLS multicast support is not available on dev 0", Some(Fact::Nvls(false))),
        ("NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 24)", Some(Fact::Nvls(true))),
        ("NCCL_IB_DISABLE set by environment to 1.", variable("NCCL_IB_DISABLE", "1")),
        ("NCCL_NET_GDR_LEVEL set by environment to PHB", variable("NCCL_NET_GDR_LEVEL", "PHB")),
        ("NCCL_IB_HCA set to mlx5_0", variable("NCCL_IB_HCA", "mlx5_0")),
        ("NCCL_TOPO_FILE set by environment to /a.b.", variable("NCCL_TOPO_FILE", "/a.b.")),
        ("Comm config netName reset to NCCL_NET=Socket", variable("NCCL_NET", "Socket")),
        ("Comm config blocking set to 1", None),
        (
            "NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR",
            Some(Fact::Plugin("NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR")),
        ),
        (
            "HINT: In many cases this error occurs when ACS is enabled which would break GPU Direct RDMA protocol.",
            Some(Fact::Hint(
                "HINT: In many cases this error occurs when ACS is enabled which would break GPU Direct RDMA protocol.",
            )),
        ),
    ] {
        assert_eq!(read(&format!("{START}{message}")), expected, "{message}");
    }
    // Written by one rank for all, without a prefix; launchers may put one there.
    for line in ["NCCL version 2.21.5+cuda12.4", "[1,0]<stdout>:NCCL version 2.21.5+cuda12.4"] {
        assert_eq!(read(line), Some(Fact::Version(Version { major: 2, minor: 21, patch: 5 })));
    }
}

#[test]
fn channels_plugins_and_warnings_are_read() {
    for (message, expected) in [
        (
            "4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer",
            Some(Fact::Channels(4)),
        ),
        // 2.19.
        ("16 coll channels, 0 nvls channels, 16 p2p channels, 16 p2p channels per peer", Some(Fact::Channels(16))),
        ("many coll channels, 0 nvls channels", None),
        (
            "TUNER/gdrtune: read 3 rules, 3 of them for 2 nodes",
            Some(Fact::Tuner("TUNER/gdrtune: read 3 rules, 3 of them for 2 nodes")),
        ),
        (
            "Successfully loaded external tuner plugin /p.so",
            Some(Fact::Tuner("Successfully loaded external tuner plugin /p.so")),
        ),
        (
            "NCCL_TUNER_PLUGIN set by environment to /p.so",
            Some(Fact::Tuner("NCCL_TUNER_PLUGIN set by environment to /p.so")),
        ),
    ] {
        assert_eq!(read(&format!("{START}{message}")), expected, "{message}");
    }
    for (line, expected) in [
        ("gpu-1:1:2 [0] misc/socket.cc:484 NCCL WARN socketStart failed: 110", "socketStart failed: 110"),
        ("[2026-06-01 10:00:00] gpu-1:1:2 [0] /nccl/src/init.cc:77 (initNet) NCCL WARN no net", "no net"),
        ("gpu-1:1:2 [0] a.cc:1 NCCL WARN ", ""),
    ] {
        assert_eq!(read(line), (!expected.is_empty()).then_some(Fact::Warning(expected)));
    }
}

#[test]
fn the_writer_is_found_behind_whatever_launchers_put_before() {
    let expected = Some(Writer { host: "gpu-1", pid: 17, thread: 19, gpu: 3 });
    for (line, expected) in [
        ("gpu-1:17:19 [3] NCCL INFO x", expected),
        ("12: gpu-1:17:19 [3] NCCL INFO x", expected),
        ("[1,4]<stdout>:gpu-1:17:19 [3] NCCL INFO x", expected),
        ("(RayWorker pid=4, ip=10.0.0.4) gpu-1:17:19 [3] NCCL INFO x", expected),
        ("[2026-06-01 10:00:00] gpu-1:17:19 [3] src/a.cc:77 (initNet) NCCL WARN x", expected),
        ("gpu-2:1:1 [0] NCCL INFO Channel 00/0gpu-1:17:19 [3] NCCL INFO x", None),
        ("gpu-2:1:1 [0] NCCL INFO Channel 00 gpu-1:17:19 [3] NCCL INFO x", expected),
        ("NCCL INFO x", None),
        ("[3] NCCL INFO x", None),
        (":17:19 [3] NCCL INFO x", None),
        ("gpu-1:17:19 [3] x", None),
    ] {
        let found = writer(line.as_bytes());
        // Where another line was cut in mid-word, nobody knows where the host's name begins.
        assert!(found == expected || expected.is_none() && found.is_some_and(|w| w.host.ends_with("gpu-1")), "{line}");
    }
    assert_eq!(writer(b"\xff\xfegpu-1:17:19 [3] NCCL INFO x"), expected);
    let mixed = b"a:1:1 [0] NCCL INFO b:1:1 [0] c.cc:1 NCCL WARN x";
    assert_eq!((messages(mixed), messages(b"nothing"), messages(b"a:1:1 [0] NCCL INFO x")), (2, 0, 1));
}

#[test]
fn a_line_that_another_write_cut_off_does_not_hide_the_next() {
    let whole = format!("{START}AllReduce: 8 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..0}}");
    let cut = format!("\0\0{START}AllReduce: 8 Bytes -> Al{whole}");
    assert_eq!(read(&cut), read(&whole));
    assert!(read(&whole).is_some());
}

#[test]
fn what_the_log_leaves_open_the_plugin_tells() {
    let tree = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 8 };
    let log = |channels| ran(None, 8, (Algorithm::Tree, Protocol::Ll), channels);
    let other = ran(None, 8, (Algorithm::Ring, Protocol::Ll), None);
    for (ran, told, expected) in [
        (log(Some(2)), Some(tree), "tree/ll/2"),
        (log(Some(2)), None, "tree/ll/2"),
        (log(None), Some(tree), "tree/ll/8"),
        (log(None), None, "tree/ll"),
        (other, Some(tree), "ring/ll"),
    ] {
        assert_eq!(ran.beside(told).to_string(), expected);
    }
}

fn any_run() -> impl Strategy<Value = (Collective, u64, Algorithm, Protocol, (u16, u16))> {
    let collectives: Vec<Collective> = Collective::ALL.to_vec();
    (
        select(collectives),
        any::<u64>(),
        select(Algorithm::ALL.to_vec()),
        select(Protocol::ALL.to_vec()),
        (0u16..64).prop_flat_map(|low| (Just(low), low..64)),
    )
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..400), cut in 0usize..400) {
        let all = |line: &[u8]| (fact(line).is_some(), writer(line).is_some(), messages(line));
        all(&bytes);
        // Bytes in the place of a message get further in.
        let mut line = START.as_bytes().to_vec();
        line.extend_from_slice(&bytes[..cut.min(bytes.len())]);
        all(&line);
    }

    #[test]
    fn real_lines_survive_cuts_and_interleaving(run in any_run(), cut in 0usize..120, at in 0usize..120) {
        let (collective, bytes, algorithm, protocol, (low, high)) = run;
        let names = (algorithm.name().to_uppercase(), protocol.name().to_uppercase());
        let line = format!(
            "{START}{}: {bytes} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{{low}..{high}}}",
            collective.nccl_name(), names.0, names.1
        );
        let expected = ran(Some(collective), bytes, (algorithm, protocol), Some(high - low + 1));
        prop_assert_eq!(read(&line), Some(Fact::Run(expected)));
        let (bytes, cut) = (line.as_bytes(), cut.min(line.len()));
        // A line that lacks its start or its end is no call, unless only the host's name is missing.
        prop_assert_eq!(fact(&bytes[..bytes.len() - 1]), None);
        fact(&bytes[cut..]);
        // Another write in the middle, then the whole line.
        let mixed = [&bytes[..at.min(bytes.len())], bytes].concat();
        prop_assert_eq!(fact(&mixed), Some(Fact::Run(expected)));
    }

    #[test]
    fn damaged_lines_are_read_without_a_panic(
        which in select(DAMAGED.to_vec()), at in 0usize..200, byte in any::<u8>(), cut in 0usize..200,
    ) {
        let mut line = format!("{START}{which}").into_bytes();
        let (length, start) = (line.len(), START.len());
        line[start + at % (length - start)] = byte;
        fact(&line);
        line.truncate(start + cut % (length - start));
        fact(&line);
        writer(&line);
    }
}

use std::fmt::Write as _;

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::{size::Size, vocab::Collective, workload::Counting};

fn read(sources: &[(&str, &str)]) -> Found {
    let mut import = Import::new();
    for (file, text) in sources {
        import.read(file, None, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    }
    import.finish()
}

fn selection(comm: &[&str], steps: Option<u64>) -> Selection {
    let communicators = comm.iter().map(|word| (*word).to_owned()).collect();
    Selection { communicators, steps, points: 64, name: "job".to_owned() }
}

fn calls(imported: &Imported) -> String {
    let calls = imported.workload.calls.iter().map(|(point, count)| format!("{point} x{count}"));
    calls.collect::<Vec<_>>().join(", ")
}

/// Communicators in short: ranks, how many are alike, calls.
fn shown(found: &Found) -> Vec<(u32, usize, u64)> {
    found.communicators.iter().map(|c| (c.ranks, c.alike, c.call_count())).collect()
}

/// A call of a rank as NCCL logs it.
fn line(process: u32, comm: u64, ranks: u32, call: (&str, u64, u32)) -> String {
    let (name, count, data_type) = call;
    format!(
        "gpu-1:{process}:{process} [{}] NCCL INFO {name}: opCount 0 sendbuff 0x7f0000 recvbuff (nil) count {count} datatype \
         {data_type} op 0 root 0 comm 0x{comm:x} [nranks={ranks}] stream 0x55f\n",
        process % 8
    )
}

fn init(process: u32, comm: u64, rank: u32, ranks: u32, rest: &str) -> String {
    format!(
        "gpu-1:{process}:{process} [0] NCCL INFO ncclCommInitRank comm 0x{comm:x} rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 \
         busId 1000 {rest} - Init COMPLETE\n"
    )
}

#[test]
fn a_call_counts_once_for_its_communicator_and_not_once_for_each_rank() {
    let mut log = String::new();
    for _ in 0..4 {
        for process in 0..4 {
            log += &line(process, 0x100 + u64::from(process), 4, ("AllReduce", 1000, 7));
            log += &line(process, 0x100 + u64::from(process), 4, ("AllGather", 100, 9));
        }
    }
    let found = read(&[("all.log", &log)]);
    assert_eq!(shown(&found), [(4, 1, 8)]);
    let imported = found.workload(&selection(&[], None)).unwrap();
    // 100 bfloat16 of each of 4 ranks: the size column has them all.
    assert_eq!(calls(&imported), "allreduce 4000 x1, allgather 800 x1");
    assert_eq!((imported.workload.counting, imported.ranks), (Counting::CallsPerStep, 4));
    // A file for each rank is the same.
    let files: Vec<(String, String)> = (0..4)
        .map(|process| {
            let own = |line: &&str| line.contains(&format!(":{process}:"));
            (format!("{process}.log"), log.lines().filter(own).fold(String::new(), |text, line| text + line + "\n"))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(read(&files), found);
    // And one rank's log alone is enough.
    assert_eq!(calls(&read(&files[..1]).workload(&selection(&[], None)).unwrap()), calls(&imported));
}

#[test]
fn communicators_are_told_apart_by_their_ids_and_alike_ones_are_one() {
    // 4 ranks, pairs of them tensor-parallel (splits of the world by colour), all of them data-parallel.
    let mut log = String::new();
    for process in 0..4 {
        log += &init(process, 0x1, process, 4, "commId 0xabc");
        let split = format!("parent 0x1 splitCount 1 color {} key 0", process / 2);
        log += &init(process, 0x2, process % 2, 2, &split);
        for _ in 0..5 {
            log += &line(process, 0x2, 2, ("AllReduce", 4096, 9)).repeat(3);
            log += &line(process, 0x1, 4, ("AllReduce", 1 << 20, 7));
        }
    }
    let found = read(&[("all.log", &log)]);
    assert_eq!(shown(&found), [(4, 1, 5), (2, 2, 15)]);
    assert_eq!(found.communicators[0].names, ["0xabc/4"]);
    assert_eq!(found.communicators[1].names, ["0xabc/4 split 1.0", "0xabc/4 split 1.1"]);
    let imported = found.workload(&selection(&["2"], Some(5))).unwrap();
    assert_eq!((calls(&imported).as_str(), imported.chosen.as_slice()), ("allreduce 8K x3", &[2][..]));
    assert_eq!(imported.left_out, ["5 calls of 1 other communicator: --comm chooses"]);
    assert_eq!(calls(&found.workload(&selection(&["0xabc/4"], Some(5))).unwrap()), "allreduce 4M x1");
    for (words, expected) in [
        (&["1", "2"][..], "communicators of 4 and of 2 ranks are tuned apart"),
        (&["9"], "no communicator `9`: there are 1 (4 ranks, 0xabc/4), 2 (2 ranks, 0xabc/4 split 1.0)"),
        (&["0xabc"], "several communicators begin with `0xabc`"),
    ] {
        let error = found.workload(&selection(words, None)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn what_one_rank_calls_on_two_communicators_is_two_even_without_their_ids() {
    let log: String = [0x1, 0x2].map(|comm| line(1, comm, 2, ("AllReduce", 1024, 7)).repeat(4)).concat();
    assert_eq!(shown(&read(&[("x.log", &log)])), [(2, 1, 4), (2, 1, 4)]);
}

#[test]
fn an_address_that_is_used_again_is_another_communicator() {
    let log = init(1, 0x1, 0, 2, "commId 0xa")
        + &line(1, 0x1, 2, ("AllReduce", 1024, 7)).repeat(4)
        + "gpu-1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Destroy COMPLETE\n"
        + &init(1, 0x1, 0, 2, "commId 0xb")
        + &line(1, 0x1, 2, ("AllReduce", 16, 7)).repeat(4);
    assert_eq!(shown(&read(&[("x.log", &log)])), [(2, 1, 4), (2, 1, 4)]);
}

#[test]
fn parts_with_one_name_are_told_apart_by_their_order() {
    // 2.23 names neither the number of a split nor an id of its own: two of one parent, of one colour.
    let mut log = String::new();
    for process in 0..2 {
        log += &init(process, 0x1, process, 2, "commId 0xabc");
        log +=
            &init(process, 0x2, process, 2, "parent 0x1 color 0 key 0-").replace("- - Init COMPLETE", "- Init START");
        log += &init(process, 0x2, process, 2, "parent 0x1 color 0 key 0");
        log += &init(process, 0x3, process, 2, "parent 0x1 color 0 key 0");
        log += &line(process, 0x2, 2, ("AllReduce", 16, 7)).repeat(4);
        log += &line(process, 0x3, 2, ("AllReduce", 64, 7)).repeat(4);
    }
    let found = read(&[("x.log", &log)]);
    assert_eq!(shown(&found), [(2, 1, 4), (2, 1, 4)]);
    assert_eq!(found.communicators[0].names, ["0xabc/2 split .0 #2"]);
}

#[test]
fn all_to_alls_of_sends_and_receives_are_recognised_and_other_transfers_left_out() {
    let pair = |name: &str, peer: u32, count: u64| {
        format!(
            "gpu-1:1:1 [0] NCCL INFO {name}: opCount 3 sendbuff (nil) recvbuff 0x7f count {count} datatype 9 op 0 root {peer} comm \
             0x1 [nranks=3] stream 0x5\n"
        )
    };
    let exchange = (0..3).fold(String::new(), |text, peer| text + &pair("Send", peer, 512) + &pair("Recv", peer, 512));
    let log =
        exchange.repeat(4) + &pair("Send", 1, 64) + &line(1, 0x1, 3, ("AllReduce", 256, 7)) + &pair("Recv", 1, 64);
    let imported = read(&[("x.log", &log)]).workload(&selection(&[], Some(1))).unwrap();
    assert_eq!(calls(&imported), "allreduce 1K x1, alltoall 3K x4");
    assert_eq!(imported.left_out, ["2 sends and receives (in x.log): no choice of NCCL's is made for them"]);
    assert!(imported.notes.iter().any(|note| note.contains("all-to-alls were recognised")), "{:?}", imported.notes);
}

#[test]
fn what_is_left_out_is_named_with_its_place() {
    let good = line(1, 0x1, 2, ("AllReduce", 256, 7));
    let log = good.repeat(4)
        + &line(1, 0x1, 2, ("AllReduce", 256, 77))
        + &line(1, 0x1, 2, ("AllReduce", 0, 7))
        + &line(1, 0x1, 2, ("Gather", 256, 7))
        + &line(1, 0x3, 1, ("AllReduce", 256, 7))
        + &good[..good.len() - 20]
        + "\n"
        + &line(1, 0x1, 2, ("Broadcast", 3, 0));
    let imported = read(&[("x.log", &log)]).workload(&selection(&[], Some(2))).unwrap();
    assert_eq!(calls(&imported), "allreduce 1K x2, broadcast 4 x0.5");
    assert_eq!(
        imported.left_out,
        [
            "1 call that gdrtune does not measure (Gather in x.log:7)",
            "1 call of an unknown type (type 77 of AllReduce in x.log:5)",
            "1 call of 0 bytes (allreduce)",
            "1 call on communicators of one rank (allreduce)",
            "1 line or entry cut off or mixed with others (x.log:9)",
        ]
    );
    assert!(imported.notes.iter().any(|note| note.starts_with("1 size rounded up")));
}

#[test]
fn without_a_period_calls_are_weights_and_many_sizes_become_few() {
    let log =
        (1..200_u64).fold(String::new(), |text, count| text + &line(1, 0x1, 2, ("AllReduce", count * count * 64, 7)));
    let found = read(&[("x.log", &log)]);
    let imported = found.workload(&selection(&[], None)).unwrap();
    assert_eq!(imported.workload.counting, Counting::Weights);
    let few = imported.workload.calls.len();
    assert!((8..=64).contains(&few), "{few}");
    let (bytes, calls) = imported
        .workload
        .calls
        .iter()
        .fold((0.0, 0.0), |(bytes, calls), (point, count)| (bytes + point.bytes as f64 * count, calls + count));
    let all: f64 = (1..200_u64).map(|count| (count * count * 256) as f64).sum();
    assert!((calls - 199.0).abs() < 1e-6 && (bytes / all - 1.0).abs() < 0.01, "{bytes} {all}");
    assert!(imported.notes.iter().any(|note| note.contains("199 different sizes from 256 to")), "{:?}", imported.notes);
    // Two points are as few as one for each doubling of nine allows at most.
    let fewer = found.workload(&Selection { points: 2, ..selection(&[], None) }).unwrap();
    assert!((15..=17).contains(&fewer.workload.calls.len()), "{}", fewer.workload.calls.len());
}

fn inspector(id: &str, rank: u32, call: (&str, u64, u64)) -> String {
    let (name, number, bytes) = call;
    format!(
        "{{\"header\":{{\"id\":\"{id}\",\"rank\":{rank},\"n_ranks\":4,\"nnodes\":1}},\"metadata\":{{\"inspector_output_format_version\":\
         \"v4.0\",\"hostname\":\"gpu-1\",\"pid\":{rank}}},\"coll_perf\":{{\"coll\":\"{name}\",\"coll_sn\":{number},\
         \"coll_msg_size_bytes\":{bytes},\"coll_exec_time_us\":10,\"coll_algobw_gbs\":1.5}}}}\n"
    )
}

#[test]
fn dumps_of_the_inspector_are_read_as_lines_and_as_an_array() {
    let mut dump = String::new();
    for number in 0..4 {
        for rank in 0..4 {
            dump += &inspector("0x7f", rank, ("AllReduce", number, 1 << 20));
            dump += &inspector("0x7f", rank, ("ReduceScatter", number * 2, 65536));
        }
    }
    dump += "{\"header\":{\"id\":\"0x7f\",\"rank\":0,\"n_ranks\":4},\"p2p_perf\":{\"p2p\":\"Send\"}}\n";
    let array = format!("[{}]", dump.trim_end().replace('\n', ","));
    for text in [dump.clone(), array, dump.clone() + "{\"header\":{\"id\""] {
        let found = read(&[("gpu-1-pid0.log", &text)]);
        assert_eq!(shown(&found), [(4, 1, 8)]);
        let imported = found.workload(&selection(&["0x7f"], None)).unwrap();
        assert_eq!(calls(&imported), "allreduce 1M x1, reducescatter 256K x1");
        let lost = imported.left_out.iter().find(|text| text.contains("did not keep"));
        assert!(lost.is_some_and(|text| text.starts_with("12 calls that")), "{:?}", imported.left_out);
    }
    let broken = dump.replacen("\"n_ranks\":4", "\"n_ranks\":\"x\"", 1);
    let error = Import::new().read("d.log", None, broken.as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("d.log:1:") && error.contains("invalid type: string \"x\""), "{error}");
}

fn event(name: &str, category: &str, at: f64, args: &str) -> String {
    format!(
        "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":1,\"tid\":1,\"ts\":{at},\"dur\":1.5,\"args\":{{{args}}}}}"
    )
}

fn comms(name: &str, sizes: (u64, u64), data_type: &str, group: &str) -> String {
    format!(
        "\"External id\":7,\"Collective name\":\"{name}\",\"dtype\":\"{data_type}\",\"In msg nelems\":{},\"Out msg nelems\":{},\
         \"Group size\":4,\"Process Group Name\":\"{group}\",\"Process Group Description\":\"{group}_pg\",\
         \"Process Group Ranks\":\"[0, 1, 2, 3]\"",
        sizes.0, sizes.1
    )
}

#[test]
fn traces_count_what_the_cpu_called_by_the_steps_that_are_marked() {
    let mut events = Vec::new();
    for step in 0..3 {
        let at = f64::from(step) * 100.0;
        events.push(event(&format!("ProfilerStep#{}", step + 5), "user_annotation", at, ""));
        events.push(event(&format!("ProfilerStep#{}", step + 5), "gpu_user_annotation", at, ""));
        let gather = comms("_allgather_base", (1024, 4096), "BFloat16", "fsdp");
        for _ in 0..2 {
            events.push(event("record_param_comms", "cpu_op", at + 1.0, &gather));
            events.push(event("ncclDevKernel_AllGather_RING_LL", "kernel", at + 2.0, &gather));
        }
        let scatter = comms("_reduce_scatter_base", (4096, 1024), "Float", "fsdp");
        events.push(event("record_param_comms", "cpu_op", at + 3.0, &scatter));
        events.push(event("record_param_comms", "cpu_op", at + 4.0, &comms("send", (8, 8), "Float", "pp")));
        events.push(event("record_param_comms", "cpu_op", at + 5.0, &comms("wait", (0, 0), "Byte", "fsdp")));
        events.push(event("record_param_comms", "cpu_op", at + 6.0, &comms("allreduce", (2, 2), "QInt8", "fsdp")));
        events.push(event("aten::mm", "cpu_op", at + 7.0, "\"Input dtype\":[\"x\"]"));
    }
    let all = events.join(",\n");
    let document = format!(
        "{{\"schemaVersion\":1,\"deviceProperties\":[{{\"id\":0}}],\n\"traceEvents\":[{all}],\"traceName\":\"t\"}}"
    );
    for text in [document.clone(), format!("[{all}]")] {
        let imported = read(&[("rank0.json", &text)]).workload(&selection(&["fsdp_pg"], None)).unwrap();
        assert_eq!(calls(&imported), "allgather 8K x2, reducescatter 16K x1");
        assert_eq!(imported.notes[0], "3 steps, by the marks of the profiler");
        let left = imported.left_out.join("\n");
        assert!(
            left.contains("3 sends and receives (send in rank0.json)")
                && left.contains("3 calls of an unknown type (QInt8"),
            "{left}"
        );
    }
    // Kernels alone.
    let kernels = all.replace("record_param_comms", "other");
    let imported = read(&[("rank0.json", &format!("[{kernels}]"))]).workload(&selection(&[], None)).unwrap();
    assert_eq!(calls(&imported), "allgather 8K x2");
    let error =
        Import::new().read("t.json", None, &document.as_bytes()[..document.len() - 30]).unwrap_err().to_string();
    assert!(error.starts_with("t.json:") && error.contains("EOF while parsing"), "{error}");
    let nothing = Import::new().read("t.json", None, &b"{\"traceEvents\":[]}"[..]).unwrap_err().to_string();
    assert!(nothing.contains("no record_param_comms"), "{nothing}");
}

#[test]
fn dumps_of_the_flight_recorder_have_their_groups_behind_their_entries() {
    let entry = |name: &str, group: &str, input: &str, output: &str, is_p2p: bool| {
        format!(
            "{{\"profiling_name\":\"nccl:{name}\",\"process_group\":[\"{group}\",\"default_pg\"],\"input_sizes\":{input},\
             \"input_dtypes\":[\"BFloat16\"],\"output_sizes\":{output},\"output_dtypes\":[\"BFloat16\"],\"is_p2p\":{is_p2p},\
             \"collective_seq_id\":1,\"state\":\"completed\"}}"
        )
    };
    let step = [
        entry("_all_gather_base", "0", "[[8, 64]]", "[[16, 64]]", false),
        entry("all_reduce", "0", "[[32], [4, 8]]", "[[32], [4, 8]]", false),
        entry("coalesced", "0", "[]", "[]", false),
        entry("send 0->1", "0", "[[8]]", "[[8]]", true),
    ];
    let entries: Vec<String> =
        step.iter().cycle().take(16).cloned().chain([entry("all_reduce", "9", "[[8]]", "[[8]]", false)]).collect();
    let text = format!(
        "{{\"version\":\"2.5\",\"entries\":[{}],\"pg_config\":{{\"0\":{{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1]\"}}}}}}",
        entries.join(",")
    );
    let imported = read(&[("rank0.json", &text)]).workload(&selection(&["default_pg"], None)).unwrap();
    assert_eq!(calls(&imported), "allreduce 128 x1, allgather 2K x1");
    assert_eq!(imported.ranks, 2);
    let left = imported.left_out.join("\n");
    assert!(left.contains("process group 9 without ranks") && left.contains("4 sends and receives"), "{left}");
    let empty = Import::new().read("f.json", None, &b"{\"pg_config\":{}}"[..]).unwrap_err().to_string();
    assert!(empty.contains("TORCH_FR_BUFFER_SIZE"), "{empty}");
}

#[test]
fn a_log_without_calls_says_how_to_get_some() {
    let error = Import::new().read("x.log", None, &b"gpu-1:1:1 [0] NCCL INFO Channel 00/02 : 0 1\n"[..]).unwrap_err();
    assert!(error.to_string().contains("NCCL_DEBUG_SUBSYS=INIT,COLL"), "{error}");
    let found = read(&[("x.log", &line(1, 0x1, 1, ("AllReduce", 8, 7)))]);
    let nothing = found.workload(&selection(&[], None)).unwrap_err().to_string();
    assert!(nothing.ends_with("1 call on communicators of one rank (allreduce)"), "{nothing}");
}

proptest! {
    #[test]
    fn any_bytes_of_any_kind_are_taken_or_refused(
        bytes in vec(any::<u8>(), 0..300),
        kind in select(Kind::ALL.to_vec()),
        start in select(vec!["", "{", "[", "{\"traceEvents\":[", "{\"entries\":[{", "h:1:1 [0] NCCL INFO AllReduce: opCount "]),
    ) {
        let text = [start.as_bytes(), &bytes].concat();
        let mut import = Import::new();
        import.read("f", Some(kind), text.as_slice()).ok();
        import.read("f", None, text.as_slice()).ok();
        import.finish().workload(&selection(&[], None)).ok();
    }

    #[test]
    fn a_planted_job_is_found_in_the_logs_of_its_ranks(
        step in vec((select(vec!["AllReduce", "AllGather", "ReduceScatter", "Broadcast"]), 1_u64..1 << 30), 1..12),
        ranks in 2_u32..6,
        repeats in 4_usize..8,
        cut in 0_usize..40,
    ) {
        let mut log = String::new();
        for rank in 0..ranks {
            let mut own = String::new();
            for (name, count) in std::iter::repeat_n(&step, repeats).flatten() {
                own += &line(rank, 0x1, ranks, (name, *count, 7));
            }
            // A rank's log may end early.
            let end = if rank == 0 { own.len() } else { own.len().saturating_sub(cut * 7) };
            writeln!(log, "{}", &own[..end]).unwrap();
        }
        let imported = read(&[("x.log", &log)]).workload(&selection(&[], None)).unwrap();
        let unit = |name: &str| match name {
            "AllReduce" | "Broadcast" => 1,
            _ => u64::from(ranks),
        };
        let length: f64 = imported.workload.calls.iter().map(|(_, calls)| calls).sum();
        // A step of equal halves is told as one of them.
        prop_assert!((step.len() as f64 / length).fract() == 0.0, "{length} of {step:?}");
        for (name, count) in &step {
            let bytes = count * 4 * unit(name);
            prop_assert!(imported.workload.calls.iter().any(|(point, _)| point.bytes == bytes), "{name} {}", Size(bytes));
        }
        prop_assert!(imported.workload.calls.iter().all(|(point, _)| Collective::ALL.contains(&point.collective)));
    }
}

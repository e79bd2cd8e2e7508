//! File mode through NCCL's interface.
#![expect(clippy::float_cmp, reason = "costs are copied, and preferred by an exact 0")]

mod support;

use std::{ffi::c_void, os::unix::fs::PermissionsExt as _, path::Path, ptr};

use gdrtune_nccl_tuner::{
    GdrtuneDecision, SOURCE_NONE, SOURCE_RULE, ncclTunerPlugin_v2, ncclTunerPlugin_v3, ncclTunerPlugin_v4,
    ncclTunerPlugin_v5, ncclTunerPlugin_v6,
};
use support::{
    ALL_GATHER, ALL_REDUCE, BROADCAST, IGNORE, INFO, LL, LL128, Query, RING, SIMPLE, TREE, Tuner, WARN, last,
    set_variable, take_log, texts, turn,
};

const RULES: &str = "\
# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
allreduce,0,65536,tree,ll,2,4,32,-1,-1
allreduce,65536,1048576,ring,simple,-1,-1,-1
broadcast,1024,2048,ring,ll128,4,-1,-1,2,1
allgather,0,9223372036854775807,pat,simple,64,4,16,-1,-1
";

#[test]
fn the_first_match_is_preferred_in_every_version_and_the_rest_is_left_to_nccl() {
    let _turn = turn();
    for version in 3..=6 {
        let tuner = Tuner::with_rules(version, RULES);
        for (collective, bytes, expected) in [
            (ALL_REDUCE, 0, Some((TREE, LL, 2))),
            (ALL_REDUCE, 65536, Some((TREE, LL, 2))),
            (ALL_REDUCE, 65537, Some((RING, SIMPLE, 0))),
            (ALL_REDUCE, 1_048_576, Some((RING, SIMPLE, 0))),
            (ALL_REDUCE, 1_048_577, None),
            // For 16 ranks, and these are 32.
            (ALL_GATHER, 8, None),
            (BROADCAST, 1024, None),
            // SendRecv, and what is no function at all.
            (5, 8, None),
            (-1, 8, None),
            (i32::MAX, 8, None),
            (i32::MIN, 8, None),
        ] {
            assert_eq!(tuner.choose(Query::new(collective, bytes)), expected, "v{version} {collective} {bytes}");
        }
    }
}

#[test]
fn pipelined_operations_and_registered_buffers_must_match_where_a_rule_names_them() {
    let _turn = turn();
    for version in 3..=6 {
        let tuner = Tuner::with_rules(version, RULES);
        for (num_pipe_ops, reg_buff, is_match) in
            [(2, 1, true), (2, 7, true), (2, 0, false), (1, 1, false), (-1, 1, false)]
        {
            let query = Query { num_pipe_ops, reg_buff, ..Query::new(BROADCAST, 2048) };
            // v3 does not say whether buffers are registered: the rule cannot be known to hold.
            let expected = (is_match && 4 <= version).then_some((RING, LL128, 4));
            assert_eq!(tuner.choose(query), expected, "v{version} {num_pipe_ops} {reg_buff}");
        }
    }
}

#[test]
fn what_nccl_does_not_allow_is_skipped_and_the_search_goes_on() {
    let _turn = turn();
    let text =
        "allreduce,0,8,ring,ll128,3,-1,-1\nallreduce,0,8,pat,simple,4,-1,-1\nallreduce,0,8,ring,simple,5,-1,-1\n";
    let tuner = Tuner::with_rules(4, text);
    let query = Query::new(ALL_REDUCE, 8);
    assert_eq!(tuner.choose(query.clone()), Some((RING, LL128, 3)));
    assert_eq!(tuner.choose(query.clone().forbid(RING, LL128)), Some((6, SIMPLE, 4)));
    assert_eq!(tuner.choose(query.clone().forbid(RING, LL128).forbid(6, SIMPLE)), Some((RING, SIMPLE, 5)));
    assert_eq!(tuner.choose(query.forbid(RING, LL128).forbid(6, SIMPLE).forbid(RING, SIMPLE)), None);
    // NCCL 2.22 has no PAT, and a table of six rows.
    assert_eq!(tuner.choose(Query::sized(ALL_REDUCE, 8, 6, 3).forbid(RING, LL128)), Some((RING, SIMPLE, 5)));
    // A wider table than any release's: rows are as long as NCCL says.
    assert_eq!(tuner.choose(Query::sized(ALL_REDUCE, 8, 9, 5)), Some((RING, LL128, 3)));
    for (n_algorithms, n_protocols) in [(0, 0), (7, 0), (0, 3), (1, 1)] {
        assert_eq!(tuner.choose(Query::sized(ALL_REDUCE, 8, n_algorithms, n_protocols)), None);
    }
    let all_nan = Query { costs: vec![f32::NAN; 21], ..Query::new(ALL_REDUCE, 8) };
    let mut asked = all_nan.clone();
    tuner.ask(&mut asked);
    assert!(asked.costs.iter().all(|cost| cost.is_nan()) && asked.channels == 0);
}

#[test]
fn v2_sets_its_outputs_for_a_match_only_and_never_what_it_cannot_judge() {
    let _turn = turn();
    let text = "allreduce,0,8,ring,ll128,3,-1,-1\nallreduce,0,8,nvls,simple,3,-1,-1\nallreduce,0,8,tree,ll,2,-1,-1\n\
                allreduce,9,9,ring,simple,-1,-1,-1\nbroadcast,0,8,tree,simple,1,-1,-1\nallreduce,10,10,tree,ll,1,-1,-1,-1,0\n";
    let tuner = Tuner::with_rules(2, text);
    assert_eq!(tuner.ask_v2(ALL_REDUCE, 8), (0, 0, 2), "neither LL128 nor NVLS");
    assert_eq!(tuner.ask_v2(ALL_REDUCE, 9), (1, 2, 0), "channels are NCCL's");
    assert_eq!(tuner.ask_v2(BROADCAST, 8), (-1, -1, 0), "no tree but for all-reduce");
    assert_eq!(tuner.ask_v2(ALL_REDUCE, 10), (-1, -1, 0), "v2 does not say whether buffers are registered");
    assert_eq!(tuner.ask_v2(ALL_REDUCE, 11), (-1, -1, 0));
    set_variable("NCCL_PROTO", Some(Path::new("Simple")));
    let tuner = Tuner::with_rules(2, text);
    assert_eq!(tuner.ask_v2(ALL_REDUCE, 8), (-1, -1, 0), "NCCL_PROTO beats the plugin, as from v3 on");
}

#[test]
fn the_log_names_the_file_and_each_rule_once() {
    let _turn = turn();
    let tuner = Tuner::with_rules(5, RULES);
    let log = take_log();
    assert_eq!(texts(&log, WARN), [""; 0]);
    let [(level, flags, text)] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!((*level, *flags), (INFO, 0x40));
    let start = "TUNER/gdrtune: read 4 rules, 3 of them for 4 nodes and 32 ranks, checksum ";
    assert!(text.starts_with(start) && text.contains(", from /"), "{text}");
    for _ in 0..3 {
        tuner.choose(Query::new(ALL_REDUCE, 8).forbid(TREE, LL));
        tuner.choose(Query::new(ALL_REDUCE, 16));
        tuner.choose(Query::new(ALL_REDUCE, 1_048_576));
    }
    let log = take_log();
    assert_eq!(
        texts(&log, INFO),
        [
            "TUNER/gdrtune: skipped rule at line 2: allreduce, 8 bytes, tree/ll, 2 channels: NCCL does not allow this combination here",
            "TUNER/gdrtune: applied rule at line 2: allreduce, 16 bytes, tree/ll, 2 channels",
            "TUNER/gdrtune: applied rule at line 3: allreduce, 1048576 bytes, ring/simple",
        ]
    );
}

#[test]
fn the_checksum_tells_files_apart() {
    let _turn = turn();
    let checksum = |text: &str| {
        drop(Tuner::with_rules(4, text));
        let log = take_log();
        let line = texts(&log, INFO).concat();
        line.split("checksum ").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert_eq!(checksum(RULES), checksum(RULES));
    assert_ne!(checksum(RULES), checksum(&RULES.replace("tree", "ring")));
}

#[test]
fn our_variable_comes_first_and_an_empty_one_is_none() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let (ours, nvidias) = (folder.path().join("ours"), folder.path().join("nvidias"));
    std::fs::write(&ours, "allreduce,0,8,tree,ll,1,-1,-1").unwrap();
    std::fs::write(&nvidias, "allreduce,0,8,ring,simple,2,-1,-1").unwrap();
    let choose = || Tuner::start(4, 32, 4).choose(Query::new(ALL_REDUCE, 8));
    assert_eq!(choose(), None);
    set_variable("NCCL_TUNER_CONFIG_FILE", Some(&nvidias));
    assert_eq!(choose(), Some((RING, SIMPLE, 2)));
    set_variable("GDRTUNE_RULES", Some(&ours));
    assert_eq!(choose(), Some((TREE, LL, 1)));
    set_variable("GDRTUNE_RULES", Some(Path::new("")));
    assert_eq!(choose(), Some((RING, SIMPLE, 2)));
    take_log();
    set_variable("GDRTUNE_RULES", Some(&folder.path().join("absent")));
    assert_eq!(choose(), None, "the file that was asked for, or none");
    assert_eq!(texts(&take_log(), WARN).len(), 1);
}

/// Starts with `path` as the rule file; the one warning.
fn warning(path: &Path) -> String {
    set_variable("GDRTUNE_RULES", Some(path));
    for version in 2..=6 {
        let tuner = Tuner::start(version, 32, 4);
        match version {
            2 => assert_eq!(tuner.ask_v2(ALL_REDUCE, 8), (-1, -1, 0)),
            _ => assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 8)), None, "{}", path.display()),
        }
        // Without a log function there is nobody to tell.
        assert_eq!(Tuner::start_with(4, 32, 4, None).choose(Query::new(ALL_REDUCE, 8)), None);
    }
    let log = take_log();
    let warnings = texts(&log, WARN);
    let [warning] = warnings.as_slice() else { panic!("{log:?}") };
    assert!(warning.ends_with("; every call is left to NCCL") || 800 < warning.len(), "{warning}");
    assert!(log.iter().all(|line| line.0 != WARN || line.1 == u64::MAX), "a warning belongs to every subsystem");
    warning.replace(&path.display().to_string(), "FILE")
}

#[test]
fn a_file_that_cannot_be_used_is_one_warning_and_nccls_defaults() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let good = "allreduce,0,8,tree,ll,1,-1,-1\n";
    let long = "x".repeat(1 << 20);
    let many_columns = "1,".repeat(120);
    let mut many = good.repeat(1000);
    many.push_str("allreduce,0,8,tree,ll,1,-1,x\n");
    for (name, content, expected) in [
        ("elf", b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe\x80".as_slice(), "it is not text: byte 10"),
        ("utf16", b"\xff\xfea\0l\0l\0", "it is not text: byte 0"),
        ("text", b"hello", "line 1: a rule has 8 to 10 columns, and this line has 1"),
        ("long", long.as_bytes(), "line 1 is longer than 255 bytes"),
        ("columns", many_columns.as_bytes(), "line 1: a rule has 8 to 10 columns, and this line has 121"),
        ("last", many.as_bytes(), "line 1001: nRanks cannot be \"x\": write -1, or a number up to 2147483647"),
        ("header", b"collective_type,min_bytes", "line 1: a header line is read as a rule: put `#` before it"),
        ("json", b"{\"a\": 1}\n", "line 1: a rule has 8 to 10 columns, and this line has 1"),
        (
            "name",
            b"allredcue,0,8,ring,ll,1,1,1",
            "line 1: collective_type cannot be \"allredcue\": use one of broadcast, reduce, allgather, reducescatter, allreduce",
        ),
        (
            "channels",
            b"\nallreduce,0,8,ring,ll,65,1,1",
            "line 2: channels cannot be \"65\": write -1, or a number up to 64",
        ),
        (
            "number",
            b"allreduce,0,18446744073709551616,ring,ll,1,1,1",
            "line 1: max_bytes cannot be \"18446744073709551616\": write bytes as a whole number of at most 64 bits",
        ),
        (
            "sign",
            b"allreduce,+0,8,ring,ll,1,1,1",
            "line 1: min_bytes cannot be \"+0\": write bytes as a whole number of at most 64 bits",
        ),
        (
            "escape",
            b"allreduce,0,8,ring,\x1b[2J%n%s,1,1,1",
            "line 1: protocol cannot be \"\\u{1b}[2J%n%s\": use one of ll, ll128, simple",
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let expected = format!("TUNER/gdrtune: cannot use the rules of FILE: {expected}; every call is left to NCCL");
        assert_eq!(warning(&path), expected);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_one_warning_and_nccls_defaults() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    assert!(warning(&folder.path().join("absent")).contains("No such file or directory"));
    assert!(warning(folder.path()).contains("it is not a regular file"));
    // Reading a device or a pipe would not end.
    assert!(warning(Path::new("/dev/zero")).contains("it is not a regular file"));
    // A regular file whose pages nobody can read at offset 0, whoever asks.
    assert!(warning(Path::new("/proc/self/mem")).contains("os error 5"));
    let huge = folder.path().join("huge");
    std::fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    assert!(warning(&huge).contains("it is larger than 67108864 bytes"));
    let forged = folder.path().join("a\n%s%n NCCL WARN b");
    let text = warning(&forged);
    assert!(!text.contains('\n') && text.contains("a?%s%n NCCL WARN b"), "{text}");
    let endless = folder.path().join("y".repeat(255)).join("y".repeat(255)).join("y".repeat(255)).join("y".repeat(255));
    assert!(warning(&endless).len() < 1024, "NCCL cuts its lines there");
}

#[test]
fn a_file_without_permission_is_unreadable_to_all_but_root() {
    let _turn = turn();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "allreduce,0,8,tree,ll,1,-1,-1\n").unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(file.path()).is_err() {
        assert!(warning(file.path()).contains("Permission denied"));
        return;
    }
    set_variable("GDRTUNE_RULES", Some(file.path()));
    assert_eq!(Tuner::start(4, 32, 4).choose(Query::new(ALL_REDUCE, 8)), Some((TREE, LL, 1)), "root reads everything");
}

#[test]
fn a_hundred_thousand_rules_are_read_in_order() {
    let _turn = turn();
    let line = |idx| format!("allreduce,{idx},{idx},ring,simple,{},-1,-1,-1,-1\n", idx % 64 + 1);
    let text = (0..100_000).map(line).collect::<Vec<_>>().concat();
    let tuner = Tuner::with_rules(6, &text);
    for bytes in [0, 777, 99_999] {
        assert_eq!(tuner.choose(Query::new(ALL_REDUCE, bytes)), Some((RING, SIMPLE, bytes as i32 % 64 + 1)));
    }
    assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 100_000)), None);
    take_log();
    let tuner = Tuner::with_rules(6, &(text + "allreduce,0,100000,ring,simple,1,-1"));
    assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 0)), None, "the last line is cut off: none of them counts");
    assert!(texts(&take_log(), WARN).concat().contains("line 100001: a rule has 8 to 10 columns, and this line has 7"));
}

#[test]
#[expect(unsafe_code, reason = "a C interface")]
fn null_pointers_are_no_error() {
    let _turn = turn();
    let tuner = Tuner::with_rules(4, RULES);
    let mut costs = vec![1.0_f32; 21];
    let table = costs.as_mut_ptr().cast();
    let (no_context, no_table, no_int) = (ptr::null_mut::<c_void>(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: NULL is what this is about; the other arguments are NCCL's.
    unsafe {
        assert_eq!((ncclTunerPlugin_v2.init)(1, 1, None, ptr::null_mut()), 0);
        assert_eq!((ncclTunerPlugin_v3.init)(1, 1, None, ptr::null_mut()), 0);
        assert_eq!((ncclTunerPlugin_v4.init)(1, 1, None, ptr::null_mut()), 0);
        assert_eq!((ncclTunerPlugin_v5.init)(ptr::null_mut(), 0, 1, 1, None, no_context, no_context), 0);
        assert_eq!((ncclTunerPlugin_v6.init)(ptr::null_mut(), 0, 1, 1, None, no_context, no_context), 0);
        assert_eq!((ncclTunerPlugin_v2.get_coll_info)(no_context, 4, 8, 0, 0, 1, no_int, no_int, no_int), 0);
        assert_eq!((ncclTunerPlugin_v3.get_coll_info)(no_context, 4, 8, 1, table, 7, 3, no_int), 0);
        assert_eq!((ncclTunerPlugin_v4.get_coll_info)(no_context, 4, 8, 1, table, 7, 3, 0, no_int), 0);
        assert_eq!((ncclTunerPlugin_v2.destroy)(no_context), 0);
        assert_eq!((ncclTunerPlugin_v6.finalize)(no_context), 0);
        assert_eq!((ncclTunerPlugin_v4.get_coll_info)(tuner.context(), 4, 8, 1, no_table, 7, 3, 0, no_int), 0);
        assert_eq!((ncclTunerPlugin_v4.get_coll_info)(tuner.context(), 4, 8, 1, table, -7, 3, 0, no_int), 0);
        assert_eq!((ncclTunerPlugin_v4.get_coll_info)(tuner.context(), 4, 8, 1, table, 7, i32::MIN, 0, no_int), 0);
        let v2 = Tuner::start(2, 32, 4);
        assert_eq!((ncclTunerPlugin_v2.get_coll_info)(v2.context(), 4, 8, 0, 0, 1, no_int, no_int, no_int), 0);
    }
    assert!(costs.iter().all(|cost| *cost == 1.0));
    // SAFETY: As above; the table has 7 x 3 cells.
    assert_eq!(unsafe { (ncclTunerPlugin_v4.get_coll_info)(tuner.context(), 4, 8, 1, table, 7, 3, 0, no_int) }, 0);
    assert_eq!(costs.iter().filter(|cost| **cost == 0.0).count(), 1, "the choice stands without a channel count");
}

#[test]
fn a_process_that_runs_by_rules_can_ask_what_came_of_a_call() {
    let _turn = turn();
    let _switches_recording_on = last();
    let tuner = Tuner::with_rules(4, RULES);
    tuner.choose(Query { num_pipe_ops: 3, reg_buff: 1, ..Query::new(ALL_REDUCE, 70_000) });
    let decision = last().unwrap();
    let expected = GdrtuneDecision {
        api_version: 4,
        calls: decision.calls,
        bytes: 70_000,
        ranks: 32,
        nodes: 4,
        collective: 4,
        num_pipe_ops: 3,
        reg_buff: 1,
        source: SOURCE_RULE,
        rule_line: 3,
        algorithm: 1,
        protocol: 2,
        channels: 0,
        is_allowed: 1,
        num_algorithms: 7,
        num_protocols: 3,
        costs_us: decision.costs_us,
        ..GdrtuneDecision::EMPTY
    };
    assert_eq!(decision, expected);
    assert_eq!(decision.costs_us[1], [97.0, 96.0, 95.0, IGNORE], "NCCL's prediction, not what we made of it");
    assert_eq!(decision.costs_us[7], [IGNORE; 4]);

    tuner.choose(Query::new(ALL_REDUCE, 8).forbid(TREE, LL));
    let refused = last().unwrap();
    assert_eq!((refused.calls, refused.source, refused.rule_line), (decision.calls + 1, SOURCE_RULE, 2));
    assert_eq!((refused.algorithm, refused.protocol, refused.channels, refused.is_allowed), (0, 0, 2, 0));

    tuner.choose(Query::new(ALL_REDUCE, 1 << 30));
    let left = last().unwrap();
    assert_eq!((left.source, left.rule_line, left.algorithm, left.is_allowed), (SOURCE_NONE, 0, -1, -1));
}

//! `gdrtune gdr`, end to end: the verdict with stand-ins in the place of CUDA and NCCL, where NCCL's variables decide whether GPU
//! Direct RDMA is on and how long calls take, and logs that are there already.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{fs, io::Write as _, process::Stdio};

use common::{gdrtune, output, root, standins::library_path, stderr};
use serde_json::Value;

/// Microseconds with and without it: of calls up to 1 KiB, and of larger ones. So far apart that a busy machine changes nothing;
/// the stand-in itself takes less.
const PASSES: &str = "1024=4000:24000,1073741824=10000:30000";
const LATENCY_MISSES: &str = "1024=8000:12000,1073741824=10000:30000";
const SLOWER: &str = "1024=4000:16000,1073741824=30000:10000";

/// Two ranks that pose as two nodes, and as little as a verdict needs.
const USUAL: [&str; 12] = [
    "gdr",
    "--emulate-nodes",
    "--ranks-per-node",
    "2",
    "--pairs",
    "5",
    "--bandwidth-sizes",
    "4K",
    "--latency-sizes",
    "1K",
    "--trial-timeout",
    "20s",
];

/// Runs with these variables in the workers' environment; exit code, standard output, standard error.
fn verdict(variables: &[(&str, &str)], args: &[&str]) -> (Option<i32>, String, String) {
    let home = tempfile::tempdir().unwrap();
    let libraries = library_path(home.path(), "lib", &["cuda", "nccl"]);
    let mut command = gdrtune(home.path());
    command.env("LD_LIBRARY_PATH", libraries).envs(variables.iter().copied()).args(USUAL).args(args);
    let run = output(&mut command);
    let log = stderr(&run);
    assert!(!log.contains("panicked"), "{log}");
    (run.status.code(), String::from_utf8(run.stdout).unwrap(), log)
}

#[test]
fn what_is_faster_by_enough_passes_with_proof_of_the_path() {
    let (code, text, log) = verdict(&[("STANDIN_NCCL_GDR", "PHB"), ("STANDIN_NCCL_GDR_COSTS", PASSES)], &[]);
    assert_eq!(code, Some(0), "{text}{log}");
    for part in [
        "NCCL_NET_GDR_LEVEL=SYS against LOC: 5 process pairs, 2 ranks on 2 nodes, EMULATED nodes;",
        "asked for +30 %",
        "asked for -50 %",
        "CPU time",
        "path, on       ranks 0-1: NET/IB/0, GDR on 2 of 2 that send, 2 of 2 that receive",
        "path, off      ranks 0-1: NET/IB/0, GDR on 0 of 2 that send, 0 of 2 that receive",
        "verdict        passes",
    ] {
        assert!(text.contains(part), "no `{part}` in: {text}{log}");
    }
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn what_misses_a_mark_is_between_and_a_gate_can_fail_on_it() {
    let variables = [("STANDIN_NCCL_GDR", "PXB"), ("STANDIN_NCCL_GDR_COSTS", LATENCY_MISSES)];
    let (code, text, log) = verdict(&variables, &["--json", "--expect-gain"]);
    assert_eq!(code, Some(5), "{text}{log}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&document["verdict"], &document["emulated"], &document["pairs"]),
        (&"between".into(), &true.into(), &5.into())
    );
    let change = |side: &str, what: &str| document[side]["change"][what].as_f64().unwrap();
    assert!(change("bus_bandwidth", "low") > 0.3, "{document}");
    assert!((-0.5..0.0).contains(&change("latency", "median")), "{document}");
    assert!(change("latency", "low") <= change("latency", "median"), "{document}");
    assert_eq!(document["ranks_on"][1]["network"]["gdr_receives"], 2);
    assert_eq!(document["ranks_off"][1]["network"]["gdr_receives"], 0);
    assert!(document["points"][0]["on_cpu_us"].as_f64().is_some_and(|us| us > 0.0), "{document}");
    // It passes by what the user asks for.
    let (code, text, log) = verdict(&variables, &["--min-latency-cut", "5%"]);
    assert!(code == Some(0) && text.contains("verdict        passes"), "{text}{log}");
}

#[test]
fn what_is_slower_says_so() {
    let (code, text, log) = verdict(&[("STANDIN_NCCL_GDR", "SYS"), ("STANDIN_NCCL_GDR_COSTS", SLOWER)], &[]);
    assert_eq!(code, Some(102), "{text}{log}");
    assert!(text.contains("verdict        SLOWER with GDR") && text.contains("WORSE with GDR"), "{text}");
}

#[test]
fn where_it_is_not_on_there_is_the_reason_and_no_verdict() {
    // The HCA cannot reach GPU memory.
    let (code, text, log) = verdict(&[("STANDIN_NCCL_GDR", "none"), ("STANDIN_NCCL_GDR_COSTS", PASSES)], &[]);
    assert_eq!((code, text.as_str()), (Some(6), ""), "{log}");
    for part in
        ["no verdict", "does not have it on any connection", "no peer memory module", "nvidia_peermem", "ranks 0-1"]
    {
        assert!(log.contains(part), "no `{part}` in: {log}");
    }
    // Too far for the level that the user asks for: NCCL's distances say so.
    let variables = [("STANDIN_NCCL_GDR", "SYS"), ("STANDIN_NCCL_GDR_COSTS", PASSES)];
    let (code, _, log) = verdict(&variables, &["--level", "pxb"]);
    assert!(code == Some(6) && log.contains("GPU and HCA are SYS apart"), "{log}");
    // Only what is sent.
    let (code, _, log) = verdict(&[("STANDIN_NCCL_GDR", "send")], &[]);
    assert!(code == Some(6) && log.contains("has it on 4 of 8 connections"), "{log}");
    // It is always on: there is no arm without it.
    let (code, _, log) = verdict(&[("STANDIN_NCCL_GDR", "1")], &[]);
    assert!(code == Some(6) && log.contains("has it all the same"), "{log}");
    // A site that keeps NCCL's log to itself leaves no proof.
    let (code, _, log) = verdict(&[("STANDIN_NCCL_GDR", "PXB"), ("NCCL_DEBUG", "WARN")], &[]);
    assert!(code == Some(6) && log.contains("unset it"), "{log}");
}

#[test]
fn where_it_does_not_apply_it_says_why() {
    let (code, text, log) = verdict(&[], &["--json"]);
    assert_eq!(code, Some(3), "{log}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["verdict"], "not applicable");
    assert!(log.contains("does not apply here") && log.contains("no HCA with an active port"), "{log}");
    let home = tempfile::tempdir().unwrap();
    let libraries = library_path(home.path(), "lib", &["cuda", "nccl"]);
    let mut command = gdrtune(home.path());
    command.env("LD_LIBRARY_PATH", libraries).args(["gdr", "--ranks-per-node", "1"]);
    let run = output(&mut command);
    assert_eq!(run.status.code(), Some(3), "{}", stderr(&run));
    assert!(stderr(&run).contains("there is one node"), "{}", stderr(&run));
}

#[test]
fn logs_are_explained_from_files_and_from_standard_input() {
    let logs = root().join("profiles/tests/nccl_logs");
    let home = tempfile::tempdir().unwrap();
    let run = |names: &[&str], args: &[&str]| {
        let mut command = gdrtune(home.path());
        let run = output(command.current_dir(&logs).args(["gdr", "--log"]).args(names).args(args));
        (run.status.code(), String::from_utf8_lossy(&run.stdout).into_owned(), stderr(&run))
    };
    let (code, text, log) = run(&["far-hca-2.19.log"], &[]);
    assert!(
        code == Some(6) && text.contains("far-hca-2.19.log:6: GPU Direct RDMA Disabled for GPU ca000"),
        "{text}{log}"
    );
    let (code, text, log) = run(&["all-direct-2.19.log", "one-node-2.29.log"], &["--json"]);
    assert_eq!(code, Some(0), "{text}{log}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&document["gdr_connections"], &document["hosts"][2]), (&16.into(), &"solo".into()));
    // The same log under another name, too.
    let (_, once, _) = run(&["far-hca-2.19.log"], &[]);
    let (code, text, log) = run(&["far-hca-2.19.log", "./far-hca-2.19.log"], &[]);
    assert!(code == Some(6) && text == once, "{text}{log}");
    assert!(log.contains("./far-hca-2.19.log: the same file again, which counts once"), "{log}");
    let mut narrow = gdrtune(home.path());
    let narrow = output(narrow.current_dir(&logs).env("COLUMNS", "80").args(["gdr", "--log", "far-hca-2.19.log"]));
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(narrow.lines().all(|line| line.chars().count() <= 80) && words(&narrow) == words(&once), "{narrow}");
    let (code, _, log) = run(&["not-nccl.log"], &[]);
    assert!(code == Some(4) && log.contains("NCCL_DEBUG=INFO"), "{log}");
    let (code, _, log) = run(&["missing.log"], &[]);
    assert!(code == Some(2) && log.contains("read missing.log"), "{log}");
    let (code, _, log) = run(&["far-hca-2.19.log"], &["--pairs", "3"]);
    assert!(code == Some(2) && log.contains("cannot be used with"), "{log}");

    let mut command = gdrtune(home.path());
    let mut child = command.args(["gdr", "--log", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let text = fs::read(logs.join("sockets-2.28.log")).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let run = child.wait_with_output().unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.code() == Some(6) && said.contains("-:14: NCCL_IB_DISABLE set by environment to 1."), "{said}");
}

#[test]
fn the_log_of_a_job_of_ours_is_explained() {
    let home = tempfile::tempdir().unwrap();
    let libraries = library_path(home.path(), "lib", &["cuda", "nccl"]);
    let bench = |level: &str| {
        let mut command = gdrtune(home.path());
        command
            .env("LD_LIBRARY_PATH", &libraries)
            .envs([("STANDIN_NCCL_GDR", "PHB"), ("NCCL_DEBUG", "INFO"), ("NCCL_NET_GDR_LEVEL", level)])
            .env("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,NET,ENV")
            .env("NCCL_DEBUG_FILE", home.path().join(format!("{level}.%p")))
            .args([
                "bench",
                "--engine",
                "nccl",
                "--emulate-nodes",
                "--ranks-per-node",
                "2",
                "--sizes",
                "1K",
                "--repeats",
                "1",
            ]);
        let run = output(&mut command);
        assert!(run.status.success(), "{}", stderr(&run));
        let names = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let logs: Vec<String> = names.filter(|name| name.starts_with(&format!("{level}."))).collect();
        assert_eq!(logs.len(), 2, "{logs:?}");
        let mut command = gdrtune(home.path());
        let run = output(command.args(["gdr", "--log"]).args(logs));
        (run.status.code(), String::from_utf8(run.stdout).unwrap())
    };
    let (code, text) = bench("SYS");
    assert!(
        code == Some(0) && text.starts_with("NCCL 2.28.9, 1 host: all 8 connections over the network use"),
        "{text}"
    );
    let (code, text) = bench("PIX");
    assert!(
        code == Some(6) && text.contains("GPU and HCA are PHB apart, further than NCCL_NET_GDR_LEVEL=PIX"),
        "{text}"
    );
}

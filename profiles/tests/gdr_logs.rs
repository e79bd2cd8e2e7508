//! `gdr` on the corpus of `tests/nccl_logs`, each of which names where its lines' forms come from: who uses GPU Direct RDMA, and
//! why the others do not.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use gdrtune_profiles::{
    gdr::{Communicator, Log, Report, render},
    grammar::nccl_log::CommunicatorName,
};
use proptest::prelude::{any, prop_assert, proptest};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nccl_logs")
}

fn logs() -> Vec<(String, Vec<u8>)> {
    let mut logs: Vec<(String, Vec<u8>)> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    logs.sort();
    logs
}

fn read(logs: &[(String, Vec<u8>)]) -> Report {
    let mut log = Log::new();
    for (name, bytes) in logs {
        log.begin(name);
        bytes.split(|byte| *byte == b'\n').for_each(|line| log.take(line));
    }
    log.finish()
}

fn report(name: &str) -> Report {
    read(&logs().into_iter().filter(|(known, _)| known == name).collect::<Vec<_>>())
}

/// `UPDATE_EXPECTED=1 cargo test` writes what is said now: look at the difference.
#[test]
fn every_log_is_explained_as_expected() {
    let logs = logs();
    assert!(20 <= logs.len(), "{}", logs.len());
    let mut now = String::new();
    for log in logs {
        assert!(log.1.starts_with(b"# "), "{} does not say where its lines come from", log.0);
        writeln!(now, "==== {}\n{}", log.0, render::text(&read(std::slice::from_ref(&log)))).unwrap();
    }
    let path = folder().join("expected.txt");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, &now).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), now);
}

#[test]
fn each_log_has_the_reasons_that_it_was_made_for() {
    let mut seen = BTreeSet::new();
    for (name, expected) in [
        ("all-direct-2.19.log", &[][..]),
        ("far-hca-2.19.log", &["distance"]),
        ("far-hca-2.30.log", &["distance"]),
        ("level-below-2.30.log", &["distance"]),
        ("level-loc-2.30.log", &["level"]),
        ("silent-2.30.log", &["gpu-or-distance"]),
        ("no-peer-memory-2.21.log", &["no-peer-memory"]),
        ("no-dma-buf-2.21.log", &["no-peer-memory", "no-peer-memory", "no-peer-memory"]),
        ("reads-off-by-default-2.22.log", &["read-default"]),
        ("reads-off-2.28.log", &["read-disabled"]),
        ("labels-and-cuts-2.24.log", &["distance"]),
        ("sockets-2.28.log", &["no-hca", "ib-disabled", "no-hca-chosen", "socket-asked", "no-verbs", "hca-unused"]),
        ("sockets-untold-2.28.log", &["not-logged"]),
        ("efa-without-2.21.log", &["plugin-cannot"]),
        ("efa-direct-2.18.log", &[]),
        ("pxn-and-parts-2.27.log", &[]),
        ("one-node-2.29.log", &[]),
        ("gpu-cannot-2.26.log", &["gpu-cannot"]),
        ("acs-2.28.log", &[]),
        ("not-nccl.log", &[]),
    ] {
        let report = report(name);
        let found: Vec<&str> = report.reasons.iter().map(|reason| reason.id).collect();
        assert_eq!(found, expected, "{name}");
        // Every connection without it has its reason, and every reason its line, or names what is missing.
        for one in report.communicators.iter().flat_map(|one| &one.ranks).flat_map(|rank| &rank.uses) {
            let is_network = one.path.starts_with("NET/");
            assert_eq!(!one.reasons.is_empty(), is_network && !one.is_gdr, "{name}: {one:?}");
        }
        for reason in &report.reasons {
            assert!(!reason.evidence.is_empty() || reason.fix.contains("NCCL_DEBUG_SUBSYS"), "{name}: {reason:?}");
            assert!(!reason.fix.is_empty(), "{name}");
        }
        seen.insert(name.to_owned());
    }
    assert_eq!(logs().into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>(), seen);
    let problems: Vec<&str> = report("acs-2.28.log").problems.iter().map(|problem| problem.id).collect();
    assert_eq!(problems, ["acs", "local-protection-error", "registration"]);
}

#[test]
fn files_are_read_together_and_the_same_pid_in_another_is_another_process() {
    let one = logs().into_iter().find(|(name, _)| name == "far-hca-2.19.log").unwrap();
    // Of another job.
    let text = String::from_utf8(one.1.clone()).unwrap().replace("commId 0x65", "commId 0x75");
    let again = ("again.log".to_owned(), text.into_bytes());
    let report = read(&[one, again]);
    let ranks: Vec<usize> = report.communicators.iter().map(|communicator| communicator.ranks.len()).collect();
    assert_eq!(ranks, [2, 2]);
    assert_eq!((report.reasons[0].ranks, report.reasons[0].connections), (4, 16));
    let files: BTreeSet<&str> = report.reasons[0].evidence.iter().map(|line| &*line.file).collect();
    assert_eq!(files, BTreeSet::from(["again.log", "far-hca-2.19.log"]));
}

/// A copy of a log, and a log that is there twice in a file, say no more than the log.
#[test]
fn what_is_there_again_counts_once() {
    for (name, bytes) in logs() {
        let once = read(&[(name.clone(), bytes.clone())]);
        let has_id = |one: &Communicator| matches!(one.name, Some(CommunicatorName::Id(_)));
        if once.communicators.is_empty() || !once.communicators.iter().all(has_id) {
            continue;
        }
        let twice = [bytes.as_slice(), b"\n", &bytes].concat();
        let copies =
            [vec![(name.clone(), twice)], vec![(name.clone(), bytes.clone()), ("copy.log".to_owned(), bytes.clone())]];
        for copies in copies {
            let again = read(&copies);
            assert_eq!(again.communicators.len(), once.communicators.len(), "{name}");
            assert_eq!(again.connections(), once.connections(), "{name}");
            let counts = |report: &Report| -> Vec<(u64, u64)> {
                let reasons = report.reasons.iter().map(|reason| (reason.ranks, reason.connections));
                reasons.chain(report.problems.iter().map(|problem| (problem.processes, 0))).collect()
            };
            assert_eq!(counts(&again), counts(&once), "{name}");
            let lost = |note: &String| !note.starts_with("lost lines");
            let ranks: usize = once.communicators.iter().map(|one| one.ranks.len()).sum();
            let note =
                format!("ranks whose lines are in the logs again, which count once: {ranks}; is it a copy of a log?");
            let mut expected: Vec<String> = once.notes.iter().filter(|note| lost(note)).cloned().collect();
            expected.push(note);
            assert_eq!(again.notes.iter().filter(|note| lost(note)).cloned().collect::<Vec<_>>(), expected, "{name}");
        }
    }
}

#[test]
fn a_log_of_a_large_job_is_read_in_the_memory_of_its_ranks() {
    let mut log = Log::new();
    log.begin("job.log");
    let ranks = 1024_u32;
    for rank in 0..ranks {
        let start = format!("n{:03}:{}:7 [{}] NCCL INFO ", rank / 8, 100 + rank % 8, rank % 8);
        log.take(
            format!(
                "{start}comm 0x1 rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - Init START"
            )
            .as_bytes(),
        );
        for channel in 0..32 {
            let next = (rank + 1) % ranks;
            log.take(
                format!("{start}Channel {channel:02}/0 : {rank}[0] -> {next}[0] [send] via NET/IB/{}/GDRDMA", rank % 8)
                    .as_bytes(),
            );
        }
    }
    let report = log.finish();
    assert_eq!(report.connections(), (32 * 1024, 32 * 1024));
    let text = render::text(&report);
    assert!(text.contains("ranks 0-1023 on n000, n001, n002, n003, ..."), "{text}");
    assert!(text.contains("sends     GDR     NET/IB/0-7"), "{text}");
    assert!(text.lines().count() < 10, "equal ranks are folded: {text}");
}

proptest! {
    #[test]
    fn damaged_logs_are_read_without_a_panic(which in 0usize..20, cuts in proptest::collection::vec(any::<(u16, u8)>(), 0..40)) {
        let (name, mut bytes) = logs().swap_remove(which);
        for (at, byte) in cuts {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let report = read(&[(name, bytes)]);
        let (all, direct) = report.connections();
        prop_assert!(direct <= all);
        render::text(&report);
        render::json(&report).to_string();
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let report = read(&[("any".to_owned(), bytes)]);
        render::text(&report);
    }
}

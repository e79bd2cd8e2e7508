//! `gdrtune bench --choices all` and `--csv`: every choice as raw samples that a replay reads, and what a node refuses.

mod common;

use std::fs;

use common::{gdrtune, output, stderr};
use gdrtune_profiles::vocab::{Collective, Environment, Point};
use gdrtune_tuner::replay::Grid;

const MEASURE: [&str; 8] =
    ["bench", "--ranks-per-node", "2", "--collectives", "allreduce,allgather", "--sizes", "1K,4K", "--repeats=2"];

fn point(collective: Collective, bytes: u64) -> Point {
    Point { collective, bytes }
}

#[test]
fn every_choice_is_measured_and_kept() {
    let home = tempfile::tempdir().unwrap();
    let run = output(gdrtune(home.path()).args(MEASURE).args(["--choices", "all", "--csv", "grid.csv"]));
    let message = stderr(&run);
    assert!(run.status.success(), "{message}");
    let table = String::from_utf8(run.stdout).unwrap();
    assert_eq!(table.lines().filter(|line| !line.starts_with('#')).count(), 4, "{table}");

    let grid = Grid::parse(&fs::read_to_string(home.path().join("grid.csv")).unwrap()).unwrap();
    let cells = &grid.environments[&Environment::new()];
    // Ring and tree for all-reduce, three protocols, 1, 2, 4 and 8 channels; and the default. 1 KiB fills no 8 channels.
    let count = |wanted| cells.keys().filter(|(point, _)| *point == wanted).count();
    assert_eq!(count(point(Collective::AllReduce, 4096)), 25);
    assert_eq!(count(point(Collective::AllReduce, 1024)), 19);
    assert!(message.contains("left out: allreduce 1K tree/ll/8: tree/ll/4 ran instead"), "{message}");
    assert!(count(point(Collective::AllGather, 4096)) > 1);
    assert!(cells.values().all(|repeats| repeats.len() == 2 && repeats.iter().all(|r| 1.0 <= r.iterations)));
}

#[test]
fn one_setting_is_kept_the_same_way() {
    let home = tempfile::tempdir().unwrap();
    for (choice, has_choice) in [(None, false), (Some("--choice=ring/simple/2"), true)] {
        let run = output(gdrtune(home.path()).args(MEASURE).args(["--csv", "one.csv", "--force"]).args(choice));
        assert!(run.status.success(), "{}", stderr(&run));
        let grid = Grid::parse(&fs::read_to_string(home.path().join("one.csv")).unwrap()).unwrap();
        let cells = &grid.environments[&Environment::new()];
        assert_eq!(cells.len(), 4);
        assert!(cells.iter().all(|((_, ran), repeats)| ran.is_some() == has_choice && repeats.len() == 2));
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
    let run = output(gdrtune(home.path()).args(MEASURE).args(["--csv", "missing/grid.csv"]));
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("write --csv missing/grid.csv: No such file"), "{}", stderr(&run));
    fs::write(home.path().join("grid.csv"), "an hour's samples\n").unwrap();
    let run = output(gdrtune(home.path()).args(MEASURE).args(["--csv", "grid.csv"]));
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("grid.csv is there already"), "{}", stderr(&run));
    assert_eq!(fs::read_to_string(home.path().join("grid.csv")).unwrap(), "an hour's samples\n");
}

#[test]
fn a_full_disk_ends_the_measuring_and_is_named() {
    let home = tempfile::tempdir().unwrap();
    for more in [&["--choices", "all"][..], &[]] {
        let run = output(gdrtune(home.path()).args(MEASURE).args(["--csv", "/dev/full"]).args(more));
        assert!(!run.status.success());
        assert!(stderr(&run).contains("write --csv /dev/full: No space left"), "{}", stderr(&run));
    }
}

#[test]
fn multicast_that_a_site_has_switched_off_stays_off() {
    let home = tempfile::tempdir().unwrap();
    let with = |own: &str, asked: &str| {
        let mut command = gdrtune(home.path());
        output(command.env("NCCL_NVLS_ENABLE", own).args(MEASURE).args(["--env", asked]))
    };
    let refused = with("0", "NCCL_NVLS_ENABLE=1");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("`NCCL_NVLS_ENABLE` is 0 in this node's own environment"),
        "{}",
        stderr(&refused)
    );
    assert!(with("0", "NCCL_NVLS_ENABLE=0").status.success());
}

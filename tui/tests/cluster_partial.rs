//! Hosts that cannot be used, or are lost: with leave the run goes on without them, and says so wherever its result is.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, output,
    slurm::{Slurm, in_slurm_sandbox},
    stderr,
};
use gdrtune_profiles::profile::Profile;
use serde_json::Value;

const TUNE: [&str; 5] = ["tune", "--sizes", "64K", "--budget", "4s"];

fn store(home: &Path) -> PathBuf {
    let mut runs = fs::read_dir(home.join("state/runs")).unwrap().flatten().map(|entry| entry.path());
    runs.find(|path| path.extension().is_some_and(|extension| extension == "jsonl")).unwrap()
}

fn events(home: &Path) -> Vec<Value> {
    let text = fs::read_to_string(store(home)).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
}

fn profile(home: &Path) -> Profile {
    let text = fs::read_to_string(home.join("out/profile.toml")).unwrap();
    Profile::parse(&text, "profile.toml").unwrap().0
}

/// Of a run that began on `vh[1-4]` and ended on all but vh3: everything that counts is of the three.
fn assert_three(home: &Path, run: &Output, reason: &str) {
    let log = stderr(run);
    assert_eq!(run.status.code(), Some(101), "{log}");
    let profile = profile(home);
    assert_eq!((profile.cluster.nodes, profile.cluster.ranks), (3, 3), "{log}");
    let note = profile.run.notes.join(" ");
    assert!(note.starts_with("3 of 4 hosts, without vh3 (") && note.contains(reason), "{note}");
    for file in ["profile.sh", "summary.md"] {
        let text = fs::read_to_string(home.join("out").join(file)).unwrap();
        assert!(text.contains("3 of 4 hosts, without vh3"), "{file}: {text}");
    }
    let events = events(home);
    let sets: Vec<&Value> = events.iter().filter(|event| event["type"] == "node_set").collect();
    assert_eq!(sets.len(), 1, "{sets:?}");
    let set = sets[0];
    assert_eq!(
        (&set["hosts"], &set["ranks"], &set["left_out"][0]["index"]),
        (&"vh[1-2,4]".into(), &3.into(), &2.into())
    );
    assert!(set["left_out"][0]["why"].as_str().unwrap().contains(reason), "{set}");
    // Trials and processes of different nodes have no number in common.
    let at = events.iter().position(|event| event["type"] == "node_set").unwrap();
    let numbers = |part: &[Value], key: &str| {
        let trials = part.iter().filter(|event| event["type"] == "trial");
        trials.map(|event| event[key].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let (before, after) = events.split_at(at);
    assert!(numbers(before, "process").iter().max() < numbers(after, "process").iter().min());
    let all = [numbers(before, "trial"), numbers(after, "trial")].concat();
    assert_eq!(all, (0..all.len() as u64).collect::<Vec<_>>());
    // The search begins anew: with the default arm, in a script of its own.
    let first = after.iter().find(|event| event["type"] == "script").unwrap();
    assert_eq!(first["setup"]["kind"], "site", "{first}");
}

/// Lets a tune with `--json` run until that many trials are there, does something to the cluster, and waits for its end.
fn disturbed(command: &mut Command, trials: usize, disturb: impl FnOnce()) -> Output {
    let mut child = command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let seen = lines.by_ref().filter(|line| line.contains(r#""type":"trial""#)).take(trials).count();
    assert_eq!(seen, trials, "the run measures");
    disturb();
    lines.for_each(drop);
    child.wait_with_output().unwrap()
}

#[test]
fn a_dead_host_is_left_out_at_the_start() {
    in_sandbox("a_dead_host_is_left_out_at_the_start", || {
        let hosts = VirtualHosts::up(4, None);
        hosts.call(&["kill", "vh3"]);
        let home = tempfile::tempdir().unwrap();
        let on = |words: &[&str]| {
            let mut command = gdrtune(home.path());
            command.args(words).args(["-w", "vh[1-4]", "--ssh-config"]).arg(hosts.ssh_config());
            output(&mut command)
        };
        let bench = ["bench", "--sizes", "1K", "--repeats", "1", "--min-nodes"];
        let run = on(&[&bench[..], &["3"]].concat());
        assert_eq!(run.status.code(), Some(101), "{}", stderr(&run));
        assert!(String::from_utf8_lossy(&run.stdout).contains("engine native, 3 ranks"));
        assert!(stderr(&run).contains("gdrtune: vh3 is left out: start the agent on vh3: "), "{}", stderr(&run));
        let run = on(&[&bench[..], &["5"]].concat());
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));

        let run = on(&[&TUNE[..], &["--headless", "--min-nodes", "3", "--out", "out"]].concat());
        assert_three(home.path(), &run, "unreachable");
        hosts.assert_clean(&["vh1", "vh2", "vh4"]);
    });
}

#[test]
fn a_run_that_loses_a_node_goes_on_with_the_others() {
    in_sandbox("a_run_that_loses_a_node_goes_on_with_the_others", || {
        let hosts = VirtualHosts::up(4, None);
        let home = tempfile::tempdir().unwrap();
        let mut command = gdrtune(home.path());
        command.args(TUNE).args(["-w", "vh[1-4]", "--min-nodes", "3", "--out", "out", "--ssh-config"]);
        let run = disturbed(command.arg(hosts.ssh_config()), 40, || {
            hosts.shell("vh3", "pkill -KILL -f '[g]drtune agent'");
        });
        assert_three(home.path(), &run, "its agent ended");
        hosts.assert_clean(&["vh1", "vh2", "vh3", "vh4"]);
    });
}

/// The allocation that the run is resumed in lacks the node, too.
#[test]
fn a_slurm_job_that_loses_a_node_is_resumed_on_the_remaining_three() {
    in_slurm_sandbox("a_slurm_job_that_loses_a_node_is_resumed_on_the_remaining_three", || {
        let home = tempfile::tempdir().unwrap();
        let slurm = Slurm::up(4, home.path());
        let mut salloc = slurm.command(home.path(), "salloc");
        salloc.args(["-N4", "gdrtune"]).args(TUNE).args(["--engine", "native", "--out", "out"]);
        let run = disturbed(&mut salloc, 40, || {
            slurm.hosts.call(&["kill", "vh3"]);
        });
        let log = stderr(&run);
        assert_eq!(run.status.code(), Some(101), "{log}");
        assert!(log.contains("vh3 is lost: ") && log.contains("gdrtune runs resume "), "{log}");
        assert!(!home.path().join("out").exists(), "no result");
        let before = fs::read(store(home.path())).unwrap();

        let run_id = store(home.path()).file_stem().unwrap().to_str().unwrap().to_owned();
        let resume = format!("gdrtune runs resume {run_id} --headless");
        // Without leave, the fourth is missed.
        let line = format!("{resume}; [ $? = 3 ] && exec {resume} --min-nodes 3");
        let run = slurm.run(home.path(), "salloc", &["-N3", "-xvh3", "sh", "-c", &line]);
        assert_three(home.path(), &run, "not in the allocation");
        assert!(fs::read(store(home.path())).unwrap().starts_with(&before), "what was measured is kept");
        slurm.hosts.assert_clean(&["vh1", "vh2", "vh4"]);
    });
}

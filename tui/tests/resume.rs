//! SIGKILL, and `gdrtune runs resume`: the same end as without it, and nothing measured twice.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{gdrtune, gdrtune_processes, output, root, stderr, wait_until};
use serde_json::Value;

/// Seeds of the moments at which runs are killed.
const KILLS: u64 = 20;

/// Bytes that a child can be ahead of its reader: a page is the least that the system takes.
const PIPE: usize = 4096;

fn runs(home: &Path) -> Vec<PathBuf> {
    fs::read_dir(home.join("state/runs")).unwrap().flatten().map(|entry| entry.path()).collect()
}

fn store(home: &Path) -> PathBuf {
    runs(home).into_iter().find(|path| path.extension().is_some_and(|e| e == "jsonl")).unwrap()
}

fn run_id(home: &Path) -> String {
    store(home).file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The store's whole lines.
fn records(home: &Path) -> Vec<Value> {
    let text = fs::read_to_string(store(home)).unwrap();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().map(|record| &record["event"]).filter(|event| event["type"] == kind).collect()
}

/// Starts a command that prints its events, and kills it once it has printed that many lines. The pipe is small, so that it
/// is not far ahead then.
fn kill_after(command: &mut Command, is_line: impl Fn(&str) -> bool, mut lines: u64) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, PIPE).unwrap();
    let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    // The command keeps the pipe's other end.
    command.stdout(Stdio::null());
    for line in BufReader::with_capacity(256, reader).lines() {
        lines -= u64::from(is_line(&line.unwrap()));
        if lines == 0 {
            break;
        }
    }
    kill(&mut child);
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Evenly spread numbers below `below`, the same for the same seed (splitmix64).
fn random(seed: u64, below: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) % below
}

/// A tune of two points and nine environments on a recorded grid.
fn tune(home: &Path) -> Command {
    let grid = root().join("benches/search/data/h200-emulated-4nodes-env.csv");
    let mut command = gdrtune(home);
    command.args(["tune", "--engine", "replay", "--sizes", "4K,64K", "--trials", "150", "--seed", "3", "--out", "out"]);
    command.arg("--grid").arg(grid);
    command
}

fn resume(home: &Path, more: &[&str]) -> Command {
    let mut command = gdrtune(home);
    command.args(["runs", "resume", &run_id(home)]).args(more);
    command
}

/// What a run leaves, its id and times aside.
fn outcome(home: &Path) -> (String, String, Vec<Value>) {
    let read = |name: &str| fs::read_to_string(home.join("out").join(name)).unwrap();
    let measured = records(home).into_iter().map(|record| record["event"].clone());
    let kinds = ["script", "trial", "script_ended", "best", "verdict"];
    let measured = measured.filter(|event| kinds.iter().any(|kind| event["type"] == *kind)).collect();
    (read("profile.toml").replace(&run_id(home), "RUN"), read("choices.json"), measured)
}

#[test]
fn a_run_killed_at_20_random_moments_resumes_to_the_same_profile() {
    let whole = tempfile::tempdir().unwrap();
    let run = output(tune(whole.path()).arg("--headless"));
    assert!(run.status.success(), "{}", stderr(&run));
    let expected = outcome(whole.path());
    let lines = records(whole.path()).len() as u64;

    for seed in 0..KILLS {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        kill_after(tune(home).arg("--json"), |_| true, 3 + random(seed, lines - 40));
        let mut left = vec![records(home).len() as u64];
        // Every second one is killed once more.
        if seed % 2 == 1 {
            let rest = lines.saturating_sub(left[0] + 40).max(1);
            kill_after(&mut resume(home, &["--json"]), |_| true, 1 + random(seed + KILLS, rest));
            left.push(records(home).len() as u64);
        }
        assert!(of_type(&records(home), "finished").is_empty(), "{left:?} of {lines}: the kill came too late");
        let run = output(&mut resume(home, &["--headless"]));
        assert!(run.status.success(), "killed after {left:?} of {lines} lines: {}", stderr(&run));
        assert_eq!(outcome(home), expected, "killed after {left:?} of {lines} lines");
        assert_eq!(of_type(&records(home), "resumed").len(), left.len());
    }
}

#[test]
fn a_native_run_goes_on_where_it_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let args =
        ["tune", "--sizes", "1K,64K", "--budget", "8s", "--trials", "60", "--ranks-per-node", "2", "--out", "out"];
    kill_after(gdrtune(home).args(args).arg("--json"), |line| line.contains(r#""type":"trial""#), 25);
    let marker = home.display().to_string();
    wait_until("the agent has cleaned up", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
    let before = fs::read_to_string(store(home)).unwrap();
    let trials = of_type(&records(home), "trial").len();

    let run = output(&mut resume(home, &["--headless"]));
    assert!(run.status.success(), "{}", stderr(&run));
    let after = fs::read_to_string(store(home)).unwrap();
    let whole = before.rfind('\n').unwrap() + 1;
    assert!(after.starts_with(&before[..whole]), "what was measured stays as it was");
    let records = records(home);
    let of_trials = of_type(&records, "trial");
    assert!((25..of_trials.len()).contains(&trials), "{trials} of {}", of_trials.len());
    let numbers: Vec<u64> = of_trials.iter().map(|trial| trial["trial"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "none is repeated");
    let process = |trial: &Value| trial["process"].as_u64().unwrap();
    let latest = of_trials[..trials].iter().map(|trial| process(trial)).max().unwrap();
    assert!(of_trials[trials..].iter().all(|trial| process(trial) > latest), "new processes have new numbers");
    let seqs: Vec<u64> = records.iter().map(|record| record["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    let times: Vec<u64> = records.iter().map(|record| record["t_ms"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "the time goes on");
    assert!(home.join("out/profile.toml").is_file());

    // One run, with a line about the resume.
    let said = format!("{trials} trials");
    for args in [["runs", "show"].as_slice(), &["replay"]] {
        let shown = output(gdrtune(home).args(args).arg(run_id(home)));
        let text = String::from_utf8(shown.stdout).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("resumed at ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(&said), "{text}");
    }
    let list = output(gdrtune(home).args(["runs", "list"]));
    assert_eq!(String::from_utf8(list.stdout).unwrap().lines().count(), 2);
}

#[test]
fn what_cannot_be_resumed_is_told() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let grid = home.join("grid.csv");
    fs::copy(root().join("benches/search/data/h200-emulated-4nodes-env.csv"), &grid).unwrap();
    let mut command = gdrtune(home);
    command.args(["tune", "--engine", "replay", "--grid", "grid.csv", "--sizes", "4K", "--trials", "100", "--json"]);
    let refused = |text: &str| {
        let run = output(&mut resume(home, &["--headless"]));
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
        assert!(stderr(&run).contains(text), "{}", stderr(&run));
    };

    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, PIPE).unwrap();
    let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    command.stdout(Stdio::null());
    BufReader::with_capacity(256, reader).lines().take(20).for_each(drop);
    refused(&format!("is still running as pid {} on ", child.id()));
    kill(&mut child);

    // Another run has used the folder since.
    fs::create_dir_all(home.join("gdrtune-out")).unwrap();
    fs::write(home.join("gdrtune-out/choices.json"), "[]").unwrap();
    refused("already holds choices.json of an earlier run");
    fs::remove_file(home.join("gdrtune-out/choices.json")).unwrap();

    let text = fs::read_to_string(&grid).unwrap();
    fs::write(&grid, format!("{text}\n")).unwrap();
    refused("grid.csv is not what it was when run ");
    fs::write(&grid, text).unwrap();

    let run = output(&mut resume(home, &["--headless"]));
    assert!(run.status.success(), "{}", stderr(&run));
    refused("has finished: ");
    refused("gdrtune runs show ");
}

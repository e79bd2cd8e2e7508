//! SIGKILL, and `gdrtune runs resume`: the same end as without it, and nothing measured twice.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines, PipeReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{gdrtune, gdrtune_processes, output, root, standins::library_path, stderr, wait_until};
use serde_json::Value;

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

/// A command that prints its events into a small pipe, so that it is never far ahead of its reader.
fn start(command: &mut Command) -> (Child, Lines<BufReader<PipeReader>>) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, PIPE).unwrap();
    let child = command.arg("--json").stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    // The command keeps the pipe's other end.
    command.stdout(Stdio::null());
    (child, BufReader::with_capacity(256, reader).lines())
}

/// Starts a command, and kills it once it has printed that many lines.
fn kill_after(command: &mut Command, is_line: impl Fn(&str) -> bool, count: u64) {
    let (mut child, mut lines) = start(command);
    let mut left = count;
    while left > 0 {
        let Some(line) = lines.next() else { break };
        left -= u64::from(is_line(&line.unwrap()));
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
    command.args(["tune", "--engine", "replay", "--sizes", "4K,64K", "--trials", "100", "--seed", "3", "--out", "out"]);
    command.arg("--grid").arg(grid);
    command
}

fn resume(home: &Path) -> Command {
    let mut command = gdrtune(home);
    command.args(["runs", "resume", &run_id(home)]);
    command
}

/// What a run leaves, its id and times aside.
fn outcome(home: &Path) -> (String, String, Vec<Value>) {
    let read = |name: &str| fs::read_to_string(home.join("out").join(name)).unwrap();
    let measured = records(home).into_iter().map(|record| record["event"].clone());
    let kinds = ["script", "trial", "script_ended", "best", "verdict"];
    let mut measured: Vec<Value> = measured.filter(|event| kinds.iter().any(|kind| event["type"] == *kind)).collect();
    // Emitted files name the run.
    measured
        .iter_mut()
        .filter_map(|event| event["setup"].as_object_mut())
        .for_each(|setup| drop(setup.remove("sha256")));
    (read("profile.toml").replace(&run_id(home), "RUN"), read("choices.json"), measured)
}

#[test]
fn a_run_killed_at_20_random_moments_resumes_to_the_same_profile() {
    killed_runs_resume_to_the_same_profile(tune, 20);
}

#[test]
fn a_simulated_run_killed_at_any_moment_resumes_to_the_same_profile() {
    let tune = |home: &Path| {
        let mut command = gdrtune(home);
        command.args(["tune", "--engine", "sim", "--cluster", "ll-larger", "--sizes", "256K-16M"]);
        command.args(["--trials", "150", "--seed", "3", "--out", "out"]);
        command
    };
    killed_runs_resume_to_the_same_profile(tune, 6);
}

/// Kills runs at random moments, every second one once more, and compares what comes of them with a run that is left alone.
fn killed_runs_resume_to_the_same_profile(tune: fn(&Path) -> Command, kills: u64) {
    let whole = tempfile::tempdir().unwrap();
    let run = output(tune(whole.path()).arg("--headless"));
    assert!(run.status.success(), "{}", stderr(&run));
    let expected = outcome(whole.path());
    let lines = records(whole.path()).len() as u64;

    for seed in 0..kills {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        kill_after(&mut tune(home), |_| true, 3 + random(seed, lines - 40));
        let mut left = vec![records(home).len() as u64];
        if seed % 2 == 1 {
            let rest = lines.saturating_sub(left[0] + 40).max(1);
            kill_after(&mut resume(home), |_| true, 1 + random(seed + kills, rest));
            left.push(records(home).len() as u64);
        }
        assert!(of_type(&records(home), "finished").is_empty(), "{left:?} of {lines}: the kill came too late");
        let run = output(resume(home).arg("--headless"));
        assert!(run.status.success(), "killed after {left:?} of {lines} lines: {}", stderr(&run));
        let (profile, choices, measured) = outcome(home);
        assert_eq!((&profile, &choices), (&expected.0, &expected.1), "killed after {left:?} of {lines} lines");
        let differing = measured.iter().zip(&expected.2).find(|(measured, expected)| measured != expected);
        assert_eq!(differing, None, "killed after {left:?} of {lines} lines");
        assert_eq!(measured.len(), expected.2.len(), "nothing is measured twice");
        assert_eq!(of_type(&records(home), "resumed").len(), left.len());
    }
}

#[test]
fn a_simulated_run_goes_on_with_the_same_cluster_alone() {
    let text = fs::read_to_string(root().join("tuner/clusters/slow-hca.toml")).unwrap();
    for cluster in ["c.toml", "slow-hca"] {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        fs::write(home.join("c.toml"), &text).unwrap();
        let args = ["tune", "--engine", "sim", "--cluster", cluster, "--trials", "200"];
        kill_after(gdrtune(home).args(args), |_| true, 40);
        // One changes in its file, the other with gdrtune, so that the hash that the run began with is another one.
        fs::write(home.join("c.toml"), text.replace("12.0", "24.0")).unwrap();
        let stored = fs::read_to_string(store(home)).unwrap();
        if cluster == "slow-hca" {
            let begun = of_type(&records(home), "invoked")[0]["inputs"][0]["sha256"].as_str().unwrap().to_owned();
            fs::write(store(home), stored.replace(&begun, "sha256:0")).unwrap();
        }
        let run = output(resume(home).arg("--headless"));
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
        assert!(stderr(&run).contains(&format!("{cluster} is not what it was when run ")), "{}", stderr(&run));

        fs::write(home.join("c.toml"), &text).unwrap();
        fs::write(store(home), stored).unwrap();
        let run = output(resume(home).arg("--headless"));
        assert!(run.status.success(), "{}", stderr(&run));
    }
}

#[test]
fn a_native_run_goes_on_where_it_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let args =
        ["tune", "--sizes", "1K,64K", "--budget", "8s", "--trials", "60", "--ranks-per-node", "2", "--out", "out"];
    kill_after(gdrtune(home).args(args), |line| line.contains(r#""type":"trial""#), 25);
    let marker = home.display().to_string();
    wait_until("the agent has cleaned up", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
    let before = fs::read_to_string(store(home)).unwrap();
    let trials = of_type(&records(home), "trial").len();

    let run = output(resume(home).arg("--headless"));
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
fn a_run_of_nccl_goes_on_with_the_same_nccl_and_the_same_site() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let libraries = library_path(home, "lib", &["cuda", "nccl"]);
    let at_site = |command: &mut Command| {
        command
            .env("LD_LIBRARY_PATH", &libraries)
            .env("STANDIN_NCCL_COSTS", "allreduce:tree:ll=500,allreduce:*:*=4000");
    };
    let mut command = gdrtune(home);
    command.args(["tune", "--engine", "nccl", "--emulate-nodes", "--ranks-per-node", "2", "--sizes", "4K"]);
    command.args(["--trials", "40", "--budget", "30s", "--exclude", "NCCL_BUFFSIZE"]);
    at_site(&mut command);
    kill_after(&mut command, |line| line.contains(r#""type":"trial""#), 12);
    let marker = home.display().to_string();
    let wait =
        || wait_until("the agent has cleaned up", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
    wait();
    let trials = of_type(&records(home), "trial").len();

    for (name, value, expected) in [
        ("STANDIN_NCCL_VERSION", "22705", r#"has `probed`: version was "2.28.9" and is "2.27.5""#),
        ("NCCL_NTHREADS", "256", "has `site`: environments[0][1].NCCL_NTHREADS was nothing and is \"256\""),
    ] {
        let mut command = resume(home);
        at_site(&mut command);
        let run = output(command.arg("--headless").env(name, value));
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
        assert!(stderr(&run).contains(expected), "{}", stderr(&run));
        assert_eq!(of_type(&records(home), "trial").len(), trials);
        wait();
    }
    let mut command = resume(home);
    at_site(&mut command);
    let run = output(command.arg("--headless"));
    assert!(run.status.success(), "{}", stderr(&run));
    let records = records(home);
    let numbers: Vec<u64> = of_type(&records, "trial").iter().map(|trial| trial["trial"].as_u64().unwrap()).collect();
    assert!(trials < numbers.len());
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "none is repeated");
    wait();
}

#[test]
fn what_cannot_be_resumed_is_told() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let grid = home.join("grid.csv");
    fs::copy(root().join("benches/search/data/h200-emulated-4nodes-env.csv"), &grid).unwrap();
    let mut command = gdrtune(home);
    command.args(["tune", "--engine", "replay", "--grid", "grid.csv", "--sizes", "4K", "--trials", "100"]);
    let refused = |text: &str| {
        let run = output(resume(home).arg("--headless"));
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
        assert!(stderr(&run).contains(text), "{}", stderr(&run));
    };

    let (mut child, mut lines) = start(&mut command);
    lines.by_ref().take(20).for_each(drop);
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

    let run = output(resume(home).arg("--headless"));
    assert!(run.status.success(), "{}", stderr(&run));
    refused("has finished: ");
    refused("gdrtune runs show ");
}

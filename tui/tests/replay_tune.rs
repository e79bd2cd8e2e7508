//! `gdrtune tune --engine replay` as a user runs it: a recorded grid in, a labelled profile out, nothing measured.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use common::{gdrtune, output, root, stderr};
use gdrtune_profiles::{
    grammar::{
        ncclx,
        tuner_csv::{Call, RuleTable},
    },
    profile::{Profile, Rule},
    vocab::Collective,
};
use serde_json::Value;

const HEADER: &str = "collective,bytes,algorithm,protocol,channels,mean_us";

/// Three collectives of eight ranks on two nodes. Ring with two channels is half the default's time, but for broadcast, where
/// nothing is faster; a tree is recorded for small all-reduces only, and no default for the all-gather of 1 MiB.
fn small_grid() -> String {
    let mut text = format!("nodes,ranks,{HEADER}\n");
    let mut row = |collective: &str, bytes: u64, choice: &str, time_us: f64| {
        for repeat in 0..4 {
            let time_us = time_us * (1.0 + 0.01 * f64::from(repeat));
            writeln!(text, "2,8,{collective},{bytes},{choice},{time_us:.2}").unwrap();
        }
    };
    for (collective, best) in [("allreduce", 0.5), ("allgather", 0.5), ("broadcast", 1.2)] {
        for (index, bytes) in [1u64 << 10, 1 << 15, 1 << 20].into_iter().enumerate() {
            let default_us = 50.0 * 4f64.powi(index as i32);
            if (collective, bytes) != ("allgather", 1 << 20) {
                row(collective, bytes, "default,default,0", default_us);
            }
            row(collective, bytes, "ring,ll,2", default_us * best);
            row(collective, bytes, "ring,simple,4", default_us * 1.4);
            if collective == "allreduce" && bytes < 1 << 20 {
                row(collective, bytes, "tree,ll,1", default_us * 2.0);
            }
        }
    }
    text
}

/// Two levels: with `NCCL_NSOCKS_PERTHREAD=4` everything takes 60 %, and a tree saves a little more.
fn two_levels() -> String {
    let mut text = format!("nsocks_perthread,buffsize,{HEADER}\n");
    for (sockets, buffer, factor) in
        [("8", "1048576", 1.5), ("1", "4194304", 1.0), ("4", "4194304", 0.6), ("4", "1048576", 0.9)]
    {
        for bytes in [1u64 << 12, 1 << 16, 1 << 20, 1 << 24] {
            for (choice, time_us) in [("default,default,0", 100.0), ("ring,simple,1", 97.0), ("tree,simple,1", 90.0)] {
                for repeat in 0..3 {
                    let time_us = factor * (time_us + f64::from(repeat));
                    writeln!(text, "{sockets},{buffer},allreduce,{bytes},{choice},{time_us}").unwrap();
                }
            }
        }
    }
    text
}

/// One run; its folder and what it said.
struct Run {
    home: tempfile::TempDir,
    said: String,
}

impl Run {
    /// Replays `grid` with more arguments; it must succeed.
    fn on(grid: &Path, more: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = gdrtune(home.path());
        command.args(["tune", "--engine", "replay", "--headless", "--out", "out", "--grid"]).arg(grid).args(more);
        let run = output(&mut command);
        assert!(run.status.success(), "{more:?}: {}", stderr(&run));
        Self { said: stderr(&run), home }
    }

    /// The same on a grid's text.
    fn of(text: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grid.csv");
        fs::write(&path, text).unwrap();
        Self::on(&path, more)
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join("out").join(name)).unwrap()
    }

    fn choices(&self) -> Vec<Value> {
        serde_json::from_str(&self.file("choices.json")).unwrap()
    }

    /// The events of the run store.
    fn events(&self) -> Vec<Value> {
        let stored = fs::read_dir(self.home.path().join("state/runs")).unwrap().flatten().next().unwrap().path();
        let text = fs::read_to_string(stored).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
    }

    /// Trials before the A/B.
    fn searched(&self) -> usize {
        let events = self.events();
        let before_ab = events.iter().take_while(|event| event["phase"] != "verify");
        before_ab.filter(|event| event["type"] == "trial").count()
    }
}

fn recorded(name: &str) -> PathBuf {
    root().join("benches/search/data").join(name)
}

#[test]
fn a_grid_of_any_shape_gives_a_labelled_profile() {
    let run = Run::of(&small_grid(), &["--trials", "160", "--seed", "3"]);
    for name in ["profile.toml", "profile.sh", "profile.env", "nccl.conf", "nccl-tuner.csv", "profile.json"] {
        assert!(run.file(name).to_lowercase().contains("replay"), "{name} is not labelled: {}", run.file(name));
    }
    let summary = run.file("summary.md");
    assert!(summary.contains("a **replayed** grid") && summary.contains("\nreplayed: "), "{summary}");
    let profile = run.file("profile.toml");
    for text in ["engine = \"replay\"", "nodes = 2", "ranks = 8", "collective = \"allgather\"", "protocol = \"ll\""] {
        assert!(profile.contains(text), "no {text}: {profile}");
    }
    assert!(!profile.contains("collective = \"broadcast\""), "the default is best there: {profile}");
    // Rules of a replay say nothing about a real cluster.
    assert!(run.file("nccl-tuner.csv").lines().all(|line| line.starts_with('#')));

    for text in ["REPLAYED: from a recorded grid", "engine replay, 2 nodes grid.csv, 8 ranks", "replayed: "] {
        assert!(run.said.contains(text), "no {text}: {}", run.said);
    }
    assert!(run.said.contains("left out, as they have no `default` row: allgather 1M"), "{}", run.said);

    // Everything that could be tuned has its pick, also where nothing ships.
    let points: BTreeSet<(String, u64)> = run
        .choices()
        .iter()
        .map(|c| (c["collective"].as_str().unwrap().into(), c["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(points.len(), 8, "{points:?}");
    for choice in run.choices().iter().filter(|choice| choice["collective"] != "broadcast") {
        assert_eq!(choice["choice"], serde_json::json!({"algorithm": "ring", "protocol": "ll", "channels": 2}));
    }

    let runs = output(gdrtune(run.home.path()).arg("runs"));
    let runs = String::from_utf8(runs.stdout).unwrap();
    assert!(runs.contains("replay") && runs.contains("tuned"), "{runs}");
    let id = runs.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    let again = output(gdrtune(run.home.path()).args(["replay", id]));
    assert!(String::from_utf8(again.stdout).unwrap().contains("REPLAYED"), "a shown run is labelled as it was");
}

#[test]
fn a_setting_ships_through_the_emitted_files() {
    let run = Run::of(&two_levels(), &["--trials", "400"]);
    let profile = run.file("profile.toml");
    assert!(profile.contains("NCCL_NSOCKS_PERTHREAD\"\nvalue = \"4\""), "{profile}");
    assert!(!profile.contains("NCCL_BUFFSIZE"), "it is slower: {profile}");
    let said = &run.said;
    assert!(
        said.contains("the default arm is the `default` rows with NCCL_BUFFSIZE=4194304 NCCL_NSOCKS_PERTHREAD=1"),
        "{said}"
    );
    assert!(said.contains("does not say how many ranks"), "{said}");
    for text in [said, &run.file("summary.md")] {
        assert!(text.contains("NCCL_NSOCKS_PERTHREAD mattered: 1."), "{text}");
    }
    let mut candidates = run.events().into_iter().filter(|event| event["arm"] == "candidate");
    let is_deployed = |event: Value| event["environment"]["NCCL_NSOCKS_PERTHREAD"] == "4";
    assert!(candidates.any(is_deployed), "the A/B runs by the files");
}

#[test]
fn a_choice_that_no_profile_can_hold_is_picked_and_left_out() {
    // A tree for all-gather exists in neither engine.
    let text = small_grid().replace("allgather,1024,ring,ll,2", "allgather,1024,tree,ll,2");
    let run = Run::of(&text, &["--trials", "160"]);
    let choice = run.choices().into_iter().find(|c| c["collective"] == "allgather" && c["bytes"] == 1024).unwrap();
    assert_eq!(choice["choice"]["algorithm"], "tree");
    let summary = run.file("summary.md");
    assert!(summary.contains("allgather 1K tree/ll/2: replay has no tree for allgather"), "{summary}");
    assert!(run.file("profile.toml").contains("collective = \"allreduce\""));
}

#[test]
fn the_same_seed_gives_the_same_files() {
    let grid = recorded("h200-emulated-4nodes.csv");
    let run = |seed: &str| Run::on(&grid, &["--trials", "400", "--seed", seed, "--collectives", "allreduce,broadcast"]);
    let without_id = |run: &Run| {
        let profile = run.file("profile.toml");
        profile.lines().filter(|line| !line.starts_with("id = ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (one, same, other) = (run("5"), run("5"), run("6"));
    assert_eq!(one.file("choices.json"), same.file("choices.json"));
    assert_eq!(without_id(&one), without_id(&same));
    assert_ne!(one.file("choices.json"), other.file("choices.json"), "the seed matters");
    assert_eq!(one.choices().len(), 18);
}

#[test]
fn trials_are_never_exceeded_and_recorded_cells_alone_are_asked_for() {
    let grid = recorded("h200-emulated-4nodes.csv");
    for trials in [60, 750] {
        let run = Run::on(&grid, &["--trials", &trials.to_string()]);
        assert!(run.searched() <= trials, "{} of {trials}", run.searched());
        let is_failed = |event: &Value| event["result"]["outcome"] == "failed";
        assert_eq!(run.events().iter().filter(|event| is_failed(event)).count(), 0, "cells that are not there");
        let reached = run.choices().len();
        if trials == 750 {
            assert_eq!(reached, 45);
            plugins_run_what_the_profile_states(&run, &grid);
        } else {
            let text = format!("{} of 45 points have no pick: 60 trials did not reach them", 45 - reached);
            assert!(run.said.contains(&text), "{}", run.said);
        }
    }
}

/// At each measured size, the emitted rule files give the choice that the profile states: in NVIDIA's plugin, in ours, in NCCLX.
fn plugins_run_what_the_profile_states(run: &Run, grid: &Path) {
    let formats = ["emit", "out/profile.toml", "--for-engine", "replay", "--out", "rules", "--format"];
    let emitted = output(gdrtune(run.home.path()).args(formats).arg("tuner-csv,stock-csv,ncclx-csv"));
    assert!(emitted.status.success(), "{}", stderr(&emitted));
    let text = |name: &str| fs::read_to_string(run.home.path().join("rules").join(name)).unwrap();
    let table = |name: &str| RuleTable::parse_whole(&text(name), name).unwrap();
    let (ours, stock) = (table("nccl-tuner.csv"), table("nccl-tuner-stock.csv"));
    let ncclx_rules = ncclx::parse_csv(&text("ncclx-tuner.csv")).unwrap();

    let (profile, _) = Profile::parse(&run.file("profile.toml"), "profile.toml").unwrap();
    let (nodes, ranks) = (profile.cluster.nodes, profile.cluster.ranks);
    let recorded = fs::read_to_string(grid).unwrap();
    let measured: BTreeSet<(Collective, u64)> = recorded
        .lines()
        .skip(1)
        .map(|line| {
            let columns: Vec<&str> = line.split(',').collect();
            (columns[1].parse().unwrap(), columns[2].parse().unwrap())
        })
        .collect();
    assert_eq!(measured.len(), 45);
    let mut with_rule = 0;
    for (collective, bytes) in measured {
        let rule = profile.rule.iter().find(|rule| rule.collective == collective && rule.bytes.contains(bytes));
        let stated = rule.map(Rule::choice);
        let call = Call::new(collective, bytes, nodes, ranks);
        assert_eq!(ours.lookup(&call), stated, "{collective} {bytes}");
        assert_eq!(ncclx::lookup(&ncclx_rules, collective, bytes, nodes, ranks), stated, "NCCLX: {collective} {bytes}");
        let (choice, channels) = stock.example_plugin(&call);
        assert!(choice.is_some(), "{collective} {bytes}: one channel");
        if let Some(stated) = stated {
            with_rule += 1;
            assert_eq!(choice, Some((stated.algorithm, stated.protocol)), "{collective} {bytes}");
            assert!(stated.channels == 0 || stated.channels == channels, "{collective} {bytes}: {channels}");
        }
    }
    assert!(with_rule >= 10, "the profile has rules for {with_rule} of 45 points");
}

#[test]
fn simulated_time_ends_a_replay_only_if_asked_for() {
    // A sample takes two seconds or more of simulated time: the five minutes of a cluster's run are over before 30.
    let mut text = small_grid().replace(",mean_us", ",iterations,mean_us");
    for choice in ["default,default,0", "ring,ll,2", "ring,simple,4", "tree,ll,1"] {
        text = text.replace(choice, &format!("{choice},40000"));
    }
    let free = Run::of(&text, &["--trials", "30"]);
    assert_eq!(free.searched(), 30);
    let bound = Run::of(&text, &["--trials", "30", "--budget", "5m"]);
    assert!(bound.searched() < 30, "{}", bound.searched());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.csv");
    fs::write(&path, text).unwrap();
    let args = ["tune", "--engine", "replay", "--budget", "1s", "--headless", "--grid"];
    let short = output(gdrtune(folder.path()).args(args).arg(&path));
    assert_eq!(short.status.code(), Some(2), "{}", stderr(&short));
    assert!(stderr(&short).contains("the time was over before any choice was measured: give a longer --budget"));
}

#[test]
fn wrong_use_says_what_to_do() {
    let good = format!("{HEADER}\nallreduce,1024,default,default,0,9\nallreduce,1024,ring,ll,1,5\n");
    let replay = ["--engine", "replay", "--grid", "g.csv"];
    let with = |more: &[&'static str]| [&replay[..], more].concat();
    let no_default = format!("{HEADER}\nallreduce,1024,ring,ll,1,5\n");
    let cases: &[(&str, Vec<&str>, &[&str])] = &[
        (&good, vec!["--grid", "g.csv"], &["--grid: the native engine", "add --engine replay"]),
        (&good, vec!["--engine", "replay"], &["needs a recorded grid", "--grid FILE.csv"]),
        (&good, with(&["-w", "node1"]), &["--hosts: --engine replay reaches no host", "leave it out"]),
        (&good, with(&["--fanout", "32"]), &["--fanout: --engine replay"]),
        (&good, with(&["--graph"]), &["--graph: --engine replay"]),
        (&good, with(&["--shapes", "2x1,4x1"]), &["--shapes 2x1,4x1: a recorded grid is of one job shape"]),
        (&good, with(&["--collectives", "reduce"]), &["g.csv has no reduce", "it has allreduce"]),
        (&good, with(&["--sizes", "2K"]), &["g.csv has no 2K", "it has 1K"]),
        (&good, with(&["--trials", "1"]), &["--trials 1 is too few for 1 point(s)", "give 2 or more"]),
        (&good, with(&["--pin", "NCCL_BUFFSIZE=1048576"]), &["the grid has no rows for", "NCCL_BUFFSIZE=1048576"]),
        ("", replay.to_vec(), &["g.csv: the grid is empty"]),
        (HEADER, replay.to_vec(), &["g.csv: the grid has a header and no rows"]),
        ("1,2,3\n", replay.to_vec(), &["g.csv: line 1, column 1: unknown column `1`", "collective, bytes"]),
        ("collectve,bytes\n", replay.to_vec(), &["g.csv: line 1", "`collectve`; did you mean `collective`?"]),
        (
            &no_default,
            replay.to_vec(),
            &["g.csv: no row has the algorithm `default`", "allreduce,1024,default,default,0"],
        ),
        (&good[..good.len() - 27], replay.to_vec(), &["g.csv has `default` rows only", "--choices all"]),
    ];
    for (text, args, expected) in cases {
        refused(text.as_bytes(), args, expected);
    }
    for (row, expected) in [
        ("allreduce,x,ring,ll,1,5", "g.csv: line 4, column `bytes`: `x` is no number"),
        ("allreduce,1024,ring,ll,1,fast", "g.csv: line 4, column `mean_us`: `fast` is no number"),
        ("allreduce,1024,rign,ll,1,5", "unknown algorithm `rign`: use one of"),
        ("allreduce,1024,rign,ll,1,5", "did you mean `ring`?"),
        ("allreduce,1024,ring,ll,1", "g.csv: line 4: 5 fields where the header has 6"),
    ] {
        refused(format!("{good}{row}\n").as_bytes(), &replay, &[expected]);
    }
    refused(b"a,b\n\xff", &replay, &["g.csv: line 2: not UTF-8 text"]);
    let missing = ["--engine", "replay", "--grid", "none.csv"];
    refused(good.as_bytes(), &missing, &["read --grid none.csv", "No such file"]);
    let home = tempfile::tempdir().unwrap();
    let bench = output(gdrtune(home.path()).args(["bench", "--engine", "replay"]));
    assert_eq!(bench.status.code(), Some(2));
    assert!(stderr(&bench).contains("--engine replay: nothing runs on hosts with it: use tune"), "{}", stderr(&bench));
}

/// Expects wrong use with `text` as g.csv: code 2, these words, and no folder.
fn refused(text: &[u8], args: &[&str], expected: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("g.csv"), text).unwrap();
    let run = output(gdrtune(home.path()).args(["tune", "--headless", "--out", "out"]).args(args));
    let message = stderr(&run);
    assert_eq!(run.status.code(), Some(2), "{args:?}: {message}");
    for words in expected {
        assert!(message.contains(words), "{args:?}: no `{words}` in: {message}");
    }
    assert!(!home.path().join("out").exists(), "{args:?}");
}

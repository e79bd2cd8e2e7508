//! `gdrtune tune --engine sim` as a user runs it: a cluster of the library or a file in, a labelled profile out.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{collections::BTreeSet, fs, path::PathBuf};

use common::{gdrtune, output, root, stderr};
use serde_json::Value;

/// Files that carry their label.
const LABELLED: [&str; 8] = [
    "profile.toml",
    "profile.sh",
    "profile.env",
    "nccl.conf",
    "nccl-tuner.csv",
    "profile.json",
    "report.html",
    "report.md",
];

/// One run: its folder, how it ended, and what it said.
struct Run {
    home: tempfile::TempDir,
    code: Option<i32>,
    said: String,
}

impl Run {
    /// Tunes a cluster of the library with more arguments.
    fn of(cluster: &str, more: &[&str]) -> Self {
        Self::at(tempfile::tempdir().unwrap(), cluster, more)
    }

    /// Tunes a cluster file's text.
    fn of_text(text: &str, more: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("c.toml"), text).unwrap();
        Self::at(home, "c.toml", more)
    }

    fn at(home: tempfile::TempDir, cluster: &str, more: &[&str]) -> Self {
        let mut command = gdrtune(home.path());
        command.args(["tune", "--engine", "sim", "--cluster", cluster, "--headless", "--out", "out"]).args(more);
        let run = output(&mut command);
        Self { code: run.status.code(), said: stderr(&run), home }
    }

    /// Standard output of another command about this run.
    fn ask(&self, args: &[&str]) -> String {
        String::from_utf8(output(gdrtune(self.home.path()).args(args)).stdout).unwrap()
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join("out").join(name)).unwrap()
    }

    /// The profile without the run's id.
    fn profile(&self) -> String {
        self.file("profile.toml").replace(&self.id(), "RUN")
    }

    fn store(&self) -> PathBuf {
        let runs = fs::read_dir(self.home.path().join("state/runs")).unwrap().flatten().map(|entry| entry.path());
        runs.into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap()
    }

    fn id(&self) -> String {
        self.store().file_stem().unwrap().to_str().unwrap().to_owned()
    }

    /// The events of the run store.
    fn all_events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.store()).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
    }

    /// Those of one kind.
    fn events(&self, kind: &str) -> Vec<Value> {
        self.all_events().into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Collectives and sizes that were tuned.
    fn points(&self) -> (BTreeSet<String>, BTreeSet<u64>) {
        let points = self.events("run_started")[0]["points"].as_array().unwrap().clone();
        let collectives = points.iter().map(|point| point["collective"].as_str().unwrap().to_owned()).collect();
        (collectives, points.iter().map(|point| point["bytes"].as_u64().unwrap()).collect())
    }
}

fn library(name: &str) -> String {
    fs::read_to_string(root().join("tuner/clusters").join(name).with_extension("toml")).unwrap()
}

#[test]
fn a_planted_setting_ships_and_everything_is_labelled() {
    let run = Run::of("slow-hca", &[]);
    assert_eq!(run.code, Some(0), "{}", run.said);
    let profile = run.file("profile.toml");
    for text in ["engine = \"sim\"", "nodes = 8", "ranks = 64", "name = \"NCCL_IB_HCA\"\nvalue = \"^=mlx5_3\""] {
        assert!(profile.contains(text), "no {text}: {profile}");
    }
    assert_eq!(profile.matches("[[env]]").count(), 1, "{profile}");
    for name in LABELLED {
        assert!(run.file(name).to_lowercase().contains("sim"), "{name} is not labelled: {}", run.file(name));
    }
    let summary = run.file("summary.md");
    for text in ["a **simulated** cluster", "\nsimulated: ", "the simulated cluster slow-hca"] {
        assert!(summary.contains(text), "no {text}: {summary}");
    }
    for text in [
        "engine sim, 8 nodes slow-hca, 64 ranks",
        "SIMULATED: from a model of a cluster",
        "slow-hca is simulated: one slow HCA",
        "space slow-hca: 18 environments",
        "simulated: ",
    ] {
        assert!(run.said.contains(text), "no {text}: {}", run.said);
    }
    let (list, show, again) =
        (run.ask(&["runs"]), run.ask(&["runs", "show", &run.id()]), run.ask(&["replay", &run.id()]));
    assert!(list.contains(" sim ") && list.contains("slow-hca"), "{list}");
    assert!(show.contains("engine sim, 8 nodes slow-hca") && show.contains("tuned: simulated: "), "{show}");
    assert!(again.contains("SIMULATED: "), "a shown run is labelled as it was: {again}");
}

#[test]
fn a_report_is_made_from_the_store_alone_and_is_the_same_each_time() {
    let run = Run::of("null", &["--trials", "60", "--seed", "3"]);
    assert!(run.said.contains("\nreport: out/report.html\n"), "{}", run.said);
    let headline = "inconclusive, so the defaults stay: the search was over before it tried any setting, with 1 of 54 environments; \
                    give a larger --trials";
    assert!(run.said.contains(headline) && run.code == Some(0), "{:?}: {}", run.code, run.said);
    assert_eq!(run.events("finished").last().unwrap()["end"], "inconclusive");
    assert!(run.ask(&["runs"]).contains("inconclusive"), "{}", run.ask(&["runs"]));
    assert!(run.file("report.md").contains("**Inconclusive**: "), "{}", run.file("report.md"));
    let (html, markdown) = (run.file("report.html"), run.file("report.md"));
    let (csv, json) = (run.ask(&["runs", "export", "last"]), run.ask(&["runs", "export", "last", "--format", "json"]));
    for named in ["out", "out/profile.toml"] {
        assert_eq!(run.ask(&["report", named]), markdown, "{named}");
    }
    fs::remove_dir_all(run.home.path().join("out")).unwrap();
    assert_eq!(run.ask(&["report", "last"]), markdown, "where nothing is asked for");
    let id = run.id();
    let files =
        ["--html", "r.html", "--markdown", "r.md", "--csv", "r.csv", "--json", "r.json", "--nccl-tests", "r.txt"];
    assert_eq!(run.ask(&[&["report", &id, "--svg", "plots"][..], &files].concat()), "");
    let made = |name: &str| fs::read_to_string(run.home.path().join(name)).unwrap();
    assert_eq!([made("r.html"), made("r.md"), made("r.csv"), made("r.json")], [html.clone(), markdown, csv, json]);
    assert!(
        made("r.txt").starts_with("# gdrtune ") && made("r.txt").contains("\n#\n# allreduce, default, "),
        "{}",
        made("r.txt")
    );
    for plot in ["busbw", "latency", "speedup", "choices"] {
        assert!(made(&format!("plots/allreduce-{plot}.svg")).starts_with("<svg xmlns="), "{plot}");
    }
    fs::write(run.home.path().join("d.json"), output(gdrtune(run.home.path()).args(["doctor", "--json"])).stdout)
        .unwrap();
    let diagnosed = run.ask(&["report", "last", "--doctor", "d.json"]);
    assert!(diagnosed.contains(" SKIP, as doctor said of its hosts, at another time than the run."), "{diagnosed}");
    let no_diagnosis = output(gdrtune(run.home.path()).args(["report", "last", "--doctor", "r.json"]));
    assert_eq!(no_diagnosis.status.code(), Some(2));
    assert!(stderr(&no_diagnosis).contains("r.json is not what `gdrtune doctor --json` prints"));
    let refused = output(gdrtune(run.home.path()).args(["report", "last", "--html", "new.html", "--csv", "r.csv"]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("r.csv is there already") && !run.home.path().join("new.html").exists());
    assert_eq!(run.ask(&["report", "last", "--csv", "r.csv", "--force"]), "");
    let copy = run.home.path().join("copy.jsonl");
    fs::copy(run.store(), &copy).unwrap();
    for args in [
        &["last", "--force", "--html", "new.html", "--markdown", "./new.html"][..],
        &["last", "copy.jsonl", "--html", "folder"],
        &["last", "--csv", "none/a.csv", "--json", "./none/a.csv"],
    ] {
        let refused = output(gdrtune(run.home.path()).arg("report").args(args));
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(stderr(&refused).contains("two files would be written to "), "{args:?}: {}", stderr(&refused));
        assert!(!["new.html", "folder", "none"].iter().any(|made| run.home.path().join(made).exists()), "{args:?}");
    }
    let store = run.store();
    let twice = output(gdrtune(run.home.path()).args(["report", "last"]).arg(&store).args(["--html", "all"]));
    assert_eq!(twice.status.code(), Some(2), "one would replace the other");
    assert!(stderr(&twice).contains("two files would be written to all/"), "{}", stderr(&twice));
    fs::write(run.home.path().join("other.jsonl"), fs::read_to_string(&store).unwrap().replace(&id, "other")).unwrap();
    let several = run.ask(&["report", "last", "other.jsonl", "--html", "all", "--svg", "all"]);
    assert_eq!((several, made(&format!("all/{id}.html"))), (String::new(), html), "of several, a folder");
    assert!(made("all/other.html").contains("other"));
    assert!(made(&format!("all/{id}/allreduce-busbw.svg")).contains("</svg>"));
}

#[test]
fn a_report_that_cannot_be_made_leaves_no_file() {
    let run = Run::of("null", &["--trials", "60", "--no-report", "--expect-gain"]);
    assert_eq!(run.code, Some(5), "inconclusive is no gain: {}", run.said);
    assert!(!run.said.contains("report: "), "{}", run.said);
    let out = run.home.path().join("out");
    assert!(out.join("profile.toml").exists() && !out.join("report.html").exists() && !out.join("report.md").exists());
    fs::write(
        run.home.path().join("x.jsonl"),
        "{\"seq\":0,\"t_ms\":0,\"event\":{\"type\":\"phase\",\"phase\":\"done\"}}\n",
    )
    .unwrap();
    fs::write(run.home.path().join("p.toml"), include_str!("../../profiles/tests/golden/nccl.toml")).unwrap();
    for (args, message) in [
        (&["nothing"][..], "no run `nothing` in "),
        (&["p.toml"], "the store of run 2026-11-29T14:02:11Z-7f3a is not here"),
        (&["x.jsonl"], "x.jsonl is no run: its first record is not the beginning of one"),
        (&["last", "x.jsonl"], "x.jsonl is no run"),
        (&["last", "--markdown", "none/r.md"], "write none/r.md: No such file"),
    ] {
        let tried = output(gdrtune(run.home.path()).arg("report").args(args).args(["--html", "r.html"]));
        assert!(stderr(&tried).contains(message), "{args:?}: {}", stderr(&tried));
        let made: Vec<_> = fs::read_dir(run.home.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(!made.iter().any(|name| name.to_string_lossy().contains("r.html")), "{made:?}");
    }
    // A folder with somebody's report in it is not taken.
    fs::remove_dir_all(&out).unwrap();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("report.md"), "mine").unwrap();
    let tried = output(gdrtune(run.home.path()).args([
        "tune",
        "--engine",
        "sim",
        "--cluster",
        "null",
        "--headless",
        "--out",
        "out",
    ]));
    assert!(tried.status.code() == Some(2) && stderr(&tried).contains("already holds report.md"), "{}", stderr(&tried));
}

#[test]
fn rules_of_a_simulation_are_live_for_that_engine_alone() {
    let run = Run::of("ll-larger", &[]);
    assert_eq!(run.code, Some(0), "{}", run.said);
    assert!(run.file("profile.toml").contains("[[rule]]"), "{}", run.file("profile.toml"));
    let is_live = |line: &str| !line.starts_with('#');
    assert!(!run.file("nccl-tuner.csv").lines().any(is_live), "{}", run.file("nccl-tuner.csv"));
    let live = run.ask(&["emit", "out/profile.toml", "--format", "tuner-csv", "--for-engine", "sim"]);
    assert!(live.lines().any(is_live) && live.contains("SIMULATED"), "{live}");
    let other = run.ask(&["emit", "out/profile.toml", "--format", "tuner-csv", "--for-engine", "native"]);
    assert!(!other.lines().any(is_live), "{other}");
}

/// At a P(faster) of 0.95, chance ships something in one of twenty.
#[test]
fn where_all_is_noise_nothing_ships_but_by_chance() {
    let mut lucky = 0;
    for seed in ["1", "2", "3", "4", "5"] {
        let run = Run::of("null", &["--seed", seed, "--expect-gain"]);
        let profile = run.file("profile.toml");
        let is_empty = !profile.contains("[[env]]") && !profile.contains("[[rule]]");
        assert_eq!(run.code, Some(if is_empty { 5 } else { 0 }), "seed {seed}: {}", run.said);
        lucky += usize::from(!is_empty);
    }
    assert!(lucky <= 1, "{lucky} of 5");
}

#[test]
fn the_same_seed_gives_the_same_files() {
    let run = |seed: &str| Run::of("rail-optimised", &["--seed", seed, "--trials", "600"]);
    let (one, same, other) = (run("5"), run("5"), run("6"));
    assert_eq!(one.file("choices.json"), same.file("choices.json"));
    assert_eq!(one.profile(), same.profile());
    assert_ne!(one.file("choices.json"), other.file("choices.json"), "the seed matters");
}

#[test]
fn hangs_crashes_and_wrong_results_are_trials_that_failed() {
    for (cluster, never, expected) in [
        ("hanging-choice", "tree\"\nprotocol = \"ll\"", ["hung", "crashed"].as_slice()),
        ("ll128-wrong", "ll128", &["wrong"]),
    ] {
        let run = Run::of(cluster, &[]);
        assert_eq!(run.code, Some(100), "{cluster}: {}", run.said);
        let kinds: BTreeSet<String> = run
            .events("trial")
            .iter()
            .filter(|trial| trial["result"]["outcome"] == "failed")
            .map(|trial| trial["result"]["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected.iter().copied().collect());
        let profile = run.file("profile.toml");
        assert!(profile.contains("[[rule]]") && !profile.contains(never), "{cluster}: {profile}");
    }
}

#[test]
fn a_lost_node_ends_the_run_and_its_store_is_whole() {
    let text = format!("{}\n[[fault]]\nkind = \"lost-node\"\nat_s = 30\n", library("rail-optimised"));
    let run = Run::of_text(&text, &[]);
    assert_eq!(run.code, Some(101), "{}", run.said);
    for words in ["a node is gone since 30 s of simulated time", "the cluster file says so: take its lost-node out"] {
        assert!(run.said.contains(words), "no {words}: {}", run.said);
    }
    assert!(!run.home.path().join("out/profile.toml").exists());
    let trials = run.events("trial").len();
    assert!(trials > 0);
    assert_eq!(run.events("finished").last().unwrap()["end"], "nodes_lost");
    assert!(run.ask(&["runs"]).contains("nodes lost"), "{}", run.ask(&["runs"]));

    // It stays lost, and nothing is measured twice.
    let again = output(gdrtune(run.home.path()).args(["runs", "resume", &run.id(), "--headless"]));
    assert_eq!(again.status.code(), Some(101), "{}", stderr(&again));
    assert_eq!(run.events("trial").len(), trials);
}

#[test]
fn points_are_the_files_unless_the_user_says_otherwise() {
    let file = library("rail-optimised");
    let without = file.split("[truth]").next().unwrap();
    let few = ["--trials", "60"];
    let points = |text: &str, more: &[&str]| Run::of_text(text, &[&few, more].concat()).points();
    let (listed, sizes) = points(&file, &[]);
    assert!(listed.contains("allreduce") && sizes.contains(&(1 << 28)), "{listed:?} {sizes:?}");
    let one = |name: &str| BTreeSet::from([name.to_owned()]);
    assert_eq!(points(&file, &["--collectives", "broadcast"]), (one("broadcast"), sizes));
    assert_eq!(points(&file, &["--sizes", "2K"]), (listed, BTreeSet::from([2048])));
    let usual = (0..9).map(|step| 1024 << (2 * step)).collect();
    assert_eq!(points(without, &[]), (one("allreduce"), usual));
    let (collectives, _) = points(&file, &["--workload", "moe-alltoall"]);
    assert!(collectives.contains("alltoall"), "{collectives:?}");
}

#[test]
fn what_is_pinned_left_out_and_added_holds() {
    let more = [
        "--pin",
        "NCCL_CROSS_NIC=0",
        "--exclude",
        "tree",
        "--exclude",
        "NCCL_PXN_DISABLE",
        "--add",
        "NCCL_BUFFSIZE=8388608",
    ];
    let run = Run::of("rail-optimised", &[&more[..], &["--trials", "200"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.said);
    let space = &run.events("space")[0];
    let names: Vec<&str> = space["dimensions"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["NCCL_BUFFSIZE", "NCCL_CROSS_NIC", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_NET_GDR_LEVEL"]);
    assert_eq!(space["dimensions"]["NCCL_CROSS_NIC"], serde_json::json!(["0"]));
    assert_eq!(space["dimensions"]["NCCL_BUFFSIZE"], serde_json::json!([null, "8388608"]));
    assert!(space["choices"].as_array().unwrap().iter().all(|choice| choice["algorithm"] != "tree"), "{space}");
}

#[test]
fn simulated_time_ends_a_search_that_is_given_some() {
    // When the verification begins.
    let searched_s = |run: &Run| {
        let events = run.all_events();
        let search = events.iter().take_while(|event| event["phase"] != "verify");
        search.filter_map(|event| event["clock_s"].as_f64()).last().unwrap()
    };
    let bound = Run::of("rail-optimised", &["--budget", "1m"]);
    assert_eq!(bound.code, Some(0), "{}", bound.said);
    let started = &bound.events("run_started")[0];
    assert_eq!((&started["budget_s"], &started["max_trials"]), (&serde_json::json!(60.0), &Value::Null));
    let free = Run::of("rail-optimised", &[]);
    assert_eq!(free.events("run_started")[0]["max_trials"], 4000);
    assert!(searched_s(&bound) < 60.0 && 60.0 < searched_s(&free), "{} {}", searched_s(&bound), searched_s(&free));
}

#[test]
fn wrong_use_says_what_to_do() {
    let good = library("slow-hca");
    let sim = ["--engine", "sim", "--cluster", "c.toml"];
    let with = |more: &[&'static str]| [&sim[..], more].concat();
    let cases: &[(Vec<&str>, &[&str])] = &[
        (vec!["--engine", "sim"], &["needs a cluster", "--cluster FILE.toml"]),
        (vec!["--cluster", "slow-hca"], &["--cluster: the native engine reads none", "add --engine sim"]),
        (vec!["--engine", "nccl", "--cluster", "slow-hca"], &["--cluster: the nccl engine", "leave --cluster out"]),
        (with(&["--grid", "g.csv"]), &["--grid: the sim engine reads none", "leave --grid out"]),
        (
            vec!["--engine", "sim", "--cluster", "slow-hcaa"],
            &["--cluster: unknown cluster `slow-hcaa`", "did you mean `slow-hca`?"],
        ),
        (vec!["--engine", "sim", "--cluster", "none.toml"], &["--cluster: read none.toml", "No such file"]),
        (with(&["-w", "node1"]), &["--hosts: --engine sim reaches no host", "leave it out"]),
        (with(&["--ranks-per-node", "4"]), &["--ranks-per-node: --engine sim"]),
        (with(&["--emulate-nodes"]), &["--emulate-nodes: --engine sim"]),
        (with(&["--shapes", "2x8"]), &["--shapes: a simulated cluster is of one job shape", "leave it out"]),
        (with(&["--space", "full"]), &["--space: the [search] of the cluster file", "--add, --pin and --exclude"]),
        (
            with(&["--pin", "NCCL_NVLS_ENABLE=0"]),
            &["NCCL_NVLS_ENABLE changes nothing on a simulated cluster: use one of NCCL_BUFFSIZE"],
        ),
        (with(&["--add", "NCCL_MAX_CTAS=8"]), &["NCCL_MAX_CTAS changes nothing", "did you mean `NCCL_MIN_CTAS`?"]),
        (with(&["--pin", "NCCL_IB_HCA==mlx5_9"]), &["NCCL_IB_HCA"]),
        (with(&["--sizes", "3"]), &["--sizes: 3 bytes are no whole number of float32 elements"]),
        (with(&["--trials", "1"]), &["--trials 1 is too few for 7 point(s)", "give 14 or more"]),
    ];
    for (args, expected) in cases {
        refused(&good, args, expected);
    }
    for (right, wrong, expected) in [
        ("nodes = 8", "nods = 8", "c.toml:4:1: unknown field `nods`"),
        ("nodes = 8", "nods = 8", "did you mean `nodes`?"),
        ("nodes = 8", "nodes = 0", "c.toml:4:9: 0 must be at least 1"),
        ("nodes = 8", "nodes = ", "c.toml:4:"),
        ("NCCL_PXN_DISABLE =", "NCCL_PXN_DISABLED =", "did you mean `NCCL_PXN_DISABLE`?"),
    ] {
        refused(&good.replacen(right, wrong, 1), &sim, &[expected]);
    }
}

/// Expects wrong use with `text` as c.toml: code 2, these words, and no files.
fn refused(text: &str, args: &[&str], expected: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("c.toml"), text).unwrap();
    let run = output(gdrtune(home.path()).args(["tune", "--headless", "--out", "out"]).args(args));
    let message = stderr(&run);
    assert_eq!(run.status.code(), Some(2), "{args:?}: {message}");
    for words in expected {
        assert!(message.contains(words), "{args:?}: no `{words}` in: {message}");
    }
    assert!(!home.path().join("out/profile.toml").exists(), "{args:?}");
}

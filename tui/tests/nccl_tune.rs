//! `gdrtune tune --engine nccl`, end to end, with stand-ins in the place of CUDA and NCCL: what ships, what every fault
//! costs, and what is said of a library or a GPU that is no good.
//!
//! The stand-in takes the time that `STANDIN_NCCL_COSTS` says, and the factors there are so large that a busy machine
//! does not turn them around.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{collections::BTreeSet, fs, time::Duration};

use common::{gdrtune, gdrtune_processes, output, standins::library_path, stderr, wait_until};
use serde_json::Value;

/// NCCL's own choice is ring/simple.
const TREE_LL_IS_BEST: &str = "allreduce:tree:ll=500,allreduce:*:*=4000";
const RING_LL_IS_BEST: &str = "allreduce:ring:ll=500,allreduce:*:*=4000";
const OWN_CHOICE_IS_BEST: &str = "own=500,allreduce:*:*=4000";

/// Leaves the choices as the only thing to search.
const CHOICES_ONLY: [&str; 10] = [
    "--exclude",
    "NCCL_BUFFSIZE",
    "--exclude",
    "NCCL_MIN_CTAS",
    "--exclude",
    "NCCL_NSOCKS_PERTHREAD",
    "--exclude",
    "NCCL_NTHREADS",
    "--exclude",
    "NCCL_SOCKET_NTHREADS",
];

/// Two ranks that pose as two nodes.
const TWO_NODES: [&str; 3] = ["--emulate-nodes", "--ranks-per-node", "2"];

struct Lab {
    home: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

/// A run that is over.
struct Ended {
    code: Option<i32>,
    /// Progress and messages.
    log: String,
    /// Lines of the run store.
    records: Vec<Value>,
}

impl Lab {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let libraries = library_path(home.path(), "lib", &["cuda", "nccl"]);
        let path = libraries.to_str().unwrap().to_owned();
        Self { home, variables: vec![("LD_LIBRARY_PATH", path)] }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.to_owned()));
    }

    /// Runs gdrtune; nothing of it may be left afterwards.
    fn run(&self, args: &[&str]) -> Ended {
        let runs = self.home.path().join("state/runs");
        let names =
            || -> BTreeSet<_> { fs::read_dir(&runs).into_iter().flatten().map(|e| e.unwrap().path()).collect() };
        let before = names();
        let mut command = gdrtune(self.home.path());
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).args(args).args(TWO_NODES);
        let run = output(&mut command);
        let log = stderr(&run);
        assert!(!log.contains("panicked"), "{log}");
        let stores: Vec<_> =
            names().difference(&before).filter(|p| p.extension().is_some_and(|e| e == "jsonl")).cloned().collect();
        let text = stores.first().map(|path| fs::read_to_string(path).unwrap()).unwrap_or_default();
        let records = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let marker = self.home.path().display().to_string();
        wait_until("no process is left", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
        Ended { code: run.status.code(), log, records }
    }

    fn tune(&self, args: &[&str]) -> Ended {
        let usual = ["tune", "--engine", "nccl", "--headless", "--budget", "20s", "--out", "out", "--force"];
        self.run(&[&usual[..], args].concat())
    }

    /// Tunes what NCCL may choose at one size, within a few trials.
    fn tune_choices(&self, args: &[&str]) -> Ended {
        self.tune(&[&["--sizes", "4K", "--trials", "40"][..], &CHOICES_ONLY, args].concat())
    }

    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join("out").join(name)).unwrap()
    }

    /// Rules that ship: collective, bounds, algorithm, protocol, channels, nodes, ranks, ...
    fn rules(&self) -> Vec<Vec<String>> {
        let text = self.written("nccl-tuner.csv");
        let rules = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        rules.map(|line| line.split(',').map(str::to_owned).collect()).collect()
    }

    /// The one rule that ships, as size, algorithm and protocol.
    fn only_rule(&self) -> [String; 3] {
        let rules = self.rules();
        assert_eq!(rules.len(), 1, "{rules:?}");
        [1, 3, 4].map(|field| rules[0][field].clone())
    }
}

impl Ended {
    fn expect(&self, code: i32, texts: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.log);
        for text in texts {
            assert!(self.log.contains(text), "no `{text}` in: {}", self.log);
        }
        self
    }

    fn events<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.records.iter().map(|record| &record["event"]).filter(move |event| event["type"] == kind)
    }

    fn trials<'a>(&'a self, arm: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events("trial").filter(move |trial| trial["arm"] == arm)
    }

    /// Trials of the search that asked for this algorithm and protocol.
    fn requested(&self, algorithm: &str, protocol: &str) -> Vec<&Value> {
        let asks = |t: &&Value| t["requested"]["algorithm"] == algorithm && t["requested"]["protocol"] == protocol;
        self.trials("search").filter(asks).collect()
    }

    fn processes(&self, arm: &str) -> BTreeSet<u64> {
        self.trials(arm).map(|trial| trial["process"].as_u64().unwrap()).collect()
    }
}

#[test]
fn a_clear_winner_ships_is_confirmed_and_later_refuted() {
    let mut lab = Lab::new().with("STANDIN_NCCL_COSTS", TREE_LL_IS_BEST);
    let run = lab.tune_choices(&[]);
    run.expect(0, &["EMULATED", "NCCL 2.28.9, Stand-in GPU", "1 rule of 1"]);
    let rules = lab.rules();
    assert_eq!(rules.len(), 1, "{rules:?}");
    let channels = rules[0][5].clone();
    assert_eq!(rules[0].join(","), format!("allreduce,4096,4096,tree,ll,{channels},2,2,-1,-1"));
    let profile = lab.written("profile.toml");
    for line in ["engine = \"nccl\"", "nccl = \"2.28.9\"", "gpu = \"Stand-in GPU\"", "emulated = true"] {
        assert!(profile.lines().any(|l| l == line), "no `{line}` in: {profile}");
    }

    // Both arms had many processes of their own, and the candidate's ran the rule through the plugin that ships.
    let (default, candidate) = (run.processes("default"), run.processes("candidate"));
    assert!(7 <= candidate.len() && 7 <= default.len() && default.is_disjoint(&candidate), "{default:?} {candidate:?}");
    for trial in run.trials("candidate") {
        let selected = &trial["selected"];
        assert_eq!(
            (&trial["requested"], &selected["algorithm"], &selected["protocol"]),
            (&Value::Null, &"tree".into(), &"ll".into())
        );
        assert_eq!(selected["channels"].to_string(), channels);
    }
    // More channels than NCCL has: it runs what it can, and nobody gets that time.
    for trial in run.requested("tree", "ll").iter().filter(|t| t["requested"]["channels"].as_u64() > Some(2)) {
        assert_eq!((&trial["result"]["kind"], &trial["selected"]["channels"]), (&"substituted".into(), &2.into()));
    }
    let predicted: Vec<&Value> = run.events("predicted").collect();
    assert_eq!(predicted[0]["times_us"].as_array().unwrap().len(), 4, "LL128 is not allowed: {predicted:?}");
    // The search begins with what the stand-in predicts to be fast: ring/simple 20 us, tree/simple 25, ring/ll 30, tree/ll 40.
    let name = |trial: &Value, part: &str| trial["requested"][part].as_str().map(str::to_owned).unwrap_or_default();
    let first: Vec<_> = run
        .trials("search")
        .take(4)
        .map(|trial| ["algorithm", "protocol"].map(|part| name(trial, part)).join("/"))
        .collect();
    assert_eq!(first, ["ring/simple", "tree/simple", "ring/ll", "tree/ll"]);
    assert!(run.requested("tree", "ll128").is_empty() && run.requested("ring", "ll128").is_empty());
    let engine = &run.events("workers_started").next().unwrap()["engine"];
    assert_eq!((&engine["version"], &engine["gdr"]), (&"2.28.9".into(), &"off".into()), "{engine}");

    let verify = ["verify", "out/profile.toml", "--sizes", "4K"];
    lab.run(&verify).expect(0, &[]);
    lab.set("STANDIN_NCCL_COSTS", "allreduce:tree:ll=4000,allreduce:*:*=500");
    lab.run(&verify).expect(102, &[]);

    // Another library is warned about, another GPU refused.
    let rewrite =
        |from: &str, to: &str| fs::write(lab.home.path().join("out/profile.toml"), profile.replace(from, to)).unwrap();
    rewrite("nccl = \"2.28.9\"", "nccl = \"2.27.3\"");
    let warned = lab.run(&verify);
    warned.expect(102, &["NCCL: the profile was measured with 2.27.3, and here is 2.28.9"]);
    rewrite("Stand-in GPU", "Other GPU");
    lab.run(&verify).expect(3, &["the profile is of another GPU: Other GPU, and here is Stand-in GPU"]);
}

#[test]
fn the_defaults_stay_where_nothing_beats_them() {
    let lab = Lab::new().with("STANDIN_NCCL_COSTS", OWN_CHOICE_IS_BEST);
    lab.tune_choices(&[]).expect(0, &["the defaults are best"]);
    assert_eq!(lab.rules(), [[""; 0]; 0]);
    lab.tune_choices(&["--expect-gain"]).expect(5, &["the defaults are best"]);
    assert_eq!(lab.rules(), [[""; 0]; 0]);
}

#[test]
fn a_hung_choice_costs_its_deadline_and_is_given_up() {
    let lab = Lab::new().with("STANDIN_NCCL_COSTS", RING_LL_IS_BEST);
    let lab = lab.with("STANDIN_NCCL_FAULT", "hang:allreduce:tree:ll:1");
    let run = lab.tune_choices(&["--trial-timeout", "1s"]);
    run.expect(100, &[]);
    assert_eq!(lab.only_rule()[1..], ["ring", "ll"]);
    let tried = run.requested("tree", "ll");
    assert!((1..=3).contains(&tried.len()), "given up after three: {tried:?}");
    assert!(tried.iter().all(|trial| trial["result"]["kind"] == "hung"), "{tried:?}");
    for pair in run.records.windows(2).filter(|pair| pair[1]["event"]["result"]["kind"] == "hung") {
        let took_ms = pair[1]["t_ms"].as_u64().unwrap() - pair[0]["t_ms"].as_u64().unwrap();
        assert!((900..4000).contains(&took_ms), "the deadline and no more: {took_ms} ms");
    }
}

/// Tunes where `fault` happens to tree/ll, and ring/ll is much faster than NCCL's own choice.
fn tune_with(fault: &str, code: i32) -> Ended {
    let lab = Lab::new().with("STANDIN_NCCL_COSTS", RING_LL_IS_BEST).with("STANDIN_NCCL_FAULT", fault);
    let run = lab.tune_choices(&[]);
    run.expect(code, &["1 rule of 1"]);
    assert_eq!(lab.only_rule(), ["4096", "ring", "ll"].map(str::to_owned));
    run
}

#[test]
fn a_choice_that_crashes_or_fails_is_given_up() {
    for (fault, text) in [("crash", "rank 1 was killed by signal"), ("error", "no algorithm/protocol available")] {
        let run = tune_with(&format!("{fault}:allreduce:tree:ll:1"), 100);
        let tried = run.requested("tree", "ll");
        assert!((1..=3).contains(&tried.len()), "given up after three: {tried:?}");
        for trial in tried {
            assert_eq!(trial["result"]["kind"], "crashed");
            assert!(trial["result"]["detail"].as_str().unwrap().contains(text), "{trial}");
        }
    }
}

#[test]
fn one_wrong_element_bans_the_choice_with_any_channels() {
    let run = tune_with("wrong:allreduce:tree:ll:1", 100);
    let [trial] = run.requested("tree", "ll")[..] else { panic!("{:?}", run.requested("tree", "ll")) };
    assert_eq!(trial["result"]["kind"], "wrong");
    let detail = trial["result"]["detail"].as_str().unwrap();
    assert!(!detail.contains(" 0 wrong elements"), "the rank that found it tells: {detail}");
}

#[test]
fn a_late_rank_is_waited_for() {
    let run = tune_with("late:allreduce:tree:ll:1", 0);
    assert!(run.requested("tree", "ll").iter().any(|trial| trial["result"]["outcome"] == "timed"));
}

#[test]
fn the_time_of_what_ran_instead_is_not_credited() {
    let lab = Lab::new().with("STANDIN_NCCL_COSTS", TREE_LL_IS_BEST);
    let lab = lab.with("STANDIN_NCCL_FAULT", "substitute:allreduce:ring:ll:tree:ll:2");
    let run = lab.tune_choices(&[]);
    run.expect(0, &[]);
    assert_eq!(lab.only_rule()[1..], ["tree", "ll"], "what really ran");
    let tried = run.requested("ring", "ll");
    assert!(!tried.is_empty());
    for trial in tried {
        let (result, selected) = (&trial["result"], &trial["selected"]);
        assert_eq!((&result["outcome"], &result["kind"]), (&"failed".into(), &"substituted".into()));
        assert_eq!((&selected["algorithm"], &selected["protocol"]), (&"tree".into(), &"ll".into()));
    }
}

#[test]
fn sizes_at_which_the_gpu_fails_are_left_out() {
    // Two buffers of 4 KiB have room, larger ones have not; or copies of 64 KiB fail as after an illegal address.
    for (name, value, code, why) in [
        ("STANDIN_CUDA_MEMORY", "20000", 0, "out of memory"),
        ("STANDIN_CUDA_FAULT", "copy:65536", 100, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ] {
        let lab = Lab::new().with("STANDIN_NCCL_COSTS", TREE_LL_IS_BEST).with(name, value);
        let run = lab.tune(&[&["--sizes", "4K,64K,256K", "--trials", "40"][..], &CHOICES_ONLY].concat());
        let left_out =
            |line: &str, size: &str| line.contains(&format!("allreduce {size} is left out")) && line.contains(why);
        for size in ["64K", "256K"] {
            assert!(run.log.lines().any(|line| left_out(line, size)), "{why} at {size}: {}", run.log);
        }
        run.expect(code, &[]);
        assert!(!run.log.contains("does not take choices"), "{}", run.log);
        assert_eq!(lab.only_rule(), ["4096", "tree", "ll"].map(str::to_owned), "{why}");
    }
}

#[test]
fn a_gpu_that_fails_at_every_size_ends_the_run_and_is_not_the_plugins_fault() {
    let lab = Lab::new().with("STANDIN_CUDA_FAULT", "copy:4096");
    let run = lab.tune(&["--sizes", "4K"]);
    run.expect(1, &["could not show which choices it takes", "measure the default arm: allreduce 4K"]);
    assert!(!run.log.contains("does not take choices"), "{}", run.log);
}

#[test]
fn without_a_plugin_only_settings_are_searched_and_no_rule_ships() {
    let settings =
        ["--sizes", "4K", "--trials", "20", "--exclude", "NCCL_BUFFSIZE", "--exclude", "NCCL_NSOCKS_PERTHREAD"];
    for (name, value) in [("STANDIN_NCCL_BYPASS", "1"), ("STANDIN_NCCL_VERSION", "22003")] {
        let lab = Lab::new().with("STANDIN_NCCL_COSTS", TREE_LL_IS_BEST).with(name, value);
        let run = lab.tune(&settings);
        run.expect(0, &["does not take choices from a tuner plugin here: process-level settings only"]);
        assert_eq!(lab.rules(), [[""; 0]; 0]);
        assert!(run.events("trial").all(|trial| trial["requested"].is_null()));
        let space = run.events("space").next().unwrap();
        assert_eq!(space["choices"], Value::Array(vec![]), "{space}");
    }
}

#[test]
fn a_library_or_driver_that_is_no_good_is_one_clear_error() {
    let fails = |lab: &Lab, args: &[&str], texts: &[&str]| {
        let run = lab.tune_choices(args);
        run.expect(3, texts);
        assert_eq!(run.events("trial").count(), 0);
        assert!(!lab.home.path().join("out/profile.toml").exists());
    };
    let texts = "NET/IB : no device found|transport.cc:201 cannot connect";
    fails(&Lab::new().with("STANDIN_NCCL_INIT_ERROR", texts), &[], &["NCCL 2.28.9", "transport.cc:201 cannot connect"]);
    fails(
        &Lab::new(),
        &["--nccl", "/nonexistent/libnccl.so.2"],
        &["cannot load NCCL: /nonexistent/libnccl.so.2", "--nccl PATH"],
    );
    for (kind, texts) in [("cuda", ["libnccl.so.2: ", "libnccl.so: "]), ("nccl", ["libcuda.so.1: ", "libcuda.so: "])] {
        let mut lab = Lab::new();
        let path = library_path(lab.home.path(), "partly", &[kind]);
        lab.set("LD_LIBRARY_PATH", path.to_str().unwrap());
        fails(&lab, &[], &texts);
    }
}

#[test]
fn what_the_site_forces_stays_and_what_the_user_says_holds() {
    let lab = Lab::new().with("STANDIN_NCCL_COSTS", OWN_CHOICE_IS_BEST).with("NCCL_NVLS_ENABLE", "0");
    let run =
        lab.tune(&["--sizes", "4K", "--trials", "30", "--exclude", "NCCL_BUFFSIZE", "--pin", "NCCL_NTHREADS=256"]);
    run.expect(0, &["NCCL_NVLS_ENABLE is set there and stays as it is"]);
    let dimensions = run.events("space").next().unwrap()["dimensions"].as_object().unwrap();
    assert_eq!(dimensions["NCCL_NTHREADS"], Value::Array(vec!["256".into()]));
    let left_alone = ["NCCL_NVLS_ENABLE", "NCCL_BUFFSIZE"];
    assert!(1 < dimensions.len() && left_alone.iter().all(|name| !dimensions.contains_key(*name)), "{dimensions:?}");
    let environments = |arm| run.trials(arm).map(|trial| trial["environment"].as_object().unwrap());
    assert!(environments("default").all(serde_json::Map::is_empty), "the site's own");
    let mut tried = environments("search").peekable();
    assert!(tried.peek().is_some());
    for environment in tried {
        assert_eq!(environment["NCCL_NTHREADS"], "256");
        assert!(left_alone.iter().all(|name| !environment.contains_key(*name)), "{environment:?}");
    }
    for name in ["profile.env", "profile.sh", "nccl.conf"] {
        assert!(!lab.written(name).lines().any(|l| !l.starts_with('#') && l.contains("NVLS")), "{name}");
    }
}

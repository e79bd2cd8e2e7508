//! `gdrtune explain`, `diff`, `verify` with its course, and `completions`, as a user runs them.

mod common;

use std::{fs, path::Path, process::Command};

use common::{gdrtune, output, skip, stderr, stdout};
use gdrtune_profiles::profile::{ByteRange, Profile, Rule};
use serde_json::Value;

const NATIVE: &str = include_str!("../../profiles/tests/golden/native.toml");

/// Tunes a simulated cluster into a folder of its name.
fn tune(home: &Path, cluster: &str, more: &[&str]) {
    let run = output(
        gdrtune(home).args(["tune", "--engine", "sim", "--cluster", cluster, "--out", cluster, "--quiet"]).args(more),
    );
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
}

/// Runs a command; its standard output, once it ended as expected.
fn told(home: &Path, args: &[&str], code: i32) -> String {
    let run = output(gdrtune(home).args(args));
    assert_eq!(run.status.code(), Some(code), "{args:?}: {}", stderr(&run));
    stdout(&run)
}

/// Runs a command that ends with code 2; what it says.
fn refused(home: &Path, args: &[&str]) -> String {
    let run = output(gdrtune(home).args(args));
    assert_eq!(run.status.code(), Some(2), "{args:?}: {}", stderr(&run));
    stderr(&run)
}

#[test]
fn profiles_and_runs_are_explained_and_compared() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    tune(home, "bimodal-channels", &[]);
    tune(home, "cross-rail-broken", &["--trials", "600"]);

    // A rule, by profile and by run; both tell the same of it.
    let by_profile = told(home, &["explain", "bimodal-channels", "allreduce", "64K"], 0);
    for text in
        ["SIMULATED", "decided by   rule", "NCCL's own choice: here tree/ll/8", "smaller", "tried in the search"]
    {
        assert!(by_profile.contains(text), "no `{text}` in {by_profile}");
    }
    let runs = home.join("state/runs");
    let mut stores: Vec<_> = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    stores.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let holds = |path: &&std::path::PathBuf| fs::read_to_string(path).unwrap().contains("\"bimodal-channels\"");
    let store = stores.iter().find(holds).unwrap().to_str().unwrap();
    let by_run = told(home, &["explain", store, "allreduce", "64K"], 0);
    let after = |text: &str| text.split_once("\n\n").map(|(_, rest)| rest.to_owned()).unwrap();
    assert_eq!(after(&by_run), after(&by_profile));

    // A setting; and what the same run says without its store.
    let setting = told(home, &["explain", "cross-rail-broken", "--env", "NCCL_CROSS_NIC"], 0);
    assert!(
        setting.starts_with("NCCL_CROSS_NIC=0\n") && setting.contains("over all sizes against the defaults"),
        "{setting}"
    );
    let beyond = told(home, &["explain", "bimodal-channels", "allreduce", "1024G"], 0);
    assert!(beyond.contains("no rule: none for sizes") && beyond.contains("NCCL's own choice"), "{beyond}");
    let table = told(home, &["explain", "bimodal-channels", "--table", "--json"], 0);
    let table: Value = serde_json::from_str(&table).unwrap();
    assert!(table["collectives"][0]["decisions"].as_array().unwrap().len() > 2, "{table}");
    let unknown = refused(home, &["explain", "bimodal-channels", "allredcue"]);
    assert!(unknown.contains("did you mean `allreduce`?"), "{unknown}");
    assert!(refused(home, &["explain", "no-such-thing"]).contains("no run `no-such-thing`"));

    // Two profiles, and one with itself.
    let (a, b) = ("bimodal-channels", "cross-rail-broken");
    let changes = told(home, &["diff", a, b, "--exit-code"], 6);
    assert!(changes.starts_with("--- profile bimodal-channels/profile.toml\n+++ "), "{changes}");
    for text in ["# fingerprint: ", "+ NCCL_CROSS_NIC=0", "- allreduce"] {
        assert!(changes.lines().any(|line| line.starts_with(text)), "no `{text}` in {changes}");
    }
    told(home, &["diff", a, b], 0);
    assert_eq!(told(home, &["diff", a, store, "--exit-code"], 0), "", "a run is its profile");
    let same: Value = serde_json::from_str(&told(home, &["diff", a, a, "--json"], 0)).unwrap();
    assert_eq!((&same["same"], &same["rules"]), (&Value::from(true), &serde_json::json!([])));

    // Without the store, what it alone knows is unknown.
    fs::remove_dir_all(home.join("state")).unwrap();
    let less = told(home, &["explain", "bimodal-channels", "allreduce", "64K"], 0);
    let less = less.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(less.contains("is not here: what it tried is not known") && less.contains("which is not known"), "{less}");
}

#[test]
fn verifications_are_kept_and_their_course_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let (mut profile, _) = Profile::parse(NATIVE, "golden").unwrap();
    profile.env.clear();
    let bytes = ByteRange { min: 0, max: None };
    profile.rule = vec![Rule { nodes: 1, ranks: 2, bytes, ..profile.rule[0].clone() }];
    (profile.cluster.nodes, profile.cluster.ranks) = (1, 2);
    fs::write(home.join("p.toml"), profile.to_toml()).unwrap();
    let nothing = output(gdrtune(home).args(["runs", "trend", "p.toml"]));
    assert_eq!(nothing.status.code(), Some(4), "{}", stderr(&nothing));

    let args = ["verify", "p.toml", "--ranks-per-node", "2", "--sizes", "4K", "--pairs", "2"];
    let verify = |more: &[&str]| output(gdrtune(home).args(args).args(more));
    let first = verify(&["--quiet", "--if-older-than", "7d"]);
    // Two pairs prove nothing, so what the machine says is not the matter.
    let code = first.status.code();
    assert!(matches!(code, Some(0 | 102)), "{}", stderr(&first));
    assert!(stdout(&first).starts_with("p.toml: ") && stdout(&first).lines().count() == 1, "{}", stdout(&first));
    assert!(!stderr(&first).contains("process set"), "{}", stderr(&first));
    assert!(stderr(&first).contains("warning: the nodes are not those of the profile"), "{}", stderr(&first));

    let skipped = verify(&["--quiet", "--if-older-than", "7d"]);
    assert_eq!(skipped.status.code(), code, "{}", stderr(&skipped));
    assert!(stdout(&skipped).contains("verified just now, so nothing is measured"), "{}", stdout(&skipped));
    // Of something else it says nothing.
    let other = verify(&["--quiet", "--if-older-than", "7d", "--data-type", "int32"]);
    assert!(stdout(&other).ends_with("(2 pairs)\n"), "{}{}", stdout(&other), stderr(&other));
    let again = verify(&["--json"]);
    let document: Value = serde_json::from_slice(&again.stdout).unwrap_or_else(|_| panic!("{}", stderr(&again)));
    assert_eq!(document["points"].as_array().unwrap().len(), 1);

    let course: Value = serde_json::from_str(&told(home, &["runs", "trend", "p.toml", "--json"], 0)).unwrap();
    assert_eq!(course["verifications"].as_array().unwrap().len(), 3, "{course}");
    let one = &course["courses"][0];
    assert_eq!((&one["sizes"], one["steps"].as_array().unwrap().len()), (&serde_json::json!([4096]), 3), "{one}");
    let drawn = told(home, &["runs", "trend", "p.toml", "--ascii"], 0);
    assert!(drawn.is_ascii() && drawn.contains("3 verifications"), "{drawn}");
}

#[test]
fn shells_take_the_completions() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.join(shell);
        fs::write(&script, told(home, &["completions", shell], 0)).unwrap();
        assert!(fs::read_to_string(&script).unwrap().contains("workload"), "{shell}");
        match Command::new(shell).arg("-n").arg(&script).output() {
            Ok(checked) => assert!(checked.status.success(), "{shell}: {}", String::from_utf8_lossy(&checked.stderr)),
            Err(_) => skip("shells_take_the_completions", &format!("{shell} is not installed")),
        }
    }
    // What bash does when a user presses Tab.
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let script = format!(
            "source ./bash; COMP_WORDS=({}); COMP_CWORD={}; _gdrtune gdrtune '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let done = Command::new("bash").args(["--norc", "-c", &script]).current_dir(home).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("gdrtune expl"), ["explain"]);
    assert_eq!(complete("gdrtune runs tr"), ["trend"]);
    assert!(complete("gdrtune verify --if").contains(&"--if-older-than".to_owned()));
    assert_eq!(complete("gdrtune completions f"), ["fish"]);
    assert!(complete("gdrtune ").iter().all(|word| word != "agent" && word != "worker"), "hidden ones stay so");
}

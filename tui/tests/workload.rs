//! `tune` with a workload and a space from files, on this machine.

mod common;

use std::{collections::BTreeSet, fs};

use common::{gdrtune, output, stderr};
use gdrtune_profiles::profile::Profile;
use serde_json::{Value, json};

/// Two collectives, of which one is most of a step.
const JOB: &str = r#"
[[call]]
collective = "allreduce"
bytes = "64K"
per_step = 20

[[call]]
collective = "allgather"
bytes = "16K"
per_step = 1
"#;

/// Several sockets only with small chunks, and then not four.
const SPACE: &str = r#"
base = "quick"
channels = [1, 2, 16]
add = ["GDRTUNE_NATIVE_CHUNKSIZE=65536"]
[[knob]]
name = "GDRTUNE_NATIVE_NSOCKS"
values = [2, 4]
when = "GDRTUNE_NATIVE_CHUNKSIZE=65536"
[[forbid]]
settings = ["GDRTUNE_NATIVE_CHUNKSIZE=65536", "GDRTUNE_NATIVE_NSOCKS=4"]
"#;

#[test]
fn a_workload_is_tuned_for_its_time_per_step_in_the_space_of_a_file() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("job.toml"), JOB).unwrap();
    fs::write(home.path().join("small.toml"), SPACE).unwrap();
    let run = output(
        gdrtune(home.path())
            .args(["tune", "--json", "--workload", "job.toml", "--space", "small.toml", "--sm-cost", "2"])
            .args(["--ranks-per-node", "2", "--budget", "15s", "--trials", "300", "--out", "out"]),
    );
    assert!(run.status.success(), "{}", stderr(&run));
    let text = String::from_utf8(run.stdout).unwrap();
    let told: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect();
    let of = |kind: &str| told.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();

    let started = &told[0];
    assert_eq!(started["points"].as_array().unwrap().len(), 2);
    let goal = (&started["workload"], &started["objective"], &started["sm_cost"]);
    assert_eq!(goal, (&json!("job"), &json!("time-per-step"), &json!(2.0)));

    let space = of("space")[0];
    assert_eq!(space["name"], "small");
    // Chunks as they are, 65536 with one or two sockets, 262144.
    assert_eq!(space["environments"], 4, "{space}");
    let channels: BTreeSet<u64> =
        space["choices"].as_array().unwrap().iter().map(|choice| choice["channels"].as_u64().unwrap()).collect();
    assert_eq!(channels, [1, 2].into());
    let logs: Vec<&str> = of("log").iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert!(logs.contains(&"not searched: 16 channels: no choice has over 8 channels here"), "{logs:?}");

    let tried: Vec<&Value> = of("environment_started").iter().map(|event| &event["environment"]).collect();
    let different: BTreeSet<String> = tried.iter().map(ToString::to_string).collect();
    assert_eq!(different.len(), tried.len(), "nothing is tried twice: {tried:?}");
    for environment in tried {
        let (chunk, sockets) = (&environment["GDRTUNE_NATIVE_CHUNKSIZE"], &environment["GDRTUNE_NATIVE_NSOCKS"]);
        assert!(sockets.is_null() || (chunk == "65536" && sockets == "2"), "{environment}");
    }

    let profile = fs::read_to_string(home.path().join("out/profile.toml")).unwrap();
    let (profile, _) = Profile::parse(&profile, "profile.toml").unwrap();
    assert_eq!(profile.run.workload, "job, time per step, SM cost 2 % per channel");
    let summary = fs::read_to_string(home.path().join("out/summary.md")).unwrap();
    assert!(summary.contains("Workload: job, time per step, SM cost 2 % per channel."), "{summary}");
    let headline = told.last().unwrap()["summary"].as_str().unwrap();
    let ships = !profile.env.is_empty() || !profile.rule.is_empty();
    assert_eq!(headline.starts_with("communication time per step "), ships, "{headline}");
}

//! A node that is slower than the others is named before the search begins.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune,
};
use serde_json::Value;

/// What a tune of the four hosts tells until it begins to measure; it is killed then.
fn told(hosts: &VirtualHosts, home: &Path, extra: &[&str]) -> Vec<Value> {
    let mut command = gdrtune(home);
    command.args(["tune", "-w", "vh[1-4]", "--json", "--sizes", "64K", "--budget", "60s", "--out", "out", "--force"]);
    command.args(extra).arg("--ssh-config").arg(hosts.ssh_config());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let events = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap()["event"].clone());
    let before = events.take_while(|event| event["type"] != "script").collect();
    child.kill().unwrap();
    child.wait().unwrap();
    before
}

fn logged(events: &[Value]) -> Vec<String> {
    let logs = events.iter().filter(|event| event["type"] == "log" && event["level"] != "debug");
    logs.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_node_with_slow_rails_is_named_with_its_partners() {
    in_sandbox("a_node_with_slow_rails_is_named_with_its_partners", || {
        let hosts = VirtualHosts::up(4, None);
        let home = tempfile::tempdir().unwrap();
        for rail in ["railA", "railB"] {
            hosts.call(&["shape", "vh3", rail, "200mbit"]);
        }
        let events = told(&hosts, home.path(), &[]);
        let texts = logged(&events);
        let about = |what: &str| texts.iter().filter(|text| text.contains(what)).collect::<Vec<_>>();
        assert_eq!(about("4 pairs of nodes in ").len(), 1, "{texts:?}");
        // Small messages are at the mercy of whoever else uses this machine.
        let slow = about(" GB/s with ");
        assert_eq!(slow.len(), 1, "{texts:?}");
        assert!(
            slow[0].starts_with("vh3 is slow: 0.0") && slow[0].contains(" GB/s with vh2 and vh4 where the"),
            "{slow:?}"
        );
        assert!(slow[0].ends_with("; try -x vh3"), "{slow:?}");
        let of_node = events.iter().find(|event| event["type"] == "slow_node" && event["host"] == "vh3").unwrap();
        assert_eq!((&of_node["index"], of_node["why"].as_str()), (&Value::from(2), Some(slow[0].as_str())));

        let texts = logged(&told(&hosts, home.path(), &["--no-probe"]));
        assert!(!texts.iter().any(|text| text.contains("pairs of nodes")), "{texts:?}");
    });
}

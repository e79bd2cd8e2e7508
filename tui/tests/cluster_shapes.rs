//! `tune --shapes` on several virtual hosts, over real ssh.

mod common;

use std::fs;

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, output, stderr,
};

#[test]
fn shapes_take_the_first_hosts_of_one_fleet() {
    in_sandbox("shapes_take_the_first_hosts_of_one_fleet", || {
        let hosts = VirtualHosts::up(4, None);
        let home = tempfile::tempdir().unwrap();
        let run = output(
            gdrtune(home.path())
                .args([
                    "tune",
                    "-w",
                    "vh[1-4]",
                    "--shapes",
                    "2x2,3x1",
                    "--headless",
                    "--sizes",
                    "16K",
                    "--budget",
                    "20s",
                ])
                .args(["--trials", "80", "--out", "out", "--ssh-config"])
                .arg(hosts.ssh_config()),
        );
        let log = stderr(&run);
        assert!(run.status.success(), "{log}");
        assert!(log.contains("3 nodes vh[1-3], 4 ranks"), "the hosts that some shape uses: {log}");
        let stored = fs::read_dir(home.path().join("state/runs")).unwrap().flatten().next().unwrap().path();
        let stored = fs::read_to_string(stored).unwrap();
        let event = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].clone();
        let told: Vec<serde_json::Value> = stored.lines().map(event).collect();
        let shapes: Vec<String> =
            told.iter().filter(|e| e["type"] == "shape").map(|e| format!("{}/{}", e["nodes"], e["ranks"])).collect();
        assert_eq!(shapes, ["2/4", "3/3"]);
        let ready = told.iter().filter(|e| e["type"] == "node" && e["state"] == "ready").count();
        assert_eq!(ready, 3, "connected once: {log}");
        let summary = fs::read_to_string(home.path().join("out/summary.md")).unwrap();
        let places =
            ["## Shape 2x2: 2 nodes, 4 ranks", "## Shape 3x1: 3 nodes, 3 ranks"].map(|text| summary.find(text));
        assert!(places[0].is_some() && places.is_sorted(), "{summary}");
        hosts.assert_clean(&["vh1", "vh2", "vh3"]);
    });
}

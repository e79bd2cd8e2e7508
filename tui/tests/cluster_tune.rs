//! Tuning four virtual hosts with a fast and a slow rail, over real ssh.

mod common;

use std::fs;

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, output, stderr,
};

#[test]
fn the_fast_rail_alone_is_found_by_measuring() {
    in_sandbox("the_fast_rail_alone_is_found_by_measuring", || {
        let hosts = VirtualHosts::up(4, None);
        let home = tempfile::tempdir().unwrap();
        let run = output(
            gdrtune(home.path())
                .args(["tune", "-w", "vh[1-4]", "--engine", "native", "--headless", "--sizes", "256K,4M"])
                .args(["--budget", "40s", "--out", "out", "--ssh-config"])
                .arg(hosts.ssh_config()),
        );
        let log = stderr(&run);
        assert!(run.status.success(), "{log}");

        let profile = fs::read_to_string(home.path().join("out/profile.toml")).unwrap();
        let (profile, _) = gdrtune_profiles::profile::Profile::parse(&profile, "profile.toml").unwrap();
        assert_eq!(profile.environment().get("NCCL_SOCKET_IFNAME"), Some("=railA"), "{log}");

        // The verdict of the interleaved A/B at 4 MiB: default (all interfaces) against the profile.
        let stored = fs::read_dir(home.path().join("state/runs")).unwrap().flatten().next().unwrap().path();
        let verdict = fs::read_to_string(stored)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].clone())
            .rfind(|e| e["type"] == "verdict" && e["point"]["bytes"] == 4 << 20)
            .expect("a verdict at 4 MiB");
        let median = verdict["speedup"]["median"].as_f64().unwrap();
        assert!(median >= 2.0, "the fast rail alone is {median:.2}x the default at 4 MiB\n{log}");
        hosts.assert_clean(&["vh1", "vh2", "vh3", "vh4"]);
    });
}

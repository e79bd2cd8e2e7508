//! Sixteen hosts behind one jump host: how soon their agents are there, and how often the executable travels.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune_as, output, stderr, stripped_copy,
};
use serde_json::Value;

const HOSTS: u32 = 16;
/// What an admin may expect.
const AGENTS_UP_MS: u64 = 10_000;
/// The same with sixteen uploads of the executable, each encrypted and decrypted twice, by the two cores of a machine that is
/// client, jump host and hosts at once: 7.5 s beside a compiler.
const AGENTS_UP_WITH_UPLOADS_MS: u64 = 20_000;

/// ssh to `vh1` to `vh16` by way of `vh17`, with more settings for them.
fn behind_a_jump_host(hosts: &VirtualHosts, folder: &Path, more: &str) -> PathBuf {
    let path = folder.join(if more.is_empty() { "jump" } else { "jump-shared" });
    let text =
        format!("Host vh* !vh17\n  ProxyJump vh17\n{more}Match all\n  Include {}\n", hosts.ssh_config().display());
    fs::write(&path, text).unwrap();
    path
}

/// Tunes with a few trials, as time means nothing where a machine is all hosts at once; gives the events of the run.
fn tune(program: &Path, home: &Path, ssh_config: &Path, out: &str) -> Vec<Value> {
    let run = output(
        gdrtune_as(program, home)
            .args(["tune", "--engine", "native", "--headless", "-w", "vh[1-16]", "--sizes", "64K", "--collectives"])
            .args(["allreduce", "--space", "quick", "--trials", "12", "--budget", "60s", "--out", out, "--ssh-config"])
            .arg(ssh_config),
    );
    assert!(run.status.success(), "{}", stderr(&run));
    let runs = fs::read_dir(home.join("state/runs")).unwrap().map(|entry| entry.unwrap().path());
    let newest = runs.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).unwrap();
    let lines = fs::read_to_string(newest).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ready_ms(events: &[Value]) -> u64 {
    let ready: Vec<u64> = events
        .iter()
        .filter(|line| line["event"]["type"] == "node" && line["event"]["state"] == "ready")
        .map(|line| line["t_ms"].as_u64().unwrap())
        .collect();
    assert_eq!(ready.len(), HOSTS as usize);
    ready.into_iter().max().unwrap()
}

fn uploads(events: &[Value]) -> usize {
    let is_upload = |text: &str| text.starts_with("uploaded the agent (");
    events.iter().filter(|line| line["event"]["text"].as_str().is_some_and(is_upload)).count()
}

#[test]
fn sixteen_hosts_behind_a_jump_host_are_tuned() {
    in_sandbox("sixteen_hosts_behind_a_jump_host_are_tuned", || {
        let home = tempfile::tempdir().unwrap();
        let shared = home.path().join("shared");
        fs::create_dir(&shared).unwrap();
        let hosts = VirtualHosts::up_with(HOSTS + 1, &[("VH_SHARE", shared.to_str().unwrap())]);
        let program = stripped_copy(home.path());

        let events = tune(&program, home.path(), &behind_a_jump_host(&hosts, home.path(), ""), "private");
        let cold_ms = ready_ms(&events);
        assert_eq!(uploads(&events), 16, "each host has a home of its own");
        assert_eq!(hosts.shell("vh9", "ls /root/.cache/gdrtune/agent | wc -l").trim(), "1");

        let more = format!("  SetEnv XDG_CACHE_HOME={}\n", shared.display());
        let config = behind_a_jump_host(&hosts, home.path(), &more);
        let events = tune(&program, home.path(), &config, "shared-home");
        let shared_ms = ready_ms(&events);
        assert_eq!(uploads(&events), 1, "one home, one upload");
        let events = tune(&program, home.path(), &config, "warm");
        let warm_ms = ready_ms(&events);
        assert_eq!(uploads(&events), 0);
        eprintln!(
            "16 agents through a jump host: {cold_ms} ms with uploads, {shared_ms} ms with one, {warm_ms} ms without"
        );

        assert!(cold_ms < AGENTS_UP_WITH_UPLOADS_MS && shared_ms.max(warm_ms) < AGENTS_UP_MS);
        let names: Vec<String> = (1..=HOSTS).map(|number| format!("vh{number}")).collect();
        hosts.assert_clean(&names.iter().map(String::as_str).collect::<Vec<_>>());
    });
}

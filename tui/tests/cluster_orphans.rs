//! Whatever is killed, nothing of gdrtune stays on any host.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, wait_until,
};

/// After this, every host must be clean.
const CLEAN_AFTER: Duration = Duration::from_secs(15);
/// After this, a host whose agent was stopped must be clean: its watchdog waits for twice the limit of silence.
const CLEAN_AFTER_STOP: Duration = Duration::from_secs(40);

const HOSTS: [&str; 4] = ["vh1", "vh2", "vh3", "vh4"];

fn start(hosts: &VirtualHosts, home: &Path) -> Child {
    start_into(hosts, home, "out")
}

fn start_into(hosts: &VirtualHosts, home: &Path, out: &str) -> Child {
    gdrtune(home)
        .args(["tune", "-w", "vh[1-4]", "--headless", "--sizes", "64K,1M", "--budget", "300s", "--out", out])
        .arg("--ssh-config")
        .arg(hosts.ssh_config())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("gdrtune starts")
}

fn count(hosts: &VirtualHosts, host: &str, pattern: &str) -> u32 {
    hosts.shell(host, &format!("pgrep -fc '[g]drtune {pattern}' || true")).trim().parse().unwrap_or(0)
}

fn wait_for_workers(hosts: &VirtualHosts) {
    for host in HOSTS {
        wait_until(&format!("a worker on {host}"), Duration::from_secs(30), || count(hosts, host, "worker") > 0);
    }
}

fn wait_for_clean(hosts: &VirtualHosts, clean: &[&str]) {
    for host in clean {
        wait_until(&format!("nothing of gdrtune on {host}"), CLEAN_AFTER, || {
            hosts.shell(host, "pgrep -c gdrtune || true").trim() == "0"
        });
    }
}

/// ssh masters of the client, which run beside it.
fn client_leftovers(home: &Path) -> bool {
    let output = Command::new("pgrep").args(["-f", &format!("ssh.*{}", home.display())]).output().expect("pgrep");
    output.status.success()
}

fn killed(test: &str, kill: impl FnOnce(&VirtualHosts, &mut Child), clean: &[&str], client_ends_with: Option<i32>) {
    in_sandbox(test, || {
        let hosts = VirtualHosts::up(4, None);
        let home = tempfile::tempdir().unwrap();
        let mut client = start(&hosts, home.path());
        wait_for_workers(&hosts);
        kill(&hosts, &mut client);
        if let Some(expected) = client_ends_with {
            wait_until("the client ends", Duration::from_secs(30), || client.try_wait().unwrap().is_some());
            assert_eq!(client.wait().unwrap().code(), Some(expected));
        }
        wait_for_clean(&hosts, clean);
        wait_until("no ssh of the client is left", CLEAN_AFTER, || !client_leftovers(home.path()));
        client.kill().ok();
        client.wait().ok();
    });
}

#[test]
fn a_killed_client_leaves_nothing() {
    let kill = |_: &VirtualHosts, client: &mut Child| {
        client.kill().unwrap();
        client.wait().unwrap();
    };
    killed("a_killed_client_leaves_nothing", kill, &HOSTS, None);
}

#[test]
fn a_killed_agent_is_a_lost_node_and_leaves_nothing() {
    let kill = |hosts: &VirtualHosts, _: &mut Child| {
        hosts.shell("vh3", "pkill -KILL -f '[g]drtune agent'");
    };
    killed("a_killed_agent_is_a_lost_node_and_leaves_nothing", kill, &HOSTS, Some(101));
}

#[test]
fn a_dead_host_is_a_lost_node_and_the_others_are_clean() {
    let kill = |hosts: &VirtualHosts, _: &mut Child| {
        hosts.call(&["kill", "vh2"]);
    };
    killed("a_dead_host_is_a_lost_node_and_the_others_are_clean", kill, &["vh1", "vh3", "vh4"], Some(101));
}

/// Its heartbeats stop, so it is lost; its watchdog kills it, and the node is free for the next run.
#[test]
fn a_stopped_agent_is_a_lost_node_and_leaves_nothing() {
    in_sandbox("a_stopped_agent_is_a_lost_node_and_leaves_nothing", || {
        let hosts = VirtualHosts::up(4, None);
        let home = tempfile::tempdir().unwrap();
        let mut client = start(&hosts, home.path());
        wait_for_workers(&hosts);
        hosts.shell("vh3", "pkill -STOP -f '[g]drtune agent'");
        wait_until("the client ends", Duration::from_secs(40), || client.try_wait().unwrap().is_some());
        assert_eq!(client.wait().unwrap().code(), Some(101));
        wait_for_clean(&hosts, &["vh1", "vh2", "vh4"]);
        let is_clean = || hosts.shell("vh3", "pgrep -c gdrtune || true").trim() == "0";
        wait_until("nothing of gdrtune on vh3", CLEAN_AFTER_STOP, is_clean);
        wait_until("no ssh of the client is left", CLEAN_AFTER, || !client_leftovers(home.path()));

        let mut next = start_into(&hosts, home.path(), "next");
        wait_for_workers(&hosts);
        next.kill().unwrap();
        next.wait().unwrap();
        wait_for_clean(&hosts, &HOSTS);
    });
}

#[test]
fn a_killed_worker_costs_one_trial_and_the_run_goes_on() {
    in_sandbox("a_killed_worker_costs_one_trial_and_the_run_goes_on", || {
        let hosts = VirtualHosts::up(4, None);
        let home = tempfile::tempdir().unwrap();
        let mut client = gdrtune(home.path())
            .args(["tune", "-w", "vh[1-4]", "--json", "--sizes", "64K,1M", "--budget", "15s", "--out", "out"])
            .arg("--ssh-config")
            .arg(hosts.ssh_config())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Between two trials a kill costs nothing, so it is done at every trial until one is hit.
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut trials = lines.by_ref().filter(|line| line.contains(r#""type":"trial""#));
        let hit = trials.by_ref().take(200).any(|line| {
            hosts.shell("vh2", "pkill -KILL -f '[g]drtune worker'");
            line.contains(r#""kind":"crashed""#)
        });
        assert!(hit, "a trial failed because its worker was killed");
        assert!(trials.any(|line| line.contains(r#""outcome":"timed""#)), "the run goes on");
        lines.for_each(drop);
        assert_eq!(client.wait().unwrap().code(), Some(100), "done, and some trials failed");
        assert!(home.path().join("out/profile.toml").is_file());
        wait_for_clean(&hosts, &HOSTS);
    });
}

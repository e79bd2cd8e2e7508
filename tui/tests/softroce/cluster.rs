//! gdrtune itself on two machines that are joined by two rails, the native engine over verbs. These run in the first of them.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use gdrtune_profiles::profile::Profile;

use crate::{common, guest::shell};

/// Cuts rail 2 as where a switch fails: links stay up, and nothing arrives.
pub(crate) const CUT: &str = "tc qdisc replace dev eth1 root netem loss 100%";
pub(crate) const MEND: &str = "tc qdisc del dev eth1 root";

/// What each machine does; `./tests` are those of this module. The second serves until the first is through.
pub(crate) const SCRIPT: &str = include_str!("cluster.sh");

fn gdrtune(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new("/tmp/gdrtune");
    command.arg(arguments[0]).args(["-w", "vm1,vm2", "--launcher-cmd", "/tmp/reach {host} {agent_line}"]);
    command.args(&arguments[1..]).current_dir(folder).env("XDG_STATE_HOME", folder.join("state"));
    command.stdin(Stdio::null());
    command
}

/// As [`gdrtune`], where nothing is cut: a machine that is emulated may stand still for longer than adapters wait.
fn patient(arguments: &[&str], folder: &Path) -> Command {
    let mut command = gdrtune(arguments, folder);
    command.args(["--site", "site.toml"]);
    fs::write(folder.join("site.toml"), "[environment]\nNCCL_IB_TIMEOUT = \"18\"\n").unwrap();
    command
}

/// Fails unless gdrtune's processes end on both machines; the second one answers by way of the folder that they share. An agent
/// whose worker dies slowly (`rdma_rxe` waits for a queue pair's packets) may end after the session.
fn assert_clean() {
    let started = Instant::now();
    loop {
        shell("rm -f answer; touch asked; while [ ! -e answer ]; do sleep 0.1; done");
        let list = Command::new("sh").args(["-c", "ps; cat answer"]).output().unwrap();
        let of_gdrtune = |line: &&str| line.contains("gdrtune agent") || line.contains("gdrtune worker");
        let left: Vec<String> = common::stdout(&list).lines().filter(of_gdrtune).map(str::to_owned).collect();
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "still there: {left:?}");
    }
}

#[test]
#[ignore = "runs in the guest"]
fn every_collective_is_right_between_machines() {
    let folder = tempfile::tempdir().unwrap();
    let all = "allreduce,allgather,reducescatter,broadcast,reduce,alltoall,sendrecv";
    let arguments = ["bench", "--collectives", all, "--sizes", "40K", "--repeats", "1"];
    let bench = patient(&arguments, folder.path()).output().unwrap();
    let (table, said) = (common::stdout(&bench), common::stderr(&bench));
    assert!(bench.status.success(), "{table}\n{said}");
    assert!(all.split(',').all(|collective| table.contains(&format!(" {collective} "))), "{table}");
}

#[test]
#[ignore = "runs in the guest"]
fn the_fast_rail_is_found_and_shipped() {
    let folder = tempfile::tempdir().unwrap();
    // Sends and receives have no choice of an algorithm: the binding is all that there is to find.
    fs::write(folder.path().join("space.toml"), "[[knob]]\nname = \"NCCL_IB_HCA\"\n").unwrap();
    // Far slower than the emulation itself: half of 32 KiB takes 128 ms.
    shell("tc qdisc replace dev eth1 root tbf rate 1mbit burst 8k limit 2m");
    let what = ["--collectives", "sendrecv", "--sizes", "32K", "--space", "space.toml"];
    // Few trials find it; the rest of the time is the verification's.
    let tune = [&["tune", "--headless", "--trials", "20", "--budget", "40s", "--out", "out"][..], &what].concat();
    let tuned = patient(&tune, folder.path()).output().unwrap();
    shell("tc qdisc del dev eth1 root");
    let log = common::stderr(&tuned);
    println!("{log}");
    assert!(tuned.status.success(), "{log}");
    let profile = fs::read_to_string(folder.path().join("out/profile.toml")).unwrap();
    let (profile, _) = Profile::parse(&profile, "profile.toml").unwrap();
    assert_eq!(profile.environment().get("NCCL_IB_HCA"), Some("=rxe1:1"), "{log}");
    let emitted = fs::read_to_string(folder.path().join("out/profile.env")).unwrap();
    assert!(emitted.contains("NCCL_IB_HCA==rxe1:1"), "{emitted}");
    assert_clean();
}

/// Ends a child that a failed test leaves.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[ignore = "runs in the guest"]
fn a_cut_rail_is_told_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tune = ["tune", "--headless", "--sizes", "4M", "--budget", "60s", "--out", "out"];
    let sent =
        || -> u64 { fs::read_to_string("/sys/class/net/eth1/statistics/tx_bytes").unwrap().trim().parse().unwrap() };
    let before = sent();
    let mut child = Guard(gdrtune(&tune, folder.path()).stderr(Stdio::piped()).spawn().unwrap());
    let log = BufReader::new(child.0.stderr.take().unwrap());
    let cut = std::thread::spawn(move || {
        let started = Instant::now();
        // In the middle of calls, which go over both rails.
        while sent() < before + (256 << 10) {
            assert!(started.elapsed() < Duration::from_secs(100), "no collective crosses rail 2");
            std::thread::sleep(Duration::from_millis(20));
        }
        shell(CUT);
        Instant::now()
    });
    let lines: Vec<(Instant, String)> = log.lines().map(|line| (Instant::now(), line.unwrap())).collect();
    let status = child.0.wait().unwrap();
    let cut = cut.join().unwrap();
    shell(MEND);
    for (_, line) in &lines {
        println!("{line}");
    }
    let told = lines.iter().find(|(_, line)| line.contains("lost rank") && line.contains("IBV_WC_"));
    let (told, _) = told.expect("the failure of verbs is told");
    println!("told {} ms after the cut", told.saturating_duration_since(cut).as_millis());
    assert!(!status.success());
    assert_clean();
}

//! Faults of the network and of disks: each ends as it should, and nothing of gdrtune stays on any host.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, gdrtune_processes, output, stderr, wait_until,
};

#[test]
fn a_rail_that_falls_silent_costs_its_trials_and_the_run_ends_in_time() {
    in_sandbox("a_rail_that_falls_silent_costs_its_trials_and_the_run_ends_in_time", || {
        let hosts = VirtualHosts::up(3, None);
        let home = tempfile::tempdir().unwrap();
        let mut child = gdrtune(home.path())
            .args(["tune", "-w", "vh[1-3]", "--json", "--sizes", "64K", "--budget", "4s", "--trial-timeout", "1s"])
            .args(["--no-probe", "--out", "out", "--ssh-config"])
            .arg(hosts.ssh_config())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(r#""type":"trial""#)), "the run measures");
        // The way of ssh stays; what uses both rails gets no answer, and no error either.
        hosts.call(&["cut", "vh2", "railB"]);
        let cut = Instant::now();
        let hung = lines.filter(|line| line.contains(r#""kind":"hung""#)).count();
        let run = child.wait_with_output().unwrap();
        let message = stderr(&run);
        assert_eq!(run.status.code(), Some(1), "{message}");
        assert!(message.contains(" measurements hung, crashed or gave wrong results"), "{message}");
        assert!(message.contains("hint: `gdrtune doctor`, with the same hosts, names what is wrong"), "{message}");
        // Each costs its deadline and new workers, and none is tried again and again.
        assert!((2..=12).contains(&hung) && cut.elapsed() < Duration::from_secs(40), "{hung} in {:?}", cut.elapsed());
        hosts.assert_clean(&["vh1", "vh2", "vh3"]);
    });
}

#[test]
fn a_link_that_is_down_is_named_by_its_hosts_and_doctor_finds_it() {
    in_sandbox("a_link_that_is_down_is_named_by_its_hosts_and_doctor_finds_it", || {
        let hosts = VirtualHosts::up(2, None);
        let home = tempfile::tempdir().unwrap();
        let run = |args: &[&str]| {
            let args = [args, &["-w", "vh[1-2]", "--ssh-config"]].concat();
            output(gdrtune(home.path()).args(args).arg(hosts.ssh_config()))
        };
        hosts.call(&["cut", "vh2", "railB"]);
        let tune = ["tune", "--headless", "--sizes", "64K", "--trials", "4", "--trial-timeout", "5s", "--out", "out"];
        let tuned = run(&tune);
        let message = stderr(&tuned);
        assert_eq!(tuned.status.code(), Some(1), "{message}");
        for text in [
            "allreduce 64K: crashed: vh1 does not reach vh2: rank 0 of 2, prepare a script: no connection to rank 1 at ",
            " over railB: ",
            "hint: `gdrtune doctor`, with the same hosts, names what is wrong on them and between them",
        ] {
            assert!(message.contains(text), "no `{text}` in {message}");
        }
        let doctor = run(&["doctor"]);
        let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(told.contains("vh1: railA,railB; vh2: railA\n"), "{told}{}", stderr(&doctor));
        hosts.assert_clean(&["vh1", "vh2"]);
    });
}

fn mount(options: &str, at: &Path) {
    let status = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).status().unwrap();
    assert!(status.success(), "mount {options}");
}

#[test]
fn a_full_disk_under_the_run_store_ends_the_run_and_a_resume_finishes_it() {
    in_sandbox("a_full_disk_under_the_run_store_ends_the_run_and_a_resume_finishes_it", || {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        fs::create_dir(&state).unwrap();
        mount("size=96k", &state);
        let tune =
            ["tune", "--headless", "--sizes", "1K,64K", "--budget", "5s", "--ranks-per-node", "2", "--out", "out"];
        let run = output(gdrtune(home.path()).args(tune));
        let message = stderr(&run);
        assert_eq!(run.status.code(), Some(1), "{message}");
        assert!(message.contains("No space left on device"), "{message}");
        assert!(!home.path().join("out").exists(), "no result");
        let marker = home.path().display().to_string();
        wait_until("no process is left", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
        let store = fs::read_dir(state.join("runs")).unwrap().flatten().next().unwrap().path();
        let text = fs::read_to_string(&store).unwrap();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let trials = whole.filter(|line| {
            let record: serde_json::Value = serde_json::from_str(line).expect("every line is whole");
            record["event"]["type"] == "trial"
        });
        assert!(trials.count() > 20, "what was measured is there");

        mount("remount,size=16m", &state);
        let id = store.file_stem().unwrap().to_str().unwrap();
        let run = output(gdrtune(home.path()).args(["runs", "resume", id, "--headless"]));
        assert!(run.status.success(), "{}", stderr(&run));
        assert!(
            fs::read_to_string(&store).unwrap().starts_with(&text[..=text.rfind('\n').unwrap()]),
            "nothing is lost"
        );
        assert!(home.path().join("out/profile.toml").is_file());
        wait_until("no process is left", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
    });
}

//! Hosts that differ in what must be the same are refused before anything hangs, unless the user insists.

mod common;

use std::{fs, process::Output};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, output, stderr,
};
use gdrtune_profiles::profile::Profile;

#[test]
fn other_variables_and_files_are_refused_unless_forced() {
    in_sandbox("other_variables_and_files_are_refused_unless_forced", || {
        let hosts = VirtualHosts::up(3, None);
        let home = tempfile::tempdir().unwrap();
        hosts.shell("vh2", "printf 'NCCL_PROTO=LL\\nNCCL_DEBUG=WARN\\n' >/root/.nccl.conf");
        let config = home.path().join("ssh_config");
        let theirs = hosts.ssh_config();
        let text = format!("Host vh3\n SetEnv NCCL_CROSS_NIC=1\nHost *\n Include {}\n", theirs.display());
        fs::write(&config, text).unwrap();
        let on = |words: &[&str], list: &str| {
            let mut command = gdrtune(home.path());
            output(command.args(words).args(["-w", list, "--ssh-config"]).arg(&config))
        };
        let refused = |run: &Output, text: &str| {
            let message = stderr(run);
            assert_eq!(run.status.code(), Some(3), "{message}");
            assert!(message.contains(text), "{message}");
            assert!(message.contains("hint: make them alike, leave hosts out with -x, or measure"), "{message}");
        };
        let bench = |engine: &'static str| ["bench", "--sizes", "1K", "--repeats", "1", "--engine", engine];
        refused(
            &on(&bench("nccl"), "vh[1-2]"),
            "the hosts differ in what NCCL needs alike: NCCL_PROTO differs: vh1: not set; vh2: LL (in /root/.nccl.conf)",
        );
        // Files are NCCL's own; variables count for both engines, and of vh2 there are none.
        let differs = "NCCL_CROSS_NIC differs: vh[1-2]: not set; vh3: 1";
        refused(&on(&bench("native"), "vh[1-3]"), differs);

        let tune = ["tune", "--headless", "--sizes", "1K", "--budget", "1s", "--no-probe", "--out", "out", "--force"];
        let run = on(&tune, "vh[1-3]");
        assert!(run.status.success(), "{}", stderr(&run));
        assert!(stderr(&run).contains(&format!("warning: accepted with --force: {differs}")), "{}", stderr(&run));
        let profile = fs::read_to_string(home.path().join("out/profile.toml")).unwrap();
        let (profile, _) = Profile::parse(&profile, "profile.toml").unwrap();
        assert_eq!(profile.run.notes, [format!("accepted with --force: {differs}")]);
        let stored = fs::read_dir(home.path().join("state/runs")).unwrap().flatten().next().unwrap().path();
        assert!(fs::read_to_string(stored).unwrap().contains(&format!("accepted with --force: {differs}")));
    });
}

//! Agents in a Slurm allocation, and by a command of the user's.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{fs, path::Path};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, output, root,
    slurm::{Slurm, in_slurm_sandbox},
    stderr,
};
use gdrtune_profiles::profile::Profile;

const HOSTS: [&str; 4] = ["vh1", "vh2", "vh3", "vh4"];
const TUNE: [&str; 6] = ["--engine", "native", "--sizes", "64K,1M", "--budget", "8s"];

fn assert_profile(path: &Path, nodes: u32, ranks: u32) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (profile, _) = Profile::parse(&text, "profile.toml").unwrap();
    assert_eq!((profile.cluster.nodes, profile.cluster.ranks), (nodes, ranks));
}

#[test]
fn an_allocation_is_tuned_without_ssh() {
    in_slurm_sandbox("an_allocation_is_tuned_without_ssh", || {
        let home = tempfile::tempdir().unwrap();
        let slurm = Slurm::up(4, home.path());
        // ssh could not even find the hosts: nothing here knows their names.
        let words =
            [&["-N4", "--ntasks-per-node=2", "gdrtune", "tune", "--headless", "--out", "out"], &TUNE[..]].concat();
        let run = slurm.run(home.path(), "salloc", &words);
        assert!(run.status.success(), "{}", stderr(&run));
        assert!(stderr(&run).contains("gdrtune: 4 hosts of Slurm job 1: vh[1-4]\n"), "{}", stderr(&run));
        assert_profile(&home.path().join("out/profile.toml"), 4, 8);
        // All hosts have one home here, so one of them stores the executable for all.
        let kept = fs::read_dir(home.path().join(".cache/gdrtune/agent")).unwrap().flatten();
        let kept: Vec<_> = kept.flat_map(|build| fs::read_dir(build.path()).unwrap().flatten()).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        let stored = fs::read_dir(home.path().join("state/runs")).unwrap().next().unwrap().unwrap();
        assert_eq!(fs::read_to_string(stored.path()).unwrap().matches("uploaded the agent (").count(), 1);
        slurm.hosts.assert_clean(&HOSTS);

        let bench = ["gdrtune", "bench", "--sizes", "1K", "--repeats", "1"];
        let part = [&["-N3", "--chdir=/"], &bench[..], &["-x", "vh2", "--ranks-per-node", "1"]].concat();
        let run = slurm.run(home.path(), "salloc", &part);
        assert!(run.status.success(), "{}", stderr(&run));
        assert!(stderr(&run).contains("2 hosts of Slurm job 2: vh[1,3]"), "{}", stderr(&run));
        assert!(String::from_utf8_lossy(&run.stdout).contains("engine native, 2 ranks"));

        // Each line tries something in an allocation of vh1 that cannot be.
        let tries: &[(&str, i32, &str)] = &[
            ("exec gdrtune bench -w vh[1-3]", 2, "vh[2-3] are not among the nodes of Slurm job 3: vh1"),
            (
                "g=$(command -v gdrtune); PATH=/nonexistent exec $g bench",
                3,
                "no srun program: there is no program `srun` on the search path; load the site's Slurm module",
            ),
            (
                "SLURM_JOB_ID=999 SLURM_JOBID=999 exec gdrtune bench",
                3,
                "start the agent on vh1: allocation gone: srun ended with exit code 1: srun: error: Unable to confirm \
                 allocation for job 999: Invalid job id specified / ",
            ),
            (
                "SLURM_JOB_NODELIST=vh2 exec gdrtune bench",
                3,
                "start the agent on vh2: not in the allocation: srun ended with exit code 1: srun: error: Unable to create \
                 step for job 6: Requested node configuration is not available; name hosts of the job only",
            ),
            (
                // What would spoil the streams of a step.
                "SLURM_LABELIO=1 SLURM_STDOUTMODE=none SLURM_STDINMODE=none exec gdrtune bench --sizes 1K --repeats 1",
                0,
                "1 host of Slurm job 7: vh1",
            ),
            ("exec srun -n2 --overcommit --overlap --chdir=/ gdrtune bench", 2, "this is one of 2 tasks of an srun"),
        ];
        for (line, code, text) in tries {
            let run = slurm.run(home.path(), "salloc", &["-n1", "-wvh1", "sh", "-c", line]);
            assert_eq!(run.status.code(), Some(*code), "{line}: {}", stderr(&run));
            assert!(stderr(&run).contains(text), "{line}: {}", stderr(&run));
        }
        slurm.hosts.assert_clean(&HOSTS);
    });
}

/// The batch script of the manual's chapter on Slurm.
fn batch_script() -> String {
    let chapter = fs::read_to_string(root().join("docs/slurm.md")).unwrap();
    let (_, after) = chapter.split_once("<!-- book: file tune.sbatch -->\n```sh\n").expect("the script");
    after.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_batch_script_of_the_manual_tunes_its_job() {
    in_slurm_sandbox("the_batch_script_of_the_manual_tunes_its_job", || {
        let home = tempfile::tempdir().unwrap();
        let slurm = Slurm::up(4, home.path());
        fs::write(home.path().join("tune.sbatch"), batch_script()).unwrap();
        let words = [&["--wait", "--output=log", "tune.sbatch"], &TUNE[..]].concat();
        let run = slurm.run(home.path(), "sbatch", &words);
        let log = fs::read_to_string(home.path().join("log")).unwrap_or_default();
        assert!(run.status.success(), "{}\n{log}", stderr(&run));
        assert!(log.contains("gdrtune: 4 hosts of Slurm job 1: vh[1-4]\n"), "{log}");
        assert_profile(&home.path().join("tuned-1/profile.toml"), 4, 4);
        slurm.hosts.assert_clean(&HOSTS);
        steps_see_what_was_emitted(&slurm, home.path());
    });
}

/// A job gets the emitted snippet by `gdrtune apply`, and each of its steps has the variables, also where the job's own environment
/// was not to be handed on.
fn steps_see_what_was_emitted(slurm: &Slurm, home: &Path) {
    let profile = root().join("profiles/tests/golden/nccl.toml");
    fs::write(home.join("job.sbatch"), "#!/bin/bash\n#SBATCH -N2\n#SBATCH --output=job.log\nsrun env").unwrap();
    let applied = output(gdrtune(home).args(["apply", "job.sbatch", "--yes", "--profile"]).arg(&profile));
    assert!(applied.status.success(), "{}", stderr(&applied));
    let (profile, _) = Profile::parse(&fs::read_to_string(profile).unwrap(), "nccl.toml").unwrap();
    for export in ["--export=ALL", "--export=NONE"] {
        let run = slurm.run(home, "sbatch", &["--wait", export, "job.sbatch"]);
        let log = fs::read_to_string(home.join("job.log")).unwrap_or_default();
        assert!(run.status.success(), "{export}: {}\n{log}", stderr(&run));
        for setting in &profile.env {
            let line = format!("{}={}", setting.name, setting.value);
            assert_eq!(log.lines().filter(|found| *found == line).count(), 2, "{export} {line}: {log}");
        }
    }
}

#[test]
fn a_job_that_nears_its_time_limit_leaves_the_best_so_far() {
    in_slurm_sandbox("a_job_that_nears_its_time_limit_leaves_the_best_so_far", || {
        let home = tempfile::tempdir().unwrap();
        let slurm = Slurm::up(4, home.path());
        let script = batch_script();
        // A minute is Slurm's shortest limit; options come before the script's own lines.
        assert!(script.contains("#SBATCH --signal=B:TERM@120 "), "{script}");
        fs::write(home.path().join("tune.sbatch"), script).unwrap();
        let limits = ["--wait", "--output=log", "--time=1", "--signal=B:TERM@55", "tune.sbatch"];
        let words = [&limits[..], &TUNE[..4], &["--budget", "10m"]].concat();
        let run = slurm.run(home.path(), "sbatch", &words);
        let log = fs::read_to_string(home.path().join("log")).unwrap_or_default();
        assert_eq!(run.status.code(), Some(130), "{}\n{log}", stderr(&run));
        assert!(
            log.contains("gdrtune: SIGTERM: the best so far is written") && log.contains("NOT VERIFIED\n"),
            "{log}"
        );
        let path = home.path().join("tuned-1/profile.toml");
        assert_profile(&path, 4, 4);
        assert!(fs::read_to_string(path).unwrap().contains("\nunverified = true\n"));
        slurm.hosts.assert_clean(&HOSTS);
    });
}

#[test]
fn a_command_and_a_site_file_lead_to_hosts() {
    in_sandbox("a_command_and_a_site_file_lead_to_hosts", || {
        let _hosts = VirtualHosts::up(2, None);
        let home = tempfile::tempdir().unwrap();
        let site = "name = 'lab'\nhosts = 'vh[1-2]'\nlauncher_cmd = 'ip netns exec {host} {agent}'\n";
        fs::write(home.path().join("lab.toml"), site).unwrap();
        let bench = ["bench", "--site", "lab.toml", "--sizes", "1K", "--repeats", "1"];
        let run = output(gdrtune(home.path()).args(bench));
        assert!(run.status.success(), "{}", stderr(&run));
        assert_eq!(stderr(&run), "gdrtune: 2 hosts of site lab: vh[1-2]\n");
        assert!(String::from_utf8_lossy(&run.stdout).contains("engine native, 2 ranks"));

        // The site's variables reach the workers.
        let forced = format!("{site}[environment]\nNCCL_SOCKET_IFNAME = '=nope0'\n");
        fs::write(home.path().join("lab.toml"), forced).unwrap();
        let run = output(gdrtune(home.path()).args(bench));
        assert!(!run.status.success() && stderr(&run).contains("nope0"), "{}", stderr(&run));

        fs::write(home.path().join("lab.toml"), "host = 'vh1'").unwrap();
        let run = output(gdrtune(home.path()).args(bench));
        assert_eq!(run.status.code(), Some(2));
        assert!(stderr(&run).contains("lab.toml:1:1: unknown field `host`"), "{}", stderr(&run));
    });
}

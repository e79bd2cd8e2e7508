//! Slurm on virtual hosts (`testenv/slurm.sh`), within a sandbox that the kernel tears down with the test.

use std::{
    path::Path,
    process::{Command, Output},
};

use super::{
    GDRTUNE,
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, root, skip,
};

/// Runs `body` in a sandbox, as [`in_sandbox`] does; skips where there is no Slurm.
pub(crate) fn in_slurm_sandbox(test: &str, body: impl FnOnce()) {
    for tool in ["srun", "salloc", "sbatch", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"] {
        let found = Command::new("sh").args(["-c", "command -v -- \"$1\"", "sh", tool]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            return skip(test, &format!("{tool} is missing: run testenv/packages.sh slurm"));
        }
    }
    in_sandbox(test, body);
}

/// A cluster of virtual hosts under Slurm; gone with the sandbox.
pub(crate) struct Slurm {
    /// The hosts.
    pub(crate) hosts: VirtualHosts,
    conf: String,
}

impl Slurm {
    /// Makes `vh1` to `vhN`, which see `shared` and the executable under test at their own paths.
    pub(crate) fn up(count: u32, shared: &Path) -> Self {
        let built = Path::new(GDRTUNE).parent().expect("a folder of executables");
        let output = Command::new(root().join("testenv/slurm.sh"))
            .args(["up", &count.to_string(), "vhosts"])
            .env("VH_SHARE", format!("{}:{}", shared.display(), built.display()))
            .output()
            .expect("slurm.sh starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "slurm.sh up: {}", text(&output.stderr));
        let line = text(&output.stdout);
        let conf = line.trim().strip_prefix("export SLURM_CONF=").expect("the line that slurm.sh prints");
        Self { hosts: VirtualHosts::running(), conf: conf.to_owned() }
    }

    /// Runs a program of Slurm's as [`gdrtune`] is run, with the executable on the search path.
    pub(crate) fn run(&self, home: &Path, program: &str, args: &[&str]) -> Output {
        self.command(home, program).args(args).output().expect("a program of Slurm's starts")
    }

    /// The same, not yet started.
    pub(crate) fn command(&self, home: &Path, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let built = Path::new(GDRTUNE).parent().expect("a folder of executables").display();
        let mut command = Command::new(program);
        command.envs(gdrtune(home).get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("SLURM_CONF", &self.conf).env("PATH", format!("{built}:{path}")).current_dir(home);
        command
    }
}

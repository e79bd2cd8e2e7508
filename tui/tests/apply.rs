//! `gdrtune apply` as a command: what it asks, writes and leaves alone. Where blocks go is tested in `profiles`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use common::{gdrtune, output, root, stderr};

const SCRIPT: &str = "#!/bin/bash\n#SBATCH -N 4\n\nsrun ./train";

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder with a profile and a batch script.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::copy(root().join("profiles/tests/golden/nccl.toml"), home.path().join("profile.toml")).unwrap();
        fs::write(home.path().join("job.sbatch"), SCRIPT).unwrap();
        Self(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs `gdrtune apply` with nobody to ask.
    fn apply(&self, args: &[&str]) -> Output {
        output(gdrtune(self.0.path()).arg("apply").args(args).stdin(Stdio::null()))
    }

    fn put_in(&self) {
        let run = self.apply(&["job.sbatch", "--profile", "profile.toml", "--yes"]);
        assert!(run.status.success(), "{}", stderr(&run));
    }

    fn check(&self) -> (Option<i32>, String) {
        let run = self.apply(&["job.sbatch", "--profile", "profile.toml", "--check"]);
        (run.status.code(), stderr(&run))
    }
}

#[test]
fn a_block_is_shown_put_in_checked_updated_and_taken_out() {
    let home = Home::new();
    assert_eq!(
        home.check(),
        (Some(6), "gdrtune: job.sbatch:1: there is no block of gdrtune's: run gdrtune apply\n".into())
    );
    let asked = home.apply(&["job.sbatch", "--profile", "profile.toml"]);
    assert_eq!(asked.status.code(), Some(2), "nobody is there to ask");
    assert!(stdout(&asked).contains("\n+export NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1'\n"), "{}", stdout(&asked));
    assert!(stderr(&asked).contains("--yes"), "{}", stderr(&asked));
    assert_eq!(home.text("job.sbatch"), SCRIPT);

    home.put_in();
    let with = home.text("job.sbatch");
    let (before, after) = with.split_once("# gdrtune: begin of managed block").unwrap();
    assert_eq!(before, "#!/bin/bash\n#SBATCH -N 4\n");
    assert!(after.ends_with("# gdrtune: end of managed block\n\nsrun ./train"), "{after}");
    assert!(after.contains("\nexport SLURM_EXPORT_ENV='ALL'\n"), "srun's steps get it too: {after}");
    assert_eq!(home.check(), (Some(0), String::new()));
    let again = home.apply(&["job.sbatch", "--profile", "profile.toml", "--yes"]);
    assert_eq!((stdout(&again), home.text("job.sbatch")), (String::new(), with.clone()));
    assert!(stderr(&again).contains("the block of job.sbatch is as the profile says"), "{}", stderr(&again));

    let newer = home.text("profile.toml").replace("value = \"4\"", "value = \"8\"");
    fs::write(home.path("profile.toml"), newer).unwrap();
    let (code, said) = home.check();
    assert_eq!(code, Some(6));
    assert!(said.starts_with("gdrtune: job.sbatch:3: the block is not what the profile says now"), "{said}");
    home.put_in();
    assert!(home.text("job.sbatch").contains("\nexport NCCL_IB_QPS_PER_CONNECTION='8'\n"));

    fs::write(home.path("job.sbatch"), home.text("job.sbatch").replace("='8'", "='9'")).unwrap();
    let (code, said) = home.check();
    assert_eq!(code, Some(6));
    assert!(
        said.contains("job.sbatch:3: the block was edited by hand: gdrtune apply takes the edit back; to keep it"),
        "{said}"
    );
    let overwritten = home.apply(&["job.sbatch", "-p", "profile.toml", "-y"]);
    assert!(stderr(&overwritten).contains("warning: the block was edited by hand"), "{}", stderr(&overwritten));
    assert_eq!(home.check().0, Some(0));

    let removed = home.apply(&["job.sbatch", "--remove", "--yes"]);
    assert!(removed.status.success(), "{}", stderr(&removed));
    assert_eq!(home.text("job.sbatch"), SCRIPT);
    assert_eq!(home.apply(&["job.sbatch", "--remove", "--yes"]).status.code(), Some(4));
}

#[test]
fn mode_owner_and_links_stay() {
    let home = Home::new();
    fs::set_permissions(home.path("job.sbatch"), fs::Permissions::from_mode(0o750)).unwrap();
    // Only root can give it away.
    let owner = std::os::unix::fs::chown(home.path("job.sbatch"), Some(1234), Some(1234)).is_ok();
    symlink("job.sbatch", home.path("link.sbatch")).unwrap();
    let run = home.apply(&["link.sbatch", "--profile", "profile.toml", "--yes"]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(stderr(&run).contains("wrote ") && stderr(&run).contains("/job.sbatch\n"), "{}", stderr(&run));
    assert!(fs::symlink_metadata(home.path("link.sbatch")).unwrap().is_symlink());
    let metadata = fs::metadata(home.path("job.sbatch")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o750);
    assert!(!owner || (metadata.uid(), metadata.gid()) == (1234, 1234));
    assert!(home.text("job.sbatch").contains("# gdrtune: end of managed block"));
    assert_eq!(fs::read_dir(home.0.path()).unwrap().count(), 3, "no temporary file is left");
}

#[test]
fn what_takes_no_block_is_refused_with_the_next_step() {
    let home = Home::new();
    for (name, text, message) in [
        (
            "x.py",
            "#!/usr/bin/env python3\n",
            "x.py takes no block: it is no kind of file that takes a block; --as shell",
        ),
        ("x.csh", "setenv A 1\n", "x.csh takes no block: it is for csh"),
        ("Dockerfile", "RUN x\n", "Dockerfile:1: there is no FROM"),
        ("two.sh", "# gdrtune: end of managed block\n", "two.sh:1: a managed block ends here that never began"),
    ] {
        fs::write(home.path(name), text).unwrap();
        let run = home.apply(&[name, "--profile", "profile.toml", "--yes"]);
        assert_eq!(run.status.code(), Some(2), "{name}");
        assert!(stderr(&run).contains(message), "{name}: {}", stderr(&run));
        assert_eq!(home.text(name), text);
    }
    for args in [
        &["none.sh", "-p", "profile.toml"][..],
        &[".", "-p", "profile.toml"],
        &["job.sbatch"],
        &["job.sbatch", "--check"],
    ] {
        assert_eq!(home.apply(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn carriage_returns_and_here_documents_are_refused_with_the_command_that_mends_it() {
    let home = Home::new();
    for command in ["--yes", "--check"] {
        fs::write(home.path("job.sbatch"), SCRIPT.replace('\n', "\r\n")).unwrap();
        let run = home.apply(&["job.sbatch", "--profile", "profile.toml", command]);
        assert_eq!(run.status.code(), Some(if command == "--check" { 6 } else { 2 }));
        let said = stderr(&run);
        assert!(said.contains("job.sbatch:1: the line ends in CRLF: a shell takes the carriage return"), "{said}");
        assert_eq!(home.text("job.sbatch"), SCRIPT.replace('\n', "\r\n"));
        let mend = said.split('`').find(|part| part.starts_with("sed -i")).expect("the command");
        run_in(home.0.path(), "sh", &["-c", mend]);
        assert_eq!(home.text("job.sbatch"), SCRIPT, "{said}");
    }
    home.put_in();
    let text = home.text("job.sbatch");
    let (head, block) = text.split_once("# gdrtune: begin").unwrap();
    fs::write(home.path("job.sbatch"), format!("{head}cat <<EOF >x\n# gdrtune: begin{block}\nEOF\n")).unwrap();
    let (code, said) = home.check();
    assert_eq!(code, Some(6));
    let why =
        "job.sbatch:4: the managed block does nothing here: it is in the here-document of line 3, which this script";
    assert!(said.contains(why) && said.contains("--remove"), "{said}");
}

#[test]
fn a_profile_without_settings_gives_a_block_of_comments_and_says_so() {
    let home = Home::new();
    let text = home.text("profile.toml");
    let (head, rest) = text.split_once("[[env]]").unwrap();
    let rules = &rest[rest.find("[[rule]]").unwrap()..];
    fs::write(home.path("profile.toml"), format!("{head}{rules}")).unwrap();
    let run = home.apply(&["job.sbatch", "--profile", "profile.toml", "--yes"]);
    assert!(run.status.success() && stderr(&run).contains("the block is comments alone"), "{}", stderr(&run));
    assert!(!home.text("job.sbatch").contains("export"));
}

#[test]
fn a_later_line_that_wins_is_told() {
    let home = Home::new();
    fs::write(home.path("job.sbatch"), format!("{SCRIPT}\nexport NCCL_IB_HCA==mlx5_9\n")).unwrap();
    let run = home.apply(&["job.sbatch", "--profile", "profile.toml", "--yes"]);
    assert!(run.status.success());
    let said = stderr(&run);
    assert!(said.contains(": warning: NCCL_IB_HCA is set here again: this value counts, not the block's\n"), "{said}");
    let (code, said) = home.check();
    assert_eq!(code, Some(6), "{said}");
    assert!(said.ends_with(": warning: NCCL_IB_HCA is set here again: this value counts, not the block's\n"), "{said}");

    // An earlier line is told where the block is put in, but the block's value counts.
    fs::write(home.path("job.sbatch"), SCRIPT.replace("srun", "export NCCL_IB_HCA==mlx5_9\nsrun")).unwrap();
    home.put_in();
    let moved = home.text("job.sbatch").replacen("#!/bin/bash\n", "#!/bin/bash\nexport NCCL_IB_HCA==mlx5_9\n", 1);
    fs::write(home.path("job.sbatch"), moved.replace("\nexport NCCL_IB_HCA==mlx5_9\nsrun", "\nsrun")).unwrap();
    assert_eq!(home.check(), (Some(0), String::new()));
}

#[test]
fn a_simulated_profile_is_written_only_where_that_is_asked_for() {
    let home = Home::new();
    let text = home.text("profile.toml").replace("engine = \"nccl\"", "engine = \"sim\"");
    fs::write(home.path("profile.toml"), text).unwrap();
    for more in ["--yes", "--check"] {
        let run = home.apply(&["job.sbatch", "--profile", "profile.toml", more]);
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
        let said = "profile.toml: a simulated profile: --for-engine sim writes it all the same";
        assert!(stderr(&run).contains(said), "{}", stderr(&run));
        assert_eq!(home.text("job.sbatch"), SCRIPT);
    }
    let run = home.apply(&["job.sbatch", "--profile", "profile.toml", "--yes", "--for-engine", "sim"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let said = stderr(&run);
    assert!(said.starts_with("gdrtune: warning: SIMULATED: ") && said.contains("measure on the real nodes"), "{said}");
    assert!(home.text("job.sbatch").contains("\nexport NCCL_IB_HCA="));
}

/// Runs a program on the script's folder; its standard output.
fn run_in(folder: &Path, program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(folder).env_remove("NCCL_IB_HCA").output().unwrap();
    assert!(output.status.success(), "{program}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn the_shell_runs_the_script_with_the_settings_and_patch_takes_the_difference() {
    let home = Home::new();
    fs::write(home.path("run.sh"), "#!/bin/sh\nset -eu\nenv").unwrap();
    let asked = home.apply(&["run.sh", "--profile", "profile.toml"]);
    home.apply(&["run.sh", "--profile", "profile.toml", "--yes"]);
    let printed = run_in(home.0.path(), "sh", &["run.sh"]);
    assert!(printed.contains("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1\n"), "{printed}");

    fs::write(home.path("copy.sh"), "#!/bin/sh\nset -eu\nenv").unwrap();
    let Ok(mut patch) = Command::new("patch")
        .arg("copy.sh")
        .current_dir(home.0.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
    else {
        return common::skip(
            "the_shell_runs_the_script_with_the_settings_and_patch_takes_the_difference",
            "patch is missing",
        );
    };
    patch.stdin.take().unwrap().write_all(&asked.stdout).unwrap();
    assert!(patch.wait().unwrap().success(), "{}", stdout(&asked));
    assert_eq!(home.text("copy.sh"), home.text("run.sh"));
}

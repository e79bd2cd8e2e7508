//! Starts workers through a command of the user's, such as one that runs them in a container.
//!
//! Makes the words of the command and the files that it needs; starts nothing itself and knows no container system. What
//! the command must do: run the worker as its own child or in its own place, hand standard input, output and error on
//! unchanged, and end when the worker does. It gets the worker's environment, process group and parent-death signal; what
//! a daemon starts on its behalf (docker) is out of reach of those, so such a command must end its container by itself
//! (`docker run --rm --init -i`: the worker's input ends when the command is killed, and the worker with it).

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use gdrtune_wire::{Places, WorkerCommand};

use super::{
    bundles::{Bundles, write_new},
    environment::Variables,
    worker::Identity,
};

/// Variables that a rank needs inside a container begin with one of these; the image has its own of all others.
const ENV_PREFIXES: [&str; 3] = ["NCCL_", "GDRTUNE_", "CUDA_"];

/// A checked command and what it refers to.
#[derive(Debug)]
pub(super) struct Wrapper {
    command: WorkerCommand,
    /// Holds the program, the plugin, the bundles and the environment files.
    folder: PathBuf,
    program: PathBuf,
}

impl Wrapper {
    /// Checks the words, and puts the program where the command can reach it. `None` where there are no words.
    pub(super) fn prepare(
        words: &[String],
        program: &Path,
        is_link: bool,
        bundles: &mut Bundles,
    ) -> Result<Option<Self>, String> {
        if words.is_empty() {
            return Ok(None);
        }
        let command = WorkerCommand::from_words(words.to_vec()).map_err(|error| format!("worker command: {error}"))?;
        let stored = bundles.store_program(program, is_link).map_err(|error| error.to_string())?;
        let folder = bundles.home().map_err(|error| error.to_string())?.to_owned();
        Ok(Some(Self { command, folder, program: stored }))
    }

    /// The program as the command reaches it.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The words that start one rank, whose own program and arguments are `worker`.
    pub(super) fn command(
        &self,
        identity: Identity,
        local_rank: usize,
        worker: &[OsString],
        environment: &Variables,
    ) -> Result<Vec<OsString>, String> {
        let rank = identity.rank;
        // The serial makes the name new: a container that is still starting may read the file of an earlier rank.
        let env_file = self.folder.join(format!("rank-{rank}.{}.env", identity.serial.0));
        if self.command.uses_env_file() {
            let lines = env_lines(environment)?;
            write_new(&env_file, &lines).map_err(|error| format!("write {}: {error}", env_file.display()))?;
        }
        let places = Places { rank, local_rank: local_rank as u32, folder: &self.folder, env_file: &env_file, worker };
        Ok(self.command.expand(&places))
    }
}

/// `NAME=VALUE` lines as docker and podman read them: to the end of the line, without quotes or escapes.
fn env_lines(environment: &Variables) -> Result<Vec<u8>, String> {
    let mut lines = vec![];
    for (name, value) in environment {
        let is_wanted = ENV_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()));
        if !is_wanted {
            continue;
        }
        if value.as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Err(format!("the value of `{}` has a line break, which no env file can hold", name.display()));
        }
        lines.extend_from_slice(name.as_bytes());
        lines.push(b'=');
        lines.extend(value.clone().into_vec());
        lines.push(b'\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn env_files_hold_what_a_rank_needs() {
        let environment = variables(&[
            ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"),
            ("GDRTUNE_X", " two words \"'$x# "),
            ("CUDA_VISIBLE_DEVICES", ""),
            ("LD_LIBRARY_PATH", "/host"),
            ("XNCCL_A", "1"),
            ("PATH", "/bin\n"),
        ]);
        let text = String::from_utf8(env_lines(&environment).unwrap()).unwrap();
        let expected = "CUDA_VISIBLE_DEVICES=\nGDRTUNE_X= two words \"'$x# \nNCCL_IB_HCA==mlx5_0:1,mlx5_1:1\n";
        assert_eq!(text, expected);
        for value in ["a\nNCCL_B=1", "a\r"] {
            let error = env_lines(&variables(&[("NCCL_A", value)])).unwrap_err();
            assert_eq!(error, "the value of `NCCL_A` has a line break, which no env file can hold");
        }
    }
}

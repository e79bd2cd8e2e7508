//! Agents in an allocation of Slurm's: one step of one task on each node, started by `srun` from within the allocation. Works
//! where nobody may log in to nodes.

mod diagnose;

use std::{io, process::Command};

use futures_util::future::BoxFuture;

use super::{
    AgentSpec, Freshness, Launched, Launcher, Stage,
    bootstrap::{Bootstrap, BootstrapError},
    child::{self, Farewell},
    payload::PayloadCell,
};
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

/// How a step is started, all but its node (`srun(1)`).
const STEP: [&str; 8] = [
    "--nodes=1",
    "--ntasks=1",
    // Beside other steps: a batch script's, or one that was left hanging. The step has what the job has on the node.
    "--overlap",
    "--mem=0",
    // Agents start ranks on all cores; a single task would be bound to its own.
    "--cpu-bind=none",
    // The agent is no MPI program, and Slurm's default plugin may need files that are not there.
    "--mpi=none",
    // Without, output stays with slurmstepd until a line is complete; frames have no lines. Output is as binary as before.
    "--unbuffered",
    // The present folder need not be there on the node.
    "--chdir=/",
];

/// Variables by which srun would do something else with the streams or the task than we say. There is no option that takes
/// back any of them (`srun(1)`, INPUT ENVIRONMENT VARIABLES).
const MISLEADING: [&str; 7] = [
    "SLURM_LABELIO",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_STDERRMODE",
    "SLURM_HOSTFILE",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
];

/// Starts agents as steps of the job that this process is in; uploads the executable where it is missing.
#[derive(Debug, Default)]
pub struct SlurmLauncher {
    payloads: PayloadCell,
}

impl SlurmLauncher {
    /// A launcher for the job in this process's environment.
    pub fn new() -> Self {
        Self::default()
    }

    async fn launch(
        &self,
        host: &Host,
        spec: &AgentSpec,
        freshness: Freshness,
        stage: &Stage,
    ) -> Result<Launched, LaunchError> {
        stage.set("reading the executable");
        let payloads = self.payloads.get(host, spec).await?;
        stage.set("starting a job step with srun");
        let bootstrap = Bootstrap::new(host, spec, &payloads, freshness, stage);
        let mut command = Command::new("srun");
        command.args(arguments(host, bootstrap.words()));
        for name in MISLEADING {
            command.env_remove(name);
        }
        let step = child::spawn(command, Farewell::Ask).map_err(|error| not_started(host, &error))?;
        bootstrap.run(step).await.map_err(|error| match error {
            BootstrapError::Launch(error) => error,
            BootstrapError::NoAnswer(words) => diagnose::step(host, &words),
        })
    }
}

impl Launcher for SlurmLauncher {
    fn start<'a>(
        &'a self,
        host: &'a Host,
        spec: &'a AgentSpec,
        freshness: Freshness,
        stage: &'a Stage,
    ) -> BoxFuture<'a, Result<Launched, LaunchError>> {
        Box::pin(self.launch(host, spec, freshness, stage))
    }

    fn can_replace(&self) -> bool {
        true
    }
}

fn arguments(host: &Host, words: Vec<String>) -> Vec<String> {
    let node = format!("--nodelist={}", host.name);
    STEP.map(str::to_owned).into_iter().chain([node, "--".to_owned()]).chain(words).collect()
}

fn not_started(host: &Host, error: &io::Error) -> LaunchError {
    if error.kind() == io::ErrorKind::NotFound {
        let detail = "there is no program `srun` on the search path";
        let hint = "load the site's Slurm module, or reach the hosts another way with --launcher ssh";
        return LaunchError::new(&host.name, LaunchErrorKind::NoSrun, detail, hint);
    }
    let hint = "check the limits on processes and open files";
    LaunchError::new(&host.name, LaunchErrorKind::Local, format!("srun could not be run: {error}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_task_on_the_node_whose_streams_are_not_touched() {
        let words = ["sh", "-c", "exit"].map(str::to_owned).to_vec();
        let expected = "--nodes=1 --ntasks=1 --overlap --mem=0 --cpu-bind=none --mpi=none --unbuffered --chdir=/ \
                        --nodelist=gpu07 -- sh -c exit";
        assert_eq!(arguments(&Host::named("gpu07"), words).join(" "), expected);
    }
}

//! What srun's own words mean. Slurm does not translate its messages, so they may be matched.

use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
    launcher::bootstrap::LastWords,
};

/// Words of srun, their meaning, and what to do; first match wins. Seen with Slurm 22.05, or taken from its `slurm_errno.c`.
const MEANINGS: [(&str, LaunchErrorKind, &str); 14] = [
    ("Invalid job id specified", LaunchErrorKind::AllocationGone, GONE),
    ("has expired", LaunchErrorKind::AllocationGone, GONE),
    ("already completing or completed", LaunchErrorKind::AllocationGone, GONE),
    ("has been revoked", LaunchErrorKind::AllocationGone, GONE),
    ("Requested node configuration is not available", LaunchErrorKind::NotInAllocation, OUTSIDE),
    ("Invalid node name specified", LaunchErrorKind::NotInAllocation, OUTSIDE),
    ("not in this allocation", LaunchErrorKind::NotInAllocation, OUTSIDE),
    ("Required node not available", LaunchErrorKind::NodeDown, DOWN),
    ("Communication connection failure", LaunchErrorKind::NodeDown, DOWN),
    ("Node failure on", LaunchErrorKind::NodeDown, DOWN),
    ("Unable to contact slurm controller", LaunchErrorKind::NoController, CONTROLLER),
    ("Unable to process configuration file", LaunchErrorKind::NoController, CONTROLLER),
    ("Could not establish a configuration source", LaunchErrorKind::NoController, CONTROLLER),
    ("Protocol authentication error", LaunchErrorKind::NoController, CONTROLLER),
];

const GONE: &str =
    "the job has ended or was cancelled: run gdrtune in a new allocation; `gdrtune runs resume` goes on there";
const OUTSIDE: &str =
    "name hosts of the job only (`scontrol show job $SLURM_JOB_ID`), or reach them with --launcher ssh";
const DOWN: &str = "see `sinfo -R` for the node's state, and leave it out with -x";
const CONTROLLER: &str = "check that `srun hostname` works here";

/// A remark of srun's on clusters that bind no cores. It stands before every other word.
const NO_BINDING: &str = "cluster configuration lacks support for cpu binding";

/// Turns the end of a step into an error.
pub(super) fn step(host: &Host, words: &LastWords) -> LaunchError {
    let said = words.said.split(" / ").filter(|line| !line.contains(NO_BINDING)).collect::<Vec<_>>().join(" / ");
    let said = if said.is_empty() { "it said nothing".to_owned() } else { said };
    let found = MEANINGS.iter().find(|(meant, ..)| said.contains(meant));
    let hint = "check that `srun --overlap -N1 -n1 sh -c true` works in this job";
    let (kind, hint) = found.map_or((LaunchErrorKind::Srun, hint), |&(_, kind, hint)| (kind, hint));
    LaunchError::new(&host.name, kind, format!("srun ended with {}: {said}", words.ended), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::Ended;

    #[test]
    fn words_are_told_apart() {
        for (said, kind) in [
            (
                "srun: error: Unable to confirm allocation for job 77: Invalid job id specified",
                LaunchErrorKind::AllocationGone,
            ),
            ("srun: error: Slurm job 1 has expired", LaunchErrorKind::AllocationGone),
            (
                "srun: error: Unable to create step for job 4: Requested node configuration is not available",
                LaunchErrorKind::NotInAllocation,
            ),
            (
                "srun: error: Task launch for StepId=1.5 failed on node vh2: Communication connection failure / srun: \
                 error: Application launch failed: Communication connection failure",
                LaunchErrorKind::NodeDown,
            ),
            (
                "srun: error: Unable to confirm allocation for job 1: Unable to contact slurm controller (connect failure)",
                LaunchErrorKind::NoController,
            ),
            ("srun: fatal: Unable to process configuration file", LaunchErrorKind::NoController),
            (
                "srun: error: Unable to confirm allocation for job 1: Protocol authentication error",
                LaunchErrorKind::NoController,
            ),
            (
                "slurmstepd-vh3: error: execve(): sh: No such file or directory / srun: error: vh3: task 0: Exited with \
                 exit code 2",
                LaunchErrorKind::Srun,
            ),
        ] {
            let said = format!("srun: {NO_BINDING} / {said}");
            let error = step(&Host::named("vh2"), &LastWords { ended: Ended::Code(1), said });
            assert_eq!(error.kind, kind, "{error}");
            assert!(!error.detail.contains("binding") && error.detail.starts_with("srun ended with exit code 1: s"));
        }
        let silent = LastWords { ended: Ended::Signal(9), said: format!("srun: {NO_BINDING}") };
        assert_eq!(
            step(&Host::named("vh2"), &silent).to_string(),
            "start the agent on vh2: srun failed: srun ended with signal 9: it said nothing; check that `srun --overlap \
             -N1 -n1 sh -c true` works in this job"
        );
    }
}

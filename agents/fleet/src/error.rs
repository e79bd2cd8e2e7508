//! Why an agent could not be started, told apart far enough to name the remedy.

/// What kind of fault kept an agent from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaunchErrorKind {
    /// This machine has no ssh program.
    NoSsh,
    /// ssh does not accept its configuration file.
    SshConfig,
    /// The name has no address.
    NameUnknown,
    /// Nothing listens on the host's ssh port.
    Refused,
    /// No answer on the network.
    Unreachable,
    /// The server dropped the connection before authentication, usually because of too many at once.
    Dropped,
    /// The host's key is in no known hosts file.
    HostKeyUnknown,
    /// The host shows another key than the known one.
    HostKeyChanged,
    /// The server takes none of our keys.
    AuthRefused,
    /// This machine has no srun program.
    NoSrun,
    /// Slurm's job of this process is over.
    AllocationGone,
    /// The host is none of the job's.
    NotInAllocation,
    /// Slurm does not reach the host.
    NodeDown,
    /// Slurm's controller cannot be reached, or does not know us.
    NoController,
    /// srun failed otherwise; the detail has its own words.
    Srun,
    /// The user's command that starts agents failed; the detail has its own words.
    Command,
    /// ssh connected, but the login shell could not run our probe.
    Probe,
    /// The host runs another system or processor than our executable.
    OtherArchitecture,
    /// Our executable did not arrive whole.
    UploadFailed,
    /// The executable is there, but may not be run (exit code 126): a folder that is mounted noexec.
    NotExecutable,
    /// The executable is not there (exit code 127).
    NotFound,
    /// The host's C library is older than the executable needs.
    OldLibc,
    /// The host has another C library than glibc, or its loader is elsewhere.
    OtherLibc,
    /// Something else than our agent answered.
    NoPreamble,
    /// The agent ended before it was ready.
    EndedEarly,
    /// The agent is of another build.
    BuildMismatch,
    /// The agent said something that it must not say at that point.
    Protocol,
    /// Not ready within the connect deadline.
    Timeout,
    /// A fault on this machine, such as an unreadable executable or a full temporary folder.
    Local,
    /// Anything else; the detail has ssh's own words.
    Other,
}

impl LaunchErrorKind {
    /// The fault in a few words, for summaries: `auth refused`.
    pub fn label(self) -> &'static str {
        match self {
            Self::NoSsh => "no ssh program",
            Self::SshConfig => "ssh configuration",
            Self::NameUnknown => "unknown name",
            Self::Refused => "connection refused",
            Self::Unreachable => "unreachable",
            Self::Dropped => "connection dropped",
            Self::HostKeyUnknown => "host key unknown",
            Self::HostKeyChanged => "host key changed",
            Self::AuthRefused => "auth refused",
            Self::NoSrun => "no srun program",
            Self::AllocationGone => "allocation gone",
            Self::NotInAllocation => "not in the allocation",
            Self::NodeDown => "node down",
            Self::NoController => "no Slurm controller",
            Self::Srun => "srun failed",
            Self::Command => "launcher command failed",
            Self::Probe => "probe failed",
            Self::OtherArchitecture => "other architecture",
            Self::UploadFailed => "upload failed",
            Self::NotExecutable => "not executable",
            Self::NotFound => "agent not found",
            Self::OldLibc => "C library too old",
            Self::OtherLibc => "other C library",
            Self::NoPreamble => "no agent answered",
            Self::EndedEarly => "agent ended early",
            Self::BuildMismatch => "other build",
            Self::Protocol => "protocol error",
            Self::Timeout => "timed out",
            Self::Local => "local fault",
            Self::Other => "ssh failed",
        }
    }
}

/// An agent that could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("start the agent on {host}: {}: {detail}; {hint}", kind.label())]
pub struct LaunchError {
    /// The host as the user named it.
    pub host: String,
    /// What kind of fault.
    pub kind: LaunchErrorKind,
    /// What happened, in the words of whoever noticed.
    pub detail: String,
    /// The next thing to do.
    pub hint: String,
}

impl LaunchError {
    /// Puts an error together.
    pub fn new(host: &str, kind: LaunchErrorKind, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { host: host.to_owned(), kind, detail: detail.into(), hint: hint.into() }
    }
}

/// A fault that concerns the fleet as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// The host list is empty.
    #[error("start agents: no host is named; give hosts with -w or --hostfile")]
    NoHosts,
    /// An environment variable that cannot be passed on.
    #[error("start agents: {name:?} cannot be passed to them: {problem}")]
    AgentEnv {
        /// The variable.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The launcher could not be set up.
    #[error("start agents: {action}: {cause}")]
    Setup {
        /// What was tried.
        action: String,
        /// Why it failed.
        cause: String,
    },
}

/// A message that could not be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The node is not there (any more).
    #[error("send to node {node} ({host}): {why}")]
    Lost {
        /// Position in rank order.
        node: usize,
        /// Its host.
        host: String,
        /// Since when and why.
        why: String,
    },
    /// No node has this number.
    #[error("send to node {node}: there are {nodes} nodes")]
    NoSuchNode {
        /// The number.
        node: usize,
        /// Nodes in the fleet.
        nodes: usize,
    },
    /// The message is too large for a frame.
    #[error("send to node {node}: {cause}")]
    Encode {
        /// Position in rank order.
        node: usize,
        /// The codec's words.
        cause: String,
    },
}

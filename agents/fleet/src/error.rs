//! Why a host cannot be used, and what to do about it.

use std::fmt;

/// A host whose agent could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchError {
    /// The host, as the user wrote it.
    pub host: String,
    /// Which kind of failure.
    pub kind: LaunchErrorKind,
    /// What was said, in the other program's own words.
    pub detail: String,
}

/// Kinds of failure, told apart because each has another next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaunchErrorKind {
    /// There is no ssh program on this machine.
    NoSsh,
    /// The host name cannot be resolved.
    UnknownHost,
    /// Nothing listens there.
    Refused,
    /// No answer.
    Unreachable,
    /// The host key is not known.
    HostKeyUnknown,
    /// The host key is another one than before.
    HostKeyChanged,
    /// Authentication failed.
    AuthRefused,
    /// ssh ended for another reason.
    Ssh,
    /// The executable could not be put there.
    Upload,
    /// The host has another architecture.
    Architecture,
    /// The executable needs a newer C library than the host has.
    OldLibc,
    /// The agent's program could not be started or ended at once.
    AgentEnded,
    /// Something else than an agent answered.
    NoAgent,
    /// The agent is of another build.
    Build,
    /// No answer within the deadline.
    Deadline,
}

impl LaunchErrorKind {
    /// The next step.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NoSsh => "install an ssh client (Debian: openssh-client)",
            Self::UnknownHost => "check the name, or give it a HostName in your ssh configuration",
            Self::Refused => "check that sshd runs there, and Port in your ssh configuration",
            Self::Unreachable => "check that the host is up and reachable from here; `ssh HOST true` shows the same",
            Self::HostKeyUnknown => {
                "log in once with ssh to accept the key, or pass --accept-new-host-keys if the network is trusted"
            }
            Self::HostKeyChanged => {
                "find out why before anything else; if the host was reinstalled, remove the old key with ssh-keygen -R"
            }
            Self::AuthRefused => "there are no password prompts: load a key (ssh-add) or set IdentityFile; `ssh -o BatchMode=yes HOST true` must work",
            Self::Ssh => "`ssh -o BatchMode=yes HOST true` shows more",
            Self::Upload => "free some room in ~/.cache there, or set XDG_CACHE_HOME on the host",
            Self::Architecture => "build gdrtune for that architecture; this build serves only its own",
            Self::OldLibc => "build gdrtune on a system as old as that host",
            Self::AgentEnded => "run `~/.cache/gdrtune/agent/*/gdrtune --version` there to see why it does not start",
            Self::NoAgent => "the login shell must not start other programs for non-interactive commands",
            Self::Build => "remove ~/.cache/gdrtune there and try again",
            Self::Deadline => "the host is slow or stuck; log in and look",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::NoSsh => "no ssh program",
            Self::UnknownHost => "unknown host",
            Self::Refused => "connection refused",
            Self::Unreachable => "no answer",
            Self::HostKeyUnknown => "host key is not known",
            Self::HostKeyChanged => "HOST KEY HAS CHANGED",
            Self::AuthRefused => "authentication refused",
            Self::Ssh => "ssh failed",
            Self::Upload => "upload failed",
            Self::Architecture => "other architecture",
            Self::OldLibc => "C library too old",
            Self::AgentEnded => "agent did not start",
            Self::NoAgent => "no agent answered",
            Self::Build => "agent of another build",
            Self::Deadline => "not ready in time",
        }
    }
}

impl LaunchError {
    pub(crate) fn new(host: &str, kind: LaunchErrorKind, detail: impl Into<String>) -> Self {
        Self { host: host.to_owned(), kind, detail: detail.into() }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.kind.what())?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        write!(f, "; {}", self.kind.hint())
    }
}

impl std::error::Error for LaunchError {}

/// A fleet that could not be started at all.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The executable to upload cannot be read.
    #[error("read the executable {}: {source}", path.display())]
    Executable {
        /// Its path.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No hosts.
    #[error("no hosts")]
    NoHosts,
    /// The folder for ssh's control sockets cannot be made.
    #[error("make a private folder for ssh control sockets: {0}")]
    ControlFolder(std::io::Error),
}

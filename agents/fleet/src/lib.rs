//! Starts agents on hosts and talks to them.
//!
//! Owns the host lists of the command line, the launchers (this machine, ssh), the upload of the executable, the
//! handshake and the heartbeats. Knows nothing of collectives: what it carries are `gdrtune_wire` messages.
//!
//! ```text
//! Fleet::connect ── one task per node: launch ─ preamble ─ Hello ─ inventory ─ messages and heartbeats
//!                                   └─ FleetEvent (std channel) ─> the session's thread
//! ```

mod connection;
mod error;
mod fleet;
pub mod hosts;
mod launch;
mod quote;
mod ssh;

pub use error::{FleetError, LaunchError, LaunchErrorKind};
pub use fleet::{Fleet, FleetConfig, FleetEvent, NodeLost};
pub use launch::LauncherKind;
pub use ssh::SshConfig;

//! Starts agents on hosts and talks to them: host lists, site files, launchers, bootstrap, fan-out, heartbeats.
//!
//! Knows nothing of collectives or of NCCL, and never prints. A fault of one host is that host's alone: it is reported,
//! and the caller decides.

mod error;
mod fleet;
pub mod hosts;
pub mod launcher;
pub mod site;

pub use error::{FleetError, LaunchError, LaunchErrorKind, SendError};
pub use fleet::{DEFAULT_CONNECT_DEADLINE, DEFAULT_FANOUT, Fleet, FleetConfig, FleetEvent, LauncherKind};

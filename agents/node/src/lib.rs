//! What runs on a node: the agent (supervisor), the worker (one per rank), the engines, the inventory.
//!
//! Knows nothing of ssh, of the search or of the terminal. The agent links no GPU or RDMA library; whatever may hang or
//! crash lives in a worker, and its end is a result.

pub mod agent;
pub mod engine;
pub mod inventory;
mod probe;
#[cfg(feature = "rdma")]
pub mod verbs;
pub mod worker;

/// Whether this build can do RDMA: cargo's feature `rdma`. Without it, a probe's worker says that it cannot.
pub const HAS_RDMA: bool = cfg!(feature = "rdma");

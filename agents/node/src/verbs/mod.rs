//! RDMA through libibverbs: reliable connections (RC), RDMA write, write with immediate and read.
//!
//! The library is loaded at run time, so an executable with this starts on machines without it. What is here says of each
//! failure which call it was, on what, and what usually causes it. Knows nothing of collectives and of the probe.
//!
//! Objects keep what they are made of: a [`Region`] and a [`QueuePair`] keep their [`Domain`], that its [`Device`], that
//! the library, which is never unloaded. Ranges are checked where work is posted, here's and the peer's.
//!
//! Host memory is what tests run on. GPU memory ([`GpuMemory`]) is registered by its dmabuf, else by its address through
//! `nvidia_peermem`; no machine with both a GPU and an adapter was at hand, so that part has compiled and not run.

mod endpoint;
mod error;
mod ffi;
mod gid;
mod gpu;
mod port;

pub use endpoint::{Endpoint, PathOptions, Timeouts};
pub use error::{Verb, VerbsError, WorkFailed, WorkStatus};
pub use ffi::{
    Access, Caps, Completion, CompletionQueue, Device, Domain, HostMemory, Local, Mark, QueuePair, Region, Remote,
    RemoteRegion, Verbs, Work,
};
pub use gid::{Family, GidEntry, GidKind, choose_gid, read_gids};
pub use gpu::GpuMemory;
pub use port::{LinkLayer, Port, PortState};

/// Where the kernel shows adapters, their ports and GIDs.
pub const SYSFS: &str = "/sys/class/infiniband";

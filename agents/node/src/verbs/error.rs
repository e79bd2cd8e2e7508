//! What can go wrong with verbs, with the names of libibverbs and what usually causes it.

use std::{fmt, io};

use super::endpoint::Endpoint;

/// A failure of verbs.
#[derive(Debug, thiserror::Error)]
pub enum VerbsError {
    /// The library is not there, or is too old.
    #[error("cannot load libibverbs.so.1: {why}; install rdma-core (Debian: libibverbs1 ibverbs-providers)")]
    Library {
        /// What the dynamic linker said.
        why: String,
    },
    /// No adapter has this name.
    #[error("no RDMA device is named {wanted}; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NoDevice {
        /// The name.
        wanted: String,
        /// Names that there are.
        known: Vec<String>,
    },
    /// A call failed.
    #[error("{verb} failed for {target}: {source}{}", likely(verb.likely_cause(source)))]
    Call {
        /// Which call.
        verb: Verb,
        /// On what, such as `mlx5_0` or `mlx5_0, 4 MiB of host memory`.
        target: String,
        /// What the system said.
        source: io::Error,
    },
    /// A port cannot carry data.
    #[error("port {port} of {device} {why}")]
    Port {
        /// The adapter.
        device: String,
        /// The port, from 1.
        port: u8,
        /// What is wrong with it, as a fragment that fits "port".
        why: String,
    },
    /// The kernel's folder of an adapter cannot be read.
    #[error("cannot read {path}: {source}")]
    Sysfs {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A peer's endpoint does not fit this one.
    #[error("{device} cannot connect to {peer}: {why}")]
    Peer {
        /// The adapter here.
        device: String,
        /// The peer.
        peer: Endpoint,
        /// What does not fit.
        why: String,
    },
    /// Work goes beyond its memory.
    #[error("{bytes} bytes at {offset} are not within the {side} region of {length} bytes")]
    Range {
        /// `local` or `remote`.
        side: &'static str,
        /// Where the range begins.
        offset: u64,
        /// Its length.
        bytes: u64,
        /// Length of the region.
        length: u64,
    },
    /// A region was registered for other queue pairs.
    #[error("memory that is registered in another domain (of {region}) cannot be used on {device}")]
    OtherDomain {
        /// The adapter that it is registered with.
        region: String,
        /// The queue pair's adapter.
        device: String,
    },
    /// The memory of a region is not the host's, so the CPU cannot touch it here.
    #[error("the region is GPU memory, which the CPU cannot read or write here")]
    NotHostMemory,
    /// The host has no memory left.
    #[error("no memory for a buffer of {bytes} bytes")]
    NoMemory {
        /// Its length.
        bytes: usize,
    },
    /// GPU memory cannot be had or used.
    #[error("cannot use GPU memory for RDMA: {why}")]
    Gpu {
        /// What was tried and what was said.
        why: String,
    },
    /// Posted work failed.
    #[error(transparent)]
    Work(#[from] WorkFailed),
}

/// Posted work that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status} on {device} port {port} to {peer}{}", likely(status.likely_cause()))]
pub struct WorkFailed {
    /// What the adapter says.
    pub status: WorkStatus,
    /// The adapter here.
    pub device: String,
    /// Its port.
    pub port: u8,
    /// The peer, such as `10.99.1.2 (QP 17)`.
    pub peer: String,
}

fn likely(cause: &'static str) -> String {
    if cause.is_empty() { String::new() } else { format!(" ({cause})") }
}

/// A call of libibverbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Lists the adapters.
    GetDeviceList,
    /// Opens an adapter.
    OpenDevice,
    /// Reads a port's attributes.
    QueryPort,
    /// Makes a protection domain.
    AllocPd,
    /// Registers memory by its address.
    RegMr,
    /// Registers memory by a dmabuf.
    RegDmabufMr,
    /// Makes a completion queue.
    CreateCq,
    /// Makes a queue pair.
    CreateQp,
    /// Brings a queue pair to INIT.
    ModifyQpInit,
    /// Brings it to RTR: from here on it receives.
    ModifyQpRtr,
    /// Brings it to RTS: from here on it sends.
    ModifyQpRts,
    /// Posts work to send.
    PostSend,
    /// Posts a receive.
    PostRecv,
    /// Takes completions.
    PollCq,
}

impl Verb {
    /// Its name in libibverbs, with the state that it was to lead to.
    pub fn name(self) -> &'static str {
        match self {
            Self::GetDeviceList => "ibv_get_device_list",
            Self::OpenDevice => "ibv_open_device",
            Self::QueryPort => "ibv_query_port",
            Self::AllocPd => "ibv_alloc_pd",
            Self::RegMr => "ibv_reg_mr",
            Self::RegDmabufMr => "ibv_reg_dmabuf_mr",
            Self::CreateCq => "ibv_create_cq",
            Self::CreateQp => "ibv_create_qp",
            Self::ModifyQpInit => "ibv_modify_qp to INIT",
            Self::ModifyQpRtr => "ibv_modify_qp to RTR",
            Self::ModifyQpRts => "ibv_modify_qp to RTS",
            Self::PostSend => "ibv_post_send",
            Self::PostRecv => "ibv_post_recv",
            Self::PollCq => "ibv_poll_cq",
        }
    }

    /// What usually causes this error of this call; empty where nothing stands out. By the manual pages of rdma-core.
    pub fn likely_cause(self, error: &io::Error) -> &'static str {
        match (self, error.raw_os_error().unwrap_or_default()) {
            (Self::GetDeviceList, libc::ENOSYS) => "the kernel has no RDMA support: is ib_uverbs loaded?",
            (_, libc::EACCES | libc::EPERM) => {
                "/dev/infiniband/uverbs* may not be used: give the user access, or the container the devices"
            }
            (Self::OpenDevice, libc::ENOENT) => "/dev/infiniband is not there: does the container hide it?",
            (Self::RegMr | Self::CreateCq | Self::CreateQp, libc::ENOMEM) => {
                "locked memory is limited: see `ulimit -l`, set memlock to unlimited"
            }
            (Self::RegMr, libc::EFAULT) => {
                "the address is no memory that can be pinned: GPU memory needs nvidia_peermem"
            }
            (Self::RegDmabufMr, libc::EOPNOTSUPP | libc::EINVAL) => {
                "the adapter's driver or the kernel (before 5.12) does not take dmabufs"
            }
            (Self::CreateQp, libc::EINVAL) => "more work requests or inline bytes than the adapter has",
            (Self::ModifyQpRtr, libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH) => {
                "the peer's address is not reachable from this port: subnet, VLAN or route of the rail"
            }
            (Self::ModifyQpRtr | Self::ModifyQpInit, libc::EINVAL) => {
                "GID index, MTU or port of the two ends do not fit, or the GID is gone"
            }
            (Self::PostSend | Self::PostRecv, libc::ENOMEM) => "the queue is full: more work than it was made for",
            _ => "",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Result of posted work: a number of `enum ibv_wc_status` (`infiniband/verbs.h`). A newer library may know more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkStatus(pub u32);

/// Names in the order of their numbers, and what usually causes them.
const STATUSES: [(&str, &str); 24] = [
    ("IBV_WC_SUCCESS", ""),
    ("IBV_WC_LOC_LEN_ERR", "the message is longer than what waits for it, or than the port takes"),
    ("IBV_WC_LOC_QP_OP_ERR", "the adapter here cannot send: its link or network device is down"),
    ("IBV_WC_LOC_EEC_OP_ERR", ""),
    ("IBV_WC_LOC_PROT_ERR", "the memory here is not registered any more, or the range is outside of it"),
    ("IBV_WC_WR_FLUSH_ERR", "an earlier failure, or a link that went down, stopped the connection"),
    ("IBV_WC_MW_BIND_ERR", ""),
    ("IBV_WC_BAD_RESP_ERR", "the peer answered out of order"),
    ("IBV_WC_LOC_ACCESS_ERR", "the memory here may not be written"),
    ("IBV_WC_REM_INV_REQ_ERR", "the peer cannot take the request: too long, or no such operation"),
    (
        "IBV_WC_REM_ACCESS_ERR",
        "the peer refuses access: its key or address is wrong, or its memory is registered no more",
    ),
    ("IBV_WC_REM_OP_ERR", "the peer's adapter failed: see its kernel log"),
    ("IBV_WC_RETRY_EXC_ERR", "the peer does not answer: link cut, peer gone, or packets lost on the way"),
    ("IBV_WC_RNR_RETRY_EXC_ERR", "the peer posts no receive: it hangs, or is too slow"),
    ("IBV_WC_LOC_RDD_VIOL_ERR", ""),
    ("IBV_WC_REM_INV_RD_REQ_ERR", ""),
    ("IBV_WC_REM_ABORT_ERR", "the peer gave the operation up"),
    ("IBV_WC_INV_EECN_ERR", ""),
    ("IBV_WC_INV_EEC_STATE_ERR", ""),
    ("IBV_WC_FATAL_ERR", "the adapter here failed: see the kernel log"),
    ("IBV_WC_RESP_TIMEOUT_ERR", "the peer does not answer in time"),
    ("IBV_WC_GENERAL_ERR", ""),
    ("IBV_WC_TM_ERR", ""),
    ("IBV_WC_TM_RNDV_INCOMPLETE", ""),
];

impl WorkStatus {
    /// All went well.
    pub const SUCCESS: Self = Self(0);
    /// Ended by an earlier failure of the same queue pair.
    pub const FLUSHED: Self = Self(5);
    /// The peer's key or address is wrong.
    pub const REMOTE_ACCESS: Self = Self(10);
    /// The peer does not answer.
    pub const RETRY_EXCEEDED: Self = Self(12);

    /// Its name, such as `IBV_WC_RETRY_EXC_ERR`.
    pub fn name(self) -> &'static str {
        STATUSES.get(self.0 as usize).map_or("unknown work completion status", |(name, _)| name)
    }

    /// What usually causes it; empty where nothing stands out.
    pub fn likely_cause(self) -> &'static str {
        STATUSES.get(self.0 as usize).map_or("", |(_, cause)| cause)
    }

    /// Whether all went well.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

impl fmt::Display for WorkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match STATUSES.get(self.0 as usize) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "work completion status {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_call_target_and_cause() {
        let call = |verb, errno| {
            let source = io::Error::from_raw_os_error(errno);
            VerbsError::Call { verb, target: "mlx5_0".to_owned(), source }.to_string()
        };
        for (verb, errno, expected) in [
            (
                Verb::RegMr,
                libc::ENOMEM,
                "ibv_reg_mr failed for mlx5_0: Cannot allocate memory (os error 12) (locked memory",
            ),
            (Verb::OpenDevice, libc::EACCES, "(/dev/infiniband/uverbs* may not be used"),
            (Verb::RegMr, libc::EFAULT, "needs nvidia_peermem)"),
            (Verb::ModifyQpRtr, libc::ETIMEDOUT, "ibv_modify_qp to RTR failed"),
            (Verb::PostSend, libc::ENOMEM, "the queue is full"),
        ] {
            assert!(call(verb, errno).contains(expected), "{}", call(verb, errno));
        }
        assert!(call(Verb::PollCq, libc::EIO).ends_with("(os error 5)"), "no cause is made up");
    }

    #[test]
    fn statuses_have_the_headers_names() {
        for (number, name) in [(0, "IBV_WC_SUCCESS"), (12, "IBV_WC_RETRY_EXC_ERR"), (23, "IBV_WC_TM_RNDV_INCOMPLETE")] {
            assert_eq!(WorkStatus(number).to_string(), name);
        }
        assert_eq!(WorkStatus(99).to_string(), "work completion status 99");
        let failed = WorkFailed {
            status: WorkStatus::RETRY_EXCEEDED,
            device: "mlx5_1".to_owned(),
            port: 1,
            peer: "10.0.0.2 (QP 9)".to_owned(),
        };
        assert_eq!(
            failed.to_string(),
            "IBV_WC_RETRY_EXC_ERR on mlx5_1 port 1 to 10.0.0.2 (QP 9) (the peer does not answer: link cut, peer gone, or \
             packets lost on the way)"
        );
    }

    #[test]
    fn names_are_those_of_the_bindings() {
        use ibverbs_sys::ibv_wc_status as c;
        for (number, name) in [
            (c::IBV_WC_LOC_PROT_ERR, "IBV_WC_LOC_PROT_ERR"),
            (c::IBV_WC_REM_ACCESS_ERR, "IBV_WC_REM_ACCESS_ERR"),
            (c::IBV_WC_RNR_RETRY_EXC_ERR, "IBV_WC_RNR_RETRY_EXC_ERR"),
            (c::IBV_WC_FATAL_ERR, "IBV_WC_FATAL_ERR"),
            (c::IBV_WC_GENERAL_ERR, "IBV_WC_GENERAL_ERR"),
        ] {
            assert_eq!(WorkStatus(number).name(), name);
        }
    }
}

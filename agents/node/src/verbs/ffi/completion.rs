//! Completion queues, and what comes out of them.

use std::{fmt, ptr::NonNull, sync::Arc};

use ibverbs_sys as ib;

use super::{Device, check, last_error};
use crate::verbs::{Verb, VerbsError, WorkStatus};

/// Completions taken from the library at a time.
const POLL_BATCH: usize = 32;

/// Where completions come.
pub struct CompletionQueue {
    device: Arc<Device>,
    cq: NonNull<ib::ibv_cq>,
}

// SAFETY: completion queues may be used from every thread, several at once (see the module).
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

/// Work that is done, or has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// What the work was posted as.
    pub id: u64,
    /// The queue pair's number ([`super::QueuePair::number`]).
    pub qpn: u32,
    /// How it went; [`super::QueuePair::check`] makes an error of it.
    pub status: WorkStatus,
    /// What it was; of a failure, nothing is known but `id`, `qpn` and `status`.
    pub work: Work,
    /// Bytes that came, of received work.
    pub bytes: u32,
}

/// What a completion is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A write or read of this side.
    Sent,
    /// A peer's write with an immediate.
    Received {
        /// The immediate.
        immediate: u32,
    },
    /// It failed, so this is not known.
    Unknown,
}

impl CompletionQueue {
    /// A queue for `depth` completions that were not taken yet.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where the adapter has no such room.
    pub fn new(device: &Arc<Device>, depth: u32) -> Result<Arc<Self>, VerbsError> {
        let depth = i32::try_from(depth).unwrap_or(i32::MAX);
        let (context, none) = (device.context.as_ptr(), std::ptr::null_mut());
        // SAFETY: the context is open; no channel, and the first vector, which every adapter has.
        let cq = unsafe { (device.verbs.api.ibv_create_cq)(context, depth, none, std::ptr::null_mut(), 0) };
        match NonNull::new(cq) {
            Some(cq) => Ok(Arc::new(Self { device: Arc::clone(device), cq })),
            None => Err(last_error(Verb::CreateCq, format!("{}, {depth} entries", device.name()))),
        }
    }

    /// The library's own, for as long as this lives.
    pub(super) const fn as_ptr(&self) -> *mut ib::ibv_cq {
        self.cq.as_ptr()
    }

    /// Adds what has completed to `into`, without waiting; how many that were.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where the queue broke: it had no room for a completion.
    pub fn poll(&self, into: &mut Vec<Completion>) -> Result<usize, VerbsError> {
        // SAFETY: the structure is numbers alone, for which zeroes are valid.
        let mut batch: [ib::ibv_wc; POLL_BATCH] = unsafe { std::mem::zeroed() };
        let before = into.len();
        loop {
            // SAFETY: every provider has this operation; it writes at most as many entries as it is told.
            let count = unsafe {
                let poll = (*self.device.context.as_ptr()).ops.poll_cq;
                poll.map_or(-libc::ENOSYS, |poll| poll(self.cq.as_ptr(), POLL_BATCH as i32, batch.as_mut_ptr()))
            };
            check(count.min(0), Verb::PollCq, || self.device.name().to_owned())?;
            into.extend(batch.iter().take(count as usize).map(completion));
            if (count as usize) < POLL_BATCH {
                return Ok(into.len() - before);
            }
        }
    }
}

fn completion(entry: &ib::ibv_wc) -> Completion {
    let (id, qpn) = (entry.wr_id(), entry.qp_num);
    if let Some((status, _)) = entry.error() {
        return Completion { id, qpn, status: WorkStatus(status), work: Work::Unknown, bytes: 0 };
    }
    // The bindings hand out the immediate in network order, as the adapter does.
    let received = entry.opcode() == ib::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM;
    let immediate = u32::from_be(entry.imm_data().unwrap_or_default());
    let work = if received { Work::Received { immediate } } else { Work::Sent };
    Completion { id, qpn, status: WorkStatus::SUCCESS, work, bytes: entry.len() as u32 }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; queue pairs hold it, so none is left.
        unsafe { (self.device.verbs.api.ibv_destroy_cq)(self.cq.as_ptr()) };
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").field("device", &self.device).finish_non_exhaustive()
    }
}

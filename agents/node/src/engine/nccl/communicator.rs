//! A communicator of NCCL: made, used, ended. Knows nothing of items or times.
#![expect(unsafe_code, reason = "NCCL is a C library")]

use std::ffi::{CStr, c_char, c_int, c_void};

use gdrtune_profiles::vocab::{Collective, DataType, ReduceOp};

use super::{
    api::{self, Comm, IN_PROGRESS, SUCCESS, Stream, UNIQUE_ID_BYTES, UniqueId},
    loader::{Nccl, Version},
};
use crate::engine::EngineError;

/// One call of a collective.
pub(super) struct NcclCall {
    pub(super) collective: Collective,
    /// Elements, as NCCL counts them for this collective.
    pub(super) count: usize,
    pub(super) data_type: DataType,
    pub(super) op: ReduceOp,
    pub(super) root: u32,
    pub(super) send: *const c_void,
    pub(super) receive: *mut c_void,
}

/// A rank of a communicator.
pub(super) struct Communicator {
    nccl: Nccl,
    comm: Comm,
    rank: u32,
    world: u32,
    is_broken: bool,
}

/// Makes the bytes that all ranks need to find rank 0.
pub(super) fn make_unique_id(nccl: &Nccl) -> Result<Vec<u8>, EngineError> {
    let mut id = UniqueId([0; UNIQUE_ID_BYTES]);
    // SAFETY: the function fills the structure.
    let result = unsafe { (nccl.api.get_unique_id)(&raw mut id) };
    check(nccl, std::ptr::null_mut(), result, || "make a unique id".to_owned())?;
    // A C character has a sign on some machines and none on others.
    Ok(id.0.iter().flat_map(|byte| byte.to_ne_bytes()).collect())
}

/// Turns a result of NCCL into ours, with its last error's text.
fn check(nccl: &Nccl, comm: Comm, result: c_int, what: impl FnOnce() -> String) -> Result<(), EngineError> {
    if result == SUCCESS {
        return Ok(());
    }
    // SAFETY: the function returns a text for any number.
    let name = text(unsafe { (nccl.api.get_error_string)(result) });
    // SAFETY: the communicator is valid or null, which asks for the last error of any.
    let last = nccl.api.get_last_error.map(|get| text(unsafe { get(comm) })).unwrap_or_default();
    let last = last.trim();
    let detail = if last.is_empty() { String::new() } else { format!(": {last}") };
    let why = format!("NCCL {}: {name} ({result}){detail}", nccl.version);
    Err(EngineError::Library { what: what(), why })
}

/// A text that NCCL owns.
fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: NCCL's texts end with a NUL and live as long as the library, or until the next error of this thread.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

impl Communicator {
    /// Joins; returns when all ranks have. The GPU's context is current on this thread.
    pub(super) fn join(nccl: Nccl, id: &[u8], rank: u32, world: u32) -> Result<Self, EngineError> {
        let Ok(bytes) = <[u8; UNIQUE_ID_BYTES]>::try_from(id) else {
            let why = format!("its unique id has {} bytes, not {UNIQUE_ID_BYTES}", id.len());
            return Err(EngineError::Peer { rank: 0, why });
        };
        let id = UniqueId(bytes.map(|byte| c_char::from_ne_bytes([byte])));
        let mut comm: Comm = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call; the id is passed by value as the header says.
        let result = unsafe { (nccl.api.comm_init_rank)(&raw mut comm, world as c_int, id, rank as c_int) };
        check(&nccl, std::ptr::null_mut(), result, || "make the communicator".to_owned())?;
        Ok(Self { nccl, comm, rank, world, is_broken: false })
    }

    /// NCCL's version.
    pub(super) fn version(&self) -> Version {
        self.nccl.version
    }

    /// This rank's number.
    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the communicator.
    pub(super) fn world(&self) -> u32 {
        self.world
    }

    /// Path of the library.
    pub(super) fn library(&self) -> String {
        self.nccl.path.display().to_string()
    }

    /// Queues a call on the stream. Its memory must stay until the stream is through.
    pub(super) fn queue(&mut self, call: &NcclCall, stream: Stream) -> Result<(), EngineError> {
        let result = self.dispatch(call, stream);
        self.is_broken |= result != SUCCESS;
        check(&self.nccl, self.comm, result, || format!("start {}", call.collective))
    }

    /// Adds a call to the graph that the stream captures. Says why NCCL refuses that, where it does; nothing is broken then.
    pub(super) fn capture(&mut self, call: &NcclCall, stream: Stream) -> Result<Option<String>, EngineError> {
        let result = self.dispatch(call, stream);
        let checked = check(&self.nccl, self.comm, result, || format!("capture {}", call.collective));
        if api::REFUSALS.contains(&result) {
            return Ok(checked.err().map(|refusal| refusal.to_string()));
        }
        self.is_broken |= result != SUCCESS;
        checked.map(|()| None)
    }

    fn dispatch(&self, call: &NcclCall, stream: Stream) -> c_int {
        let api = &self.nccl.api;
        let (send, receive, count, root) = (call.send, call.receive, call.count, call.root as c_int);
        let (kind, op) = (api::data_type_code(call.data_type), api::op_code(call.op));
        let comm = self.comm;
        // SAFETY: communicator, stream and device memory are valid; `call` was made for buffers that hold its span.
        unsafe {
            match call.collective {
                Collective::AllReduce => (api.all_reduce)(send, receive, count, kind, op, comm, stream),
                Collective::AllGather => (api.all_gather)(send, receive, count, kind, comm, stream),
                Collective::ReduceScatter => (api.reduce_scatter)(send, receive, count, kind, op, comm, stream),
                Collective::Broadcast => (api.broadcast)(send, receive, count, kind, root, comm, stream),
                Collective::Reduce => (api.reduce)(send, receive, count, kind, op, root, comm, stream),
                Collective::AllToAll => match api.all_to_all {
                    Some(all_to_all) => all_to_all(send, receive, count, kind, comm, stream),
                    None => self.exchange_blocks(call, stream),
                },
                Collective::SendRecv => {
                    let next = (self.rank + 1) % self.world;
                    let previous = (self.rank + self.world - 1) % self.world;
                    self.grouped(|| {
                        first_failure((api.send)(send, count, kind, next as c_int, comm, stream), || {
                            (api.recv)(receive, count, kind, previous as c_int, comm, stream)
                        })
                    })
                }
            }
        }
    }

    /// All-to-all by sends and receives, for versions without a function of that name.
    fn exchange_blocks(&self, call: &NcclCall, stream: Stream) -> c_int {
        let api = &self.nccl.api;
        let kind = api::data_type_code(call.data_type);
        let block = call.count * call.data_type.bytes() as usize;
        self.grouped(|| {
            let mut result = SUCCESS;
            for peer in 0..self.world {
                let start = peer as usize * block;
                let (send, receive) = (call.send.wrapping_byte_add(start), call.receive.wrapping_byte_add(start));
                let peer = peer as c_int;
                // SAFETY: as in `dispatch`; the blocks of all ranks lie within the buffers.
                result = first_failure(result, || unsafe {
                    first_failure((api.send)(send, call.count, kind, peer, self.comm, stream), || {
                        (api.recv)(receive, call.count, kind, peer, self.comm, stream)
                    })
                });
            }
            result
        })
    }

    /// Runs `body` between group start and end; the group is ended whatever comes of it.
    fn grouped(&self, body: impl FnOnce() -> c_int) -> c_int {
        let api = &self.nccl.api;
        // SAFETY: both functions take nothing; they are called in pairs on one thread.
        let started = unsafe { (api.group_start)() };
        if started != SUCCESS {
            return started;
        }
        let result = body();
        // SAFETY: as above.
        let ended = unsafe { (api.group_end)() };
        first_failure(result, || ended)
    }

    /// Fails where something went wrong behind our back, such as a lost peer.
    pub(super) fn check_health(&mut self) -> Result<(), EngineError> {
        let mut state = SUCCESS;
        // SAFETY: the communicator is valid; the function writes one integer.
        let result = unsafe { (self.nccl.api.comm_get_async_error)(self.comm, &raw mut state) };
        let worst = first_failure(result, || if state == IN_PROGRESS { SUCCESS } else { state });
        self.is_broken |= worst != SUCCESS;
        check(&self.nccl, self.comm, worst, || "go on with the communicator".to_owned())
    }

    /// NCCL's handle, for calls that are none of this module's.
    pub(super) fn handle(&self) -> Comm {
        self.comm
    }

    /// Turns the result of such a call into ours.
    pub(super) fn check(&self, result: c_int, what: impl FnOnce() -> String) -> Result<(), EngineError> {
        check(&self.nccl, self.comm, result, what)
    }

    /// Whether nothing has gone wrong yet.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_broken
    }

    /// Says that the communicator must not be ended in good order: other ranks may be gone.
    pub(super) fn give_up(&mut self) {
        self.is_broken = true;
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let end = if self.is_broken { self.nccl.api.comm_abort } else { self.nccl.api.comm_destroy };
        // SAFETY: the communicator is valid and ended once. What it says is of no use: the process ends.
        unsafe { end(self.comm) };
    }
}

/// The first of two results that is a failure; the second is not asked for after one.
fn first_failure(first: c_int, second: impl FnOnce() -> c_int) -> c_int {
    if first == SUCCESS { second() } else { first }
}

//! Stand-in for `libnccl.so.2`, for tests only: NCCL's calling sequence among the processes of one host.
//!
//! Ranks share a file in memory; a collective is done when its function returns. Every rank's algorithm, protocol and
//! channels go with its data, and ranks that differ get an error: real ones would hang. What it does on purpose:
//!
//! | variable | effect |
//! |---|---|
//! | `STANDIN_NCCL_VERSION` | version number (22809), which also decides the tuner interface |
//! | `STANDIN_NCCL_COSTS` | microseconds of a call, `allreduce:tree:ll=50,...`: the first that fits; `*` for any |
//! | | `own=50` is for calls for which no plugin asked for anything |
//! | `STANDIN_NCCL_FAULT` | `hang`, `crash`, `wrong`, `late` or `error`, then `:COLLECTIVE:ALGORITHM:PROTOCOL[:RANK]`; rank 0 |
//! | | `substitute:COLLECTIVE:ALGORITHM:PROTOCOL:ALGORITHM:PROTOCOL:CHANNELS`: runs the second choice for the first |
//! | `STANDIN_NCCL_CHANNELS` | most channels of a call (2), whatever is asked for |
//! | `STANDIN_NCCL_GDR` | 1: connections are by GPU Direct RDMA; `send`: only those that send; `none`: HCAs that cannot; |
//! | | `PIX`, `PXB`, `PHB`, `SYS`: HCAs that far, so that `NCCL_NET_GDR_LEVEL` and `_READ` decide; else they are sockets |
//! | `STANDIN_NCCL_GDR_COSTS` | microseconds with and without it, `4096=100:300,1073741824=2000:2500`: calls up to so many bytes |
//! | `STANDIN_NCCL_INIT_ERROR` | warnings, separated by `|`, with which the communicator fails |
//! | `STANDIN_NCCL_BYPASS` | 1: the tuner plugin is loaded, and never asked; `unopened`: it cannot be loaded |
//! | `STANDIN_NCCL_CAPTURE` | 0: calls on a stream that captures are refused |
//! | `STANDIN_NCCL_MEMORY_LOG` | file to which all ranks write what becomes of memory |
//! | `STANDIN_NCCL_LOG` | file to which rank 0 writes what ran |
//!
//! `NCCL_DEBUG`, `NCCL_DEBUG_SUBSYS` and `NCCL_DEBUG_FILE` do what they do in NCCL, for the lines that gdrtune reads.
#![expect(unsafe_code, reason = "stands for a C library")]
#![expect(clippy::missing_safety_doc, reason = "the C library's documentation says what must hold")]

mod capture;
mod collective;
mod debug;
mod purpose;
mod registration;
mod segment;
mod tuner;

use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int, c_void},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use capture::Task;
use collective::{Call, Kind, Transfer};
use segment::Segment;
use tuner::Tuner;

const SUCCESS: c_int = 0;
const UNHANDLED_CUDA_ERROR: c_int = 1;
const SYSTEM_ERROR: c_int = 2;
const INVALID_ARGUMENT: c_int = 4;
const INVALID_USAGE: c_int = 5;

/// `ncclUniqueId`: the path of the shared file, and zeros.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([c_char; 128]);

/// `ncclComm`.
pub struct Comm {
    rank: usize,
    segment: Segment,
    tuner: Option<Tuner>,
    /// Calls in graphs that are not destroyed yet.
    captured: AtomicUsize,
}

/// Sends and receives of the open group.
struct Group {
    depth: u32,
    comm: *const Comm,
    transfers: Vec<Transfer>,
}

thread_local! {
    static GROUP: RefCell<Group> =
        const { RefCell::new(Group { depth: 0, comm: std::ptr::null(), transfers: Vec::new() }) };
}

static LAST_ERROR: Mutex<Option<CString>> = Mutex::new(None);

/// Warns, and keeps the text for `ncclGetLastError`.
fn failed(result: c_int, text: &str) -> c_int {
    debug::warn(text);
    *LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner) = CString::new(text).ok();
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { version.write(purpose::version()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    let path = match Segment::create() {
        Ok(path) => path,
        Err(error) => return failed(SYSTEM_ERROR, &format!("make a shared file: {error}")),
    };
    let mut bytes = [0; 128];
    for (to, from) in bytes[..127].iter_mut().zip(path.as_bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the caller's promise.
    unsafe { id.write(UniqueId(bytes)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(result: c_int) -> *const c_char {
    let text = match result {
        SUCCESS => c"no error",
        UNHANDLED_CUDA_ERROR => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        INVALID_ARGUMENT => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        SYSTEM_ERROR => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        INVALID_USAGE => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_comm: *mut Comm) -> *const c_char {
    let last = LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner);
    last.as_ref().map_or(c"".as_ptr(), |text| text.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRank(out: *mut *mut Comm, world: c_int, id: UniqueId, rank: c_int) -> c_int {
    let errors = purpose::init_errors();
    if !errors.is_empty() {
        return errors.iter().fold(SYSTEM_ERROR, |result, text| failed(result, text));
    }
    let bytes: Vec<u8> = id.0.iter().map(|byte| byte.cast_unsigned()).take_while(|byte| *byte != 0).collect();
    let path = String::from_utf8_lossy(&bytes);
    let segment = match Segment::join(&path, rank as usize, world as usize) {
        Ok(segment) => segment,
        Err(error) => return failed(SYSTEM_ERROR, &format!("join {path}: {error}")),
    };
    debug::log_communicator(rank as usize, world as usize);
    let tuner = Tuner::load(world as usize);
    let comm = Box::new(Comm { rank: rank as usize, segment, tuner, captured: AtomicUsize::new(0) });
    // SAFETY: the caller's promise.
    unsafe { out.write(Box::into_raw(comm)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommDestroy(comm: *mut Comm) -> c_int {
    // More than the real one asks for: whoever ends in good order has left nothing behind.
    if registration::is_any_left(comm) {
        std::process::abort();
    }
    // SAFETY: made by init, ended once.
    unsafe { end(comm) };
    SUCCESS
}

/// # Safety
/// Made by init, ended once.
unsafe fn end(comm: *mut Comm) {
    registration::forget(comm);
    // SAFETY: the caller's promise.
    let comm = unsafe { Box::from_raw(comm) };
    // The real one waits for the end of the graphs, for ever.
    if comm.captured.load(Ordering::Acquire) != 0 {
        std::process::abort();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommAbort(comm: *mut Comm) -> c_int {
    // SAFETY: as above.
    unsafe { end(comm) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(_comm: *mut Comm, state: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { state.write(SUCCESS) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> c_int {
    let (comm, transfers) = GROUP.with_borrow_mut(|group| {
        group.depth -= 1;
        (group.comm, std::mem::take(&mut group.transfers))
    });
    if transfers.is_empty() {
        return SUCCESS;
    }
    // SAFETY: the communicator of the transfers, alive until the caller ends it.
    let comm = unsafe { &*comm };
    comm.start(Task::Transfers(transfers))
}

/// Adds to the open group.
fn add(comm: *const Comm, transfer: Transfer) -> c_int {
    GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return failed(INVALID_USAGE, "the stand-in takes sends and receives in groups only");
        }
        group.comm = comm;
        group.transfers.push(transfer);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclSend(
    send: *const c_void,
    count: usize,
    kind: c_int,
    peer: c_int,
    comm: *mut Comm,
    _stream: *mut c_void,
) -> c_int {
    let bytes = count * collective::element_bytes(kind);
    add(comm, Transfer::Send { from: send.cast(), bytes, peer: peer as usize })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclRecv(
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    peer: c_int,
    comm: *mut Comm,
    _stream: *mut c_void,
) -> c_int {
    let bytes = count * collective::element_bytes(kind);
    add(comm, Transfer::Receive { to: receive.cast(), bytes, peer: peer as usize })
}

/// Runs a call of one of the five functions that have a choice.
unsafe fn run(comm: *mut Comm, call: Call) -> c_int {
    // SAFETY: the caller's promise.
    let comm = unsafe { &*comm };
    comm.enqueue(call)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllReduce(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    comm: *mut Comm,
    _stream: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise, here and below.
    unsafe { run(comm, Call::new(Kind::AllReduce, send, receive, count, kind).with_op(op)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllGather(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    comm: *mut Comm,
    _stream: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { run(comm, Call::new(Kind::AllGather, send, receive, count, kind)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclReduceScatter(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    comm: *mut Comm,
    _stream: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { run(comm, Call::new(Kind::ReduceScatter, send, receive, count, kind).with_op(op)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclBroadcast(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    root: c_int,
    comm: *mut Comm,
    _stream: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { run(comm, Call::new(Kind::Broadcast, send, receive, count, kind).with_root(root)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclReduce(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    root: c_int,
    comm: *mut Comm,
    _stream: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { run(comm, Call::new(Kind::Reduce, send, receive, count, kind).with_op(op).with_root(root)) }
}

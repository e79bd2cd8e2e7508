//! Memory of the library's own allocator, and buffers that a communicator knows.
//!
//! Stricter than the real one, which frees quietly what was left behind: see [`is_any_left`].

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_void},
    io::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{Comm, INVALID_ARGUMENT, SUCCESS, UNHANDLED_CUDA_ERROR, capture::driver_function, failed};

/// What is allocated and registered.
struct State {
    /// Bytes by address.
    memory: BTreeMap<usize, usize>,
    /// Communicator and address, by handle.
    registered: BTreeMap<usize, (usize, usize)>,
    last_handle: usize,
}

static STATE: Mutex<State> = Mutex::new(State { memory: BTreeMap::new(), registered: BTreeMap::new(), last_handle: 0 });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log(what: &str, bytes: usize) {
    let Ok(path) = std::env::var("STANDIN_NCCL_MEMORY_LOG") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // One write, so that lines of several processes stay whole. A log that cannot be written fails the test that reads it.
    file.and_then(|mut file| file.write_all(format!("{what} {bytes}\n").as_bytes())).ok();
}

/// Whether the communicator knows a buffer still, or any memory is not freed.
pub(crate) fn is_any_left(comm: *mut Comm) -> bool {
    let state = state();
    !state.memory.is_empty() || state.registered.values().any(|(owner, _)| *owner == comm.addr())
}

/// Ends the communicator's registrations.
pub(crate) fn forget(comm: *mut Comm) {
    state().registered.retain(|_, (owner, _)| *owner != comm.addr());
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclMemAlloc(out: *mut *mut c_void, bytes: usize) -> c_int {
    let Some(allocate) = driver_function(c"cuMemAlloc_v2") else {
        return failed(UNHANDLED_CUDA_ERROR, "the driver is not loaded");
    };
    // SAFETY: the type is the function's.
    let allocate: unsafe extern "C" fn(*mut u64, usize) -> c_int = unsafe { std::mem::transmute(allocate) };
    let mut address = 0;
    // SAFETY: it writes one address.
    if unsafe { allocate(&raw mut address, bytes) } != 0 {
        return failed(UNHANDLED_CUDA_ERROR, "Cuda failure 2 'out of memory'");
    }
    state().memory.insert(address as usize, bytes);
    log("allocate", bytes);
    // SAFETY: the caller's promise.
    unsafe { out.write(std::ptr::with_exposed_provenance_mut(address as usize)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclMemFree(memory: *mut c_void) -> c_int {
    let address = memory.addr();
    let mut state = state();
    if state.registered.values().any(|(_, registered)| *registered == address) {
        // A communicator that knows it would use it after this.
        std::process::abort();
    }
    let Some(bytes) = state.memory.remove(&address) else { return failed(INVALID_ARGUMENT, "no memory of ours") };
    log("free", bytes);
    let Some(free) = driver_function(c"cuMemFree_v2") else { return UNHANDLED_CUDA_ERROR };
    // SAFETY: the type is the function's.
    let free: unsafe extern "C" fn(u64) -> c_int = unsafe { std::mem::transmute(free) };
    // SAFETY: allocated above, and taken out of the list.
    unsafe { free(address as u64) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommRegister(
    comm: *mut Comm,
    buffer: *mut c_void,
    bytes: usize,
    out: *mut *mut c_void,
) -> c_int {
    let mut state = state();
    if state.memory.get(&buffer.addr()).is_none_or(|length| *length < bytes) {
        return failed(INVALID_ARGUMENT, "the buffer is not from ncclMemAlloc");
    }
    state.last_handle += 1;
    let handle = state.last_handle;
    state.registered.insert(handle, (comm.addr(), buffer.addr()));
    log("register", bytes);
    // SAFETY: the caller's promise.
    unsafe { out.write(std::ptr::without_provenance_mut(handle)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommDeregister(comm: *mut Comm, handle: *mut c_void) -> c_int {
    let mut state = state();
    match state.registered.remove(&handle.addr()) {
        Some((owner, address)) if owner == comm.addr() => {
            log("deregister", state.memory.get(&address).copied().unwrap_or_default());
            SUCCESS
        }
        _ => failed(INVALID_ARGUMENT, "no registration of this communicator"),
    }
}

//! Stand-in for `libcuda.so.1`, for tests only: the driver's entry points that gdrtune's worker calls, on host memory.
//!
//! Everything that is queued is done at once, so a stream is always idle. What it does on purpose: `STANDIN_CUDA_FAULT` as
//! `copy:BYTES` makes copies of at least so many bytes fail, as after an illegal address;
//! `STANDIN_CUDA_DEVICES` is the number of GPUs (1), `STANDIN_CUDA_MEMORY` the bytes that can be allocated, and
//! `STANDIN_CUDA_CAPTURE=0` refuses to capture a stream;
//! `STANDIN_CUDA_BROKEN=1` makes the stream fail as after an illegal address. `STANDIN_CUDA_LOG` is a file to which all ranks
//! write what did not fit.
#![expect(unsafe_code, reason = "stands for a C library")]
#![expect(clippy::missing_safety_doc, reason = "the C library's documentation says what must hold")]

mod graph;

use std::{
    alloc::Layout,
    collections::HashMap,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    io::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const INVALID_DEVICE: c_int = 101;
const ILLEGAL_STATE: c_int = 401;
const ILLEGAL_ADDRESS: c_int = 700;
const LAUNCH_FAILED: c_int = 719;
const NOT_SUPPORTED: c_int = 801;
const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_INVALIDATED: c_int = 901;

/// Alignment of device memory, as of the real one.
const ALIGNMENT: usize = 256;

/// Size of each allocation by address.
static ALLOCATIONS: Mutex<Option<HashMap<u64, usize>>> = Mutex::new(None);

/// Time stamps by event number, which counts from 1.
static EVENTS: Mutex<Vec<Option<Instant>>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Writes a line to the log.
fn log(line: &str) {
    let Ok(path) = std::env::var("STANDIN_CUDA_LOG") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // One write, so that lines of several processes stay whole. A log that cannot be written fails the test that reads it.
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).ok();
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { count.write(number("STANDIN_CUDA_DEVICES", 1) as c_int) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    if number("STANDIN_CUDA_DEVICES", 1) <= ordinal as u64 {
        return INVALID_DEVICE;
    }
    // SAFETY: the caller's promise.
    unsafe { device.write(ordinal) };
    SUCCESS
}

unsafe fn write_text(text: &str, to: *mut c_char, room: c_int) -> c_int {
    if room as usize <= text.len() {
        return INVALID_VALUE;
    }
    // SAFETY: there is room for the text and its end.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, room: c_int, _device: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write_text("Stand-in GPU", name, room) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(text: *mut c_char, room: c_int, device: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write_text(&format!("0000:{:02X}:00.0", device + 1), text, room) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { context.write(device as usize + 1) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(_context: usize) -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut usize, _flags: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { stream.write(1) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(_stream: usize) -> c_int {
    if graph::forbid() {
        return CAPTURE_UNSUPPORTED;
    }
    if number("STANDIN_CUDA_BROKEN", 0) == 1 { ILLEGAL_ADDRESS } else { SUCCESS }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, ALIGNMENT).ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> c_int {
    if graph::forbid() {
        return CAPTURE_UNSUPPORTED;
    }
    let Some(layout) = layout(bytes).filter(|_| bytes > 0) else { return INVALID_VALUE };
    let mut allocations = locked(&ALLOCATIONS);
    let all = allocations.get_or_insert_default();
    if number("STANDIN_CUDA_MEMORY", u64::MAX) < (all.values().sum::<usize>() + bytes) as u64 {
        log(&format!("refused {bytes}"));
        return OUT_OF_MEMORY;
    }
    // SAFETY: the size is not 0.
    let address = unsafe { std::alloc::alloc(layout) } as u64;
    if address == 0 {
        return OUT_OF_MEMORY;
    }
    all.insert(address, bytes);
    // SAFETY: the caller's promise.
    unsafe { pointer.write(address) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(pointer: u64) -> c_int {
    let bytes = locked(&ALLOCATIONS).get_or_insert_default().remove(&pointer);
    let Some(layout) = bytes.and_then(layout) else { return INVALID_VALUE };
    // SAFETY: allocated above with this layout, and taken out of the list.
    unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(pointer as usize), layout) };
    SUCCESS
}

/// Whether a copy of this size is to fail.
fn is_faulty_copy(bytes: usize) -> bool {
    let fault = std::env::var("STANDIN_CUDA_FAULT").unwrap_or_default();
    fault.strip_prefix("copy:").and_then(|least| least.parse().ok()).is_some_and(|least: usize| least <= bytes)
}

/// What a device has where nobody says how much: as an H200.
const USUAL_MEMORY: u64 = 150_754_820_096;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    let used: usize = locked(&ALLOCATIONS).iter().flat_map(HashMap::values).sum();
    let all = number("STANDIN_CUDA_MEMORY", USUAL_MEMORY) as usize;
    // SAFETY: the caller's promise.
    unsafe {
        free.write(all.saturating_sub(used));
        total.write(all);
    }
    SUCCESS
}

/// Whether the range lies in one allocation.
fn is_ours(pointer: u64, bytes: usize) -> bool {
    let allocations = locked(&ALLOCATIONS);
    let holds = |(&start, &length): (&u64, &usize)| start <= pointer && pointer + bytes as u64 <= start + length as u64;
    allocations.iter().flatten().any(holds)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, _stream: usize) -> c_int {
    if graph::forbid() {
        return CAPTURE_UNSUPPORTED;
    }
    if !is_ours(to, bytes) {
        return INVALID_VALUE;
    }
    if is_faulty_copy(bytes) {
        return ILLEGAL_ADDRESS;
    }
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to as usize);
    // SAFETY: the range is ours; `from` is the caller's promise.
    unsafe { to.copy_from(from.cast(), bytes) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, _stream: usize) -> c_int {
    if graph::forbid() {
        return CAPTURE_UNSUPPORTED;
    }
    if !is_ours(from, bytes) {
        return INVALID_VALUE;
    }
    if is_faulty_copy(bytes) {
        return ILLEGAL_ADDRESS;
    }
    let from: *const u8 = std::ptr::with_exposed_provenance(from as usize);
    // SAFETY: the range is ours; `to` is the caller's promise.
    unsafe { to.cast::<u8>().copy_from(from, bytes) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut usize, _flags: c_uint) -> c_int {
    let mut events = locked(&EVENTS);
    events.push(None);
    // SAFETY: the caller's promise.
    unsafe { event.write(events.len()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: usize, _stream: usize) -> c_int {
    if graph::forbid() {
        return CAPTURE_UNSUPPORTED;
    }
    stamp(event)
}

/// Gives an event the time of now.
fn stamp(event: usize) -> c_int {
    let now = Instant::now();
    match event.checked_sub(1).and_then(|index| locked(&EVENTS).get_mut(index).map(|stamp| *stamp = Some(now))) {
        Some(()) => SUCCESS,
        None => INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, from: usize, to: usize) -> c_int {
    let events = locked(&EVENTS);
    let stamp = |event: usize| event.checked_sub(1).and_then(|index| events.get(index).copied().flatten());
    let (Some(from), Some(to)) = (stamp(from), stamp(to)) else { return INVALID_VALUE };
    // SAFETY: the caller's promise.
    unsafe { milliseconds.write(to.duration_since(from).as_secs_f32() * 1e3) };
    SUCCESS
}

fn texts(error: c_int) -> (&'static CStr, &'static CStr) {
    match error {
        INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        OUT_OF_MEMORY => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        INVALID_DEVICE => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        ILLEGAL_STATE => (c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state"),
        LAUNCH_FAILED => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        NOT_SUPPORTED => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
        CAPTURE_UNSUPPORTED => {
            (c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing")
        }
        CAPTURE_INVALIDATED => {
            (c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture")
        }
        ILLEGAL_ADDRESS => (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
        _ => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { text.write(texts(error).0.as_ptr()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { text.write(texts(error).1.as_ptr()) };
    SUCCESS
}

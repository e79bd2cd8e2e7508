//! Stand-in for `libnccl-tuner-gdrtune.so`, for tests only: choices in, decisions out, over NCCL's tuner interface v4.
//!
//! As the plugin: it prefers what was set, unless NCCL does not allow it, and records the last call.
//! `STANDIN_TUNER_BYTES` makes it claim another size of its structure, as another build would.
#![expect(unsafe_code, reason = "stands for a C library")]
#![expect(clippy::missing_safety_doc, reason = "the interfaces are those of NCCL and of the plugin")]

use std::{
    ffi::{c_char, c_int, c_void},
    sync::{Mutex, PoisonError},
};

const SUCCESS: c_int = 0;

/// Functions that a tuner is asked about.
const FUNCTIONS: usize = 5;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Decision {
    struct_bytes: u32,
    api_version: i32,
    calls: u64,
    bytes: u64,
    ranks: u64,
    nodes: u64,
    collective: i32,
    num_pipe_ops: i32,
    reg_buff: i32,
    source: i32,
    rule_line: i32,
    algorithm: i32,
    protocol: i32,
    channels: i32,
    is_allowed: i32,
    num_algorithms: i32,
    num_protocols: i32,
    reserved: i32,
    costs_us: [[f32; 4]; 8],
}

struct State {
    choices: [Option<[i32; 3]>; FUNCTIONS],
    last: Decision,
}

static STATE: Mutex<State> = Mutex::new(State {
    choices: [None; FUNCTIONS],
    last: Decision {
        struct_bytes: size_of::<Decision>() as u32,
        api_version: 4,
        calls: 0,
        bytes: 0,
        ranks: 0,
        nodes: 0,
        collective: -1,
        num_pipe_ops: 0,
        reg_buff: -1,
        source: 0,
        rule_line: 0,
        algorithm: -1,
        protocol: -1,
        channels: -1,
        is_allowed: -1,
        num_algorithms: 0,
        num_protocols: 0,
        reserved: 0,
        costs_us: [[-1.0; 4]; 8],
    },
});

#[unsafe(no_mangle)]
pub extern "C" fn gdrtune_tuner_set(collective: i32, algorithm: i32, protocol: i32, channels: i32) -> i32 {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(choice) = usize::try_from(collective).ok().and_then(|index| state.choices.get_mut(index)) else {
        return 1;
    };
    if !(0..7).contains(&algorithm) || !(0..3).contains(&protocol) || !(0..=64).contains(&channels) {
        return 1;
    }
    *choice = Some([algorithm, protocol, channels]);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn gdrtune_tuner_clear() {
    STATE.lock().unwrap_or_else(PoisonError::into_inner).choices = [None; FUNCTIONS];
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdrtune_tuner_last(out: *mut Decision) -> i32 {
    let mut last = STATE.lock().unwrap_or_else(PoisonError::into_inner).last;
    if last.calls == 0 {
        return 0;
    }
    if let Some(claimed) = std::env::var("STANDIN_TUNER_BYTES").ok().and_then(|value| value.parse().ok()) {
        last.struct_bytes = claimed;
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(last) };
    1
}

#[repr(C)]
pub struct Tuner {
    name: Name,
    init: unsafe extern "C" fn(usize, usize, *mut c_void, *mut *mut c_void) -> c_int,
    get_coll_info:
        unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, *mut *mut f32, c_int, c_int, c_int, *mut c_int) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
}

#[repr(transparent)]
struct Name(*const c_char);

// SAFETY: points to a literal.
unsafe impl Sync for Name {}

#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v4: Tuner = Tuner { name: Name(c"stand-in".as_ptr()), init, get_coll_info, destroy };

unsafe extern "C" fn init(ranks: usize, nodes: usize, _log: *mut c_void, _context: *mut *mut c_void) -> c_int {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    (state.last.ranks, state.last.nodes) = (ranks as u64, nodes as u64);
    SUCCESS
}

unsafe extern "C" fn destroy(_context: *mut c_void) -> c_int {
    SUCCESS
}

unsafe extern "C" fn get_coll_info(
    _context: *mut c_void,
    collective: c_int,
    bytes: usize,
    num_pipe_ops: c_int,
    costs: *mut *mut f32,
    num_algorithms: c_int,
    num_protocols: c_int,
    reg_buff: c_int,
    channels: *mut c_int,
) -> c_int {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = usize::try_from(collective).ok().and_then(|index| state.choices.get(index).copied().flatten());
    let last = &mut state.last;
    (last.calls, last.bytes, last.collective) = (last.calls + 1, bytes as u64, collective);
    (last.num_pipe_ops, last.reg_buff) = (num_pipe_ops, reg_buff);
    (last.num_algorithms, last.num_protocols) = (num_algorithms, num_protocols);
    let cell = |algorithm: usize, protocol: usize| {
        // SAFETY: the table is flat and has the size that is passed with it.
        unsafe { costs.cast::<f32>().add(algorithm * num_protocols as usize + protocol) }
    };
    for algorithm in 0..(num_algorithms as usize).min(8) {
        for protocol in 0..(num_protocols as usize).min(4) {
            // SAFETY: within the table.
            last.costs_us[algorithm][protocol] = unsafe { cell(algorithm, protocol).read() };
        }
    }
    let Some([algorithm, protocol, count]) = wanted else {
        (last.algorithm, last.protocol, last.channels, last.is_allowed) = (-1, -1, -1, -1);
        return SUCCESS;
    };
    let is_allowed = last.costs_us[algorithm as usize][protocol as usize] >= 0.0;
    (last.algorithm, last.protocol, last.channels, last.is_allowed) = (algorithm, protocol, count, is_allowed.into());
    if is_allowed {
        // SAFETY: within the table; the count is NCCL's variable.
        unsafe {
            cell(algorithm as usize, protocol as usize).write(0.0);
            channels.write(count);
        }
    }
    SUCCESS
}

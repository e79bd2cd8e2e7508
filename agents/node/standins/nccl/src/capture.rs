//! Work that is run at once, or at every launch of the graph that the stream captures.

use std::{
    ffi::{CStr, c_int, c_void},
    sync::atomic::Ordering,
};

use crate::{
    Comm, INVALID_USAGE,
    collective::{Call, Transfer},
    failed,
    purpose::{self, Selection},
};

/// What a rank does.
pub(crate) enum Task {
    Call(Call, Selection),
    Transfers(Vec<Transfer>),
}

/// A task in a graph.
struct Captured {
    comm: *const Comm,
    task: Task,
}

type Capture = unsafe extern "C" fn(
    unsafe extern "C" fn(*mut c_void) -> c_int,
    unsafe extern "C" fn(*mut c_void),
    *mut c_void,
) -> c_int;

/// A function of the stand-in driver.
pub(crate) fn driver_function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: finds the library that is loaded already, and a symbol in it; both names end with a NUL.
    let symbol = unsafe {
        let driver = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if driver.is_null() {
            return None;
        }
        libc::dlsym(driver, name.as_ptr())
    };
    (!symbol.is_null()).then_some(symbol)
}

impl Comm {
    /// Runs the task, or leaves it to the graph that is captured.
    pub(crate) fn start(&self, task: Task) -> c_int {
        let Some(capture) = driver_function(c"standin_cuda_capture") else { return self.perform(&task) };
        // SAFETY: the type is the function's.
        let capture: Capture = unsafe { std::mem::transmute(capture) };
        let captured = Box::into_raw(Box::new(Captured { comm: self, task }));
        // SAFETY: the functions take what was boxed; it is given away where the answer is 1.
        if unsafe { capture(run, release, captured.cast()) } == 1 {
            self.captured.fetch_add(1, Ordering::AcqRel);
            if purpose::refuses_capture() {
                return failed(INVALID_USAGE, "NCCL cannot be captured in a graph with this driver");
            }
            return crate::SUCCESS;
        }
        // SAFETY: boxed above, and not given away.
        let captured = unsafe { Box::from_raw(captured) };
        self.perform(&captured.task)
    }

    fn perform(&self, task: &Task) -> c_int {
        match task {
            Task::Call(call, selection) => self.run(call, *selection),
            Task::Transfers(transfers) => self.transfer(transfers),
        }
    }
}

/// # Safety
/// `captured` is a [`Captured`], and its communicator lives.
unsafe extern "C" fn run(captured: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let captured = unsafe { &*captured.cast::<Captured>() };
    // SAFETY: a communicator that ended before would have ended the process.
    unsafe { &*captured.comm }.perform(&captured.task)
}

/// # Safety
/// As [`run`], and called once.
unsafe extern "C" fn release(captured: *mut c_void) {
    // SAFETY: the caller's promise.
    let captured = unsafe { Box::from_raw(captured.cast::<Captured>()) };
    // SAFETY: as in `run`.
    unsafe { &*captured.comm }.captured.fetch_sub(1, Ordering::AcqRel);
}

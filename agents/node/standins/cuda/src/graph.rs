//! Graphs: what a capture collects, in order, and is run at each launch.
//!
//! There is one stream. A library with work for it offers that by [`standin_cuda_capture`], which the real driver does not
//! have. What the worker has no business to do while the stream captures spoils the capture, as it would really.

use std::{
    ffi::{c_int, c_uint, c_ulonglong, c_void},
    sync::{Arc, Mutex},
};

use crate::{CAPTURE_INVALIDATED, ILLEGAL_STATE, INVALID_VALUE, LAUNCH_FAILED, NOT_SUPPORTED, SUCCESS, locked, number};

/// Another library's work: run at each launch, and released with the last graph that has it.
struct Work {
    run: unsafe extern "C" fn(*mut c_void) -> c_int,
    release: unsafe extern "C" fn(*mut c_void),
    context: usize,
}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: released once, as agreed with whoever gave it.
        unsafe { (self.release)(std::ptr::with_exposed_provenance_mut(self.context)) };
    }
}

/// A capture that is going on.
struct Capture {
    nodes: Vec<Work>,
    is_spoiled: bool,
}

static CAPTURE: Mutex<Option<Capture>> = Mutex::new(None);

/// Graphs and what was instantiated of them, by number from 1.
static GRAPHS: Mutex<Vec<Option<Arc<Vec<Work>>>>> = Mutex::new(Vec::new());

/// Spoils the capture, if one is going on, and says so.
pub(crate) fn forbid() -> bool {
    let mut capture = locked(&CAPTURE);
    capture.as_mut().map(|capture| capture.is_spoiled = true).is_some()
}

/// Takes work where the stream captures; 1 if so. `run` gives 0 where it went well.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn standin_cuda_capture(
    run: unsafe extern "C" fn(*mut c_void) -> c_int,
    release: unsafe extern "C" fn(*mut c_void),
    context: *mut c_void,
) -> c_int {
    let mut capture = locked(&CAPTURE);
    let Some(capture) = capture.as_mut() else { return 0 };
    capture.nodes.push(Work { run, release, context: context.expose_provenance() });
    1
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamBeginCapture_v2(_stream: usize, _mode: c_uint) -> c_int {
    if number("STANDIN_CUDA_CAPTURE", 1) == 0 {
        return NOT_SUPPORTED;
    }
    let mut capture = locked(&CAPTURE);
    if capture.is_some() {
        return ILLEGAL_STATE;
    }
    *capture = Some(Capture { nodes: Vec::new(), is_spoiled: false });
    SUCCESS
}

fn add(nodes: Arc<Vec<Work>>) -> usize {
    let mut graphs = locked(&GRAPHS);
    graphs.push(Some(nodes));
    graphs.len()
}

fn find(number: usize) -> Option<Arc<Vec<Work>>> {
    number.checked_sub(1).and_then(|index| locked(&GRAPHS).get(index).cloned().flatten())
}

fn remove(number: usize) -> c_int {
    let removed = number.checked_sub(1).and_then(|index| locked(&GRAPHS).get_mut(index).and_then(Option::take));
    if removed.is_some() { SUCCESS } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuStreamEndCapture(_stream: usize, graph: *mut usize) -> c_int {
    let (result, number) = match locked(&CAPTURE).take() {
        None => (ILLEGAL_STATE, 0),
        Some(capture) if capture.is_spoiled => (CAPTURE_INVALIDATED, 0),
        Some(capture) => (SUCCESS, add(Arc::new(capture.nodes))),
    };
    // SAFETY: the caller's promise.
    unsafe { graph.write(number) };
    result
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGraphInstantiateWithFlags(
    out: *mut usize,
    graph: usize,
    _flags: c_ulonglong,
) -> c_int {
    let Some(nodes) = find(graph) else { return INVALID_VALUE };
    // SAFETY: the caller's promise.
    unsafe { out.write(add(nodes)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphLaunch(executable: usize, _stream: usize) -> c_int {
    let Some(nodes) = find(executable) else { return INVALID_VALUE };
    // SAFETY: the graph holds the work, so it was not released.
    let run = |work: &Work| match unsafe { (work.run)(std::ptr::with_exposed_provenance_mut(work.context)) } {
        0 => SUCCESS,
        _ => LAUNCH_FAILED,
    };
    nodes.iter().map(run).find(|result| *result != SUCCESS).unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphExecDestroy(executable: usize) -> c_int {
    remove(executable)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphDestroy(graph: usize) -> c_int {
    remove(graph)
}

//! Work of the stream captured into a CUDA graph, and launched as one. Knows nothing of what is captured.
#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use cudarc::driver::{
    result,
    sys::{CUgraph, CUgraphExec, CUgraphInstantiate_flags, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
};

use super::{Device, failed};
use crate::engine::{EngineError, nccl::loader};

/// What older drivers lack: the last one came with CUDA 11.4.
const FUNCTIONS: [&str; 2] = ["cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags"];

/// A graph that can be launched. Destroyed when dropped: before the communicator whose calls are in it, as that waits for it.
pub(in crate::engine::nccl) struct Graph {
    graph: CUgraph,
    executable: CUgraphExec,
}

impl Device {
    /// Lets the stream collect what is queued on it, instead of running it, until [`Self::end_capture`].
    ///
    /// # Errors
    /// Where this driver cannot; nothing is broken then.
    pub(in crate::engine::nccl) fn begin_capture(&self) -> Result<(), EngineError> {
        let what = "capture calls into a CUDA graph";
        if let Some(function) = loader::missing_in_driver(&FUNCTIONS) {
            let why = format!("the driver has no {function}: CUDA 11.4 or later has it");
            return Err(EngineError::Library { what: what.to_owned(), why });
        }
        // Thread-local, as in nccl-tests: what other threads of NCCL allocate meanwhile must not spoil the capture.
        // SAFETY: the stream is valid, and captures nothing yet.
        unsafe { result::stream::begin_capture(self.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }.map_err(failed(what))
    }

    /// Ends the capture; the stream runs again what is queued on it, whatever comes of this.
    ///
    /// # Errors
    /// Where the driver refuses what was captured; nothing is broken then.
    pub(in crate::engine::nccl) fn end_capture(&self) -> Result<Graph, EngineError> {
        // SAFETY: the stream is valid.
        let graph =
            unsafe { result::stream::end_capture(self.stream) }.map_err(failed("end the capture of a CUDA graph"))?;
        // SAFETY: the graph was just made.
        match unsafe { result::graph::instantiate(graph, CUgraphInstantiate_flags(0)) } {
            Ok(executable) => Ok(Graph { graph, executable }),
            Err(error) => {
                // SAFETY: as above; destroyed once. There is nothing to be done where that fails.
                unsafe { result::graph::destroy(graph) }.ok();
                Err(failed("instantiate a CUDA graph")(error))
            }
        }
    }

    /// Queues all that the graph has.
    pub(in crate::engine::nccl) fn launch(&self, graph: &Graph) -> Result<(), EngineError> {
        // SAFETY: graph and stream are valid.
        unsafe { result::graph::launch(graph.executable, self.stream) }.map_err(failed("launch a CUDA graph"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: both are valid and destroyed once; one that still runs is destroyed when it is through. After a fault of
        // the context this fails, and the process ends.
        unsafe {
            result::graph::exec_destroy(self.executable).ok();
            result::graph::destroy(self.graph).ok();
        }
    }
}

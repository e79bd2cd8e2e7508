//! GPU memory for RDMA: allocated with the CUDA driver, registered by its dmabuf, else by its address.
//!
//! Small on purpose. No machine with a GPU and an adapter was at hand: it compiles, and has not run.
#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::{
    any::Any,
    os::fd::{AsFd as _, FromRawFd as _, OwnedFd},
    sync::Arc,
};

use cudarc::driver::{result, sys};

use super::{Access, Domain, Region, VerbsError};
use crate::engine::nccl::{device, loader};

/// What a dmabuf's size and address must be a multiple of: the GPU's large page, which the host's page divides.
const GRANULE_BYTES: usize = 2 << 20;

/// Memory of a GPU, in bytes that the CPU cannot touch.
pub struct GpuMemory {
    memory: device::Memory,
    bytes: usize,
}

// SAFETY: device memory belongs to the GPU's primary context, not to a thread; the driver frees it from any thread.
unsafe impl Send for GpuMemory {}

fn failed(what: &str, error: impl std::fmt::Display) -> VerbsError {
    VerbsError::Gpu { why: format!("cannot {what}: {error}") }
}

impl GpuMemory {
    /// Memory of the GPU with this number of CUDA's. Its primary context stays current on this thread.
    ///
    /// # Errors
    /// [`VerbsError::Gpu`] where driver, GPU or memory are not there.
    pub fn allocate(gpu: u32, bytes: usize) -> Result<Self, VerbsError> {
        loader::load_driver().map_err(|error| VerbsError::Gpu { why: error.to_string() })?;
        result::init().map_err(|error| failed("start CUDA", error))?;
        let device = result::device::get(gpu as i32).map_err(|error| failed(&format!("take GPU {gpu}"), error))?;
        // SAFETY: the device is valid. The context is never released: the process ends with it.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = context.map_err(|error| failed("make a CUDA context", error))?;
        // SAFETY: the context was just made.
        unsafe { result::ctx::set_current(context) }.map_err(|error| failed("use the CUDA context", error))?;
        let rounded = bytes.max(1).next_multiple_of(GRANULE_BYTES);
        match device::Memory::allocate(rounded) {
            Ok(Some(memory)) => Ok(Self { memory, bytes: rounded }),
            Ok(None) => Err(VerbsError::Gpu { why: format!("GPU {gpu} has no room for {rounded} bytes") }),
            Err(error) => Err(VerbsError::Gpu { why: error.to_string() }),
        }
    }

    /// Registers it: by its dmabuf where driver, kernel and adapter know how, else by its address, which needs
    /// `nvidia_peermem`.
    ///
    /// # Errors
    /// [`VerbsError::Gpu`] with what both ways said.
    pub fn register(self, domain: &Arc<Domain>, access: Access) -> Result<Region, VerbsError> {
        let address = self.memory.address(0).expose_provenance() as u64;
        let range = (address, self.bytes);
        let dmabuf = self.dmabuf(address);
        let owner: Box<dyn Any + Send> = Box::new(self);
        let (why_no_dmabuf, owner) = match dmabuf {
            Ok(dmabuf) => match domain.register_dmabuf((dmabuf.as_fd(), 0), range, access, owner) {
                Ok(region) => return Ok(region),
                Err((error, owner)) => (error.to_string(), owner),
            },
            Err(error) => (error.to_string(), owner),
        };
        // SAFETY: the range is the owner's device memory, which nobody here has a reference to.
        unsafe { domain.register_address(range, access, owner) }
            .map_err(|(error, _)| VerbsError::Gpu { why: format!("{why_no_dmabuf}; without a dmabuf: {error}") })
    }

    fn dmabuf(&self, address: u64) -> Result<OwnedFd, VerbsError> {
        let mut fd: i32 = -1;
        let kind = sys::CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        // SAFETY: the range is an allocation; for this kind of handle the driver writes one descriptor.
        unsafe { sys::cuMemGetHandleForAddressRange((&raw mut fd).cast(), address, self.bytes, kind, 0) }
            .result()
            .map_err(|error| failed("export a dmabuf", error))?;
        // SAFETY: the driver made the descriptor for the caller, who closes it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl std::fmt::Debug for GpuMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

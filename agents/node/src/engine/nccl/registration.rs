//! Buffers from NCCL's own allocator, registered with a communicator: it may then use them without copies of its own.
//!
//! A registration ends before its memory is freed, and both before the communicator ends in good order. A communicator that
//! is aborted forgets its registrations by itself; memory is freed after that.
#![expect(unsafe_code, reason = "NCCL is a C library")]

use std::ffi::{c_int, c_void};

use super::{
    api::Comm,
    communicator::Communicator,
    device::{FreeFunction, Memory},
    loader::Nccl,
};
use crate::engine::EngineError;

/// NCCL's functions for it.
#[derive(Clone, Copy)]
pub(super) struct Registrar {
    allocate: unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int,
    free: FreeFunction,
    register: unsafe extern "C" fn(Comm, *mut c_void, usize, *mut *mut c_void) -> c_int,
    deregister: unsafe extern "C" fn(Comm, *mut c_void) -> c_int,
}

/// What a communicator knows a buffer by; null where it takes no note of it (`NCCL_LOCAL_REGISTER=0`).
pub(super) struct Registration(*mut c_void);

impl Registrar {
    /// Takes the functions of a loaded NCCL.
    pub(super) fn new(nccl: &Nccl) -> Result<Self, EngineError> {
        let missing = |function: &str| {
            let (version, path) = (nccl.version, nccl.path.display());
            let why = format!("NCCL {version} ({path}) has no {function}: NVIDIA's NCCL has it since 2.19");
            EngineError::Library { what: "register buffers".to_owned(), why }
        };
        let api = &nccl.api;
        Ok(Self {
            allocate: api.mem_alloc.ok_or_else(|| missing("ncclMemAlloc"))?,
            free: api.mem_free.ok_or_else(|| missing("ncclMemFree"))?,
            register: api.comm_register.ok_or_else(|| missing("ncclCommRegister"))?,
            deregister: api.comm_deregister.ok_or_else(|| missing("ncclCommDeregister"))?,
        })
    }

    /// Memory on the device whose context is current.
    pub(super) fn allocate(&self, comm: &Communicator, bytes: usize) -> Result<Memory, EngineError> {
        let mut address = std::ptr::null_mut();
        // SAFETY: the function writes one pointer.
        let result = unsafe { (self.allocate)(&raw mut address, bytes.max(1)) };
        comm.check(result, || "allocate GPU memory".to_owned())?;
        // SAFETY: just allocated; the function is that of the same allocator.
        Ok(unsafe { Memory::adopt(address, bytes, self.free) })
    }

    /// Makes a buffer known to the communicator, for as long as the registration lasts.
    pub(super) fn register(&self, comm: &Communicator, memory: &Memory) -> Result<Registration, EngineError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: communicator and memory are valid; the function writes one pointer.
        let result = unsafe { (self.register)(comm.handle(), memory.address(0), memory.bytes(), &raw mut handle) };
        comm.check(result, || format!("register a buffer of {} bytes", memory.bytes()))?;
        Ok(Registration(handle))
    }

    /// Ends a registration. Nothing that uses the buffer runs any more.
    pub(super) fn deregister(&self, comm: &Communicator, registration: &Registration) -> Result<(), EngineError> {
        if registration.0.is_null() {
            return Ok(());
        }
        // SAFETY: the communicator is the one that the buffer was registered with; ended once.
        let result = unsafe { (self.deregister)(comm.handle(), registration.0) };
        comm.check(result, || "end the registration of a buffer".to_owned())
    }
}

//! NCCL's C interface, as far as it is used.
//!
//! Written from the public header (`nccl.h`); no symbol is linked. Results are plain integers: newer libraries return
//! values that a Rust enum would lack, which would be undefined behaviour. The library is never unloaded: threads that it
//! started may still run in it.
#![expect(unsafe_code, reason = "foreign functions found at run time")]

use std::{
    ffi::{c_char, c_int, c_void},
    mem::ManuallyDrop,
    path::Path,
};

use gdrtune_profiles::vocab::{DataType, ReduceOp};
use libloading::Library;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub(super) [c_char; UNIQUE_ID_BYTES]);

/// `NCCL_UNIQUE_ID_BYTES`.
pub(super) const UNIQUE_ID_BYTES: usize = 128;

/// `ncclComm_t`.
pub(super) type Comm = *mut c_void;

/// `cudaStream_t`, which is the driver's `CUstream`.
pub(super) type Stream = *mut c_void;

/// `ncclSuccess`.
pub(super) const SUCCESS: c_int = 0;

/// `ncclInvalidArgument` and `ncclInvalidUsage`: the call was refused, and nothing is broken.
pub(super) const REFUSALS: [c_int; 2] = [4, 5];

/// `ncclInProgress`: not over yet; no failure.
pub(super) const IN_PROGRESS: c_int = 7;

/// Declares the table of functions; a missing required one is an error, a missing optional one is `None`.
macro_rules! functions {
    (required { $($name:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)* }
     optional { $($option:ident = $option_symbol:literal: fn($($option_argument:ty),*) -> $option_result:ty;)* }) => {
        /// The functions of one loaded NCCL.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            $(pub(super) $option: Option<unsafe extern "C" fn($($option_argument),*) -> $option_result>,)*
            _library: ManuallyDrop<Library>,
        }

        impl Api {
            /// Takes the functions out of the library at `path`, or the one that the dynamic linker finds under this name.
            pub(super) fn open(path: &Path) -> Result<Self, String> {
                // SAFETY: loading runs the library's constructors; whoever names a path here says that it is NCCL.
                let library = unsafe { Library::new(path) }.map_err(|error| cause(&error))?;
                let library = ManuallyDrop::new(library);
                // SAFETY: the type is the prototype of this symbol in `nccl.h`; the library stays loaded.
                $(let $name = *unsafe { library.get($symbol) }.map_err(|error| cause(&error))?;)*
                // SAFETY: as above.
                $(let $option = unsafe { library.get($option_symbol) }.ok().map(|found| *found);)*
                Ok(Self { $($name,)* $($option,)* _library: library })
            }
        }
    };
}

functions! {
    required {
        get_version = "ncclGetVersion": fn(*mut c_int) -> c_int;
        get_unique_id = "ncclGetUniqueId": fn(*mut UniqueId) -> c_int;
        get_error_string = "ncclGetErrorString": fn(c_int) -> *const c_char;
        comm_init_rank = "ncclCommInitRank": fn(*mut Comm, c_int, UniqueId, c_int) -> c_int;
        comm_destroy = "ncclCommDestroy": fn(Comm) -> c_int;
        comm_abort = "ncclCommAbort": fn(Comm) -> c_int;
        comm_get_async_error = "ncclCommGetAsyncError": fn(Comm, *mut c_int) -> c_int;
        group_start = "ncclGroupStart": fn() -> c_int;
        group_end = "ncclGroupEnd": fn() -> c_int;
        all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> c_int;
        all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, Comm, Stream) -> c_int;
        reduce_scatter = "ncclReduceScatter": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> c_int;
        broadcast = "ncclBroadcast": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> c_int;
        reduce = "ncclReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, Comm, Stream) -> c_int;
        send = "ncclSend": fn(*const c_void, usize, c_int, c_int, Comm, Stream) -> c_int;
        recv = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, Comm, Stream) -> c_int;
    }
    optional {
        get_last_error = "ncclGetLastError": fn(Comm) -> *const c_char;
        mem_alloc = "ncclMemAlloc": fn(*mut *mut c_void, usize) -> c_int;
        mem_free = "ncclMemFree": fn(*mut c_void) -> c_int;
        comm_register = "ncclCommRegister": fn(Comm, *mut c_void, usize, *mut *mut c_void) -> c_int;
        comm_deregister = "ncclCommDeregister": fn(Comm, *mut c_void) -> c_int;
        all_to_all = "ncclAlltoAll": fn(*const c_void, *mut c_void, usize, c_int, Comm, Stream) -> c_int;
    }
}

/// What the dynamic linker said; the error's own text does not tell.
pub(super) fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// `ncclDataType_t`.
pub(super) const fn data_type_code(data_type: DataType) -> c_int {
    match data_type {
        DataType::I32 => 2,
        DataType::F16 => 6,
        DataType::F32 => 7,
        DataType::Bf16 => 9,
    }
}

/// `ncclRedOp_t`.
pub(super) const fn op_code(op: ReduceOp) -> c_int {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Prod => 1,
        ReduceOp::Max => 2,
        ReduceOp::Min => 3,
    }
}

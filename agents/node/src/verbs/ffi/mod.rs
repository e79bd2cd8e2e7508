//! The one module of verbs that calls libibverbs.
//!
//! Functions that the library exports are looked up by name; what its header has as inline functions goes through the
//! operations of the context, which the bindings know the layout of. The bindings' own functions are never called: that
//! would make libibverbs a library that the executable does not start without.
//!
//! Threads: libibverbs locks its objects (man `ibv_open_device` and the thread-safety note in rdma-core's `libibverbs`), so
//! what is here may be sent between threads; what is shared is shared behind `Arc`.
#![expect(unsafe_code, reason = "libibverbs is a C library")]

mod completion;
mod device;
mod memory;
mod queue;

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    io,
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::Arc,
};

use ibverbs_sys as ib;
use libloading::Library;

pub use self::{
    completion::{Completion, CompletionQueue, Work},
    device::{Access, Device, Domain},
    memory::{HostMemory, Region, RemoteRegion},
    queue::{Caps, Local, Mark, QueuePair, Remote},
};
use super::{Verb, VerbsError};

/// The library's name with the version of its interface, which has been 1 since 2006.
const LIBRARY: &str = "libibverbs.so.1";

macro_rules! api {
    ($($required:ident: fn($($argument:ty),*) -> $result:ty;)* @optional
     $($optional:ident: fn($($optional_argument:ty),*) -> $optional_result:ty;)*) => {
        /// Functions of a loaded library.
        struct Api {
            $($required: unsafe extern "C" fn($($argument),*) -> $result,)*
            $($optional: Option<unsafe extern "C" fn($($optional_argument),*) -> $optional_result>,)*
        }

        impl Api {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: each type is the prototype of the symbol of that name in infiniband/verbs.h.
                unsafe {
                    Ok(Self {
                        $($required: *library.get(stringify!($required).as_bytes())?,)*
                        $($optional: library.get(stringify!($optional).as_bytes()).ok().map(|found| *found),)*
                    })
                }
            }
        }
    };
}

api! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ib::ibv_device;
    ibv_free_device_list: fn(*mut *mut ib::ibv_device) -> ();
    ibv_get_device_name: fn(*mut ib::ibv_device) -> *const c_char;
    ibv_open_device: fn(*mut ib::ibv_device) -> *mut ib::ibv_context;
    ibv_close_device: fn(*mut ib::ibv_context) -> c_int;
    ibv_query_port: fn(*mut ib::ibv_context, u8, *mut ib::ibv_port_attr) -> c_int;
    ibv_alloc_pd: fn(*mut ib::ibv_context) -> *mut ib::ibv_pd;
    ibv_dealloc_pd: fn(*mut ib::ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ib::ibv_pd, *mut c_void, usize, c_int) -> *mut ib::ibv_mr;
    ibv_dereg_mr: fn(*mut ib::ibv_mr) -> c_int;
    ibv_create_cq: fn(*mut ib::ibv_context, c_int, *mut c_void, *mut ib::ibv_comp_channel, c_int) -> *mut ib::ibv_cq;
    ibv_destroy_cq: fn(*mut ib::ibv_cq) -> c_int;
    ibv_create_qp: fn(*mut ib::ibv_pd, *mut ib::ibv_qp_init_attr) -> *mut ib::ibv_qp;
    ibv_modify_qp: fn(*mut ib::ibv_qp, *mut ib::ibv_qp_attr, c_int) -> c_int;
    ibv_destroy_qp: fn(*mut ib::ibv_qp) -> c_int;
    @optional
    // Since rdma-core 34.
    ibv_reg_dmabuf_mr: fn(*mut ib::ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ib::ibv_mr;
}

/// The loaded library.
pub struct Verbs {
    api: Api,
    /// Providers' threads may run in it: never unloaded.
    _library: ManuallyDrop<Library>,
}

impl Verbs {
    /// Loads libibverbs.
    ///
    /// # Errors
    /// [`VerbsError::Library`] where it is missing, or lacks a function that all versions since 2012 have.
    pub fn open() -> Result<Arc<Self>, VerbsError> {
        let failed = |error: libloading::Error| {
            use std::error::Error as _;
            // What the dynamic linker said is in the source.
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            VerbsError::Library { why }
        };
        // SAFETY: the library's constructors have no preconditions.
        let library = ManuallyDrop::new(unsafe { Library::new(LIBRARY) }.map_err(failed)?);
        let api = Api::find(&library).map_err(failed)?;
        Ok(Arc::new(Self { api, _library: library }))
    }

    /// Names of all adapters, in the library's order.
    ///
    /// # Errors
    /// [`VerbsError::Call`] where the kernel has no RDMA support.
    pub fn devices(&self) -> Result<Vec<String>, VerbsError> {
        let list = DeviceList::get(self)?;
        Ok(list.devices().map(|device| list.name(device)).collect())
    }

    /// Whether GPU memory can be registered by a dmabuf, as far as the library goes.
    pub fn takes_dmabufs(&self) -> bool {
        self.api.ibv_reg_dmabuf_mr.is_some()
    }
}

impl std::fmt::Debug for Verbs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verbs").field("takes_dmabufs", &self.takes_dmabufs()).finish_non_exhaustive()
    }
}

/// The library's list of adapters; its entries live as long as it.
struct DeviceList<'a> {
    verbs: &'a Verbs,
    first: NonNull<*mut ib::ibv_device>,
    count: usize,
}

impl<'a> DeviceList<'a> {
    fn get(verbs: &'a Verbs) -> Result<Self, VerbsError> {
        let mut count = 0;
        // SAFETY: the function writes one integer and returns an array of that many pointers, or null.
        let first = unsafe { (verbs.api.ibv_get_device_list)(&raw mut count) };
        match NonNull::new(first) {
            Some(first) => Ok(Self { verbs, first, count: usize::try_from(count).unwrap_or(0) }),
            None => Err(last_error(Verb::GetDeviceList, "this machine")),
        }
    }

    fn devices(&self) -> impl Iterator<Item = *mut ib::ibv_device> {
        // SAFETY: the list has `count` pointers, and lives as long as this.
        (0..self.count).map(|index| unsafe { *self.first.as_ptr().add(index) })
    }

    fn name(&self, device: *mut ib::ibv_device) -> String {
        // SAFETY: the device is of this list; its name is a string that lives as long as the list.
        let name = unsafe { CStr::from_ptr((self.verbs.api.ibv_get_device_name)(device)) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        // SAFETY: got from the library and freed once; what was opened stays open without it.
        unsafe { (self.verbs.api.ibv_free_device_list)(self.first.as_ptr()) };
    }
}

/// The failure of a call that sets `errno`.
fn last_error(verb: Verb, target: impl Into<String>) -> VerbsError {
    VerbsError::Call { verb, target: target.into(), source: io::Error::last_os_error() }
}

/// Checks a call that returns an error number, or -1 and sets `errno`; providers do both.
fn check(code: c_int, verb: Verb, target: impl FnOnce() -> String) -> Result<(), VerbsError> {
    let source = match code {
        0 => return Ok(()),
        -1 => io::Error::last_os_error(),
        other => io::Error::from_raw_os_error(other.abs()),
    };
    Err(VerbsError::Call { verb, target: target(), source })
}

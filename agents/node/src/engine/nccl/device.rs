//! One GPU through the CUDA driver: context, stream, memory, events.
//!
//! Everything goes through one stream of its own, which nothing else synchronises with, so copies are asynchronous ones on
//! it and the host waits for the stream. Host memory that is read or written here may be pageable; the stream keeps the
//! order all the same. Knows nothing of NCCL.
#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

mod graph;

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    fmt,
};

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUdeviceptr, CUevent, CUevent_flags, CUresult, CUstream},
};

pub(super) use self::graph::Graph;
use super::{api::Stream, config::NcclConfig, loader};
use crate::engine::EngineError;

/// Room for `domain:bus:device.function` and its end; the driver's documentation asks for 13.
const PCI_TEXT_BYTES: usize = 32;

/// A GPU with a current context and a stream.
pub(super) struct Device {
    /// Its name, such as `NVIDIA H200`.
    pub(super) name: String,
    /// Its PCI address, in lower case.
    pub(super) pci: String,
    stream: CUstream,
    events: Vec<CUevent>,
}

/// Memory of a GPU, in bytes, as the driver counts it: all processes that use it included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MemoryLeft {
    free: u64,
    total: u64,
}

/// Device memory. Freed when dropped.
pub(crate) struct Memory {
    pointer: CUdeviceptr,
    bytes: usize,
    /// The other allocator's function to free it; the driver's where there is none.
    free: Option<FreeFunction>,
}

/// Frees memory of an allocator other than the driver's.
pub(super) type FreeFunction = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What the driver said, with its name and meaning.
fn failed(what: &str) -> impl FnOnce(DriverError) -> EngineError {
    let what = what.to_owned();
    move |error| {
        let text = |text: Result<&CStr, DriverError>| text.map(|t| t.to_string_lossy().into_owned()).ok();
        let name = text(error.error_name()).unwrap_or_else(|| "an unknown CUDA error".to_owned());
        let meaning = text(error.error_string()).unwrap_or_default();
        EngineError::Library { what, why: format!("{name}: {meaning}") }
    }
}

impl Device {
    /// Takes the device of this rank, makes its primary context current on this thread, and a stream in it.
    pub(super) fn open(config: &NcclConfig) -> Result<Self, EngineError> {
        loader::load_driver()?;
        result::init().map_err(failed("start CUDA"))?;
        let count = result::device::get_count().map_err(failed("count GPUs"))?;
        if count < 1 {
            let why = "CUDA shows no device: see CUDA_VISIBLE_DEVICES".to_owned();
            return Err(EngineError::Library { what: "use a GPU".to_owned(), why });
        }
        let index = config.device(count as u32)?;
        let device = result::device::get(index as i32).map_err(failed("take the GPU"))?;
        let name = result::device::get_name(device).map_err(failed("read the GPU's name"))?;
        let pci = pci_address(device)?;
        // SAFETY: the device is valid. The context is never released: the process ends with it.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(failed("make a CUDA context"))?;
        // SAFETY: the context was just made. NCCL's runtime follows the context that is current on its caller's thread.
        unsafe { result::ctx::set_current(context) }.map_err(failed("use the CUDA context"))?;
        let stream =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(failed("make a stream"))?;
        Ok(Self { name, pci, stream, events: vec![] })
    }

    /// The stream as NCCL takes it.
    pub(super) fn stream(&self) -> Stream {
        self.stream.cast()
    }

    /// Queues a copy into device memory. `from` must stay until the stream is through.
    pub(super) fn copy_in(&self, to: &Memory, from: &[u8]) -> Result<(), EngineError> {
        let from = &from[..from.len().min(to.bytes)];
        // SAFETY: both sides are valid for this length; the caller keeps `from` until the stream is through.
        unsafe { result::memcpy_htod_async(to.pointer, from, self.stream) }.map_err(failed("copy to the GPU"))
    }

    /// Queues a copy out of device memory. `to` must stay until the stream is through.
    pub(super) fn copy_out(&self, to: &mut [u8], from: &Memory) -> Result<(), EngineError> {
        let bytes = to.len().min(from.bytes);
        // SAFETY: both sides are valid for this length; the caller keeps `to` until the stream is through.
        unsafe { result::memcpy_dtoh_async(&mut to[..bytes], from.pointer, self.stream) }
            .map_err(failed("copy from the GPU"))
    }

    /// Whether everything that was queued is through.
    pub(super) fn is_idle(&self) -> Result<bool, EngineError> {
        // SAFETY: the stream is valid.
        match unsafe { sys::cuStreamQuery(self.stream) }.result() {
            Ok(()) => Ok(true),
            Err(DriverError(CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(failed("run on the GPU")(error)),
        }
    }

    /// Makes sure that there are this many events.
    pub(super) fn reserve_events(&mut self, count: usize) -> Result<(), EngineError> {
        while self.events.len() < count {
            self.events.push(result::event::create(CUevent_flags::CU_EVENT_DEFAULT).map_err(failed("make an event"))?);
        }
        Ok(())
    }

    /// Queues a time stamp; the event was reserved.
    pub(super) fn record(&self, event: usize) -> Result<(), EngineError> {
        // SAFETY: event and stream are valid, and of the same context.
        unsafe { result::event::record(self.events[event], self.stream) }.map_err(failed("record an event"))
    }

    /// Microseconds from one time stamp to the next; both are through.
    pub(super) fn lap_us(&self, event: usize) -> Result<f64, EngineError> {
        // SAFETY: both events were recorded on this stream.
        let milliseconds = unsafe { result::event::elapsed(self.events[event], self.events[event + 1]) };
        Ok(f64::from(milliseconds.map_err(failed("read an event"))?) * 1e3)
    }
}

impl MemoryLeft {
    /// Bits of a number in one flag: ranks compare flags as signed numbers.
    const FLAG_BITS: u32 = 31;

    /// Of the device whose context is current.
    pub(super) fn now() -> Result<Self, EngineError> {
        let (free, total) = result::mem_get_info().map_err(failed("ask how much GPU memory is left"))?;
        Ok(Self { free: free as u64, total: total as u64 })
    }

    /// Whether no buffer of this size fits.
    pub(super) fn is_below(self, bytes: usize) -> bool {
        self.free < bytes as u64
    }

    /// As numbers that ranks can tell each other.
    pub(super) fn flags(self) -> [i32; 4] {
        let low = |number: u64| (number & ((1 << Self::FLAG_BITS) - 1)) as i32;
        [low(self.free >> Self::FLAG_BITS), low(self.free), low(self.total >> Self::FLAG_BITS), low(self.total)]
    }

    pub(super) fn from_flags(flags: [i32; 4]) -> Self {
        let [free_high, free, total_high, total] = flags.map(|flag| u64::from(flag.cast_unsigned()));
        Self { free: free_high << Self::FLAG_BITS | free, total: total_high << Self::FLAG_BITS | total }
    }
}

impl fmt::Display for MemoryLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(f, "{:.1} MiB free of {:.1} MiB", mib(self.free), mib(self.total))
    }
}

impl Memory {
    /// Memory on the device whose context is current; `None` where there is not enough.
    pub(crate) fn allocate(bytes: usize) -> Result<Option<Self>, EngineError> {
        // SAFETY: the driver takes any size, and says so where no context is current.
        match unsafe { result::malloc_sync(bytes.max(1)) } {
            Ok(pointer) => Ok(Some(Self { pointer, bytes, free: None })),
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
            Err(error) => Err(failed("allocate GPU memory")(error)),
        }
    }

    /// Takes over memory that is freed with `free`.
    ///
    /// # Safety
    /// `address` is device memory of that many bytes that nobody else frees, and `free` frees it.
    pub(super) unsafe fn adopt(address: *mut c_void, bytes: usize, free: FreeFunction) -> Self {
        Self { pointer: address.expose_provenance() as CUdeviceptr, bytes, free: Some(free) }
    }

    /// Its length.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a byte, as NCCL takes it.
    pub(crate) fn address(&self, start: usize) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.pointer as usize + start)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated above or taken over, freed once; the driver waits for what still uses it. After a fault of
        // the context it fails, and the process ends.
        unsafe {
            match self.free {
                Some(free) => drop(free(self.address(0))),
                None => drop(result::free_sync(self.pointer)),
            }
        }
    }
}

fn pci_address(device: sys::CUdevice) -> Result<String, EngineError> {
    let mut text = [0u8; PCI_TEXT_BYTES];
    // SAFETY: the buffer has the length that is given; the driver ends the text with a NUL.
    unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast::<c_char>(), text.len() as i32, device) }
        .result()
        .map_err(failed("read the GPU's PCI address"))?;
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    Ok(text.to_string_lossy().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_survives_the_flags() {
        for (free, total) in [(0, 0), (300_000, 1 << 31), (3 << 30, 151_000_000_000), (1 << 50, (1 << 50) + 5)] {
            let left = MemoryLeft { free, total };
            let flags = left.flags();
            assert!(flags.iter().all(|flag| 0 <= *flag), "{flags:?}");
            assert_eq!(MemoryLeft::from_flags(flags), left);
        }
        let left = MemoryLeft { free: 3 << 19, total: 150_754_820_096 };
        assert_eq!(left.to_string(), "1.5 MiB free of 143771.0 MiB");
    }
}

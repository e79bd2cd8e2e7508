//! The buffers of a rank, and what all ranks agree about them.
//!
//! Every rank asks for the same sizes in the same order, so whether one is asked for at all is known everywhere; whether it
//! was got is agreed on with a collective.

use std::time::{Duration, Instant};

use gdrtune_profiles::{
    size::Size,
    vocab::{Collective, DataType, ReduceOp},
};

use super::{
    Ready, Tuner,
    communicator::NcclCall,
    device::{Memory, MemoryLeft},
    registration::{Registrar, Registration},
};
use crate::engine::{
    EngineError,
    native::plan::{Area, Place},
};

/// Numbers that ranks tell each other when they meet.
pub(super) const FLAGS: usize = 4;

/// Time between two looks at the communicator's health while the stream works.
const HEALTH_INTERVAL: Duration = Duration::from_millis(5);

/// Device memory of a rank, and host memory for checks.
pub(super) struct Buffers {
    input: Option<Memory>,
    output: Option<Memory>,
    flags: Memory,
    /// Who registers input and output; nobody where they are plain memory.
    registrar: Option<Registrar>,
    registrations: Vec<Registration>,
    /// Bytes of each buffer that all ranks have.
    capacity: usize,
    /// The smallest size that some rank did not get. It is not tried again, nor is any larger one.
    refused: Option<Refusal>,
    /// Host copies for checks.
    pub(super) host_input: Vec<u8>,
    pub(super) host_output: Vec<u8>,
}

/// A size that some rank had no room for.
struct Refusal {
    bytes: usize,
    /// Who had none, and what the driver said; told once, with the first item of this size.
    why: String,
    is_told: bool,
}

impl Buffers {
    /// No room yet, except for flags. A context is current.
    pub(super) fn new(registrar: Option<Registrar>) -> Result<Self, EngineError> {
        let flags = Memory::allocate(2 * FLAGS * size_of::<i32>())?;
        let flags = flags.ok_or_else(|| EngineError::Library {
            what: "allocate GPU memory".to_owned(),
            why: "not even a few bytes are left: another process uses the GPU".to_owned(),
        })?;
        Ok(Self {
            input: None,
            output: None,
            flags,
            registrar,
            registrations: vec![],
            capacity: 0,
            refused: None,
            host_input: vec![],
            host_output: vec![],
        })
    }

    /// The device memory of an area.
    pub(super) fn area(&self, area: Area) -> Option<&Memory> {
        match area {
            Area::Input => self.input.as_ref(),
            Area::Output => self.output.as_ref(),
            Area::Scratch => None,
        }
    }

    /// The device address of a place; null where nothing was ever allocated.
    pub(super) fn address(&self, place: Place) -> *mut std::ffi::c_void {
        self.area(place.area).map_or(std::ptr::null_mut(), |memory| memory.address(place.start))
    }

    /// Bytes of each buffer that all ranks have.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether this much was refused already.
    fn is_refused(&self, bytes: usize) -> bool {
        self.refused.as_ref().is_some_and(|refusal| refusal.bytes <= bytes)
    }

    /// Why there is no room for `bytes`: in full once, then in short.
    pub(super) fn why_no_room(&mut self, bytes: usize) -> String {
        let what = format!("out of memory: two buffers of {} bytes", Size(bytes as u64));
        match &mut self.refused {
            Some(refusal) if refusal.bytes == bytes && !refusal.is_told => {
                refusal.is_told = true;
                format!("{what} have no room {}", refusal.why)
            }
            Some(refusal) => format!("{what} are not tried, as {} had no room", Size(refusal.bytes as u64)),
            None => what,
        }
    }
}

impl Ready {
    /// Replaces both buffers. False where there was no room for both; then there is none of them.
    fn replace(&mut self, bytes: usize) -> Result<bool, EngineError> {
        // The old ones first: on a full device, only that makes room.
        self.release()?;
        self.buffers.input = self.allocate(bytes)?;
        self.buffers.output = if self.buffers.input.is_some() { self.allocate(bytes)? } else { None };
        if self.buffers.output.is_none() {
            self.release()?;
            return Ok(false);
        }
        let Buffers { input, output, registrar, registrations, .. } = &mut self.buffers;
        if let Some(registrar) = registrar {
            for memory in [input, output].into_iter().flatten() {
                registrations.push(registrar.register(&self.comm, memory)?);
            }
        }
        Ok(true)
    }

    /// Memory for a buffer, or `None` where there is not enough.
    fn allocate(&self, bytes: usize) -> Result<Option<Memory>, EngineError> {
        let Some(registrar) = &self.buffers.registrar else { return Memory::allocate(bytes) };
        match registrar.allocate(&self.comm, bytes) {
            Ok(memory) => Ok(Some(memory)),
            // NCCL has no result of its own for it: one for all failures of CUDA, and CUDA's words in the text.
            Err(error) if error.to_string().contains("out of memory") || MemoryLeft::now()?.is_below(bytes) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets go of both buffers. Nothing that uses them runs any more.
    pub(super) fn release(&mut self) -> Result<(), EngineError> {
        let Buffers { input, output, registrar, registrations, .. } = &mut self.buffers;
        if let Some(registrar) = registrar {
            for registration in registrations.drain(..) {
                registrar.deregister(&self.comm, &registration)?;
            }
        }
        (*input, *output) = (None, None);
        Ok(())
    }

    /// Whether buffers are known to the communicator, which must not end in good order before they are not.
    pub(super) fn has_registrations(&self) -> bool {
        !self.buffers.registrations.is_empty()
    }

    /// Makes room for `bytes` in both buffers, on all ranks or on none. False where there is none on some rank.
    pub(super) fn make_room(&mut self, bytes: usize, most: usize) -> Result<bool, EngineError> {
        if bytes <= self.buffers.capacity {
            return Ok(true);
        }
        if self.buffers.is_refused(bytes) {
            return Ok(false);
        }
        // At once what the largest call will need, so that batches move through the same memory from the first to the last.
        // Where that is refused, some head room: a script that climbs through sizes should not allocate at each.
        let generous = bytes.saturating_mul(2).min(most).max(bytes);
        for wanted in [most.max(bytes), generous, bytes] {
            if self.buffers.is_refused(wanted) {
                continue;
            }
            if self.try_room(wanted)? {
                return Ok(true);
            }
        }
        self.restore()?;
        Ok(false)
    }

    /// Replaces both buffers on all ranks, or leaves all without any and remembers why.
    fn try_room(&mut self, bytes: usize) -> Result<bool, EngineError> {
        let is_got = self.replace(bytes)?;
        // The lowest rank that got none speaks for all.
        let precedence = if is_got { 0 } else { self.comm.world() - self.comm.rank() } as i32;
        let [speaker, ..] = self.meet([precedence, 0, 0, 0])?;
        if speaker == 0 {
            self.buffers.capacity = bytes;
            return Ok(true);
        }
        let is_speaker = speaker == precedence;
        let left = if is_speaker { MemoryLeft::now()? } else { MemoryLeft::default() };
        // All let go before any tries again: ranks may share a GPU.
        self.release()?;
        let left = MemoryLeft::from_flags(self.meet(left.flags())?);
        let rank = self.comm.world() as i32 - speaker;
        let gpu = if is_speaker { &self.device.name } else { "the GPU" };
        let why = format!("on {gpu} of rank {rank} (CUDA_ERROR_OUT_OF_MEMORY, {left})");
        self.buffers.refused = Some(Refusal { bytes, why, is_told: false });
        Ok(false)
    }

    /// Goes back to the last size that all ranks had.
    fn restore(&mut self) -> Result<(), EngineError> {
        let bytes = self.buffers.capacity;
        if bytes == 0 || self.replace(bytes)? {
            return Ok(());
        }
        let why = format!("{bytes} bytes were there before, and are not any more: another process uses the GPU");
        Err(EngineError::Library { what: "allocate GPU memory".to_owned(), why })
    }

    /// Waits for all ranks; every rank gets the largest value of each flag. Takes back any choice: one that is broken must
    /// not break how ranks agree.
    pub(super) fn meet(&mut self, flags: [i32; FLAGS]) -> Result<[i32; FLAGS], EngineError> {
        if let Tuner::Live(link) = &self.tuner {
            link.clear();
        }
        let bytes = FLAGS * size_of::<i32>();
        let own: Vec<u8> = flags.iter().flat_map(|flag| flag.to_ne_bytes()).collect();
        self.device.copy_in(&self.buffers.flags, &own)?;
        let call = NcclCall {
            collective: Collective::AllReduce,
            count: FLAGS,
            data_type: DataType::I32,
            op: ReduceOp::Max,
            root: 0,
            send: self.buffers.flags.address(0),
            receive: self.buffers.flags.address(0),
        };
        self.comm.queue(&call, self.device.stream())?;
        let mut all = vec![0; bytes];
        self.device.copy_out(&mut all, &self.buffers.flags)?;
        self.wait()?;
        let mut result = [0; FLAGS];
        for (flag, bytes) in result.iter_mut().zip(all.as_chunks::<{ size_of::<i32>() }>().0) {
            *flag = i32::from_ne_bytes(*bytes);
        }
        Ok(result)
    }

    /// Waits until the stream is through, as nccl-tests does: by asking, without sleeping.
    pub(super) fn wait(&mut self) -> Result<(), EngineError> {
        let mut next_look = Instant::now() + HEALTH_INTERVAL;
        while !self.device.is_idle()? {
            if next_look <= Instant::now() {
                self.comm.check_health()?;
                next_look = Instant::now() + HEALTH_INTERVAL;
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

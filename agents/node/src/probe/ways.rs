//! This worker's side of the ways of a pair: devices, memory and queue pairs.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use gdrtune_profiles::bindings::ceilings::{Failure, Memory};
use gdrtune_wire::{ProbeOutcome, ProbeSetup, ProbeStep, ProbeWay};
use serde::{Deserialize, Serialize};

use super::{
    bandwidth::{DEPTH_MOST, LARGEST_BYTES},
    measure, place,
};
use crate::verbs::{
    Access, Caps, CompletionQueue, Device, Domain, Endpoint, Family, GpuMemory, HostMemory, PathOptions, QueuePair,
    Region, RemoteRegion, Timeouts, Verbs, VerbsError,
};

/// Bytes of a way's memory: room for two of the largest messages, so that one can be under way while the next is posted.
pub(super) const REGION_BYTES: usize = 2 * LARGEST_BYTES;

/// Bytes of the host memory that small writes and checks work in: what is sent, and what is read back.
pub(super) const SMALL_REGION_BYTES: usize = 2 * measure::CHECK_BYTES;

/// 134 ms for an acknowledgement, twice. What is under way at the least, two writes of 64 KiB, takes 105 ms at 10 Mbit/s: with
/// the default's 34 ms, a slow way would be flooded with what is sent again. A cut link is told after 0.27 s (1.1 s by the
/// specification's bound).
const TIMEOUTS: Timeouts = Timeouts { ack_exponent: 15, retries: 1, rnr_timer: 22, rnr_retries: 6 };

/// Bytes that a small write carries in its request.
const INLINE_BYTES: u32 = 16;

/// What failed, with the words for people.
pub(super) type Failed = (Failure, String);

/// One side of a way.
pub(super) struct Way {
    pub(super) qp: QueuePair,
    pub(super) queue: Arc<CompletionQueue>,
    /// What large messages are written from, and where the peer's arrive.
    pub(super) region: Rc<Region>,
    /// Host memory for small writes and checks.
    pub(super) small: Region,
    /// The peer's [`Way::region`].
    pub(super) remote: Option<RemoteRegion>,
}

/// What the peer needs of a way.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct End {
    endpoint: Endpoint,
    region: RemoteRegion,
}

/// Every way of a pair, or why there is none.
pub(super) struct Ways {
    ways: Vec<Result<Way, Failed>>,
}

/// Devices and memory that ways share.
#[derive(Default)]
struct Shared {
    domains: BTreeMap<String, Arc<Domain>>,
    regions: BTreeMap<(String, Option<u32>), Rc<Region>>,
}

impl Ways {
    /// Opens everything. What fails is a way's failure.
    ///
    /// # Errors
    /// Where there is no libibverbs at all.
    pub(super) fn open(setup: &ProbeSetup) -> Result<Self, String> {
        let verbs = Verbs::open().map_err(|error| error.to_string())?;
        let mut shared = Shared::default();
        let open = |way| shared.open(&verbs, way).map_err(|error| (Failure::Device, error.to_string()));
        Ok(Self { ways: setup.ways.iter().map(open).collect() })
    }

    /// What the peer needs to connect.
    ///
    /// # Errors
    /// Where it cannot be put into bytes.
    pub(super) fn describe(&self) -> Result<Vec<u8>, String> {
        let end = |way: &Result<Way, Failed>| match way {
            Ok(way) => Ok(End { endpoint: way.qp.local(), region: way.region.remote() }),
            Err((_, why)) => Err(why.clone()),
        };
        let ends: Vec<Result<End, String>> = self.ways.iter().map(end).collect();
        postcard::to_stdvec(&ends).map_err(|error| format!("describe the ways: {error}"))
    }

    /// Connects every way that both sides have.
    ///
    /// # Errors
    /// Where the peer's description cannot be read.
    pub(super) fn connect(&mut self, peer: &[u8]) -> Result<(), String> {
        let ends: Vec<Result<End, String>> =
            postcard::from_bytes(peer).map_err(|error| format!("read what the peer has: {error}"))?;
        let mut ends = ends.into_iter();
        let options = PathOptions { timeouts: TIMEOUTS, ..PathOptions::default() };
        for slot in &mut self.ways {
            let end = ends.next().unwrap_or_else(|| Err("it has no such way".to_owned()));
            let Ok(way) = slot else { continue };
            let connected = match end {
                Err(why) => Err((Failure::Device, format!("the peer's side: {why}"))),
                Ok(end) => {
                    way.remote = Some(end.region);
                    let connected = way.qp.connect(&end.endpoint, options);
                    connected.map_err(|error| (Failure::Connect, error.to_string()))
                }
            };
            if let Err(failed) = connected {
                *slot = Err(failed);
            }
        }
        Ok(())
    }

    /// Measures one way, towards the peer.
    pub(super) fn measure(&mut self, step: ProbeStep) -> ProbeOutcome {
        let measured = match self.ways.get(step.way as usize) {
            Some(Ok(way)) => {
                place::move_to(way.qp.device().name());
                measure::measure(way, Duration::from_millis(step.time_ms))
            }
            Some(Err(failed)) => Err(failed.clone()),
            None => Err((Failure::Device, format!("there is no way {}", step.way))),
        };
        match measured {
            Ok((rates, latency_us)) => ProbeOutcome::Measured { rates, latency_us },
            Err((failure, why)) => ProbeOutcome::Failed { failure, why },
        }
    }
}

impl Shared {
    fn open(&mut self, verbs: &Arc<Verbs>, way: &ProbeWay) -> Result<Way, VerbsError> {
        place::move_to(&way.hca);
        let domain = if let Some(domain) = self.domains.get(&way.hca) {
            Arc::clone(domain)
        } else {
            let domain = Domain::new(&Device::open(verbs, &way.hca)?)?;
            self.domains.insert(way.hca.clone(), Arc::clone(&domain));
            domain
        };
        let region = self.region(&domain, way)?;
        let small = host_region(&domain, SMALL_REGION_BYTES)?;
        let queue = CompletionQueue::new(domain.device(), 2 * DEPTH_MOST)?;
        let caps = Caps { send_depth: DEPTH_MOST, receive_depth: 1, inline_bytes: INLINE_BYTES };
        let port = u8::try_from(way.port).unwrap_or(u8::MAX);
        let qp = QueuePair::new(&domain, &queue, (port, Family::V4), caps)?;
        Ok(Way { qp, queue, region, small, remote: None })
    }

    /// One region for all ways of an HCA with the same memory: they are measured one after the other.
    fn region(&mut self, domain: &Arc<Domain>, way: &ProbeWay) -> Result<Rc<Region>, VerbsError> {
        let gpu = match way.memory {
            Memory::Host => None,
            Memory::Gpu(gpu) => Some(gpu),
        };
        let key = (way.hca.clone(), gpu);
        if let Some(region) = self.regions.get(&key) {
            return Ok(Rc::clone(region));
        }
        let region = match gpu {
            None => host_region(domain, REGION_BYTES)?,
            Some(gpu) => GpuMemory::allocate(gpu, REGION_BYTES)?.register(domain, Access::RemoteReadWrite)?,
        };
        let region = Rc::new(region);
        self.regions.insert(key, Rc::clone(&region));
        Ok(region)
    }
}

fn host_region(domain: &Arc<Domain>, bytes: usize) -> Result<Region, VerbsError> {
    let memory = HostMemory::zeroed(bytes).ok_or(VerbsError::NoMemory { bytes })?;
    domain.register(memory, Access::RemoteReadWrite)
}

//! Two connected queue pairs over one rail, one at each end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gdrtune_node::verbs::{
    Access, Caps, Completion, CompletionQueue, Device, Domain, Family, HostMemory, Local, Mark, PathOptions, QueuePair,
    Region, Remote, Verbs,
};

/// Bytes of each end's region.
pub(crate) const BYTES: usize = 1 << 20;

/// Far beyond what anything takes: the deadline is a failure.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct End {
    pub(crate) domain: Arc<Domain>,
    pub(crate) queue: Arc<CompletionQueue>,
    pub(crate) qp: QueuePair,
    pub(crate) region: Region,
}

impl End {
    fn new(name: &str, access: Access) -> Self {
        let verbs = Verbs::open().unwrap();
        let device = Device::open(&verbs, name).unwrap();
        let domain = Domain::new(&device).unwrap();
        let queue = CompletionQueue::new(&device, 256).unwrap();
        let caps = Caps { send_depth: 64, receive_depth: 16, inline_bytes: 64 };
        let qp = QueuePair::new(&domain, &queue, (1, Family::V4), caps).unwrap();
        let region = domain.register(HostMemory::zeroed(BYTES).unwrap(), access).unwrap();
        Self { domain, queue, qp, region }
    }

    /// The next completion.
    pub(crate) fn next(&self) -> Completion {
        self.wait(1)[0]
    }

    /// At least this many completions.
    pub(crate) fn wait(&self, count: usize) -> Vec<Completion> {
        let (started, mut found) = (Instant::now(), Vec::new());
        while found.len() < count {
            assert!(started.elapsed() < LIMIT, "{} of {count} completions after {LIMIT:?}", found.len());
            if self.queue.poll(&mut found).unwrap() == 0 {
                std::thread::yield_now();
            }
        }
        found
    }

    /// A range of this end's region.
    pub(crate) fn local(&self, offset: usize, bytes: usize) -> Local<'_> {
        Local { region: &self.region, offset, bytes }
    }

    /// A place in this end's region, for the other end.
    pub(crate) fn remote(&self, offset: u64) -> Remote {
        Remote { region: self.region.remote(), offset }
    }
}

/// Both ends of a rail, connected.
pub(crate) fn pair(rail: u8) -> (End, End) {
    let mut a = End::new(&format!("rxe_r{rail}a"), Access::RemoteReadWrite);
    let mut b = End::new(&format!("rxe_r{rail}b"), Access::RemoteReadWrite);
    a.qp.connect(&b.qp.local(), PathOptions::default()).unwrap();
    b.qp.connect(&a.qp.local(), PathOptions::default()).unwrap();
    (a, b)
}

/// Work with a completion.
pub(crate) fn signalled(id: u64) -> Mark {
    Mark { id, signalled: true }
}

/// Bytes that tell their place.
pub(crate) fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + index / 251 + seed) as u8).collect()
}

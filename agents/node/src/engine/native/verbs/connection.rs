//! One connection: a queue pair, its completions, and the region that holds its rings.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::Protocol;

use super::{super::transport, Rail, failed};
use crate::{
    engine::{
        EngineError,
        native::ring::{Layout, PULSE, Streams, Wire, outgoing_word},
    },
    verbs::{
        Access, Caps, Completion, CompletionQueue, Endpoint, HostMemory, Local, Mark, PathOptions, PortState,
        QueuePair, Region, Remote, RemoteRegion, VerbsError, Work,
    },
};

/// Writes that may be under way: more than a ring holds of slots or of credits that are worth a write.
const SEND_DEPTH: u64 = 64;

/// Every so many writes one gets a completion, which tells of all before it.
const SIGNAL_EVERY: u64 = 16;

/// Writes up to this length take their bytes along: credits, barriers, and the smallest messages. The smallest limit among
/// adapters with reliable connections in rdma-core's providers is 96 (`bnxt_re`).
const INLINE_BYTES: usize = 64;

/// Silence after which a waiting rank writes a word to its peer, whose adapter acknowledges that by itself. So a cut link shows
/// within this and the time that the adapter tries ([`crate::verbs::Timeouts`]), however little there is to send. An adapter that
/// is still silent then is not believed any more: `rdma_rxe` was seen to forget writes when its link went down.
const PULSE_AFTER: Duration = Duration::from_millis(50);

/// The name of work that receives; writes are numbered from 0.
const RECEIVE: u64 = u64::MAX;

/// What a peer needs to connect and to write.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(super) struct Door {
    endpoint: Endpoint,
    region: RemoteRegion,
}

/// This rank's end of a connection that its peer does not know yet.
pub(super) struct Half {
    qp: QueuePair,
    queue: Arc<CompletionQueue>,
    region: Region,
    layout: Layout,
    rail: String,
}

impl Half {
    /// Makes a queue pair on a rail, and memory for its rings.
    pub(super) fn open(rail: &Rail, layout: &Layout) -> Result<Self, EngineError> {
        let memory = HostMemory::zeroed(layout.bytes()).ok_or_else(|| EngineError::System {
            what: format!("get {} bytes for a connection", layout.bytes()),
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
        Self::make(rail, layout, memory).map_err(|error| failed(rail, &error))
    }

    fn make(rail: &Rail, layout: &Layout, memory: HostMemory) -> Result<Self, VerbsError> {
        let region = rail.domain.register(memory, Access::RemoteWrite)?;
        let receives = layout.slots() as u32;
        // A failure completes everything that is under way.
        let depth = SEND_DEPTH as u32 + receives;
        let queue = CompletionQueue::new(rail.domain.device(), depth)?;
        let caps =
            Caps { send_depth: SEND_DEPTH as u32, receive_depth: receives.max(1), inline_bytes: INLINE_BYTES as u32 };
        let qp = QueuePair::with_gid(&rail.domain, &queue, (rail.port, &rail.attributes, &rail.gid), caps)?;
        for _ in 0..receives {
            qp.post_receive(RECEIVE)?;
        }
        Ok(Self { qp, queue, region, layout: *layout, rail: rail.name.clone() })
    }

    pub(super) fn door(&self) -> Door {
        Door { endpoint: self.qp.local(), region: self.region.remote() }
    }

    /// Connects to the peer's end. It must have done the same before anything is sent.
    pub(super) fn connect(self, peer: u32, door: &Door, options: PathOptions) -> Result<Connection, EngineError> {
        let Self { mut qp, queue, region, layout, rail } = self;
        qp.connect(&door.endpoint, options).map_err(|error| EngineError::Library {
            what: format!("connect {rail} to rank {peer} over RDMA"),
            why: error.to_string(),
        })?;
        let wire = QueueWire {
            peer,
            qp,
            queue,
            region,
            theirs: door.region,
            posted: 0,
            completed: 0,
            completions: vec![],
            arrivals: VecDeque::new(),
        };
        let patience = options.timeouts.gives_up_within();
        Ok(Connection { wire, streams: Streams::new(&layout), patience, pulse: None })
    }
}

/// A connection to a peer.
pub(super) struct Connection {
    wire: QueueWire,
    streams: Streams,
    /// How long the adapter may take to say what became of a write.
    patience: Duration,
    pulse: Option<Pulse>,
}

/// The last word that was written to show that the peer can be reached.
struct Pulse {
    /// The write whose completion is waited for.
    number: u64,
    sent: Instant,
    /// When the port was looked at last.
    looked: Instant,
}

impl transport::Connection for Connection {
    fn peer(&self) -> u32 {
        self.wire.peer
    }

    fn send(&mut self, protocol: Protocol, bytes: &[u8]) -> Result<usize, EngineError> {
        self.streams.send(&mut self.wire, protocol, bytes)
    }

    fn receive(&mut self, protocol: Protocol, room: &mut [u8]) -> Result<Option<usize>, EngineError> {
        self.streams.receive(&mut self.wire, protocol, room)
    }

    fn look(&mut self, quiet: Duration) -> Result<(), EngineError> {
        self.wire.poll()?;
        if quiet < PULSE_AFTER {
            return Ok(());
        }
        match &mut self.pulse {
            Some(pulse) if pulse.number < self.wire.completed => {
                if PULSE_AFTER <= pulse.sent.elapsed() {
                    self.pulse = Some(self.wire.pulse()?);
                }
            }
            None => self.pulse = Some(self.wire.pulse()?),
            Some(pulse) if self.patience < pulse.sent.elapsed() => {
                let why = format!("nothing became of a write for {} ms", pulse.sent.elapsed().as_millis());
                return Err(self.wire.lost_by(&why));
            }
            // By now most adapters have said something; the port may know why this one has not.
            Some(pulse) if self.patience / 2 < pulse.sent.elapsed() && PULSE_AFTER <= pulse.looked.elapsed() => {
                pulse.looked = Instant::now();
                self.wire.check_port()?;
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// The queue pair and region of a connection.
struct QueueWire {
    peer: u32,
    qp: QueuePair,
    queue: Arc<CompletionQueue>,
    region: Region,
    theirs: RemoteRegion,
    /// Writes that were posted, ever.
    posted: u64,
    /// Writes of which it is known that they are over.
    completed: u64,
    completions: Vec<Completion>,
    /// Immediates that came and were not taken.
    arrivals: VecDeque<u32>,
}

impl QueueWire {
    fn lost(&self, error: &VerbsError) -> EngineError {
        EngineError::PeerLost { rank: self.peer, why: error.to_string() }
    }

    fn lost_by(&self, why: &str) -> EngineError {
        let (device, port) = (self.qp.device().name(), self.qp.port());
        EngineError::PeerLost { rank: self.peer, why: format!("{why} on {device} port {port}") }
    }

    /// Writes a word to the peer. Where there is no room for it, what is under way serves as well.
    fn pulse(&mut self) -> Result<Pulse, EngineError> {
        let posted = self.posted;
        let is_posted = self.post(outgoing_word(PULSE), 8, PULSE, None, true)?;
        let now = Instant::now();
        Ok(Pulse { number: if is_posted { posted } else { self.completed }, sent: now, looked: now })
    }

    /// An error where the port does not carry data any more.
    fn check_port(&self) -> Result<(), EngineError> {
        let port = self.qp.device().port(self.qp.port()).map_err(|error| self.lost(&error))?;
        if port.state == PortState::ACTIVE { Ok(()) } else { Err(self.lost_by(&format!("the link is {}", port.state))) }
    }

    /// Takes completions.
    fn poll(&mut self) -> Result<(), EngineError> {
        self.completions.clear();
        self.queue.poll(&mut self.completions).map_err(|error| self.lost(&error))?;
        for completion in &self.completions {
            self.qp.check(completion).map_err(|error| self.lost(&error.into()))?;
            match completion.work {
                Work::Received { immediate } => self.arrivals.push_back(immediate),
                Work::Sent | Work::Unknown => self.completed = completion.id + 1,
            }
        }
        Ok(())
    }

    fn post(
        &mut self,
        from: usize,
        bytes: usize,
        to: usize,
        immediate: Option<u32>,
        is_signalled: bool,
    ) -> Result<bool, EngineError> {
        if self.posted - self.completed >= SEND_DEPTH {
            self.poll()?;
            if self.posted - self.completed >= SEND_DEPTH {
                return Ok(false);
            }
        }
        let signalled = is_signalled || (self.posted + 1).is_multiple_of(SIGNAL_EVERY);
        let mark = Mark { id: self.posted, signalled };
        let remote = Remote { region: self.theirs, offset: to as u64 };
        let posted = if bytes <= self.qp.inline_bytes().min(INLINE_BYTES) {
            let mut data = [0; INLINE_BYTES];
            let data = &mut data[..bytes];
            self.region.read(from, data).and_then(|()| self.qp.post_inline_write(data, remote, immediate, mark))
        } else {
            let local = Local { region: &self.region, offset: from, bytes };
            self.qp.post_write(local, remote, immediate, mark)
        };
        posted.map_err(|error| self.lost(&error))?;
        self.posted += 1;
        Ok(true)
    }
}

impl Wire for QueueWire {
    fn load(&self, at: usize) -> Result<u64, EngineError> {
        self.region.load(at).map(u64::from_le).map_err(|error| self.lost(&error))
    }

    fn read(&self, at: usize, room: &mut [u8]) -> Result<(), EngineError> {
        self.region.read(at, room).map_err(|error| self.lost(&error))
    }

    fn store(&mut self, at: usize, bytes: &[u8]) -> Result<(), EngineError> {
        self.region.write(at, bytes).map_err(|error| self.lost(&error))
    }

    fn write(&mut self, from: usize, bytes: usize, to: usize, immediate: Option<u32>) -> Result<bool, EngineError> {
        self.post(from, bytes, to, immediate, false)
    }

    fn arrival(&mut self) -> Result<Option<u32>, EngineError> {
        if self.arrivals.is_empty() {
            self.poll()?;
        }
        Ok(self.arrivals.pop_front())
    }

    fn replenish(&mut self) -> Result<(), EngineError> {
        self.qp.post_receive(RECEIVE).map_err(|error| self.lost(&error))
    }
}

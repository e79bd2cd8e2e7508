//! The data connections of a rank: made on demand, kept, addressed by peer and lane.
//!
//! Of two ranks the lower one dials, so that a pair never makes two connections for one lane.

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use super::{
    acceptor::{Acceptor, HANDSHAKE_LIMIT, Identity, Link, fresh_nonce},
    handshake::{End, Hello, PROOF_BYTES, REPLY_BYTES, is_same_proof, prove},
};
use crate::engine::EngineError;

/// Pause between attempts to dial a peer that pushed this rank out.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Where a rank listens: name of the interface, and address. The position counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Endpoint {
    pub(super) interface: String,
    pub(super) address: SocketAddr,
}

/// One connection that has proven itself.
pub(super) struct Connection {
    pub(super) peer: u32,
    pub(super) stream: TcpStream,
}

/// A rank's connections.
pub(super) struct Mesh {
    identity: Identity,
    acceptor: Acceptor,
    /// Own interfaces' names, in channel order.
    interfaces: Vec<String>,
    peers: Vec<Vec<Endpoint>>,
    sockets_per_channel: usize,
    connections: Vec<Connection>,
    index: HashMap<Link, usize>,
}

impl Mesh {
    /// A mesh without connections. All ranks have as many endpoints as this one has interfaces.
    pub(super) fn new(
        identity: Identity,
        acceptor: Acceptor,
        interfaces: Vec<String>,
        peers: Vec<Vec<Endpoint>>,
        sockets_per_channel: usize,
    ) -> Self {
        Self { identity, acceptor, interfaces, peers, sockets_per_channel, connections: vec![], index: HashMap::new() }
    }

    /// Makes those of the connections that are missing.
    pub(super) fn ensure(&mut self, links: &BTreeSet<Link>, deadline: Instant) -> Result<(), EngineError> {
        let rank = self.identity.rank;
        let missing: Vec<Link> = links.iter().copied().filter(|link| !self.index.contains_key(link)).collect();
        // Dial first: every rank's acceptor answers at any time, so no two ranks can wait for each other.
        for &link in missing.iter().filter(|link| rank < link.0) {
            let stream = self.dial(link, deadline)?;
            self.add(link, stream)?;
        }
        for &link in missing.iter().filter(|link| link.0 < rank) {
            let Some(stream) = self.acceptor.take(link, deadline) else {
                let awaited = format!("rank {} to connect over {}", link.0, self.interface(link.1));
                return Err(EngineError::Deadline { awaited });
            };
            self.add(link, stream)?;
        }
        Ok(())
    }

    /// Position of a connection that [`Mesh::ensure`] made.
    pub(super) fn position(&self, link: Link) -> Result<usize, EngineError> {
        self.index.get(&link).copied().ok_or(EngineError::Order("an item that was not prepared"))
    }

    /// All connections, by position.
    pub(super) fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Bound interfaces.
    pub(super) fn interface_count(&self) -> usize {
        self.interfaces.len()
    }

    /// Index of the interface that carries a lane.
    fn rail(&self, lane: usize) -> usize {
        lane / self.sockets_per_channel % self.interfaces.len()
    }

    fn interface(&self, lane: usize) -> &str {
        &self.interfaces[self.rail(lane)]
    }

    fn add(&mut self, link: Link, stream: TcpStream) -> Result<(), EngineError> {
        let set_up = || -> io::Result<()> {
            // Buffer sizes are the kernel's business: fixed ones of 128 KiB to 2 MiB measured alike or worse from 256 KiB
            // to 16 MiB over the loopback, and they would switch its tuning to the path's delay off.
            stream.set_nodelay(true)?;
            stream.set_read_timeout(None)?;
            stream.set_write_timeout(None)?;
            stream.set_nonblocking(true)
        };
        set_up().map_err(|source| EngineError::System {
            what: format!("set up the connection to rank {}", link.0),
            source,
        })?;
        self.index.insert(link, self.connections.len());
        self.connections.push(Connection { peer: link.0, stream });
        Ok(())
    }

    fn dial(&self, link: Link, deadline: Instant) -> Result<TcpStream, EngineError> {
        let address = self.peers[link.0 as usize][self.rail(link.1)].address;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let failure = match dial_once(&self.identity, link, address, left) {
                Ok(stream) => return Ok(stream),
                Err(failure) => failure,
            };
            // A listener that is full of strangers pushes the oldest out. Other failures stay what they are.
            if !failure.is_passing() || deadline <= Instant::now() + RETRY_PAUSE {
                let interface = self.interface(link.1).to_owned();
                return Err(EngineError::Unreachable { rank: link.0, address, interface, why: failure.to_string() });
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

/// One attempt to dial a peer and to prove ourselves to each other. Waits no longer than `left` for each step.
pub(super) fn dial_once(
    identity: &Identity,
    link: Link,
    address: SocketAddr,
    left: Duration,
) -> Result<TcpStream, DialError> {
    let limit = left.min(HANDSHAKE_LIMIT);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let nonce = fresh_nonce()?;
    let hello = Hello { from: identity.rank, to: link.0, lane: link.1 as u32, nonce };
    stream.write_all(&hello.encode())?;
    let mut reply = [0; REPLY_BYTES];
    stream.read_exact(&mut reply)?;
    let (Some(theirs), Some(proof)) = (reply.first_chunk(), reply.last_chunk::<PROOF_BYTES>()) else {
        return Err(DialError::NotOurs);
    };
    if !is_same_proof(proof, &prove(&identity.key, End::Listening, &hello, theirs)) {
        return Err(DialError::NotOurs);
    }
    stream.write_all(&prove(&identity.key, End::Dialling, &hello, theirs))?;
    Ok(stream)
}

/// Why an attempt to dial failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("who answers there does not hold this run's key")]
    NotOurs,
    #[error("no answer in time")]
    Silent,
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Io(error),
        }
    }
}

impl DialError {
    /// Whether the other end closed the connection in mid-handshake.
    fn is_passing(&self) -> bool {
        let Self::Io(error) = self else { return false };
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
        )
    }
}

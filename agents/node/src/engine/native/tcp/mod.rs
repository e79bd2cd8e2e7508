//! The transport over TCP: a socket for each peer and lane, on the bound interfaces.
//!
//! Of two ranks the lower one dials, so that a pair never makes two connections for one lane. Both ends prove that they hold
//! the run's key. Outstanding data is bounded by the sockets' buffers: a receiver that does not read stops its sender.

mod acceptor;
mod binding;
mod handshake;
mod interfaces;
pub(crate) mod reach;

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::Protocol;
use gdrtune_wire::NetworkUse;

use self::{
    acceptor::{Acceptor, HANDSHAKE_LIMIT, fresh_nonce},
    handshake::{End, Hello, PROOF_BYTES, REPLY_BYTES, is_same_proof, prove},
};
use super::{
    config::{IFNAME_VARIABLE, NativeConfig},
    transport::{self, Identity, Link, Maker, Table},
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

/// One connection that has proven itself. Every protocol's bytes cross it as they are.
struct Connection {
    peer: u32,
    stream: TcpStream,
}

impl transport::Connection for Connection {
    fn peer(&self) -> u32 {
        self.peer
    }

    fn send(&mut self, _: Protocol, bytes: &[u8]) -> Result<usize, EngineError> {
        match self.stream.write(bytes) {
            Ok(sent) => Ok(sent),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(EngineError::PeerLost { rank: self.peer, why: error.to_string() }),
        }
    }

    fn receive(&mut self, _: Protocol, room: &mut [u8]) -> Result<Option<usize>, EngineError> {
        match self.stream.read(room) {
            Ok(0) => Err(EngineError::PeerLost { rank: self.peer, why: "it closed the connection".to_owned() }),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(EngineError::PeerLost { rank: self.peer, why: error.to_string() }),
        }
    }

    fn socket(&self) -> Option<&TcpStream> {
        Some(&self.stream)
    }
}

/// The listening end of a rank that does not know its peers yet.
pub(super) struct Opened {
    acceptor: Acceptor,
    /// Bound interfaces' names, in channel order.
    interfaces: Vec<String>,
}

impl Opened {
    /// Listens on the bound interfaces.
    pub(super) fn open(identity: &Identity, config: &NativeConfig) -> Result<Self, EngineError> {
        let system = |what: &str| {
            let what = what.to_owned();
            |source| EngineError::System { what, source }
        };
        let all = interfaces::list().map_err(system("list network interfaces"))?;
        let bound = binding::bind(&all, config.socket_ifname.as_deref())?;
        let addresses: Vec<_> = bound.iter().map(|interface| interface.address).collect();
        let acceptor = Acceptor::start(identity.clone(), &addresses).map_err(system("listen for data connections"))?;
        Ok(Self { acceptor, interfaces: bound.into_iter().map(|interface| interface.name).collect() })
    }

    pub(super) fn offer(&self) -> Vec<Endpoint> {
        let endpoint =
            |(interface, address): (&String, &_)| Endpoint { interface: interface.clone(), address: *address };
        self.interfaces.iter().zip(self.acceptor.addresses()).map(endpoint).collect()
    }

    /// Takes every rank's endpoints, in rank order. All ranks must have as many.
    pub(super) fn meet(
        self,
        identity: &Identity,
        config: &NativeConfig,
        peers: Vec<Vec<Endpoint>>,
    ) -> Result<Mesh, EngineError> {
        let Self { acceptor, interfaces } = self;
        if let Some(rank) = peers.iter().position(|endpoints| endpoints.len() != interfaces.len()) {
            let names: Vec<_> = peers[rank].iter().map(|endpoint| endpoint.interface.as_str()).collect();
            let (theirs, ours) = (names.join(", "), interfaces.join(", "));
            let why =
                format!("it binds {theirs}, this rank {ours}: set {IFNAME_VARIABLE} so that all ranks bind as many");
            return Err(EngineError::Peer { rank: rank as u32, why });
        }
        let sockets_per_channel = config.sockets_per_channel;
        Ok(Mesh { identity: identity.clone(), acceptor, interfaces, peers, sockets_per_channel })
    }
}

/// Dials and accepts a rank's connections.
pub(super) struct Mesh {
    identity: Identity,
    acceptor: Acceptor,
    /// Own interfaces' names, in channel order.
    interfaces: Vec<String>,
    peers: Vec<Vec<Endpoint>>,
    sockets_per_channel: usize,
}

impl Maker for Mesh {
    fn make(&mut self, missing: &[Link], table: &mut Table, deadline: Instant) -> Result<(), EngineError> {
        let rank = self.identity.rank;
        // Dial first: every rank's acceptor answers at any time, so no two ranks can wait for each other.
        for &link in missing.iter().filter(|link| rank < link.0) {
            table.add(link, set_up(link, self.dial(link, deadline)?)?);
        }
        for &link in missing.iter().filter(|link| link.0 < rank) {
            let Some(stream) = self.acceptor.take(link, deadline) else {
                let awaited = format!("rank {} to connect over {}", link.0, self.interface(link.1));
                return Err(EngineError::Deadline { awaited });
            };
            table.add(link, set_up(link, stream)?);
        }
        Ok(())
    }

    fn rails(&self) -> usize {
        self.interfaces.len()
    }

    fn meeting_lane(&self) -> usize {
        0
    }

    fn network(&self) -> Option<NetworkUse> {
        None
    }
}

impl Mesh {
    /// Index of the interface that carries a lane.
    fn rail(&self, lane: usize) -> usize {
        lane / self.sockets_per_channel % self.interfaces.len()
    }

    fn interface(&self, lane: usize) -> &str {
        &self.interfaces[self.rail(lane)]
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
fn dial_once(identity: &Identity, link: Link, address: SocketAddr, left: Duration) -> Result<TcpStream, DialError> {
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

/// Makes a proven connection ready for data.
fn set_up(link: Link, stream: TcpStream) -> Result<Box<dyn transport::Connection>, EngineError> {
    let set = || -> io::Result<()> {
        // Buffer sizes are the kernel's business: fixed ones of 128 KiB to 2 MiB measured alike or worse from 256 KiB
        // to 16 MiB over the loopback, and they would switch its tuning to the path's delay off.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        stream.set_nonblocking(true)
    };
    set()
        .map_err(|source| EngineError::System { what: format!("set up the connection to rank {}", link.0), source })?;
    Ok(Box::new(Connection { peer: link.0, stream }))
}

/// Why an attempt to dial failed.
#[derive(Debug, thiserror::Error)]
enum DialError {
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

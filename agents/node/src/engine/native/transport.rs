//! What moves bytes between two ranks: TCP everywhere, RDMA verbs where the build and all ranks have them.
//!
//! A connection belongs to a peer and a lane. It carries a stream of bytes each way, without blocking, and keeps their order;
//! how the bytes of a protocol cross it is its own matter. Every rank offers what it has, sees the offers of all, and comes
//! to the same choice.

use std::{
    collections::{BTreeSet, HashMap},
    net::TcpStream,
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::Protocol;
use gdrtune_wire::{NetworkUse, SessionKey};

use super::{
    config::{NativeConfig, TRANSPORT_VARIABLE, Transport},
    tcp, verbs,
};
use crate::engine::EngineError;

/// Key of a connection: the peer's rank and the lane.
pub(super) type Link = (u32, usize);

/// Who this rank is to its peers.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) rank: u32,
    pub(super) world: u32,
    pub(super) key: SessionKey,
}

/// One connection to a peer.
pub(super) trait Connection: Send {
    /// The rank at the other end.
    fn peer(&self) -> u32;

    /// Sends what can go at once; returns how many bytes that were.
    fn send(&mut self, protocol: Protocol, bytes: &[u8]) -> Result<usize, EngineError>;

    /// Receives what is there, up to the room; `None` where that is nothing.
    fn receive(&mut self, protocol: Protocol, room: &mut [u8]) -> Result<Option<usize>, EngineError>;

    /// Where the kernel tells of data; `None` where data comes without it.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }

    /// Looks whether the other end can still be reached, where nothing else would tell. `quiet` is for how long this rank has
    /// been waiting.
    fn look(&mut self, _quiet: Duration) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Connections by position, and where each link's is.
#[derive(Default)]
pub(super) struct Table {
    connections: Vec<Box<dyn Connection>>,
    index: HashMap<Link, usize>,
}

impl Table {
    pub(super) fn add(&mut self, link: Link, connection: Box<dyn Connection>) {
        self.index.insert(link, self.connections.len());
        self.connections.push(connection);
    }

    /// Position of a link's connection.
    pub(super) fn position(&self, link: Link) -> Result<usize, EngineError> {
        self.index.get(&link).copied().ok_or(EngineError::Order("an item that was not prepared"))
    }

    /// All connections, by position.
    pub(super) fn connections(&mut self) -> &mut [Box<dyn Connection>] {
        &mut self.connections
    }
}

/// Makes connections of one transport.
pub(super) trait Maker: Send {
    /// Makes the connections of the given links, of which there is none yet, and adds them.
    fn make(&mut self, missing: &[Link], table: &mut Table, deadline: Instant) -> Result<(), EngineError>;

    /// How many rails the lanes go round over.
    fn rails(&self) -> usize;

    /// The lane that barriers use.
    fn meeting_lane(&self) -> usize;

    /// What a report says of the network; nothing where there is nothing to tell.
    fn network(&self) -> Option<NetworkUse>;
}

/// A rank's connections: made on demand, kept.
pub(super) struct Mesh {
    /// Dropped first.
    pub(super) maker: Box<dyn Maker>,
    pub(super) table: Table,
}

impl Mesh {
    /// Makes those of the connections that are missing.
    pub(super) fn ensure(&mut self, links: &BTreeSet<Link>, deadline: Instant) -> Result<(), EngineError> {
        let missing: Vec<Link> = links.iter().copied().filter(|link| !self.table.index.contains_key(link)).collect();
        if missing.is_empty() { Ok(()) } else { self.maker.make(&missing, &mut self.table, deadline) }
    }

    pub(super) fn rails(&self) -> usize {
        self.maker.rails()
    }

    pub(super) fn meeting_lane(&self) -> usize {
        self.maker.meeting_lane()
    }

    pub(super) fn network(&self) -> Option<NetworkUse> {
        self.maker.network()
    }
}

/// What a rank tells the others of how it can be reached. The bytes of `verbs` are that transport's own.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Offer {
    pub(super) verbs: Option<Vec<u8>>,
    pub(super) tcp: Option<Vec<tcp::Endpoint>>,
}

/// What a rank holds open for its peers, before it knows them.
pub(super) struct Opened {
    verbs: Option<verbs::Opened>,
    tcp: Option<tcp::Opened>,
}

impl Opened {
    /// Opens every transport that may be chosen.
    pub(super) fn open(identity: &Identity, config: &NativeConfig) -> Result<Self, EngineError> {
        let verbs = match config.transport {
            Some(Transport::Tcp) => None,
            wanted => verbs::Opened::open(identity, config, wanted.is_some())?,
        };
        let tcp = match config.transport {
            Some(Transport::Verbs) => None,
            _ => Some(tcp::Opened::open(identity, config)?),
        };
        Ok(Self { verbs, tcp })
    }

    pub(super) fn offer(&self) -> Result<Offer, EngineError> {
        let verbs = self.verbs.as_ref().map(verbs::Opened::offer).transpose()?;
        Ok(Offer { verbs, tcp: self.tcp.as_ref().map(tcp::Opened::offer) })
    }

    /// Takes the offers of all ranks, in rank order: verbs where every rank has them, else TCP.
    pub(super) fn meet(
        self,
        identity: &Identity,
        config: &NativeConfig,
        offers: Vec<Offer>,
    ) -> Result<Mesh, EngineError> {
        let lacking = |has: fn(&Offer) -> bool| offers.iter().position(|offer| !has(offer)).map(|rank| rank as u32);
        let (no_verbs, no_tcp) = (lacking(|offer| offer.verbs.is_some()), lacking(|offer| offer.tcp.is_some()));
        if let (Some(opened), None) = (self.verbs, no_verbs) {
            let offers: Vec<Vec<u8>> = offers.into_iter().filter_map(|offer| offer.verbs).collect();
            return opened.meet(identity, config, &offers);
        }
        match (self.tcp, no_tcp) {
            (Some(opened), None) => {
                let offers = offers.into_iter().filter_map(|offer| offer.tcp).collect();
                let maker = Box::new(opened.meet(identity, config, offers)?);
                Ok(Mesh { maker, table: Table::default() })
            }
            (Some(_), Some(rank)) => Err(one_sided(rank, Transport::Tcp)),
            (None, _) => Err(one_sided(no_verbs.unwrap_or(identity.rank), Transport::Verbs)),
        }
    }
}

/// The error where this rank insists on a transport that `rank` does not have.
fn one_sided(rank: u32, transport: Transport) -> EngineError {
    let name = transport.name();
    let why =
        format!("it does not offer {name}, which another rank insists on: set {TRANSPORT_VARIABLE} alike on all ranks");
    EngineError::Peer { rank, why }
}

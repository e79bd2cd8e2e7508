//! The transport over RDMA verbs: a reliable queue pair for each peer and lane, on the bound ports of the HCAs.
//!
//! A rank opens its ports and a *control* connection for every peer, whose endpoints and region keys are its offer. They
//! carry barriers, and in pairs the endpoints of data connections, which are made when a script needs them. So nothing of this
//! listens anywhere.
//!
//! What keeps strangers out: there is no connection that a key could be proven on, as an adapter takes every packet that
//! fits a queue pair. Endpoints and keys go over the control channel of the run only, numbers of first packets are random,
//! and a peer can write to the rings of its connection only, never to the buffers of a call. Who can read or make packets on
//! the rail itself is not kept out: RDMA has no encryption, and NCCL has the same limit.

mod connection;
mod rails;

use std::time::{Duration, Instant};

use gdrtune_wire::NetworkUse;

use self::{
    connection::{Door, Half},
    rails::Rail,
};
use super::{
    barrier::{receive_all, send_all},
    config::{CHUNK_VARIABLE, HCA_VARIABLE, NativeConfig, TRANSPORT_VARIABLE, Transport, VerbsConfig},
    ring::Layout,
    transport::{Identity, Link, Maker, Mesh, Table},
};
use crate::{
    engine::EngineError,
    verbs::{PathOptions, Timeouts, Verbs, VerbsError},
};

/// The lane of the control connections; data lanes are counted from 0.
const CONTROL: usize = usize::MAX;

/// The rail of the control connections.
const CONTROL_RAIL: usize = 0;

/// Rest before queue pairs are destroyed, so that what is under way comes to its end. `rdma_rxe` of Linux 6.1 spins for ever in
/// destroying one whose work waits for the same processor (seen; `rxe_cleanup_task` in `rxe_task.c`).
const REST: Duration = Duration::from_millis(10);

/// What a rank tells the others.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Offer {
    /// Bound ports, in channel order, such as `mlx5_0:1`.
    rails: Vec<String>,
    layout: Layout,
    /// The control connection for each rank; none for itself.
    doors: Vec<Option<Door>>,
}

/// Open ports and what peers connect to.
pub(super) struct Opened {
    rails: Vec<Rail>,
    layout: Layout,
    /// By the peer's rank.
    halves: Vec<Option<Half>>,
}

impl Opened {
    /// Opens the bound ports; nothing where there are none. Where nothing will not do, that is an error.
    pub(super) fn open(
        identity: &Identity,
        config: &NativeConfig,
        is_wanted: bool,
    ) -> Result<Option<Self>, EngineError> {
        let refuse = |why: String| EngineError::Setting {
            name: TRANSPORT_VARIABLE,
            value: Transport::Verbs.name().to_owned(),
            why,
        };
        let found = Verbs::open().map_err(|error| error.to_string()).and_then(|verbs| {
            let names = verbs.devices().map_err(|error| error.to_string())?;
            Ok((verbs, names))
        });
        let (verbs, names) = match found {
            Ok(found) => found,
            Err(why) if is_wanted => return Err(refuse(why)),
            Err(_) => return Ok(None),
        };
        let (rails, unusable) = rails::bind(&verbs, &names, config.verbs.hca.as_deref())?;
        if rails.is_empty() {
            let none = if names.is_empty() { "there is no RDMA adapter".to_owned() } else { unusable.join("; ") };
            return match &config.verbs.hca {
                // A setting that names ports is never followed by doing without them.
                Some(value) if !names.is_empty() => {
                    Err(EngineError::Setting { name: HCA_VARIABLE, value: value.clone(), why: none })
                }
                _ if is_wanted => Err(refuse(none)),
                _ => Ok(None),
            };
        }
        let peers = (0..identity.world).map(|rank| {
            let is_peer = rank != identity.rank;
            is_peer.then(|| Half::open(&rails[CONTROL_RAIL], &Layout::control())).transpose()
        });
        let halves = peers.collect::<Result<_, _>>()?;
        Ok(Some(Self { layout: Layout::data(config.chunk_bytes), rails, halves }))
    }

    pub(super) fn offer(&self) -> Result<Vec<u8>, EngineError> {
        let offer = Offer {
            rails: self.rails.iter().map(|rail| rail.name.clone()).collect(),
            layout: self.layout,
            doors: self.halves.iter().map(|half| half.as_ref().map(Half::door)).collect(),
        };
        encode(&offer)
    }

    /// Takes every rank's offer, in rank order.
    pub(super) fn meet(
        self,
        identity: &Identity,
        config: &NativeConfig,
        offers: &[Vec<u8>],
    ) -> Result<Mesh, EngineError> {
        let Self { rails, layout, halves } = self;
        let options = path_options(&config.verbs);
        let mut table = Table::default();
        for ((rank, bytes), half) in (0..).zip(offers).zip(halves) {
            let misfit = |why: String| EngineError::Peer { rank, why };
            let offer: Offer = postcard::from_bytes(bytes)
                .map_err(|error| misfit(format!("its offer of verbs cannot be read: {error}")))?;
            if offer.rails.len() != rails.len() {
                let (theirs, ours) = (offer.rails.join(", "), names(&rails).join(", "));
                return Err(misfit(format!(
                    "it binds {theirs}, this rank {ours}: set {HCA_VARIABLE} so that all ranks bind as many, or \
                     {TRANSPORT_VARIABLE}=tcp"
                )));
            }
            if offer.layout != layout {
                return Err(misfit(format!("it has another {CHUNK_VARIABLE}: set one value on all ranks")));
            }
            let Some(half) = half else { continue };
            let door = offer.doors.get(identity.rank as usize).copied().flatten();
            let door = door.ok_or_else(|| misfit("it has no endpoint for this rank".to_owned()))?;
            table.add((rank, CONTROL), Box::new(half.connect(rank, &door, options)?));
        }
        let maker =
            Fabric { rank: identity.rank, rails, layout, lanes_per_channel: config.sockets_per_channel, options };
        Ok(Mesh { maker: Box::new(maker), table })
    }
}

/// Makes a rank's data connections.
struct Fabric {
    rank: u32,
    rails: Vec<Rail>,
    layout: Layout,
    lanes_per_channel: usize,
    options: PathOptions,
}

impl Drop for Fabric {
    /// A mesh drops this before its connections.
    fn drop(&mut self) {
        std::thread::sleep(REST);
    }
}

impl Maker for Fabric {
    fn make(&mut self, missing: &[Link], table: &mut Table, deadline: Instant) -> Result<(), EngineError> {
        let mut links = missing.to_vec();
        // Every rank goes through its pairs in the order of (lower, higher, lane), which is one order for all ranks: no
        // circle of ranks can wait for each other.
        links.sort_unstable_by_key(|&(peer, lane)| (peer.min(self.rank), peer.max(self.rank), lane));
        for link in links {
            let half = Half::open(&self.rails[self.rail(link.1)], &self.layout)?;
            let door = exchange(link, &half.door(), table, deadline)?;
            table.add(link, Box::new(half.connect(link.0, &door, self.options)?));
        }
        Ok(())
    }

    fn rails(&self) -> usize {
        self.rails.len()
    }

    fn meeting_lane(&self) -> usize {
        CONTROL
    }

    fn network(&self) -> Option<NetworkUse> {
        let paths = self.rails.iter().map(|rail| format!("verbs/{}", rail.name)).collect();
        Some(NetworkUse { paths, ..NetworkUse::default() })
    }
}

impl Fabric {
    /// Index of the rail that carries a lane.
    fn rail(&self, lane: usize) -> usize {
        lane / self.lanes_per_channel % self.rails.len()
    }
}

/// What is set of a connection's patience and class; the rest as the verbs layer has it.
fn path_options(config: &VerbsConfig) -> PathOptions {
    let default = PathOptions::default();
    let timeouts = Timeouts {
        ack_exponent: config.timeout.unwrap_or(default.timeouts.ack_exponent),
        retries: config.retries.unwrap_or(default.timeouts.retries),
        ..default.timeouts
    };
    PathOptions {
        timeouts,
        service_level: config.service_level.unwrap_or(default.service_level),
        traffic_class: config.traffic_class.unwrap_or(default.traffic_class),
    }
}

/// Gives the peer this end of a data connection for its own. Both ends go through the lanes in one order.
fn exchange(link: Link, door: &Door, table: &mut Table, deadline: Instant) -> Result<Door, EngineError> {
    let (peer, lane) = link;
    let position = table.position((peer, CONTROL))?;
    let connections = table.connections();
    let blob = encode(&(lane as u64, door))?;
    let mut length = (blob.len() as u16).to_le_bytes();
    send_all(connections, position, &[&length[..], &blob].concat(), deadline)?;
    receive_all(connections, position, &mut length, deadline)?;
    let mut blob = vec![0; u16::from_le_bytes(length).into()];
    receive_all(connections, position, &mut blob, deadline)?;
    match postcard::from_bytes::<(u64, Door)>(&blob) {
        Ok((theirs, door)) if theirs == lane as u64 => Ok(door),
        _ => Err(EngineError::Disagreement { rank: peer, here: format!("making lane {lane}") }),
    }
}

fn encode(value: &impl serde::Serialize) -> Result<Vec<u8>, EngineError> {
    postcard::to_stdvec(value).map_err(|error| EngineError::System {
        what: "encode an offer of verbs".to_owned(),
        source: std::io::Error::other(error),
    })
}

fn names(rails: &[Rail]) -> Vec<&str> {
    rails.iter().map(|rail| rail.name.as_str()).collect()
}

/// A failure to make something on a port.
fn failed(rail: &Rail, error: &VerbsError) -> EngineError {
    EngineError::Library { what: format!("use {} over RDMA", rail.name), why: error.to_string() }
}

//! What an environment makes of the network: which NICs, how many connections, what a hop costs and what bandwidth is left.
//!
//! A path can be looked at in two ways: as it is, and as the engine believes. The engine knows names, nominal rates and
//! variables; it does not know a slow NIC, an oversubscribed spine, or a slow way of any kind.

use gdrtune_profiles::{
    grammar::{hca::HcaList, ifname::InterfaceList},
    vocab::Environment,
};

use super::cluster::{Cluster, Distance, Network, NetworkKind, Nic};

/// `NCCL_BUFFSIZE` where it is not set (NCCL `src/include/comm.h`, `DEFAULT_BUFFSIZE`).
const BUFFER_BYTES: f64 = (4 << 20) as f64;
/// Chunks in a buffer (NCCL `src/include/device.h`, `NCCL_STEPS`).
const CHUNKS: f64 = 8.0;
/// `NCCL_NET_GDR_LEVEL` where it is not set (NCCL `src/graph/paths.cc`, `ncclTopoCheckGdr`).
const GDR_LEVEL: Distance = Distance::Pxb;

/// Whose view of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// As it is.
    Truth,
    /// As the engine's cost model has it.
    Belief,
}

/// The network under one environment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path {
    /// Rates in GB/s of the NICs that are used, in the order in which channels are dealt out.
    rates: Vec<f64>,
    /// What all connections of one channel carry, in GB/s.
    channel_gbs: f64,
    /// Share of that bandwidth that is left for rings and trees.
    share: f64,
    /// The same for all-to-all, which has to change rails.
    all_to_all_share: f64,
    /// Beyond NCCL's figures, in microseconds.
    pub(super) hop_us: f64,
    chunk_us: f64,
    chunk_bytes: f64,
}

impl Path {
    /// The path of `cluster` under `environment`; `None` on one node.
    ///
    /// # Errors
    /// The engine's words where it cannot start.
    pub(super) fn of(cluster: &Cluster, environment: &Environment, view: View) -> Result<Option<Self>, String> {
        let Some(network) = cluster.network.as_ref().filter(|_| cluster.nodes.0 > 1) else { return Ok(None) };
        let nics = bound(network, environment)?;
        let rate = |nic: &&Nic| match view {
            View::Truth => nic.slowest_gbs.map_or(nic.rate_gbs.0, |slowest| slowest.0),
            View::Belief => nic.rate_gbs.0,
        };
        let rates: Vec<f64> = nics.iter().map(rate).collect();
        if view == View::Belief {
            let rate = rates.iter().copied().fold(0.0, f64::max);
            return Ok(Some(Self {
                rates,
                channel_gbs: rate,
                share: 1.0,
                all_to_all_share: 1.0,
                hop_us: 0.0,
                chunk_us: 0.0,
                chunk_bytes: BUFFER_BYTES / CHUNKS,
            }));
        }
        let connections = connections(network.kind, environment);
        let way = Way::of(cluster, network, environment);
        let buffer = number(environment, "NCCL_BUFFSIZE").unwrap_or(BUFFER_BYTES);
        Ok(Some(Self {
            rates,
            channel_gbs: network.connection_gbs.0 * connections,
            share: way.share,
            all_to_all_share: way.all_to_all_share,
            hop_us: network.hop_us.0 + network.connection_us.0 * (connections - 1.0) + way.hop_us,
            chunk_us: network.chunk_us.0,
            chunk_bytes: buffer / CHUNKS,
        }))
    }

    /// [`Self::bandwidth_gbs`] of all-to-all.
    pub(super) fn all_to_all_gbs(&self, channels: u16) -> f64 {
        self.bandwidth_gbs(channels, true) / self.share * self.all_to_all_share
    }

    /// Bandwidth in GB/s between nodes of so many channels. The busiest NIC sets the pace, as all channels carry the same.
    pub(super) fn bandwidth_gbs(&self, channels: u16, is_chunked: bool) -> f64 {
        let used = self.rates.len().min(usize::from(channels)).max(1);
        let channels_on_one = usize::from(channels).div_ceil(used) as f64;
        let slowest = self.rates[..used].iter().copied().fold(f64::INFINITY, f64::min);
        let channel_gbs = self.channel_gbs.min(slowest / channels_on_one);
        f64::from(channels) * self.share * if is_chunked { self.chunked(channel_gbs) } else { channel_gbs }
    }

    /// What is left of a channel's rate when each chunk has an overhead. 1 GB/s is 1,000 bytes a microsecond.
    fn chunked(&self, channel_gbs: f64) -> f64 {
        let sending_us = self.chunk_bytes / (1e3 * channel_gbs);
        channel_gbs * sending_us / (sending_us + self.chunk_us)
    }
}

/// What the way between GPU and remote GPU leaves of the bandwidth.
struct Way {
    share: f64,
    all_to_all_share: f64,
    hop_us: f64,
}

impl Way {
    fn of(cluster: &Cluster, network: &Network, environment: &Environment) -> Self {
        if network.kind == NetworkKind::Sockets {
            return Self { share: 1.0, all_to_all_share: 1.0, hop_us: 0.0 };
        }
        let has_pxn = cluster.ranks_per_node.0 > 1 && environment.get("NCCL_PXN_DISABLE") != Some("1");
        let crosses = match environment.get("NCCL_CROSS_NIC") {
            Some("0") => false,
            Some("1") => true,
            _ => network.crosses_by_default,
        };
        let crossing = |crosses: bool| if crosses && network.nics.len() > 1 { network.crossing.0 } else { 1.0 };
        let level = environment.get("NCCL_NET_GDR_LEVEL").map_or(GDR_LEVEL, distance);
        let has_gdr = network.gdr_distance <= level;
        let pxn = if has_pxn { network.with_pxn.0 } else { network.without_pxn.0 };
        let gdr = if has_gdr { network.with_gdr.0 } else { network.without_gdr.0 };
        let pxn_us = if has_pxn { network.pxn_us.0 } else { 0.0 };
        let bounce_us = if has_gdr { 0.0 } else { network.bounce_us.0 };
        Self {
            share: pxn * gdr * crossing(crosses),
            // Without PXN a rank reaches ranks of other rails only across them.
            all_to_all_share: pxn * gdr * crossing(crosses || !has_pxn),
            hop_us: pxn_us + bounce_us,
        }
    }
}

fn distance(level: &str) -> Distance {
    match level {
        "LOC" => Distance::Loc,
        "PIX" => Distance::Pix,
        "PHB" => Distance::Phb,
        "SYS" => Distance::Sys,
        _ => GDR_LEVEL,
    }
}

/// The NICs that the environment leaves.
fn bound<'a>(network: &'a Network, environment: &Environment) -> Result<Vec<&'a Nic>, String> {
    let variable = match network.kind {
        NetworkKind::Verbs => "NCCL_IB_HCA",
        NetworkKind::Sockets => "NCCL_SOCKET_IFNAME",
    };
    let Some(value) = environment.get(variable) else { return Ok(network.nics.iter().collect()) };
    let matches: Box<dyn Fn(&str) -> bool> = match network.kind {
        NetworkKind::Verbs => {
            let list = HcaList::parse(value).map_err(|error| format!("{variable}={value}: {error}"))?;
            Box::new(move |name| list.matches(name, 1))
        }
        NetworkKind::Sockets => {
            let list = InterfaceList::parse(value).map_err(|error| format!("{variable}={value}: {error}"))?;
            Box::new(move |name| list.matches(name))
        }
    };
    let nics: Vec<&Nic> = network.nics.iter().filter(|nic| matches(&nic.name)).collect();
    if nics.is_empty() { Err(format!("{variable}={value} names nothing that is there")) } else { Ok(nics) }
}

/// Connections of one channel.
fn connections(kind: NetworkKind, environment: &Environment) -> f64 {
    let count = |name| number(environment, name).unwrap_or(1.0).max(1.0);
    match kind {
        NetworkKind::Verbs => count("NCCL_IB_QPS_PER_CONNECTION"),
        NetworkKind::Sockets => count("NCCL_SOCKET_NTHREADS") * count("NCCL_NSOCKS_PERTHREAD"),
    }
}

pub(super) fn number(environment: &Environment, name: &str) -> Option<f64> {
    environment.get(name).and_then(|value| value.parse().ok())
}

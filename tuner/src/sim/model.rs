//! The time of one call: latency of the steps plus bytes over bandwidth.
//!
//! Form and figures are those of NCCL's own cost model, `src/graph/tuning.cc` (`ncclTopoTuneModel`, `ncclTopoGetAlgoTime`;
//! read at 2.27), its rows for Hopper. They make the simulated cluster plausible; nothing depends on their being right.

use gdrtune_profiles::{
    matrix,
    vocab::{Algorithm, Choice, Collective, Engine, Environment, Point, Protocol},
};

use super::{
    cluster::{Cluster, Own},
    path::{Path, View, number},
};

/// What one more channel costs, in microseconds: a block to launch, a piece to synchronise. Ours, so that small calls
/// are fastest on few channels, as the recorded grids have it.
const CHANNEL_US: f64 = 0.3;
/// NVLS against a ring over the same links: the switch adds up (about 480 against 370 GB/s on an H100 node).
const NVLS_GAIN: f64 = 1.3;
/// PAT moves more bytes than a ring (`tuning.cc`: `bw * 0.75`).
const PAT_SHARE: f64 = 0.75;
/// What one more peer adds to an all-to-all, in microseconds; ours.
const PEER_US: f64 = 0.1;

/// One environment of a cluster, ready to give times.
#[derive(Debug, Clone)]
pub(super) struct World<'a> {
    cluster: &'a Cluster,
    environment: &'a Environment,
    path: Option<Path>,
    belief: Option<Path>,
}

impl<'a> World<'a> {
    /// The cluster under an environment.
    ///
    /// # Errors
    /// The engine's words where it cannot start.
    pub(super) fn new(cluster: &'a Cluster, environment: &'a Environment) -> Result<Self, String> {
        let path = Path::of(cluster, environment, View::Truth)?;
        let belief = Path::of(cluster, environment, View::Belief)?;
        Ok(Self { cluster, environment, path, belief })
    }

    /// Whether the engine has the choice for the collective at all.
    pub(super) fn supports(&self, collective: Collective, choice: Choice) -> bool {
        self.cluster
            .choices(collective)
            .any(|(algorithm, protocol)| algorithm == choice.algorithm && protocol == choice.protocol)
    }

    /// Most channels of a call.
    pub(super) fn ceiling(&self) -> u16 {
        let raised = number(self.environment, "NCCL_MIN_CTAS").unwrap_or(0.0) as u16;
        self.cluster.engine.ceiling.max(raised)
    }

    /// What runs at a point: the request within the ceiling, or the engine's own choice. `None` where there is no choice.
    pub(super) fn selected(&self, point: Point, request: Option<Choice>) -> Option<Choice> {
        if !point.collective.has_choice() {
            return None;
        }
        let Some(request) = request else { return self.own_choice(point) };
        let most = self.ceiling();
        let own = || self.own_channels(point, request.algorithm, request.protocol);
        let channels = if request.channels == 0 { own() } else { request.channels.min(most) };
        Some(Choice { channels, ..request })
    }

    /// Time in microseconds, without noise.
    pub(super) fn time_us(&self, point: Point, ran: Option<Choice>) -> f64 {
        let ran = if self.cluster.engine.equal { self.own_choice(point) } else { ran };
        let base = self.base_us(self.path.as_ref(), point, ran);
        let effects = self.cluster.effect.iter().filter(|e| e.calls.contain(self.environment, point, ran));
        effects.fold(base, |time_us, effect| time_us * effect.factor.0)
    }

    /// What the engine chooses by itself, by its cost model.
    fn own_choice(&self, point: Point) -> Option<Choice> {
        let least = number(self.environment, "NCCL_MIN_CTAS").unwrap_or(1.0) as u16;
        let believed = |choice: &Choice| self.base_us(self.belief.as_ref(), point, Some(*choice));
        let channels = |algorithm, protocol| match self.cluster.engine.own {
            Own::Model => vec![self.own_channels(point, algorithm, protocol)],
            Own::Best => {
                let counts = self.cluster.engine.channels.iter().map(|&count| count.max(least));
                counts.filter(|&count| count <= self.ceiling()).collect()
            }
        };
        let pairs = self.cluster.choices(point.collective);
        let choices = pairs.flat_map(|(algorithm, protocol)| {
            channels(algorithm, protocol).into_iter().map(move |channels| Choice { algorithm, protocol, channels })
        });
        let avoids = &self.cluster.engine.avoids;
        let choices = choices.filter(|c| !avoids.iter().any(|calls| calls.contain(self.environment, point, Some(*c))));
        choices.min_by(|a, b| believed(a).total_cmp(&believed(b)))
    }

    /// Fewer channels than the ceiling where each would have too few bytes (NCCL `src/enqueue.cc`, `topoGetAlgoInfo`;
    /// thresholds and threads from `src/include/comm.h` and `tuning.cc`).
    fn own_channels(&self, point: Point, algorithm: Algorithm, protocol: Protocol) -> u16 {
        let ranks = u64::from(self.cluster.ranks());
        let least_bytes = match (algorithm, protocol) {
            (Algorithm::Ring, Protocol::Ll) => 512 * 8 * ranks,
            (_, Protocol::Ll) => 512 * 8,
            (_, Protocol::Ll128) => 640 * 8,
            (_, Protocol::Simple) => 512 * 64,
        };
        let least = number(self.environment, "NCCL_MIN_CTAS").unwrap_or(1.0) as u64;
        let most = u64::from(self.ceiling());
        (point.bytes / least_bytes).clamp(least.clamp(1, most), most) as u16
    }

    /// Time on a path, without what is planted in choices.
    fn base_us(&self, path: Option<&Path>, point: Point, ran: Option<Choice>) -> f64 {
        match ran {
            Some(choice) => self.chosen_us(path, point, choice),
            None => self.unchosen_us(path, point),
        }
    }

    fn chosen_us(&self, path: Option<&Path>, point: Point, choice: Choice) -> f64 {
        let intra = self.intra_gbs(choice.channels);
        let is_simple = choice.protocol == Protocol::Simple;
        let inter = path.map_or(f64::INFINITY, |path| path.bandwidth_gbs(choice.channels, is_simple));
        let gbs = self.protocol_gbs(point.collective, choice, intra.min(inter));
        let ranks = f64::from(self.cluster.ranks());
        let others = (ranks - 1.0) / ranks;
        let bytes = point.bytes as f64
            * match (choice.algorithm, point.collective) {
                // Up and down the tree.
                (Algorithm::Tree, _) => 2.0,
                (_, Collective::AllReduce) => 2.0 * others,
                (_, Collective::AllGather | Collective::ReduceScatter) => others,
                _ => 1.0,
            };
        let hop_us = path.map_or(0.0, |path| path.hop_us);
        let latency_us = self.latency_us(point.collective, choice, hop_us);
        latency_us + CHANNEL_US * f64::from(choice.channels) + bytes / (1e3 * gbs)
    }

    fn intra_gbs(&self, channels: u16) -> f64 {
        let node = &self.cluster.node;
        node.nvlink_gbs.0.min(f64::from(channels) * node.channel_gbs.0)
    }

    /// What protocol and algorithm leave of a bus bandwidth.
    fn protocol_gbs(&self, collective: Collective, choice: Choice, gbs: f64) -> f64 {
        let nodes = self.cluster.nodes.0;
        let channels = f64::from(choice.channels);
        // Columns of tuning.cc: one node, two nodes, more.
        let by_nodes = |values: [f64; 3]| values[nodes.clamp(1, 3) as usize - 1];
        let ll_most = by_nodes([141.0, 45.0, 35.0]);
        match (choice.algorithm, choice.protocol) {
            (Algorithm::Ring, Protocol::Ll) => {
                let part = if nodes > 1 || collective.reduces() { 4.0 } else { 3.0 };
                ll_most.min(gbs / part)
            }
            (Algorithm::Ring, Protocol::Ll128) => {
                let part = if self.cluster.ranks_per_node.0 < 2 { 0.7 } else { 0.92 };
                (gbs * part).min(36.7 * channels)
            }
            (Algorithm::Tree, Protocol::Ll) => ll_most.min(gbs / 3.8),
            (Algorithm::Tree, Protocol::Ll128) => {
                let part = if nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                (gbs * part).min(by_nodes([36.7, 36.7, 29.0]) * channels)
            }
            (Algorithm::Tree, Protocol::Simple) => (gbs * 0.92).min(by_nodes([38.7, 41.4, 36.0]) * channels),
            (Algorithm::Nvls, _) => gbs * NVLS_GAIN,
            (Algorithm::Pat, _) => gbs * PAT_SHARE,
            _ => gbs,
        }
    }

    /// Latency of all steps, in microseconds.
    fn latency_us(&self, collective: Collective, choice: Choice, hop_us: f64) -> f64 {
        let nodes = f64::from(self.cluster.nodes.0);
        let ranks = f64::from(self.cluster.ranks());
        let local = f64::from(self.cluster.ranks_per_node.0);
        let is_multi = self.cluster.nodes.0 > 1;
        let by_protocol = |values: [f64; 3]| match choice.protocol {
            Protocol::Ll => values[0],
            Protocol::Ll128 => values[1],
            Protocol::Simple => values[2],
        };
        match choice.algorithm {
            Algorithm::Tree => {
                let (intra, inter) = (by_protocol([0.6, 1.25, 4.0]), by_protocol([5.0, 8.5, 14.0]) + hop_us);
                by_protocol([6.8, 14.0, 8.4]) + 2.0 * ((local - 1.0) * intra + nodes.log2().ceil() * inter)
            }
            Algorithm::Nvls => 25.0,
            Algorithm::Pat => 8.0 + nodes.log2().ceil() * (14.0 + hop_us) / 3.5 + (local - 1.0) * 2.8,
            _ => {
                let (intra, inter) = (by_protocol([0.6, 1.9, 3.4]), by_protocol([2.7, 4.0, 14.0]) + hop_us);
                let rounds = if collective == Collective::AllReduce { 2.0 } else { 1.0 };
                let between = if is_multi { rounds * nodes } else { 0.0 };
                let steps = rounds * (ranks - 1.0);
                by_protocol([6.6, 14.0, 8.4]) + (steps - between).max(0.0) * intra + between * inter
            }
        }
    }

    /// All-to-all and send-recv, which have no choice: every channel is used.
    fn unchosen_us(&self, path: Option<&Path>, point: Point) -> f64 {
        let channels = self.ceiling();
        let intra = self.intra_gbs(channels);
        let inter = path.map_or(f64::INFINITY, |path| match point.collective {
            Collective::AllToAll => path.all_to_all_gbs(channels),
            _ => path.bandwidth_gbs(channels, true),
        });
        let hop_us = path.map_or(0.0, |path| 14.0 + path.hop_us);
        let (ranks, local) = (f64::from(self.cluster.ranks()), f64::from(self.cluster.ranks_per_node.0));
        let bytes = point.bytes as f64;
        if point.collective == Collective::SendRecv {
            return 8.4 + hop_us + bytes / (1e3 * intra.min(inter));
        }
        // All ranks of a node share its NICs; within the node each has its own links.
        let out_us = local * bytes * (ranks - local) / ranks / (1e3 * inter);
        let in_us = bytes * (local - 1.0) / ranks / (1e3 * intra);
        8.4 + hop_us + PEER_US * ranks + out_us.max(in_us)
    }
}

impl Cluster {
    /// Algorithms and protocols of a collective, in NCCL's table order.
    pub(super) fn choices(&self, collective: Collective) -> impl Iterator<Item = (Algorithm, Protocol)> {
        let is_one_node = self.nodes.0 == 1;
        let is_one_rank = self.ranks_per_node.0 == 1;
        let cells = matrix::cells(Engine::Nccl, None).filter(move |cell| {
            let is_here = match cell.algorithm {
                Algorithm::Nvls => is_one_node,
                Algorithm::Pat => is_one_rank,
                _ => true,
            };
            cell.collective == collective && is_here && self.engine.algorithms.contains(&cell.algorithm)
        });
        cells.flat_map(|cell| {
            let offered = cell.protocols.iter().filter(|protocol| self.engine.protocols.contains(protocol));
            offered.map(|&protocol| (cell.algorithm, protocol))
        })
    }
}

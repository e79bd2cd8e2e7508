//! Measures pairs of nodes, each with workers of its own, before the cluster as a whole is measured.
//!
//! Every pair's workers start at once, so that a probe costs one start; the pairs are then measured in the rounds of
//! [`stragglers::rounds`]. What fails is a pair without times: it ends nothing.

use std::time::{Duration, Instant};

use gdrtune_profiles::vocab::{Collective, Engine, Point, ReduceOp};
use gdrtune_tuner::{
    bench::{BenchError, Cancel, Outcome, Setup},
    stats,
    stragglers::{self, Pair},
};
use gdrtune_wire::{FromAgent, GroupId, Item, Script, ToAgent, ToWorker};

use super::{
    AGENT_GRACE, ClusterBench, ClusterConfig, ClusterNote, POLL, SETUP_DEADLINE, group::Group, link::LinkEvent,
};

/// The small message: its time is the way's.
const SMALL_BYTES: u64 = 1 << 10;

/// Calls of it in a sample, so that one late wake-up is not all of it.
const SMALL_CALLS: u32 = 20;

/// Calls of the large message in a sample.
const LARGE_CALLS: u32 = 2;

/// Samples of each; the median counts.
const SAMPLES: u32 = 3;

/// Time that a pair may take for one sample. Ten times what 4 MiB take at 30 Mbit/s.
const LEASE: Duration = Duration::from_secs(10);

/// What the pairs of a cluster showed.
#[derive(Debug, Clone, PartialEq)]
pub struct PairProbe {
    /// Every pair of the ring.
    pub pairs: Vec<Pair>,
    /// Ranks of the first pair.
    pub ranks: u32,
    /// Bytes of the small message.
    pub small_bytes: u64,
    /// Bytes of the large message.
    pub large_bytes: u64,
}

impl PairProbe {
    /// Bus bandwidth of a pair that takes that time for the large message, in GB/s.
    pub fn busbw_gbs(&self, time_us: f64) -> f64 {
        Collective::AllReduce.busbw_gbs(self.ranks, self.large_bytes, time_us)
    }
}

/// The workers of one pair.
struct Couple {
    nodes: (usize, usize),
    group: Group,
    config: ClusterConfig,
    is_told: bool,
    /// Nothing more is expected of it.
    has_failed: bool,
}

impl Couple {
    fn ready(&self) -> bool {
        !self.has_failed && self.group.all_connected() && !self.group.first_end()
    }

    /// Whether it is up, or never will be.
    fn is_settled(&self) -> bool {
        self.has_failed || self.group.first_end() || self.group.all_connected()
    }

    fn each_node(&self) -> [usize; 2] {
        [self.nodes.0, self.nodes.1]
    }
}

impl ClusterBench<'_> {
    /// Measures each node with two partners, by all-reduces over all ranks of both. The workers are gone afterwards.
    ///
    /// # Errors
    /// [`BenchError`] where a node is lost, or the user wants no more.
    pub fn probe_pairs(&mut self, cancel: &Cancel) -> Result<PairProbe, BenchError> {
        // Enough to reach the rate of what each engine runs on: 400 Gbit/s and more per NIC, or what a socket carries.
        let large_bytes = if self.config.engine == Engine::Nccl { 32 << 20 } else { 4 << 20 };
        let nodes = self.config.slots.len();
        let mut couples: Vec<Couple> =
            (0..).zip(stragglers::ring(nodes)).map(|(n, pair)| self.couple(n, pair, large_bytes)).collect();
        let mut pairs: Vec<Pair> =
            couples.iter().map(|c| Pair { nodes: c.nodes, small_us: None, large_us: None }).collect();
        let measured = self.measure_rounds(&mut couples, &mut pairs, large_bytes, cancel);
        self.end_couples(&mut couples);
        measured?;
        self.check_lost()?;
        let ranks = self.config.slots.iter().take(2).sum();
        Ok(PairProbe { pairs, ranks, small_bytes: SMALL_BYTES, large_bytes })
    }

    fn couple(&self, number: u32, nodes: (usize, usize), max_bytes: u64) -> Couple {
        let slots = vec![self.config.slots[nodes.0], self.config.slots[nodes.1]];
        let world = slots.iter().sum();
        let config = ClusterConfig { slots, max_bytes, ..self.config.clone() };
        // From the other end than the run's own, whose numbers are in its store.
        let group = Group::new(u32::MAX - number, Setup::Site, world);
        Couple { nodes, group, config, is_told: false, has_failed: false }
    }

    fn measure_rounds(
        &mut self,
        couples: &mut [Couple],
        pairs: &mut [Pair],
        large_bytes: u64,
        cancel: &Cancel,
    ) -> Result<(), BenchError> {
        for couple in &mut *couples {
            for (side, start) in couple.group.start_messages(&couple.config, None, SETUP_DEADLINE) {
                self.link.send(couple.each_node()[side], ToAgent::Start(start));
            }
        }
        let deadline = Instant::now() + SETUP_DEADLINE + AGENT_GRACE;
        while !couples.iter().all(Couple::is_settled) && Instant::now() < deadline {
            self.pump_couples(couples, cancel)?;
            for couple in couples.iter_mut().filter(|c| !c.is_told && c.group.all_bootstrapped()) {
                couple.is_told = true;
                let message = ToWorker::Connect { peers: couple.group.take_bootstrap() };
                self.tell_couple(couple, &message);
            }
        }
        let items = self.pair_items(large_bytes);
        for (id, round) in (0..).zip(stragglers::rounds(self.config.slots.len())) {
            self.measure_round(couples, &round, id, &items, cancel)?;
            for &place in &round {
                let times = take_times(&mut couples[place].group, items.len());
                (pairs[place].small_us, pairs[place].large_us) = (stats::median(&times[0]), stats::median(&times[1]));
            }
        }
        Ok(())
    }

    fn measure_round(
        &mut self,
        couples: &mut [Couple],
        round: &[usize],
        id: u64,
        items: &[Item],
        cancel: &Cancel,
    ) -> Result<(), BenchError> {
        let ready: Vec<usize> = round.iter().copied().filter(|&place| couples[place].ready()).collect();
        for &place in &ready {
            couples[place].group.begin_script(id, items.len());
            self.tell_couple(&couples[place], &ToWorker::Run(Script { id, items: items.to_vec() }));
        }
        let deadline = Instant::now() + LEASE + AGENT_GRACE;
        // Every item is counted once it is taken, which is after the round.
        let is_over = |couple: &Couple| couple.group.script_is_done() || couple.group.first_end();
        while !ready.iter().all(|&place| is_over(&couples[place])) {
            self.pump_couples(couples, cancel)?;
            if Instant::now() > deadline {
                for place in ready {
                    couples[place].has_failed |= !is_over(&couples[place]);
                }
                break;
            }
        }
        Ok(())
    }

    /// Samples of the small message, then of the large one.
    fn pair_items(&self, large_bytes: u64) -> Vec<Item> {
        let item = |(bytes, iterations)| Item {
            point: Point { collective: Collective::AllReduce, bytes },
            choice: None,
            data_type: self.config.data_type,
            op: ReduceOp::Sum,
            root: 0,
            in_place: false,
            graph: false,
            check: false,
            warmup: 1,
            iterations,
            lease_ms: LEASE.as_millis() as u64,
        };
        let kinds = [(SMALL_BYTES, SMALL_CALLS), (large_bytes, LARGE_CALLS)];
        kinds.into_iter().flat_map(|kind| (0..SAMPLES).map(move |_| item(kind))).collect()
    }

    fn pump_couples(&mut self, couples: &mut [Couple], cancel: &Cancel) -> Result<(), BenchError> {
        if cancel.is_cancelled() {
            return Err(BenchError::Cancelled);
        }
        let Some(event) = self.link.receive(POLL) else { return Ok(()) };
        match event {
            LinkEvent::Lost { node, why } => return Err(self.lose(node, &why)),
            LinkEvent::Log { node, line } => (self.notes)(ClusterNote::Log { node, warning: false, line }),
            LinkEvent::Message { node, message } => file(couples, node, message),
        }
        Ok(())
    }

    fn tell_couple(&self, couple: &Couple, message: &ToWorker) {
        for node in couple.each_node() {
            self.link.send(node, ToAgent::ToWorkers { group: couple.group.id, message: message.clone() });
        }
    }

    /// Ends all workers, and waits until the agents have reaped them: they would be in the way of what is measured next.
    fn end_couples(&mut self, couples: &mut [Couple]) {
        for couple in &*couples {
            couple.each_node().into_iter().for_each(|node| self.link.send(node, ToAgent::Stop(couple.group.id)));
        }
        let deadline = Instant::now() + AGENT_GRACE;
        while self.lost.is_none() && Instant::now() < deadline && !couples.iter().all(|c| c.group.all_ended()) {
            // A loss is kept in `lost`, and nothing else can fail without a cancel token.
            self.pump_couples(couples, &Cancel::new()).ok();
        }
    }
}

fn file(couples: &mut [Couple], node: usize, message: FromAgent) {
    let of = |couples: &mut [Couple], id: GroupId| couples.iter().position(|couple| couple.group.id == id);
    match message {
        FromAgent::Worker { group, rank, message } => {
            if let Some(place) = of(couples, group) {
                couples[place].group.file(rank, message);
            }
        }
        FromAgent::WorkerEnded { group, rank, cause } => {
            if let Some(place) = of(couples, group) {
                couples[place].group.file_end(rank, cause);
            }
        }
        // Which of its two groups the node does not start, it does not say.
        FromAgent::Refused { .. } => {
            couples.iter_mut().filter(|c| c.each_node().contains(&node)).for_each(|couple| couple.has_failed = true);
        }
        _ => {}
    }
}

/// Times of the small and the large message, as far as all ranks have them.
fn take_times(group: &mut Group, items: usize) -> [Vec<f64>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for place in 0..items {
        let Some((outcome, _)) = group.next_outcome() else { break };
        if let Outcome::Timed(timing) = outcome {
            times[usize::from(place >= SAMPLES as usize)].push(timing.time_us);
        }
    }
    times
}

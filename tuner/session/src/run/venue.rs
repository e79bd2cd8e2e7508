//! Where a run takes place: a cluster of agents, or a bench that brings its own space and needs no agents.
//!
//! The course of a run is the same everywhere; what differs is here: what can be searched, what the place is, and whether
//! ranks can be laid out anew.

use std::collections::BTreeSet;

use gdrtune_profiles::{
    bindings::{Bindings, HCAS, ceilings::Ceilings},
    vocab::{Choice, Engine, Point},
};
use gdrtune_tuner::{
    bench::{Bench, BenchError, BenchInfo, Cancel},
    race::Predictions,
    space::{Built, Space},
};
use gdrtune_wire::Inventory;

use super::{RunConfig, RunError, Shape, facts};
use crate::{
    cluster::{CallMode, ClusterBench, Probe},
    event::{Event, GdrUse, Level},
    offline::{Offline, OfflineRequest},
    open::{ClusterRequest, Present},
    recorder::Recorder,
    topology::bindings,
};

/// Where a run takes place.
pub(super) trait Venue {
    /// What measures.
    fn bench(&mut self) -> &mut dyn Bench;

    /// Lays the ranks out for another job shape.
    fn reshape(&mut self, slots: &[u32]);

    /// What the user calls a layout.
    fn shape_of(&self, slots: &[u32]) -> Shape;

    /// Looks at what is there in the present shape, before the search; `told` is what a probe had measured by the run's store.
    fn survey(
        &mut self,
        config: &RunConfig,
        told: Option<Ceilings>,
        recorder: &Recorder,
        cancel: &Cancel,
    ) -> Result<Survey, RunError>;

    /// Which nodes are emulated, if any are.
    fn emulated(&self) -> Option<String>;

    /// What is measured on, in words.
    fn place(&self) -> String;

    /// What the result's readers must know of the nodes, in sentences.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What is known of a venue besides times.
#[derive(Debug, Clone)]
pub(super) struct Survey {
    /// Nodes and ranks as the engine sees them, and the engine.
    pub(super) info: BenchInfo,
    /// The same as the user named it.
    pub(super) shape: Shape,
    /// What may be tried.
    pub(super) space: Space,
    /// What the engine predicts of that, where it does.
    pub(super) predictions: Predictions,
    /// GPU model, where there is one.
    pub(super) gpu: Option<String>,
    /// NCCL's version, where that is the engine.
    pub(super) nccl: Option<String>,
    /// `sha256:` of what a profile depends on.
    pub(super) fingerprint: String,
    /// How the collectives are called.
    pub(super) calls: CallMode,
    /// What jobs can be bound to.
    pub(super) bindings: Bindings,
}

/// Connected hosts.
pub(super) struct ClusterVenue<'a, 'b> {
    /// As the user asked for it: hosts and ranks have room for every shape.
    whole: &'a ClusterRequest,
    /// The present shape's part of it.
    present: ClusterRequest,
    bench: &'a mut ClusterBench<'b>,
    inventories: &'a [Inventory],
    notes: Vec<String>,
}

impl<'a, 'b> ClusterVenue<'a, 'b> {
    pub(super) fn new(present: &'a Present, bench: &'a mut ClusterBench<'b>, notes: Vec<String>) -> Self {
        let Present { request: whole, inventories, .. } = present;
        Self { whole, present: whole.clone(), bench, inventories, notes }
    }

    /// Inventories of the present shape's hosts.
    fn present_inventories(&self) -> &'a [Inventory] {
        self.inventories.get(..self.present.slots.len()).unwrap_or(self.inventories)
    }

    /// What a probe measured between the present hosts, which is an event: the space follows from it.
    fn ceilings(&self, config: &RunConfig, told: Option<Ceilings>, recorder: &Recorder) -> Ceilings {
        let hosts = self.present_hosts();
        let ceilings = told.unwrap_or_else(|| config.ceilings.among(&hosts));
        if !ceilings.links.is_empty() {
            let text = format!("HCAs are held against what a probe measured on {} ways", ceilings.links.len());
            recorder.log(Level::Info, "", text);
            recorder.record(Event::Ceilings(ceilings.clone()));
        } else if !config.ceilings.links.is_empty() {
            recorder.log(Level::Warn, "", "what was probed is not used: it is of other nodes");
        }
        ceilings
    }

    fn present_hosts(&self) -> Vec<&str> {
        self.present.hosts.iter().map(|host| host.name.as_str()).collect()
    }

    fn bindings(&self, ceilings: &Ceilings) -> Bindings {
        bindings::of_run(&self.present_hosts(), &self.present.slots, self.present_inventories(), ceilings)
    }

    /// Says what is searched of the devices that jobs can be bound to, and which are odd; and where a list of HCAs that the user
    /// or the site gives means others than it names.
    fn tell_bindings(&self, config: &RunConfig, bindings: &Bindings, space: &Space, recorder: &Recorder) {
        let is_searched = |variable: &str| {
            space.dimensions.iter().any(|dimension| dimension.name == variable && dimension.values.len() > 1)
        };
        for offer in bindings.offers.iter().filter(|offer| is_searched(offer.variable)) {
            let lines = bindings::finding_lines(bindings, offer.variable);
            let lines = lines.into_iter().chain(bindings::candidate_lines(offer));
            lines.for_each(|line| recorder.log(Level::Info, "", line));
        }
        let hosts = self.present_hosts();
        let inventories = self.present_inventories();
        let of_site = inventories.iter().filter_map(|inventory| inventory.site_env.get(HCAS));
        let given: BTreeSet<&str> = config.settings.pins.get(HCAS).into_iter().chain(of_site).collect();
        let odd = given.into_iter().filter_map(|value| bindings::odd_list(value, &hosts, inventories));
        odd.for_each(|line| recorder.log(Level::Warn, "", line));
    }

    fn space(
        &self,
        config: &RunConfig,
        info: &BenchInfo,
        probe: Option<&Probe>,
        bindings: &Bindings,
        recorder: &Recorder,
    ) -> Result<Space, RunError> {
        let inventories = self.present_inventories();
        let forced = facts::forced(inventories);
        for (name, host) in &forced {
            recorder.log(Level::Info, host, format!("{name} is set there and stays as it is"));
        }
        let nccl = probe.map(|probe| facts::nccl(probe, info.nodes)).unwrap_or_default();
        for (name, host) in facts::limiting(inventories) {
            let text = format!("{name} is set there: NCCL allows no choice against it, so none is tried");
            recorder.log(Level::Warn, &host, text);
        }
        let forced: BTreeSet<String> = forced.into_keys().collect();
        let built = facts::space(config, info, bindings.clone(), forced, nccl);
        let Built { space, left_out } = built.map_err(|error| RunError::Usage(error.to_string()))?;
        for line in facts::left_out_lines(&left_out) {
            recorder.log(Level::Info, "", line);
        }
        self.tell_bindings(config, bindings, &space, recorder);
        Ok(space)
    }
}

impl Venue for ClusterVenue<'_, '_> {
    fn bench(&mut self) -> &mut dyn Bench {
        self.bench
    }

    fn reshape(&mut self, slots: &[u32]) {
        self.bench.reshape(slots.to_vec());
        self.present.hosts = self.whole.hosts.iter().take(slots.len()).cloned().collect();
        self.present.slots = slots.to_vec();
    }

    /// An emulated node is one rank.
    fn shape_of(&self, slots: &[u32]) -> Shape {
        let first = slots.first().copied().unwrap_or(0);
        if self.whole.emulate_nodes {
            return Shape { nodes: first, ranks_per_node: 1 };
        }
        Shape { nodes: slots.len() as u32, ranks_per_node: first }
    }

    fn survey(
        &mut self,
        config: &RunConfig,
        told: Option<Ceilings>,
        recorder: &Recorder,
        cancel: &Cancel,
    ) -> Result<Survey, RunError> {
        let environments = facts::site_environments(&self.present.hosts, self.present_inventories());
        recorder.record(Event::Site { environments });
        let probe = match self.present.engine {
            Engine::Nccl => Some(probe(config, self.bench, recorder, cancel)?),
            Engine::Native if facts::have_hcas(self.present_inventories()) => {
                Some(ask(config, self.bench, &smallest(&config.points), recorder, cancel)?)
            }
            _ => None,
        };
        let info = self.bench.info();
        let bindings = self.bindings(&self.ceilings(config, told, recorder));
        let space = self.space(config, &info, probe.as_ref(), &bindings, recorder)?;
        let report = probe.as_ref().map(|probe| &probe.report).filter(|report| report.version.is_some());
        Ok(Survey {
            info,
            shape: self.shape_of(&self.present.slots),
            space,
            predictions: probe.as_ref().map(Probe::predicted_us).unwrap_or_default(),
            gpu: report.and_then(|report| report.device.clone()),
            nccl: report.and_then(|report| report.version.clone()),
            fingerprint: facts::fingerprint(&self.present, self.present_inventories(), report),
            calls: self.present.calls,
            bindings,
        })
    }

    fn emulated(&self) -> Option<String> {
        facts::emulated(self.whole, self.inventories)
    }

    fn place(&self) -> String {
        facts::place(self.whole, self.inventories, self.emulated().as_deref())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The point of the fewest bytes.
fn smallest(points: &[Point]) -> Vec<Point> {
    points.iter().min_by_key(|point| point.bytes).into_iter().copied().collect()
}

/// Asks the engine at `points` what it is and how its ranks are connected.
fn ask(
    config: &RunConfig,
    bench: &mut ClusterBench<'_>,
    points: &[Point],
    recorder: &Recorder,
    cancel: &Cancel,
) -> Result<Probe, RunError> {
    let probe = bench.probe(config.settings.pins.clone(), points, cancel).map_err(|e| match e {
        // Nothing is wrong with gdrtune: a library, a driver or a device is missing there, or a pinned setting is no good.
        BenchError::Setup { why, .. } => RunError::Unusable(why),
        other => other.into(),
    })?;
    if let Some(engine) = facts::engine_facts(probe.report.clone()) {
        let level = if engine.gdr == Some(GdrUse::Partly) { Level::Warn } else { Level::Info };
        recorder.log(level, "", engine.to_string());
        recorder.record(Event::Probed(engine));
    }
    for (point, why) in &probe.failures {
        recorder.log(Level::Warn, "", format!("{point} with the engine's own choice: {why}"));
    }
    Ok(probe)
}

/// Asks NCCL what it is and what it allows here.
fn probe(
    config: &RunConfig,
    bench: &mut ClusterBench<'_>,
    recorder: &Recorder,
    cancel: &Cancel,
) -> Result<Probe, RunError> {
    let probe = ask(config, bench, &config.points, recorder, cancel)?;
    for (&point, predictions) in &probe.predictions {
        let choice =
            |p: &gdrtune_wire::Prediction| Choice { algorithm: p.algorithm, protocol: p.protocol, channels: 0 };
        let times_us = predictions.iter().map(|p| (choice(p), p.time_us.into())).collect();
        recorder.record(Event::Predicted { point, times_us });
    }
    if probe.predictions.is_empty() {
        let version = probe.report.version.as_deref().unwrap_or("of this version");
        let why = if probe.measured == 0 {
            "could not show which choices it takes, as its own failed"
        } else {
            "does not take choices from a tuner plugin here"
        };
        let text = format!("NCCL {version} {why}: process-level settings only");
        recorder.log(Level::Warn, "", text);
    }
    Ok(probe)
}

/// A bench without a cluster. It has one shape: its own.
pub(super) struct OfflineVenue<'a> {
    request: &'a OfflineRequest,
    offline: Offline,
}

impl<'a> OfflineVenue<'a> {
    pub(super) fn new(request: &'a OfflineRequest, seed: u64) -> Self {
        Self { request, offline: request.open(seed) }
    }
}

impl Venue for OfflineVenue<'_> {
    fn bench(&mut self) -> &mut dyn Bench {
        self.offline.bench.as_mut()
    }

    fn reshape(&mut self, _slots: &[u32]) {}

    fn shape_of(&self, _slots: &[u32]) -> Shape {
        let BenchInfo { nodes, ranks, .. } = self.request.info();
        Shape { nodes, ranks_per_node: ranks / nodes.max(1) }
    }

    fn survey(
        &mut self,
        config: &RunConfig,
        _told: Option<Ceilings>,
        recorder: &Recorder,
        _cancel: &Cancel,
    ) -> Result<Survey, RunError> {
        for note in &self.offline.notes {
            recorder.log(Level::Info, "", note);
        }
        for warning in &self.offline.warnings {
            recorder.log(Level::Warn, "", warning);
        }
        let mut space = self.offline.space.clone();
        space.choices.retain(|collective, _| config.points.iter().any(|point| point.collective == *collective));
        self.request.settle(&mut space, &config.settings);
        Ok(Survey {
            info: self.request.info(),
            shape: self.shape_of(&[]),
            space,
            predictions: Predictions::new(),
            gpu: None,
            nccl: None,
            fingerprint: self.request.fingerprint(),
            calls: CallMode::default(),
            bindings: Bindings::default(),
        })
    }

    fn emulated(&self) -> Option<String> {
        None
    }

    fn place(&self) -> String {
        self.request.place()
    }
}

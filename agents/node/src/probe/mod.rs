//! A worker of the RDMA probe: its side of every way of a pair of nodes, and the measuring of one way at a time.
//!
//! Says what it saw and judges nothing. One way that fails leaves the others as they are. Both sides get the same list of
//! ways, and only the side that writes works: the other's processor has no part in RDMA, so a peer that is slow or gone
//! shows as the adapter's own error and never as silence.

#[cfg(feature = "rdma")]
mod bandwidth;
#[cfg(feature = "rdma")]
mod measure;
#[cfg(feature = "rdma")]
mod place;
#[cfg(feature = "rdma")]
mod ways;

use std::{sync::mpsc::Receiver, time::Instant};

use gdrtune_wire::{EngineReport, FromWorker, ProbeSetup, ToWorker};

use crate::worker::{next, stdio::Outlet, unexpected};

#[cfg(feature = "rdma")]
use self::ways::Ways;
#[cfg(not(feature = "rdma"))]
use self::without::Ways;

/// Opens the ways, connects them, and measures what it is told to, until it is to quit.
///
/// # Errors
/// What fits neither a way nor a step: the agent went away, or this build has no RDMA.
pub(crate) fn serve(
    setup: &ProbeSetup,
    rank: u32,
    (inlet, outlet): (&Receiver<ToWorker>, &Outlet),
    started: Instant,
) -> Result<(), String> {
    let mut ways = Ways::open(setup)?;
    outlet.send(&FromWorker::Bootstrap(ways.describe()?))?;
    let peers = match next(inlet) {
        Some(ToWorker::Connect { peers }) => peers,
        Some(ToWorker::Quit) => return Ok(()),
        _ => return Err(unexpected("connect")),
    };
    // A pair has ranks 0 and 1.
    let peer = peers.get(1 - (rank as usize).min(1)).ok_or("the peer has not said what it has")?;
    ways.connect(peer)?;
    let setup_us = started.elapsed().as_micros() as u64;
    outlet.send(&FromWorker::Connected { setup_us, engine: Box::<EngineReport>::default() })?;
    loop {
        match next(inlet) {
            Some(ToWorker::Probe(step)) => {
                let outcome = ways.measure(step);
                outlet.send(&FromWorker::Probed { number: step.number, outcome })?;
            }
            Some(ToWorker::Quit) => return Ok(()),
            _ => return Err(unexpected("a step of a probe or quit")),
        }
    }
}

/// What a build without RDMA has.
#[cfg(not(feature = "rdma"))]
mod without {
    use gdrtune_wire::{ProbeOutcome, ProbeSetup, ProbeStep};

    /// No way at all.
    pub(super) enum Ways {}

    impl Ways {
        pub(super) fn open(_setup: &ProbeSetup) -> Result<Self, String> {
            Err("this gdrtune is built without RDMA: build it with `cargo build --release --features rdma`".to_owned())
        }

        pub(super) fn describe(&self) -> Result<Vec<u8>, String> {
            match *self {}
        }

        pub(super) fn connect(&mut self, _peer: &[u8]) -> Result<(), String> {
            match *self {}
        }

        pub(super) fn measure(&mut self, _step: ProbeStep) -> ProbeOutcome {
            match *self {}
        }
    }
}

//! Measures one way: first that it carries what it is given, then its latency, then its bandwidth.

use std::time::{Duration, Instant};

use gdrtune_profiles::{bindings::ceilings::Failure, stats::median};
use gdrtune_wire::ProbeRate;

use super::{
    bandwidth,
    ways::{Failed, Way},
};
use crate::verbs::{Completion, Local, Mark, Remote, VerbsError};

/// Bytes of the check: several packets at every MTU.
pub(super) const CHECK_BYTES: usize = 64 << 10;

/// Bytes of the small write whose time is the latency: what perftest's `ib_write_lat` takes unless it is told otherwise is 2;
/// collectives' smallest flags are 8.
const SMALL_BYTES: usize = 8;

/// Small writes before the time counts.
const LATENCY_WARMUP: u32 = 20;

/// Small writes that count.
const LATENCY_LAPS: usize = 200;

/// Share of a step's time that small writes may take: 200 of them at 1 ms each fit a fifth of a second.
const LATENCY_SHARE: u32 = 5;

/// Time that the check, or what is under way at the end, may take on top of a step's own. A rail of 1 Mbit/s carries
/// [`CHECK_BYTES`] both ways in a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// Empty looks at the completions before the processor is given to others: a spin of some microseconds, which is what
/// small writes take, and no more, as there may be more workers than cores.
const SPINS: u32 = 2000;

/// A way that is being measured, with its deadline.
pub(super) struct Course<'a> {
    pub(super) way: &'a Way,
    pub(super) until: Instant,
    deadline: Instant,
    done: Vec<Completion>,
}

/// Rates by size, and the latency in microseconds.
pub(super) fn measure(way: &Way, time: Duration) -> Result<(Vec<ProbeRate>, f64), Failed> {
    let until = Instant::now() + time;
    let mut course = Course { way, until, deadline: until + PATIENCE, done: Vec::new() };
    course.check()?;
    let latency_us = course.latency(time / LATENCY_SHARE)?;
    // The check was on nobody's time.
    course.until = Instant::now() + time;
    course.deadline = course.until + PATIENCE;
    Ok((bandwidth::rates(&mut course)?, latency_us))
}

impl Course<'_> {
    /// The peer's region from an offset on.
    pub(super) fn remote(&self, offset: u64) -> Result<Remote, Failed> {
        let region = self.way.remote.ok_or_else(|| (Failure::Connect, "the way is not connected".to_owned()))?;
        Ok(Remote { region, offset })
    }

    /// Waits for completions; how many came, at least one.
    pub(super) fn wait(&mut self) -> Result<usize, Failed> {
        let mut spins = 0u32;
        loop {
            self.way.queue.poll(&mut self.done).map_err(transfer)?;
            if !self.done.is_empty() {
                break;
            }
            spins += 1;
            if spins.is_multiple_of(SPINS) {
                if self.deadline < Instant::now() {
                    return Err((
                        Failure::Timeout,
                        format!("no completion by {} s after its time", PATIENCE.as_secs()),
                    ));
                }
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        for completion in &self.done {
            self.way.qp.check(completion).map_err(|failed| transfer(failed.into()))?;
        }
        let count = self.done.len();
        self.done.clear();
        Ok(count)
    }

    /// Writes bytes to the peer's memory, reads them back by RDMA, and compares: whatever memory the peer has.
    fn check(&mut self) -> Result<(), Failed> {
        let sent: Vec<u8> = (0..CHECK_BYTES).map(|index| (index * 31 + index / 256 + 1) as u8).collect();
        let small = &self.way.small;
        small.write(0, &sent).map_err(transfer)?;
        small.write(CHECK_BYTES, &vec![0; CHECK_BYTES]).map_err(transfer)?;
        let mark = Mark { id: 0, signalled: true };
        let half = |offset| Local { region: small, offset, bytes: CHECK_BYTES };
        let remote = self.remote(0)?;
        self.way.qp.post_write(half(0), remote, None, mark).map_err(transfer)?;
        self.wait()?;
        self.way.qp.post_read(half(CHECK_BYTES), remote, mark).map_err(transfer)?;
        self.wait()?;
        let mut back = vec![0; CHECK_BYTES];
        self.way.small.read(CHECK_BYTES, &mut back).map_err(transfer)?;
        match sent.iter().zip(&back).position(|(sent, back)| sent != back) {
            None => Ok(()),
            Some(at) => Err((Failure::Wrong, format!("byte {at} of {CHECK_BYTES} came back changed"))),
        }
    }

    /// Half the median time from posting a small write to its acknowledgement, in microseconds.
    fn latency(&mut self, share: Duration) -> Result<f64, Failed> {
        let until = Instant::now() + share;
        let remote = self.remote(0)?;
        let mark = Mark { id: 0, signalled: true };
        let mut laps = Vec::with_capacity(LATENCY_LAPS);
        for lap in 0.. {
            let begun = Instant::now();
            self.way.qp.post_inline_write(&[1; SMALL_BYTES], remote, None, mark).map_err(transfer)?;
            self.wait()?;
            if lap >= LATENCY_WARMUP {
                laps.push(begun.elapsed().as_secs_f64() * 1e6 / 2.0);
            }
            // On a slow way, one that counts is enough.
            if laps.len() == LATENCY_LAPS || (!laps.is_empty() && until < Instant::now()) {
                break;
            }
        }
        Ok(median(&laps).unwrap_or_default())
    }
}

/// A failure of work that was posted, or of posting it.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn transfer(error: VerbsError) -> Failed {
    (Failure::Transfer, error.to_string())
}

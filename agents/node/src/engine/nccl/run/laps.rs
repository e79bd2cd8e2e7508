//! Where the time stamps of a batch are.
//!
//! A time stamp between two calls keeps the second kernel from following the first at once. Between two H200 over `NVLink`
//! one after every call added 2 to 3 us to each (`benches/multi-gpu.sh`): 12 % at 4 MiB, and a cost that hides what
//! choices differ in at small sizes. So a batch is cut into a few laps of equal length, and only their ends have one.

/// Most laps of a batch: enough to show that its parts differ, few enough that their cost is lost in it.
const MOST_LAPS: usize = 8;
/// Most events of a batch.
pub(in crate::engine::nccl) const MOST_EVENTS: usize = MOST_LAPS + 1;

/// A batch of calls in laps; the last one may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Laps {
    calls: usize,
    length: usize,
}

impl Laps {
    pub(super) fn of(calls: usize) -> Self {
        Self { calls, length: calls.div_ceil(MOST_LAPS).max(1) }
    }

    /// All calls in one lap: those of a graph, which has no time stamps within.
    pub(super) fn one(calls: usize) -> Self {
        Self { calls, length: calls.max(1) }
    }

    /// Number of calls in the batch.
    pub(super) fn calls(self) -> usize {
        self.calls
    }

    /// Events that mark the laps: one before the first, and one after each.
    pub(super) fn events(self) -> usize {
        self.calls.div_ceil(self.length) + 1
    }

    /// The event that is recorded after this call (0 is the first), where a lap ends with it.
    pub(super) fn event_after(self, call: usize) -> Option<usize> {
        let done = call + 1;
        (done == self.calls || done.is_multiple_of(self.length)).then(|| done.div_ceil(self.length))
    }

    /// Number of calls in each lap.
    pub(super) fn lengths(self) -> impl Iterator<Item = usize> {
        (0..self.calls).step_by(self.length).map(move |start| self.length.min(self.calls - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_calls_have_a_lap_each() {
        let laps = Laps::of(3);
        assert_eq!(laps.events(), 4);
        assert_eq!((0..3).map(|call| laps.event_after(call)).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
        assert_eq!(laps.lengths().collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(Laps::of(0).events(), 1, "the start");
        assert_eq!((Laps::one(500).events(), Laps::one(500).lengths().collect::<Vec<_>>()), (2, vec![500]));
    }

    #[test]
    fn every_batch_is_covered_by_few_laps() {
        for calls in 1..3_000 {
            let laps = Laps::of(calls);
            let events: Vec<usize> = (0..calls).filter_map(|call| laps.event_after(call)).collect();
            assert_eq!(events, (1..laps.events()).collect::<Vec<_>>(), "{calls} calls: each event once, in order");
            assert!(laps.events() <= MOST_EVENTS && laps.event_after(calls - 1).is_some(), "{calls} calls");
            assert_eq!(laps.lengths().sum::<usize>(), calls);
            assert_eq!(laps.lengths().count(), events.len());
        }
    }
}

//! The item that tests of workers begin with.

use gdrtune_profiles::vocab::{Collective, DataType, Point, ReduceOp};
use gdrtune_wire::Item;

/// Far beyond what any item takes here.
pub(crate) const LEASE_MS: u64 = 30_000;

/// A checked item of the engine's own choice: one warm-up and three timed calls.
pub(crate) fn item(collective: Collective, bytes: u64) -> Item {
    Item {
        point: Point { collective, bytes },
        choice: None,
        data_type: DataType::F32,
        op: ReduceOp::Sum,
        root: 0,
        in_place: false,
        graph: false,
        check: true,
        warmup: 1,
        iterations: 3,
        lease_ms: LEASE_MS,
    }
}

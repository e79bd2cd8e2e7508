//! Test inputs whose results are known in closed form. Pure.
//!
//! Inputs are small whole numbers, so that every partial result is exact in every type and order of combination:
//! magnitudes stay below 256, the last whole number that `bfloat16` holds together with all smaller ones. They depend on
//! the element's index through a hash, so that data in the wrong place is found too. The hash repeats after a prime number
//! of elements: large buffers are then filled and compared at the speed of memory, and a chunk in the wrong place still
//! shows, as no engine cuts messages at multiples of such a number.

use gdrtune_profiles::vocab::{Collective, DataType, ReduceOp};

use super::{
    element,
    plan::{Area, Call},
};

/// Ranks that may contribute to one element of a reduction: 64 times 3 stays below 256.
const CONTRIBUTORS: u64 = 64;

/// Elements after which values repeat: the largest prime below 2^16. The table of one period fits a core's cache.
const PERIOD: u64 = 65_521;

/// Fill of buffers before a checked call; no input or result looks like it in any type.
const POISON: u8 = 0xa5;

/// A well mixed function of an index (the finaliser of `SplitMix64`).
fn mix(index: u64) -> u64 {
    let mut x = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The pattern of one item.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Pattern {
    pub(in crate::engine) call: Call,
    pub(in crate::engine) data_type: DataType,
    pub(in crate::engine) op: ReduceOp,
}

/// What a checked call got wrong on this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) struct Difference {
    pub(in crate::engine) elements: u64,
    pub(in crate::engine) first: String,
}

impl Pattern {
    /// Writes this rank's input, and poison over everything else.
    pub(in crate::engine) fn fill(&self, input: &mut [u8], output: &mut [u8]) {
        let (call, size) = (self.call, self.call.element);
        let span = call.span();
        input[..span].fill(POISON);
        output[..span].fill(POISON);
        let first = call.input(0);
        let elements = match call.collective {
            Collective::AllGather => call.count(),
            _ => span / size,
        };
        let buffer = if first.area == Area::Input { input } else { output };
        let target = &mut buffer[first.start..first.start + elements * size];
        let table = self.table(elements, |index| self.value(call.rank, index));
        for block in target.chunks_mut(table.len().max(1)) {
            block.copy_from_slice(&table[..block.len()]);
        }
    }

    /// Elements of one period, or of `elements` where those are fewer.
    fn table(&self, elements: usize, value: impl Fn(u64) -> i32) -> Vec<u8> {
        let size = self.call.element;
        let mut table = Vec::with_capacity(elements.min(PERIOD as usize) * size);
        for index in 0..PERIOD.min(elements as u64) {
            table.extend_from_slice(&element::encode(self.data_type, value(index))[..size]);
        }
        table
    }

    /// Compares every element of this rank's result. `None` where all are right.
    pub(in crate::engine) fn check(&self, input: &[u8], output: &[u8]) -> Option<Difference> {
        let (call, size) = (self.call, self.call.element);
        if call.collective == Collective::Reduce && call.rank != call.root {
            return None;
        }
        let elements = match call.collective {
            Collective::ReduceScatter => call.count(),
            _ => call.span() / size,
        };
        let first = call.output(0);
        let buffer = if first.area == Area::Input { input } else { output };
        let result = &buffer[first.start..first.start + elements * size];
        let mut difference: Option<Difference> = None;
        // Where a rank's block ends, another period begins.
        let run = if self.has_blocks() { call.count().max(1) } else { elements };
        for (start, block) in (0..).step_by(run.max(1)).zip(result.chunks(run.max(1) * size)) {
            let table = self.table(run, |index| self.expected(start as u64 + index));
            for (period, got) in block.chunks(table.len().max(1)).enumerate() {
                let expected = &table[..got.len()];
                if got != expected {
                    self.compare(start + period * PERIOD as usize, elements, got, expected, &mut difference);
                }
            }
        }
        difference
    }

    /// Whether a result is made of one block per rank.
    fn has_blocks(&self) -> bool {
        matches!(self.call.collective, Collective::AllGather | Collective::AllToAll)
    }

    /// Counts the elements that differ; `start` is the index of the first one given.
    fn compare(&self, start: usize, elements: usize, got: &[u8], expected: &[u8], difference: &mut Option<Difference>) {
        let size = self.call.element;
        for (index, (got, expected)) in got.chunks_exact(size).zip(expected.chunks_exact(size)).enumerate() {
            if got == expected {
                continue;
            }
            let found = difference.get_or_insert_with(|| Difference {
                elements: 0,
                first: format!(
                    "element {} of {elements} on rank {}: expected {}, got {}",
                    start + index,
                    self.call.rank,
                    element::decode(self.data_type, expected),
                    element::decode(self.data_type, got),
                ),
            });
            found.elements += 1;
        }
    }

    /// The bytes of this rank's result.
    #[cfg(feature = "test-faults")]
    pub(super) fn result<'a>(&self, input: &'a mut [u8], output: &'a mut [u8]) -> &'a mut [u8] {
        let first = self.call.output(0);
        let buffer = if first.area == Area::Input { input } else { output };
        &mut buffer[first.start..first.start + self.call.count() * self.call.element]
    }

    /// Element `index` of a rank's input.
    fn value(&self, rank: u32, index: u64) -> i32 {
        let index = index % PERIOD;
        if !self.call.collective.reduces() {
            return (mix(index.wrapping_mul(0x1_0001).wrapping_add(u64::from(rank) << 40)) & 0xff) as i32;
        }
        let shared = Shared::new(index, self.call.world);
        let field = shared.field(rank);
        let (low, high) = shared.special;
        match self.op {
            ReduceOp::Sum => field,
            ReduceOp::Prod => {
                let magnitude = if rank == low || rank == high { 2 } else { 1 };
                if field == 3 { -magnitude } else { magnitude }
            }
            ReduceOp::Min => {
                if rank == low {
                    shared.base - 7
                } else {
                    shared.base + field
                }
            }
            ReduceOp::Max => {
                if rank == high {
                    shared.base + 7
                } else {
                    shared.base - field
                }
            }
        }
    }

    /// The right value of element `index` of this rank's result.
    fn expected(&self, index: u64) -> i32 {
        let call = self.call;
        let count = call.count().max(1) as u64;
        match call.collective {
            Collective::AllReduce | Collective::Reduce => self.combined(index),
            Collective::ReduceScatter => self.combined(u64::from(call.rank) * count + index),
            Collective::AllGather => self.value((index / count) as u32, index % count),
            Collective::Broadcast => self.value(call.root, index),
            Collective::AllToAll => self.value((index / count) as u32, u64::from(call.rank) * count + index % count),
            Collective::SendRecv => self.value((call.rank + call.world - 1) % call.world, index),
        }
    }

    /// All ranks' elements of this index, combined.
    fn combined(&self, index: u64) -> i32 {
        let shared = Shared::new(index % PERIOD, self.call.world);
        let (low, high) = shared.special;
        match self.op {
            ReduceOp::Sum => shared.field_sum(),
            ReduceOp::Prod => {
                let magnitude = if low == high { 2 } else { 4 };
                if shared.threes() % 2 == 1 { -magnitude } else { magnitude }
            }
            ReduceOp::Min => shared.base - 7,
            ReduceOp::Max => shared.base + 7,
        }
    }
}

/// What an index means for all ranks: two bits for each rank of the group that contributes to it, two ranks that stand
/// out, and a base value.
struct Shared {
    /// Two bits each for the first and the second 32 ranks of the group.
    fields: [u64; 2],
    /// First rank of the contributing group, and the ranks in it.
    group: (u64, u64),
    special: (u32, u32),
    base: i32,
}

impl Shared {
    fn new(index: u64, world: u32) -> Self {
        let world = u64::from(world);
        let first = index % world.div_ceil(CONTRIBUTORS) * CONTRIBUTORS;
        let (a, b, c) = (mix(index), mix(!index), mix(index ^ 0x5555_0000_5555));
        let special = ((c % world) as u32, ((c >> 20) % world) as u32);
        Self { fields: [a, b], group: (first, (world - first).min(CONTRIBUTORS)), special, base: (c >> 58) as i32 - 32 }
    }

    /// The rank's two bits; 0 outside the contributing group.
    fn field(&self, rank: u32) -> i32 {
        match u64::from(rank).checked_sub(self.group.0) {
            Some(place @ 0..32) => (self.fields[0] >> (2 * place) & 3) as i32,
            Some(place @ 32..64) => (self.fields[1] >> (2 * (place - 32)) & 3) as i32,
            _ => 0,
        }
    }

    /// The two words of fields, with those beyond the group's last rank set to zero.
    fn used(&self) -> [u64; 2] {
        let keep = |ranks: u64| if ranks >= 32 { u64::MAX } else { (1 << (2 * ranks)) - 1 };
        [self.fields[0] & keep(self.group.1), self.fields[1] & keep(self.group.1.saturating_sub(32))]
    }

    fn field_sum(&self) -> i32 {
        let of = |w: u64| (w & EVEN_BITS).count_ones() + 2 * (w >> 1 & EVEN_BITS).count_ones();
        self.used().map(of).iter().sum::<u32>() as i32
    }

    fn threes(&self) -> u32 {
        self.used().map(|w| (w & w >> 1 & EVEN_BITS).count_ones()).iter().sum()
    }
}

const EVEN_BITS: u64 = 0x5555_5555_5555_5555;

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Algorithm;
    use proptest::prelude::*;

    use super::*;

    fn pattern(op: ReduceOp, world: u32) -> Pattern {
        let call = Call {
            collective: Collective::AllReduce,
            algorithm: Algorithm::Ring,
            bytes: 400,
            element: 4,
            rank: 0,
            world,
            root: 0,
            in_place: false,
            lanes: 1,
        };
        Pattern { call, data_type: DataType::F32, op }
    }

    proptest! {
        #[test]
        fn the_closed_form_is_the_combination(world in 1u32..300, index in 0u64..1 << 40) {
            for (op, combine) in [
                (ReduceOp::Sum, (|a, b| a + b) as fn(i32, i32) -> i32),
                (ReduceOp::Prod, |a, b| a * b),
                (ReduceOp::Min, Ord::min),
                (ReduceOp::Max, Ord::max),
            ] {
                let pattern = pattern(op, world);
                let combined = (0..world).map(|rank| pattern.value(rank, index)).reduce(combine).unwrap();
                prop_assert_eq!(combined, pattern.combined(index), "{}", op);
                prop_assert!(combined.abs() <= 256);
            }
        }
    }

    #[test]
    fn every_rank_matters_to_every_operator() {
        for &op in ReduceOp::ALL {
            for world in [2, 5, 70] {
                let pattern = pattern(op, world);
                for rank in 0..world {
                    // Leaving the rank out changes the result of some element.
                    let neutral = |value: i32, index: u64| match op {
                        ReduceOp::Sum => value != 0,
                        ReduceOp::Prod => value != 1,
                        ReduceOp::Min | ReduceOp::Max => value == pattern.combined(index),
                    };
                    assert!((0..2000).any(|i| neutral(pattern.value(rank, i), i)), "{op} {world} {rank}");
                }
            }
        }
    }

    /// Fill and check of every collective at sizes around one period, against the definition element by element.
    #[test]
    fn every_element_of_long_results_is_compared() {
        for &collective in Collective::ALL {
            for bytes in [8, 4 * PERIOD as usize, 4 * (PERIOD as usize + 1), 4 * (2 * PERIOD as usize + 3) * 3] {
                let mut pattern = pattern(ReduceOp::Sum, 3);
                (pattern.call.collective, pattern.call.bytes) = (collective, bytes);
                let (call, span) = (pattern.call, pattern.call.span());
                let (mut input, mut output) = (vec![0; span], vec![0; span]);
                pattern.fill(&mut input, &mut output);
                let first = call.output(0).start / 4;
                let elements = if collective == Collective::ReduceScatter { call.count() } else { span / 4 };
                for index in 0..elements {
                    let right = element::encode(DataType::F32, pattern.expected(index as u64));
                    output[4 * (first + index)..][..4].copy_from_slice(&right);
                }
                assert_eq!(pattern.check(&input, &output), None, "{collective} {bytes}");
                if elements == 0 {
                    continue;
                }
                for index in [0, elements / 2, elements - 1] {
                    output[4 * (first + index)] ^= 1;
                    let found = pattern.check(&input, &output);
                    let start = format!("element {index} of {elements} ");
                    assert!(found.is_some_and(|d| d.first.starts_with(&start)), "{collective} {bytes} {index}");
                    output[4 * (first + index)] ^= 1;
                }
            }
        }
    }

    #[test]
    fn a_wrong_element_is_named() {
        let pattern = pattern(ReduceOp::Sum, 1);
        let (mut input, mut output) = (vec![0; 400], vec![0; 400]);
        pattern.fill(&mut input, &mut output);
        assert_eq!(pattern.check(&input, &output).map(|d| d.elements), Some(100));
        output.copy_from_slice(&input);
        assert_eq!(pattern.check(&input, &output), None);
        output[40..44].copy_from_slice(&9f32.to_ne_bytes());
        let expected = pattern.expected(10);
        let first = format!("element 10 of 100 on rank 0: expected {expected}, got 9");
        assert_eq!(pattern.check(&input, &output), Some(Difference { elements: 1, first }));
    }
}

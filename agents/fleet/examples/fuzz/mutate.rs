//! Breaks valid inputs.

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng, seq::IndexedRandom as _};

/// Longest input, in bytes.
const MAX_INPUT: usize = 64 << 10;
/// Inputs that were made and are broken further, beside the valid ones.
const KEPT: usize = 64;

pub(crate) struct Mutator {
    seeds: Vec<Vec<u8>>,
    made: Vec<Vec<u8>>,
    dictionary: &'static [&'static str],
    random: SmallRng,
}

impl Mutator {
    pub(crate) fn new(seeds: Vec<Vec<u8>>, dictionary: &'static [&'static str], seed: u64) -> Self {
        Self { seeds, made: Vec::new(), dictionary, random: SmallRng::seed_from_u64(seed) }
    }

    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        let from = if self.made.is_empty() || self.random.random_bool(0.6) { &self.seeds } else { &self.made };
        let mut input = from.choose(&mut self.random).cloned().unwrap_or_default();
        for _ in 0..self.random.random_range(1..=6) {
            self.break_once(&mut input);
        }
        input.truncate(MAX_INPUT);
        if self.made.len() < KEPT {
            self.made.push(input.clone());
        } else {
            let at = self.random.random_range(0..KEPT);
            self.made[at].clone_from(&input);
        }
        input
    }

    fn break_once(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        let end = self.random.random_range(at..=input.len());
        let piece = input[at..end].to_vec();
        match self.random.random_range(0..10) {
            0 if at < input.len() => input[at] ^= 1 << self.random.random_range(0..8),
            1 if at < input.len() => input[at] = self.random.random(),
            2 => drop(input.drain(at..end)),
            3 => {
                let times = *[1, 2, 30, 3000].choose(&mut self.random).unwrap_or(&1);
                let times = times.min(MAX_INPUT / piece.len().max(1));
                input.splice(end..end, piece.repeat(times));
            }
            4 => {
                let to = self.random.random_range(0..=input.len());
                input.splice(to..to, piece);
            }
            5 => {
                let other = self.seeds.choose(&mut self.random).cloned().unwrap_or_default();
                let from = self.random.random_range(0..=other.len());
                input.splice(at..end, other[from..].iter().copied());
            }
            6 => input.truncate(end),
            7 => {
                // A length, as the codec writes it: up to ten bytes, all but the last with the high bit.
                let mut number: u64 = self.random.random::<u64>() >> self.random.random_range(0..64);
                let mut bytes = Vec::new();
                while number >= 0x80 {
                    bytes.push(number as u8 | 0x80);
                    number >>= 7;
                }
                bytes.push(number as u8);
                input.splice(at..at, bytes);
            }
            8 => {
                let number = self.random.random::<u64>() >> self.random.random_range(0..64);
                input.splice(at..at, number.to_string().into_bytes());
            }
            _ => {
                let word = self.dictionary.choose(&mut self.random).unwrap_or(&"");
                input.splice(at..at, word.bytes());
            }
        }
    }
}

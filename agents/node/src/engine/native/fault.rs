//! Faults on purpose, for tests of what happens then. Built only with the cargo feature `test-faults`.
//!
//! `GDRTUNE_TEST_FAULT=KIND:COLLECTIVE:ALGORITHM:PROTOCOL[:RANK]`: KIND is `hang`, `wrong`, `crash` or `panic`; `*` stands for any
//! collective, algorithm or protocol; without a rank it is rank 0 that is hit. `wrong` needs an item that is checked.

use gdrtune_profiles::vocab::{Algorithm, Collective, Protocol};

use super::select::Selected;
use crate::engine::EngineError;

const VARIABLE: &str = "GDRTUNE_TEST_FAULT";

/// A fault of this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    kind: Kind,
    collective: Option<Collective>,
    algorithm: Option<Algorithm>,
    protocol: Option<Protocol>,
    rank: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hang,
    Wrong,
    Crash,
    Panic,
}

impl Fault {
    /// The fault that the environment asks this rank for.
    pub(super) fn from_environment(rank: u32) -> Result<Option<Self>, EngineError> {
        let Ok(value) = std::env::var(VARIABLE) else { return Ok(None) };
        match Self::parse(&value) {
            Some(fault) => Ok(Some(fault).filter(|fault| fault.rank == rank)),
            None => Err(EngineError::Setting {
                name: VARIABLE,
                value,
                why: "write hang, wrong, crash or panic, then :COLLECTIVE:ALGORITHM:PROTOCOL[:RANK], each a name or *"
                    .to_owned(),
            }),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        /// `None` for any; fails on an unknown name.
        fn name<T: std::str::FromStr>(text: &str) -> Result<Option<T>, T::Err> {
            if text == "*" { Ok(None) } else { text.parse().map(Some) }
        }
        let fields: Vec<&str> = text.split(':').collect();
        let (kind, rest) = fields.split_first()?;
        let (rest, rank) = match *rest {
            [a, b, c] => ([a, b, c], 0),
            [a, b, c, rank] => ([a, b, c], rank.parse().ok()?),
            _ => return None,
        };
        let kind = match *kind {
            "hang" => Kind::Hang,
            "wrong" => Kind::Wrong,
            "crash" => Kind::Crash,
            "panic" => Kind::Panic,
            _ => return None,
        };
        let [collective, algorithm, protocol] = rest;
        Some(Self {
            kind,
            collective: name(collective).ok()?,
            algorithm: name(algorithm).ok()?,
            protocol: name(protocol).ok()?,
            rank,
        })
    }

    fn hits(&self, collective: Collective, selected: Selected) -> bool {
        self.collective.is_none_or(|wanted| wanted == collective)
            && self.algorithm.is_none_or(|wanted| wanted == selected.algorithm)
            && self.protocol.is_none_or(|wanted| wanted == selected.protocol)
    }

    /// Hangs, crashes or panics where this call is to.
    pub(super) fn strike(&self, collective: Collective, selected: Selected) {
        if !self.hits(collective, selected) {
            return;
        }
        match self.kind {
            Kind::Hang => loop {
                std::thread::park();
            },
            Kind::Crash => std::process::abort(),
            #[expect(clippy::panic, reason = "the fault that was asked for")]
            Kind::Panic => panic!("the fault that was asked for"),
            Kind::Wrong => {}
        }
    }

    /// Spoils a result where this call's is to be wrong.
    pub(super) fn spoil(&self, collective: Collective, selected: Selected, result: &mut [u8]) {
        if self.kind == Kind::Wrong && self.hits(collective, selected) {
            for byte in result.iter_mut().take(size_of::<u32>()) {
                *byte ^= 0x41;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        let fault = Fault {
            kind: Kind::Hang,
            collective: Some(Collective::AllReduce),
            algorithm: Some(Algorithm::Tree),
            protocol: None,
            rank: 2,
        };
        assert_eq!(Fault::parse("hang:allreduce:tree:*:2"), Some(fault));
        assert_eq!(Fault::parse("wrong:*:*:ll").map(|fault| (fault.kind, fault.rank)), Some((Kind::Wrong, 0)));
        for text in ["", "hang", "hang:*:*", "burn:*:*:*", "hang:all:*:*", "hang:*:*:*:x", "hang:*:*:*:1:2"] {
            assert_eq!(Fault::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_matching_calls_are_hit() {
        let fault = Fault::parse("wrong:allreduce:ring:*").unwrap();
        let selected = |algorithm| Selected { algorithm, protocol: Protocol::Ll, channels: 1 };
        for (collective, algorithm, is_hit) in [
            (Collective::AllReduce, Algorithm::Ring, true),
            (Collective::AllReduce, Algorithm::Tree, false),
            (Collective::Reduce, Algorithm::Ring, false),
        ] {
            let mut result = [0; 8];
            fault.spoil(collective, selected(algorithm), &mut result);
            assert_eq!(result != [0; 8], is_hit, "{collective} {algorithm}");
        }
    }
}

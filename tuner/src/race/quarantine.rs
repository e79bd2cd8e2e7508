//! Choices that must not be tried again, and why.
//!
//! A wrong result is about the algorithm and protocol, not about the channel count: it bans the whole family at once, as
//! a single wrong element must. A hang or a crash bans the choice in its environment; repeated ones ban it everywhere,
//! and a family that keeps failing is given up as a whole.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};

use crate::bench::Outcome;

/// Hangs or crashes in different environments after which a choice is not tried anywhere.
const FAILURES: u32 = 2;
/// Hangs or crashes of a family, whatever the channels, after which none of it is tried anywhere.
const FAMILY_FAILURES: u32 = 3;

/// A choice of a collective that is out in every environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    /// The collective.
    pub collective: Collective,
    /// The choice; 0 channels stand for every count.
    pub choice: Choice,
    /// Why, for people.
    pub why: String,
}

type Key = (Collective, Choice);
type Family = (Collective, Algorithm, Protocol);

/// What failed so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quarantine {
    everywhere: BTreeMap<Key, String>,
    families: BTreeMap<Family, String>,
    here: BTreeSet<Key>,
    failures: BTreeMap<Key, u32>,
}

const fn family(collective: Collective, choice: Choice) -> Family {
    (collective, choice.algorithm, choice.protocol)
}

impl Quarantine {
    /// Whether the choice must not be tried.
    pub fn is_banned(&self, collective: Collective, choice: Choice) -> bool {
        let key = (collective, choice);
        self.families.contains_key(&family(collective, choice))
            || self.everywhere.contains_key(&key)
            || self.here.contains(&key)
    }

    /// Takes over what `other` has banned everywhere, and its failures.
    pub(crate) fn adopt(&mut self, other: &Self) {
        self.everywhere.extend(other.everywhere.clone());
        self.families.extend(other.families.clone());
        for (key, failures) in &other.failures {
            let own = self.failures.entry(*key).or_default();
            *own = (*own).max(*failures);
        }
    }

    /// The choices that are out everywhere.
    pub fn bans(&self) -> Vec<Ban> {
        let families = self.families.iter().map(|(&(collective, algorithm, protocol), why)| Ban {
            collective,
            choice: Choice { algorithm, protocol, channels: 0 },
            why: why.clone(),
        });
        let single =
            self.everywhere.iter().map(|(&(collective, choice), why)| Ban { collective, choice, why: why.clone() });
        families.chain(single).collect()
    }

    /// Takes a failure into account; says whether it bans the choice at every size here.
    pub(crate) fn note(&mut self, collective: Collective, choice: Choice, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Wrong(why) => {
                self.families.insert(family(collective, choice), format!("wrong result: {why}"));
            }
            Outcome::Hung(why) => self.note_failure(collective, choice, "hung", why),
            Outcome::Crashed(why) => self.note_failure(collective, choice, "crashed", why),
            Outcome::Timed(_) | Outcome::Unsupported(_) | Outcome::Substituted { .. } | Outcome::Skipped => {
                return false;
            }
        }
        true
    }

    fn note_failure(&mut self, collective: Collective, choice: Choice, what: &str, why: &str) {
        let key = (collective, choice);
        self.here.insert(key);
        let failures = self.failures.entry(key).or_default();
        *failures += 1;
        if FAILURES <= *failures {
            self.everywhere.insert(key, format!("{what} {failures} times: {why}"));
        }
        let own = family(collective, choice);
        let of_family: u32 = self.failures.iter().filter(|((c, k), _)| family(*c, *k) == own).map(|(_, n)| n).sum();
        if FAMILY_FAILURES <= of_family {
            self.families.insert(own, format!("{what}, {of_family} failures with any channels: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(protocol: Protocol, channels: u16) -> Choice {
        Choice { algorithm: Algorithm::Ring, protocol, channels }
    }

    fn banned(quarantine: &Quarantine, protocol: Protocol) -> [bool; 3] {
        [1, 2, 4].map(|channels| quarantine.is_banned(Collective::Reduce, choice(protocol, channels)))
    }

    #[test]
    fn a_wrong_result_bans_its_family_at_once() {
        let mut quarantine = Quarantine::default();
        assert!(quarantine.note(Collective::Reduce, choice(Protocol::Ll128, 2), &Outcome::Wrong("1 element".into())));
        assert_eq!(banned(&quarantine, Protocol::Ll128), [true; 3]);
        assert_eq!(banned(&quarantine, Protocol::Ll), [false; 3]);
        assert!(!quarantine.is_banned(Collective::AllReduce, choice(Protocol::Ll128, 2)), "another collective");
        assert!(!quarantine.note(Collective::Reduce, choice(Protocol::Ll, 1), &Outcome::Unsupported("no".into())));
    }

    #[test]
    fn hangs_and_crashes_ban_here_then_everywhere_then_the_family() {
        let mut first = Quarantine::default();
        first.note(Collective::Reduce, choice(Protocol::Ll, 1), &Outcome::Hung("5 s".into()));
        assert_eq!(banned(&first, Protocol::Ll), [true, false, false]);
        let mut second = Quarantine::default();
        second.adopt(&first);
        assert_eq!(banned(&second, Protocol::Ll), [false; 3], "another environment");
        second.note(Collective::Reduce, choice(Protocol::Ll, 1), &Outcome::Crashed("signal 11".into()));
        let mut third = Quarantine::default();
        third.adopt(&second);
        assert_eq!(banned(&third, Protocol::Ll), [true, false, false], "twice is everywhere");
        third.note(Collective::Reduce, choice(Protocol::Ll, 4), &Outcome::Crashed("signal 11".into()));
        let mut fourth = Quarantine::default();
        fourth.adopt(&third);
        assert_eq!(banned(&fourth, Protocol::Ll), [true; 3], "the third failure takes the family along");
        assert!(fourth.bans()[0].why.starts_with("crashed, 3 failures"), "{:?}", fourth.bans());
    }
}

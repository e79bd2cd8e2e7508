//! Choices that must not be tried again, and why.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Choice, Collective};

use crate::bench::Outcome;

/// Hangs in different environments after which a choice is not tried anywhere.
const HANGS: u32 = 2;

/// A choice of a collective that is out in every environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    /// The collective.
    pub collective: Collective,
    /// The choice.
    pub choice: Choice,
    /// Why, for people.
    pub why: String,
}

/// What failed so far. A wrong result bans a choice everywhere; a hang or a crash bans it in that environment, and the
/// second hang everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quarantine {
    everywhere: BTreeMap<(Collective, Choice), String>,
    here: BTreeSet<(Collective, Choice)>,
    hangs: BTreeMap<(Collective, Choice), u32>,
}

impl Quarantine {
    /// Whether the choice must not be tried.
    pub fn is_banned(&self, collective: Collective, choice: Choice) -> bool {
        let key = (collective, choice);
        self.everywhere.contains_key(&key) || self.here.contains(&key)
    }

    /// Takes over what `other` has banned everywhere, and its hangs.
    pub(crate) fn adopt(&mut self, other: &Self) {
        self.everywhere.extend(other.everywhere.clone());
        for (key, hangs) in &other.hangs {
            let own = self.hangs.entry(*key).or_default();
            *own = (*own).max(*hangs);
        }
    }

    /// The choices that are out everywhere.
    pub fn bans(&self) -> Vec<Ban> {
        let ban = |((collective, choice), why): (&(Collective, Choice), &String)| Ban {
            collective: *collective,
            choice: *choice,
            why: why.clone(),
        };
        self.everywhere.iter().map(ban).collect()
    }

    /// Takes a failure into account; says whether it bans the choice at every size here.
    pub(crate) fn note(&mut self, collective: Collective, choice: Choice, outcome: &Outcome) -> bool {
        let key = (collective, choice);
        match outcome {
            Outcome::Wrong(why) => {
                self.everywhere.insert(key, format!("wrong result: {why}"));
            }
            Outcome::Hung(why) => {
                self.here.insert(key);
                let hangs = self.hangs.entry(key).or_default();
                *hangs += 1;
                if HANGS <= *hangs {
                    self.everywhere.insert(key, format!("hung {hangs} times: {why}"));
                }
            }
            Outcome::Crashed(_) => {
                self.here.insert(key);
            }
            Outcome::Timed(_) | Outcome::Unsupported(_) | Outcome::Substituted { .. } => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Algorithm, Protocol};

    use super::*;

    #[test]
    fn wrong_results_ban_at_once_and_hangs_the_second_time() {
        let choice = |channels| Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels };
        let collective = Collective::Reduce;
        let mut first = Quarantine::default();
        assert!(first.note(collective, choice(1), &Outcome::Wrong("2 elements".into())));
        assert!(first.note(collective, choice(2), &Outcome::Hung("5 s".into())));
        assert!(first.note(collective, choice(4), &Outcome::Crashed("signal 11".into())));
        assert!(!first.note(collective, choice(8), &Outcome::Unsupported("no".into())));
        let banned = |q: &Quarantine| [1, 2, 4, 8].map(|channels| q.is_banned(collective, choice(channels)));
        assert_eq!(banned(&first), [true, true, true, false]);
        let mut second = Quarantine::default();
        second.adopt(&first);
        assert_eq!(banned(&second), [true, false, false, false]);
        second.note(collective, choice(2), &Outcome::Hung("5 s".into()));
        assert_eq!(second.bans().iter().map(|ban| ban.choice.channels).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(second.bans()[1].why, "hung 2 times: 5 s");
    }
}

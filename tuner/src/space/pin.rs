//! Knobs that the user holds at one value while a search runs. Pure: the same check answers while the user types.

use std::collections::BTreeMap;

use gdrtune_profiles::{
    nearest,
    vocab::{Algorithm, Choice, Protocol},
};

use super::{Dimension, Space};

/// The parts of a choice, by the names that they are pinned with.
const ALGORITHM: &str = "algo";
const PROTOCOL: &str = "proto";
const CHANNELS: &str = "channels";

/// One knob at one value that a space has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// A dimension of the environment.
    Setting {
        /// Variable name.
        name: String,
        /// Its value; `None` leaves the variable as the site has it.
        value: Option<String>,
    },
    /// A part of every choice.
    Choice(ChoicePin),
}

/// A part of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoicePin {
    /// `algo`
    Algorithm(Algorithm),
    /// `proto`
    Protocol(Protocol),
    /// `channels`
    Channels(u16),
}

/// A pin that the space cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// Nothing of that name is searched.
    #[error("{knob} is not searched here: pin one of {}{}", known.join(", "), nearest::hint(knob, known.iter().map(String::as_str)))]
    UnknownKnob {
        /// What was asked for.
        knob: String,
        /// What can be pinned.
        known: Vec<String>,
    },
    /// The knob is searched, and not with that value.
    #[error("{knob} = {value} is not searched here: its values are {}{}", known.join(", "), value_hint(value, known))]
    UnknownValue {
        /// The knob.
        knob: String,
        /// What was asked for.
        value: String,
        /// What it can be pinned to; `unset` leaves it as the site has it.
        known: Vec<String>,
    },
    /// The space has nothing where all pins hold.
    #[error("{knob} cannot be pinned like that: with what is pinned already, nothing is left to search")]
    NothingLeft {
        /// The knob.
        knob: String,
    },
    /// The knob has no such thing as being unset.
    #[error("{knob} cannot be left unset: its values are {}", known.join(", "))]
    NeverUnset {
        /// The knob.
        knob: String,
        /// What it can be pinned to.
        known: Vec<String>,
    },
}

/// The nearest value, where so few characters as a channel count has do not make everything near.
fn value_hint(value: &str, known: &[String]) -> String {
    const LEAST_CHARACTERS: usize = 3;
    let is_telling = LEAST_CHARACTERS <= value.chars().count();
    if is_telling { nearest::hint(value, known.iter().map(String::as_str)) } else { String::new() }
}

/// Checks that `knob`, a dimension of the environment or `algo`, `proto` or `channels`, has `value` among what is searched;
/// `None` is a variable that is left unset.
///
/// # Errors
/// [`PinError`] names what there is, and the nearest of it.
pub fn check_pin(
    dimensions: &BTreeMap<String, Vec<Option<String>>>,
    choices: &[Choice],
    knob: &str,
    value: Option<&str>,
) -> Result<Pin, PinError> {
    if let Some(values) = dimensions.get(knob) {
        let value = find(values.iter().map(|value| (value.as_deref(), value.clone())), knob, value)?;
        return Ok(Pin::Setting { name: knob.to_owned(), value });
    }
    let pins = |pin: fn(Choice) -> ChoicePin| {
        let mut pins: Vec<ChoicePin> = Vec::new();
        for pin in choices.iter().map(|choice| pin(*choice)).filter(|pin| *pin != ChoicePin::Channels(0)) {
            if !pins.contains(&pin) {
                pins.push(pin);
            }
        }
        pins.sort_by_key(|pin| if let ChoicePin::Channels(channels) = pin { *channels } else { 0 });
        pins
    };
    let pins = match knob {
        ALGORITHM => pins(|choice| ChoicePin::Algorithm(choice.algorithm)),
        PROTOCOL => pins(|choice| ChoicePin::Protocol(choice.protocol)),
        CHANNELS => pins(|choice| ChoicePin::Channels(choice.channels)),
        _ => Vec::new(),
    };
    if pins.is_empty() {
        let of_choices = if choices.is_empty() { &[][..] } else { &[ALGORITHM, PROTOCOL, CHANNELS][..] };
        let known = dimensions.keys().cloned().chain(of_choices.iter().map(ToString::to_string)).collect();
        return Err(PinError::UnknownKnob { knob: knob.to_owned(), known });
    }
    let texts: Vec<String> = pins.iter().map(|pin| pin.value()).collect();
    let pin = find(texts.iter().map(|text| Some(text.as_str())).zip(pins), knob, value)?;
    Ok(Pin::Choice(pin))
}

/// What belongs to the wanted value.
fn find<'a, T>(
    values: impl Iterator<Item = (Option<&'a str>, T)>,
    knob: &str,
    wanted: Option<&str>,
) -> Result<T, PinError> {
    let mut known = Vec::new();
    for (value, found) in values {
        if value == wanted {
            return Ok(found);
        }
        known.push(value.unwrap_or("unset").to_owned());
    }
    let knob = knob.to_owned();
    Err(match wanted {
        Some(value) => PinError::UnknownValue { knob, value: value.to_owned(), known },
        None => PinError::NeverUnset { knob, known },
    })
}

impl Pin {
    /// The name of its knob.
    pub fn knob(&self) -> &str {
        match self {
            Self::Setting { name, .. } => name,
            Self::Choice(pin) => pin.knob(),
        }
    }
}

impl ChoicePin {
    /// The name of its knob.
    pub const fn knob(self) -> &'static str {
        match self {
            Self::Algorithm(_) => ALGORITHM,
            Self::Protocol(_) => PROTOCOL,
            Self::Channels(_) => CHANNELS,
        }
    }

    fn value(self) -> String {
        match self {
            Self::Algorithm(algorithm) => algorithm.to_string(),
            Self::Protocol(protocol) => protocol.to_string(),
            Self::Channels(channels) => channels.to_string(),
        }
    }

    /// Whether a choice has it.
    pub fn holds(self, choice: Choice) -> bool {
        match self {
            Self::Algorithm(algorithm) => choice.algorithm == algorithm,
            Self::Protocol(protocol) => choice.protocol == protocol,
            Self::Channels(channels) => choice.channels == channels,
        }
    }
}

/// What is pinned, by knob.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins(BTreeMap<String, Pin>);

impl Pins {
    /// Checks a pin, and that something is left of the space with it; gives it, and these pins with it.
    ///
    /// # Errors
    /// [`PinError`] as [`check_pin`], or that nothing is left.
    pub fn with(&self, space: &Space, knob: &str, value: Option<&str>) -> Result<(Self, Pin), PinError> {
        let dimensions = space.dimensions.iter().map(|d| (d.name.clone(), d.values.clone())).collect();
        let choices: Vec<Choice> = space.choices.values().flatten().copied().collect();
        let pin = check_pin(&dimensions, &choices, knob, value)?;
        let mut pins = self.clone();
        pins.hold(pin.clone());
        let has_choice = choices.is_empty() || choices.iter().any(|choice| pins.allow(*choice));
        if !has_choice || pins.canonical(space, &[]).is_none() {
            return Err(PinError::NothingLeft { knob: knob.to_owned() });
        }
        Ok((pins, pin))
    }

    /// Without the pin of a knob; `None` where it has none.
    pub fn without(&self, knob: &str) -> Option<Self> {
        let mut pins = self.clone();
        pins.0.remove(knob).map(|_| pins)
    }

    pub(crate) fn hold(&mut self, pin: Pin) {
        self.0.insert(pin.knob().to_owned(), pin);
    }

    pub(crate) fn release(&mut self, knob: &str) {
        self.0.remove(knob);
    }

    /// Whether the choice may be tried.
    pub(crate) fn allow(&self, choice: Choice) -> bool {
        self.0.values().all(|pin| if let Pin::Choice(pin) = pin { pin.holds(choice) } else { true })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one vector that stands for this one among those with the pinned values; `None` where the space forbids it.
    pub(crate) fn canonical(&self, space: &Space, vector: &[usize]) -> Option<Vec<usize>> {
        let canonical = space.canonical(&self.apply(space, vector))?;
        let is_kept =
            |(index, dimension): (&usize, &Dimension)| self.index(dimension).is_none_or(|pinned| pinned == *index);
        canonical.iter().zip(&space.dimensions).all(is_kept).then_some(canonical)
    }

    /// The vector with the pinned values in the place of its own, and with what these depend on.
    fn apply(&self, space: &Space, vector: &[usize]) -> Vec<usize> {
        let index = |(position, dimension): (usize, &Dimension)| {
            let own = vector.get(position).copied().filter(|index| *index < dimension.values.len()).unwrap_or(0);
            self.index(dimension).unwrap_or(own)
        };
        let mut vector: Vec<usize> = space.dimensions.iter().enumerate().map(index).collect();
        // A knob that is only there where another one has a value takes that one along; each is moved once at most.
        for _ in 0..self.0.len() {
            for (name, when) in &space.constraints.conditions {
                let place = |name: &str| space.dimensions.iter().position(|dimension| dimension.name == name);
                let (Some(knob), Some(other)) = (place(name), place(&when.name)) else { continue };
                let is_met = |index: usize| {
                    space.dimensions[other].values.get(index).is_some_and(|value| when.include(value.as_deref()))
                };
                let is_needed = self.index(&space.dimensions[knob]).is_some_and(|index| index != 0);
                if is_needed && !is_met(vector[other]) && self.index(&space.dimensions[other]).is_none() {
                    let first = (0..space.dimensions[other].values.len()).find(|index| is_met(*index));
                    vector[other] = first.unwrap_or(vector[other]);
                }
            }
        }
        vector
    }

    /// The index of a dimension's pinned value.
    fn index(&self, dimension: &Dimension) -> Option<usize> {
        match self.0.get(&dimension.name)? {
            Pin::Setting { value, .. } => dimension.values.iter().position(|known| known == value),
            Pin::Choice(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::setting::Values;

    use super::*;
    use crate::space::Constraints;

    fn check(knob: &str, value: Option<&str>) -> Result<Pin, String> {
        let values = |values: &[&str]| {
            std::iter::once(None).chain(values.iter().map(|value| Some((*value).to_owned()))).collect::<Vec<_>>()
        };
        let dimensions = BTreeMap::from([
            ("NCCL_BUFFSIZE".to_owned(), values(&["1048576", "4194304"])),
            // The command line pinned it.
            ("NCCL_IB_HCA".to_owned(), vec![Some("=mlx5_0".to_owned())]),
        ]);
        let choice = |algorithm, channels| Choice { algorithm, protocol: Protocol::Ll, channels };
        let choices = [choice(Algorithm::Tree, 16), choice(Algorithm::Ring, 2), choice(Algorithm::Ring, 16)];
        check_pin(&dimensions, &choices, knob, value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pin_is_a_value_that_is_searched() {
        let setting =
            |name: &str, value: Option<&str>| Pin::Setting { name: name.to_owned(), value: value.map(str::to_owned) };
        let buffers = "NCCL_BUFFSIZE";
        for (knob, value, want) in [
            (buffers, Some("4194304"), setting(buffers, Some("4194304"))),
            (buffers, None, setting(buffers, None)),
            ("NCCL_IB_HCA", Some("=mlx5_0"), setting("NCCL_IB_HCA", Some("=mlx5_0"))),
            ("algo", Some("ring"), Pin::Choice(ChoicePin::Algorithm(Algorithm::Ring))),
            ("proto", Some("ll"), Pin::Choice(ChoicePin::Protocol(Protocol::Ll))),
            ("channels", Some("16"), Pin::Choice(ChoicePin::Channels(16))),
        ] {
            assert_eq!(check(knob, value), Ok(want));
        }
    }

    #[test]
    fn another_one_is_answered_with_what_there_is() {
        for (knob, value, want) in [
            (
                "NCCL_BUFSIZE",
                Some("1"),
                "NCCL_BUFSIZE is not searched here: pin one of NCCL_BUFFSIZE, NCCL_IB_HCA, algo, proto, channels; did you \
                 mean `NCCL_BUFFSIZE`?",
            ),
            (
                "NCCL_BUFFSIZE",
                Some("4194305"),
                "NCCL_BUFFSIZE = 4194305 is not searched here: its values are unset, 1048576, 4194304; did you mean \
                 `4194304`?",
            ),
            ("NCCL_IB_HCA", None, "NCCL_IB_HCA cannot be left unset: its values are =mlx5_0"),
            (
                "algo",
                Some("rings"),
                "algo = rings is not searched here: its values are tree, ring; did you mean `ring`?",
            ),
            ("channels", Some("8"), "channels = 8 is not searched here: its values are 2, 16"),
            ("proto", None, "proto cannot be left unset: its values are ll"),
        ] {
            assert_eq!(check(knob, value).unwrap_err(), want);
        }
    }

    #[test]
    fn pinned_values_stand_for_all_others_and_take_along_what_they_depend_on() {
        let dimension = |name: &str| Dimension {
            name: name.to_owned(),
            values: [None, Some("1"), Some("2")].map(|value| value.map(str::to_owned)).to_vec(),
        };
        let when = Values { name: "A".to_owned(), values: vec!["2".to_owned()] };
        let forbidden = ["A", "C"].map(|name| Values { name: name.to_owned(), values: vec!["1".to_owned()] }).to_vec();
        let space = Space {
            dimensions: ["A", "B", "C"].map(dimension).to_vec(),
            constraints: Constraints {
                conditions: vec![("B".to_owned(), when)],
                forbidden: vec![forbidden],
                ..Constraints::default()
            },
            ..Space::default()
        };
        let none = Pins::default();
        let (with_b, _) = none.with(&space, "B", Some("1")).unwrap();
        let (with_c, _) = none.with(&space, "C", Some("1")).unwrap();
        let (unset, _) = with_b.with(&space, "B", None).unwrap();
        for (pins, vector, canonical) in [
            (&none, [0, 1, 2], Some(vec![0, 0, 2])),
            (&with_b, [0, 0, 2], Some(vec![2, 1, 2])),
            (&with_b, [2, 2, 9], Some(vec![2, 1, 0])),
            (&with_c, [2, 1, 0], Some(vec![2, 1, 1])),
            (&with_c, [1, 0, 0], None),
            (&unset, [2, 1, 0], Some(vec![2, 0, 0])),
        ] {
            assert_eq!(pins.canonical(&space, &vector), canonical, "{pins:?} {vector:?}");
        }
        let error = with_c.with(&space, "A", Some("1")).unwrap_err();
        assert_eq!(error, PinError::NothingLeft { knob: "A".to_owned() });
        assert_eq!((with_b.without("B"), with_b.without("C")), (Some(none), None));
    }
}

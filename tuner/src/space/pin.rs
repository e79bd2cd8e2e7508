//! Knobs that the user holds at one value while a search runs. Pure: the same check answers while the user types.

use std::collections::BTreeMap;

use gdrtune_profiles::{
    nearest,
    vocab::{Algorithm, Choice, Protocol},
};

use super::Space;

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
    #[error("{knob} = {value} is not searched here: its values are {}{}", known.join(", "), nearest::hint(value, known.iter().map(String::as_str)))]
    UnknownValue {
        /// The knob.
        knob: String,
        /// What was asked for.
        value: String,
        /// What it can be pinned to; `unset` leaves it as the site has it.
        known: Vec<String>,
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
pub(crate) struct Pins(BTreeMap<String, Pin>);

impl Pins {
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

    /// The vector with the pinned values in the place of its own.
    pub(crate) fn apply(&self, space: &Space, vector: &[usize]) -> Vec<usize> {
        let index = |(position, dimension): (usize, &super::Dimension)| match self.0.get(&dimension.name) {
            Some(Pin::Setting { value, .. }) => dimension.values.iter().position(|known| known == value).unwrap_or(0),
            _ => vector.get(position).copied().unwrap_or(0),
        };
        space.dimensions.iter().enumerate().map(index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

//! What a run's user wants of it while it goes: commands, and those of them that change what the run decides.

use std::fmt;

use gdrtune_profiles::vocab::{Choice, Point};
use serde::{Deserialize, Serialize};

/// What a run can be told.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Pause the search after the current script.
    Pause,
    /// Go on.
    Resume,
    /// Give up the measurement that runs now, at once; the run goes on with the next one, and may measure this one again.
    Skip,
    /// Give up a choice in the environment that is searched and in all later ones.
    Drop {
        /// At this point; absent is at every one.
        point: Option<Point>,
        /// The choice.
        choice: Choice,
    },
    /// Search only with this value of a knob from now on. [`check_pin`](gdrtune_tuner::space::check_pin) tells beforehand
    /// whether the space has it; another one is refused with a line of the log.
    Pin {
        /// Name of a dimension of the space, or `algo`, `proto` or `channels`.
        knob: String,
        /// Its value; absent leaves the variable unset.
        value: Option<String>,
    },
    /// Search all values of a knob again.
    Unpin {
        /// Its name.
        knob: String,
    },
    /// Add to the run's budget.
    Extend {
        /// Seconds for the whole run.
        seconds: Option<f64>,
        /// Measurements for the search.
        trials: Option<u64>,
    },
    /// Write what would ship now, unverified, beside the final result; the run goes on.
    Write,
    /// End the search after the current script, then verify and write.
    Finish,
    /// End the run after the current script, and write the best so far without verifying it (SIGTERM, which a scheduler sends
    /// some time before it kills).
    WindUp,
    /// End the run after the current script, write nothing new but keep the run store (first Ctrl-C).
    Stop,
    /// Kill the current trial and end the run (second Ctrl-C).
    Kill,
}

/// A wish of the user that changes what a run decides, as it is stored: a resume finds it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Wish {
    /// A choice is given up.
    Drop {
        /// At this point; absent is at every one.
        point: Option<Point>,
        /// The choice.
        choice: Choice,
    },
    /// A knob has one value from now on.
    Pin {
        /// Its name.
        knob: String,
        /// Its value; absent is unset.
        value: Option<String>,
    },
    /// A knob has all its values again.
    Unpin {
        /// Its name.
        knob: String,
    },
}

/// `pinned NCCL_BUFFSIZE = 1048576`.
impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drop { point: Some(point), choice } => write!(f, "dropped {choice} at {point}"),
            Self::Drop { point: None, choice } => write!(f, "dropped {choice} everywhere"),
            Self::Pin { knob, value: Some(value) } => write!(f, "pinned {knob} = {value}"),
            Self::Pin { knob, value: None } => write!(f, "pinned {knob}: left unset"),
            Self::Unpin { knob } => write!(f, "unpinned {knob}"),
        }
    }
}

/// What the user gave a run more, and what it has by now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Extension {
    /// Before the how manieth question how to go on it was taken, from 1.
    pub question: u64,
    /// Seconds more for the whole run; absent where it has no limit or got none.
    pub seconds: Option<f64>,
    /// Measurements more for the search; absent where it has no limit or got none.
    pub trials: Option<u64>,
    /// Budget of the whole run in seconds by now, if limited.
    pub budget_s: Option<f64>,
    /// Budget of the search in trials by now, if limited.
    pub max_trials: Option<u64>,
}

/// `budget extended: 600 s more, 1800 s in all; 100 trials more, 500 in all`.
impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds.zip(self.budget_s).map(|(more, all)| format!("{more} s more, {all} s in all"));
        let trials = self.trials.zip(self.max_trials).map(|(more, all)| format!("{more} trials more, {all} in all"));
        let parts: Vec<String> = seconds.into_iter().chain(trials).collect();
        write!(f, "budget extended: {}", parts.join("; "))
    }
}

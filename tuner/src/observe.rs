//! What the search tells whoever watches, and what it asks them between scripts.

use gdrtune_profiles::vocab::{Choice, Environment, Point};

use crate::{
    bench::{Sample, Script},
    search::{KnobImportance, SearchOutcome},
    space::Pin,
};

/// Something that the search did or decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Note<'a> {
    /// Another part of the run began.
    Phase(Phase),
    /// The search turns to an environment.
    EnvironmentStarted {
        /// Running number from 0.
        index: usize,
        /// The settings over the site's.
        environment: &'a Environment,
        /// Why this one, for people.
        why: &'a str,
    },
    /// The environment has a score.
    EnvironmentScored {
        /// Running number from 0.
        index: usize,
        /// The settings over the site's.
        environment: &'a Environment,
        /// Best time over default time by the objective, with what channels cost; lower is better, 1 is the default.
        score: f64,
        /// Why it was given up before all its points were measured, if it was.
        given_up: Option<&'a str>,
    },
    /// A script is about to run.
    Script(&'a Script),
    /// A sample came (before the search acts on it).
    Sample {
        /// The script that it belongs to.
        script: &'a Script,
        /// The sample.
        sample: &'a Sample,
    },
    /// A choice is out of the race for a point.
    Dropped {
        /// The environment of the race.
        environment: &'a Environment,
        /// The point.
        point: Point,
        /// The choice.
        choice: Choice,
        /// Why, for people.
        why: &'a str,
    },
    /// The best known for a point changed, or is known better.
    Best(Best<'a>),
    /// The default arm could not be measured at a point, so the search leaves it out.
    PointLeftOut {
        /// The point.
        point: Point,
        /// Why, for people.
        why: &'a str,
    },
    /// A whole environment could not be started.
    EnvironmentFailed {
        /// The settings over the site's.
        environment: &'a Environment,
        /// Why.
        why: &'a str,
    },
    /// An A/B has measured its first round, so that it is known about how long it takes.
    Rounds {
        /// Arms, each in processes of its own in every round.
        arms: usize,
        /// Rounds at least, whatever time is left.
        least: u32,
        /// Seconds of the first round.
        round_s: f64,
    },
    /// What each knob did in the search, the largest effects first.
    Importance(&'a [KnobImportance]),
    /// What the search would give if it ended now; the answer to [`Wish::Tell`].
    SoFar(&'a SearchOutcome),
}

/// The best known setting for one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best<'a> {
    /// The point.
    pub point: Point,
    /// Its environment.
    pub environment: &'a Environment,
    /// Its choice; `None` is the engine's own.
    pub choice: Option<Choice>,
    /// Median time in microseconds.
    pub time_us: f64,
    /// Samples behind it.
    pub samples: u32,
    /// Median time of the default arm.
    pub default_us: f64,
}

/// Parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The default arm is measured.
    Baseline,
    /// Environments and choices are searched.
    Search,
    /// Default against candidate, through the emitted files.
    Verify,
}

/// What the watcher wants of the search. Asked between scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Directive {
    /// Go on.
    #[default]
    Continue,
    /// End the search now and keep what is known; verification still follows.
    Finish,
    /// End everything now.
    Abort,
}

/// Something that the watcher wants to be otherwise from now on.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
    /// A choice is given up, in the environment that is searched and in all later ones.
    Drop {
        /// At this point; absent is at every one.
        point: Option<Point>,
        /// The choice.
        choice: Choice,
    },
    /// A knob has one value from now on, of those that the space has.
    Pin(Pin),
    /// A knob of this name has all its values again.
    Unpin(String),
    /// There is more to spend.
    Extend {
        /// Seconds more of the bench's clock.
        seconds: f64,
        /// Samples more for the search.
        trials: u64,
    },
    /// What is known so far is wanted: [`Note::SoFar`]. Changes nothing of the search.
    Tell,
}

/// The watcher of a run.
pub trait Observer {
    /// Takes a note. A sample is on disk when this returns.
    fn note(&mut self, note: Note<'_>);

    /// Says how to go on; blocks while the run is paused.
    fn directive(&mut self) -> Directive;

    /// Gives what is wanted otherwise since the last call. Asked before [`Self::directive`], again and again until there is
    /// nothing more; blocks while the run is paused and nothing is wanted.
    fn wishes(&mut self) -> Vec<Wish> {
        Vec::new()
    }
}

/// Watches nothing and never interferes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn note(&mut self, _note: Note<'_>) {}

    fn directive(&mut self) -> Directive {
        Directive::Continue
    }
}

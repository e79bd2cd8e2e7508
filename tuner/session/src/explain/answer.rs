//! What decides a call, what it took the place of, and why a neighbouring size has another answer.

use gdrtune_profiles::{
    profile::{ByteRange, PointChoice, Profile, Stretch},
    vocab::{Choice, Environment, Point},
};

use super::{PointStory, Story};

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The settings; of a run without any, empty ones.
    pub profile: &'a Profile,
    /// What its run tells, where that is known.
    pub story: Option<&'a Story>,
    /// The search's picks, where there is a file of them.
    pub picks: &'a [PointChoice],
    /// Nodes, and ranks over all of them.
    pub shape: (u32, u32),
}

/// What the engine runs by itself at a size.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnChoice {
    /// The default arm ran these, each so often; the most frequent first.
    Ran(Vec<(Choice, u32)>),
    /// The library predicts this to be the fastest, with the time in microseconds; channels are not predicted.
    Predicted(Choice, f64),
    /// Nobody says.
    Unknown,
}

/// Times of both choices at a measured size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossing {
    /// The size.
    pub bytes: u64,
    /// Median of the choice that was asked about, in microseconds, where it was measured there.
    pub own_us: Option<f64>,
    /// The same of the neighbour's.
    pub other_us: Option<f64>,
}

/// The sizes before or after those with the same answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbour<'a> {
    /// Its sizes.
    pub stretch: Stretch<'a>,
    /// Times at the measured sizes next to the boundary, the smaller first.
    pub crossings: Vec<Crossing>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<'a> {
    /// The call.
    pub point: Point,
    /// Sizes with the same answer, and the rule.
    pub stretch: Stretch<'a>,
    /// Places of rules that would hold too, but come later.
    pub hidden: Vec<usize>,
    /// What the engine runs by itself: here, or where nothing is known of this size, at the measured ones around it.
    pub own: Vec<(u64, OwnChoice)>,
    /// What the run knows of this very size.
    pub story: Option<&'a PointStory>,
    /// The search's pick, before any gate.
    pub pick: Option<&'a PointChoice>,
    /// Smaller sizes with another answer.
    pub below: Option<Neighbour<'a>>,
    /// Larger sizes with another answer.
    pub above: Option<Neighbour<'a>>,
}

/// Answers for one call.
pub fn answer<'a>(subject: Subject<'a>, point: Point) -> Option<Answer<'a>> {
    let stretches = subject.profile.stretches(point.collective, subject.shape);
    let place = stretches.iter().position(|stretch| stretch.bytes.contains(point.bytes))?;
    let stretch = *stretches.get(place)?;
    let neighbour = |other: Option<&Stretch<'a>>| other.map(|other| subject.neighbour(point, stretch, *other));
    Some(Answer {
        point,
        stretch,
        hidden: subject.hidden(point, stretch),
        own: subject.own_choice(point),
        story: subject.story.and_then(|story| story.points.get(&point)),
        pick: subject.pick(point),
        below: neighbour(place.checked_sub(1).and_then(|place| stretches.get(place))),
        above: neighbour(stretches.get(place + 1)),
    })
}

impl<'a> Subject<'a> {
    /// Sizes of a collective that the run measured, ascending.
    pub fn measured(self, point: Point) -> impl DoubleEndedIterator<Item = (u64, &'a PointStory)> {
        let points = self.story.into_iter().flat_map(|story| &story.points);
        let of_collective = points.filter(move |(other, _)| other.collective == point.collective);
        of_collective.map(|(other, story)| (other.bytes, story))
    }

    fn hidden(self, point: Point, stretch: Stretch<'_>) -> Vec<usize> {
        let Some((first, _)) = stretch.rule else { return Vec::new() };
        let rules = self.profile.rule.iter().enumerate().skip(first + 1);
        rules.filter(|(_, rule)| rule.covers(self.shape, point)).map(|(place, _)| place).collect()
    }

    fn pick(self, point: Point) -> Option<&'a PointChoice> {
        // Picks of a run of one shape do not name it.
        let cluster = (self.profile.cluster.nodes, self.profile.cluster.ranks);
        let is_here =
            |pick: &&PointChoice| pick.point() == point && pick.nodes.zip(pick.ranks).unwrap_or(cluster) == self.shape;
        self.picks.iter().find(is_here)
    }

    /// What the engine runs by itself at the point, or at the next measured ones below and above.
    pub fn own_choice(self, point: Point) -> Vec<(u64, OwnChoice)> {
        let known = || self.measured(point).map(|(bytes, story)| (bytes, own(story)));
        let known = || known().filter(|(_, own)| *own != OwnChoice::Unknown);
        let below = known().rfind(|(bytes, _)| *bytes <= point.bytes);
        let above = known().find(|(bytes, _)| point.bytes <= *bytes);
        match (below, above) {
            (None, None) => vec![(point.bytes, OwnChoice::Unknown)],
            (Some(here), _) if here.0 == point.bytes => vec![here],
            (below, above) => below.into_iter().chain(above).collect(),
        }
    }

    fn neighbour(self, point: Point, own: Stretch<'a>, other: Stretch<'a>) -> Neighbour<'a> {
        let environment: Environment = self.profile.environment();
        let choice = |stretch: Stretch<'_>| stretch.rule.map(|(_, rule)| rule.choice());
        let (low, high) = if other.bytes.min < own.bytes.min { (other, own) } else { (own, other) };
        let within = |range: ByteRange| self.measured(point).filter(move |(bytes, _)| range.contains(*bytes));
        let around = [within(low.bytes).next_back(), within(high.bytes).next()];
        let crossing = |(bytes, story): (u64, &PointStory)| Crossing {
            bytes,
            own_us: story.time_us(&environment, choice(own)),
            other_us: story.time_us(&environment, choice(other)),
        };
        let known = |crossing: &Crossing| crossing.own_us.is_some() || crossing.other_us.is_some();
        Neighbour { stretch: other, crossings: around.into_iter().flatten().map(crossing).filter(known).collect() }
    }
}

/// What a point's records say; what ran goes before what was predicted.
fn own(story: &PointStory) -> OwnChoice {
    match (story.own.as_slice(), story.predicted.first()) {
        ([], None) => OwnChoice::Unknown,
        ([], Some((choice, time_us))) => OwnChoice::Predicted(*choice, *time_us),
        (ran, _) => OwnChoice::Ran(ran.to_vec()),
    }
}

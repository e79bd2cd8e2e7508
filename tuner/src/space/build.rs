//! From what is to be searched and what is there to a space.

use gdrtune_profiles::{
    bindings::Idle,
    knob::{self, Kind, Knob},
    setting::Values,
    space::SelectedKnob,
    vocab::{Choice, Engine},
};

use super::{Constraints, Dimension, Facts, Space, SpaceError, dimension, native, nccl};

/// Why no devices are offered.
const UNKNOWN_DEVICES: &str = "which devices the nodes have is not known";

/// A space, and what is not in it although it was to be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The space.
    pub space: Space,
    /// What is left out. What is for another engine is not worth a word.
    pub left_out: Vec<LeftOut>,
}

/// Something that is not searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// A variable or a channel count.
    pub what: String,
    /// Why, for people.
    pub why: String,
}

impl LeftOut {
    pub(super) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

impl Space {
    /// The space of a cluster: what is selected and what the user adds, where the engine has it there, less what the user
    /// excluded; pinned variables have one value.
    ///
    /// # Errors
    /// [`SpaceError`] if the engine has no space of its own, or the pins are forbidden together.
    pub fn build(facts: &Facts) -> Result<Built, SpaceError> {
        let choices = match facts.engine {
            Engine::Native => native::choices(facts),
            Engine::Nccl => nccl::choices(facts, &facts.nccl),
            Engine::Replay | Engine::Sim => return Err(SpaceError::Engine(facts.engine)),
        };
        let mut built = Built { space: Self { choices, ..Self::default() }, left_out: too_wide(facts) };
        facts.selection.knobs.iter().for_each(|knob| built.select(facts, knob));
        facts.adds.iter().for_each(|add| built.add(facts, add));
        built.space.select_choices(facts);
        built.space.dimensions.retain(|dimension| !facts.forced.contains(&dimension.name));
        let pins = facts.pins.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        built.space.restrict(facts.excludes.iter().map(String::as_str), pins);
        built.constrain(facts);
        match built.space.canonical(&[]) {
            Some(_) => Ok(built),
            None => Err(SpaceError::Forbidden(built.space.environment(&[]))),
        }
    }

    /// Takes out what the user excluded, and fixes what the user pinned.
    pub fn restrict<'a>(
        &mut self,
        excludes: impl IntoIterator<Item = &'a str>,
        pins: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        excludes.into_iter().for_each(|exclude| self.exclude(exclude));
        pins.into_iter().for_each(|(name, value)| self.pin(name, value));
    }

    /// Takes values of a variable in, whether it was a dimension or not.
    pub fn add(&mut self, add: &Values) {
        let Some(known) = self.dimensions.iter_mut().find(|dimension| dimension.name == add.name) else {
            return self.dimensions.push(dimension(&add.name, add.values.iter().cloned()));
        };
        for value in add.values.iter().cloned().map(Some) {
            if !known.values.contains(&value) {
                known.values.push(value);
            }
        }
    }

    /// Fixes a variable to one value, whether it was a dimension or not.
    pub fn pin(&mut self, name: &str, value: &str) {
        let values = vec![Some(value.to_owned())];
        match self.dimensions.iter_mut().find(|dimension| dimension.name == name) {
            Some(dimension) => dimension.values = values,
            None => self.dimensions.push(Dimension { name: name.to_owned(), values }),
        }
    }

    /// Takes something out; what the space does not have is out already.
    fn exclude(&mut self, exclude: &str) {
        if let Some((name, value)) = exclude.split_once('=') {
            for dimension in self.dimensions.iter_mut().filter(|dimension| dimension.name == name) {
                dimension.values.retain(|known| known.as_deref() != Some(value));
            }
        }
        self.dimensions.retain(|dimension| dimension.name != exclude && !dimension.values.is_empty());
        for choices in self.choices.values_mut() {
            choices.retain(|choice| choice.algorithm.name() != exclude && choice.protocol.name() != exclude);
        }
    }

    /// Keeps the algorithms and protocols that are selected.
    fn select_choices(&mut self, facts: &Facts) {
        let selection = &facts.selection;
        let is_selected = |choice: &Choice| {
            let algorithm = selection.algorithms.as_ref().is_none_or(|list| list.contains(&choice.algorithm));
            algorithm && selection.protocols.as_ref().is_none_or(|list| list.contains(&choice.protocol))
        };
        self.choices.values_mut().for_each(|choices| choices.retain(is_selected));
    }

    fn has(&self, name: &str) -> bool {
        self.dimensions.iter().any(|dimension| dimension.name == name)
    }
}

impl Built {
    /// Takes a selected knob in, or notes why not.
    fn select(&mut self, facts: &Facts, selected: &SelectedKnob) {
        let Some(knob) = knob::knob(&selected.name).filter(|knob| knob.engines.include(facts.engine)) else { return };
        let name = nccl::name_for(knob.name, facts.nccl.version);
        let unmet = match facts.engine {
            Engine::Native if !native::reads(facts, knob.name) => return,
            Engine::Native => native::unmet(facts, knob.name),
            _ => nccl::unmet(facts, &facts.nccl, selected),
        };
        let offered = unmet.map_or_else(|| values(facts, knob, selected), Err);
        match offered {
            Ok(values) => self.space.dimensions.push(dimension(name, values)),
            Err(why) => self.left_out.push(LeftOut::new(name, why)),
        }
    }

    /// Adds values to a knob. The user knows the cluster, so only what the engine does not read is left out.
    fn add(&mut self, facts: &Facts, add: &Values) {
        let Some(knob) = knob::knob(&add.name).filter(|knob| knob.engines.include(facts.engine)) else {
            let why = format!("the {} engine does not read it", facts.engine);
            return self.left_out.push(LeftOut::new(&add.name, why));
        };
        if let Some(why) = nccl::unread(knob.name, facts) {
            return self.left_out.push(LeftOut::new(&add.name, why));
        }
        self.space.add(add);
    }

    /// What depends on what is there. A knob whose condition can never hold is left out, and so is what depends on it.
    fn constrain(&mut self, facts: &Facts) {
        let searched = |space: &Space, name: &str| space.has(name) && !facts.pins.contains_key(name);
        let conditional = facts.selection.knobs.iter().filter_map(|knob| Some((knob, knob.when.as_ref()?)));
        let mut open: Vec<(&SelectedKnob, &Values)> =
            conditional.filter(|(knob, _)| searched(&self.space, &knob.name)).collect();
        let can_hold = |space: &Space, when: &Values| {
            let target = space.dimensions.iter().find(|dimension| dimension.name == when.name);
            target.is_some_and(|target| target.values.iter().any(|value| when.include(value.as_deref())))
        };
        while let Some(at) = open.iter().position(|(_, when)| !can_hold(&self.space, when)) {
            let (knob, when) = open.remove(at);
            self.space.dimensions.retain(|dimension| dimension.name != knob.name);
            let why = format!("it is for {when}, which is not searched");
            self.left_out.push(LeftOut::new(&knob.name, why));
        }
        let conditions = open.into_iter().map(|(knob, when)| (knob.name.clone(), when.clone())).collect();
        let is_there = |settings: &&Vec<Values>| settings.iter().all(|values| self.space.has(&values.name));
        let mut forbidden: Vec<Vec<Values>> = facts.selection.forbidden.iter().filter(is_there).cloned().collect();
        forbidden.extend(self.conflicts(facts));
        forbidden.extend(self.idle_bindings(facts));
        let is_open = |idle: &&Idle| self.space.has(&idle.with.name) && searched(&self.space, &idle.knob.name);
        let idle = facts.bindings.idle.iter().filter(is_open).cloned().collect();
        self.space.constraints = Constraints { conditions, idle, forbidden };
    }

    /// Settings that are the same as others with the devices that they bind; what the user pinned is the user's business.
    fn idle_bindings<'f>(&self, facts: &'f Facts) -> impl Iterator<Item = Vec<Values>> + use<'f> {
        let names: Vec<String> = self.space.dimensions.iter().map(|dimension| dimension.name.clone()).collect();
        let is_open = move |settings: &&Vec<Values>| {
            settings.iter().all(|values| names.contains(&values.name))
                && !settings.iter().all(|values| facts.pins.contains_key(&values.name))
        };
        facts.bindings.forbidden.iter().filter(is_open).cloned()
    }

    /// Pairs of knobs that the catalogue says must not be set together; what the user pinned is the user's business.
    fn conflicts(&self, facts: &Facts) -> Vec<Vec<Values>> {
        let any = |name: &str| Values { name: name.to_owned(), values: Vec::new() };
        let names: Vec<&str> = self.space.dimensions.iter().map(|dimension| dimension.name.as_str()).collect();
        let mut pairs = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let conflicts = knob::knob(name).map_or(&[][..], |knob| knob.conflicts);
            let others = names[..index].iter().filter(|other| conflicts.contains(other));
            let open = others.filter(|other| !(facts.pins.contains_key(*name) && facts.pins.contains_key(**other)));
            pairs.extend(open.map(|other| vec![any(other), any(name)]));
        }
        pairs
    }
}

/// What is tried of a knob beside leaving it alone.
fn values(facts: &Facts, knob: &Knob, selected: &SelectedKnob) -> Result<Vec<String>, String> {
    let listed = match selected.values.as_slice() {
        [] => knob.candidates.iter().map(ToString::to_string).collect(),
        listed => listed.to_vec(),
    };
    let listed = bindable(facts, knob, listed)?;
    if facts.engine == Engine::Nccl { nccl::useful_values(facts, knob.name, listed) } else { Ok(listed) }
}

/// Of a knob that binds a job to devices what changes something there: of one whose values are devices all candidates where
/// none are named, else those that are named.
fn bindable(facts: &Facts, knob: &Knob, listed: Vec<String>) -> Result<Vec<String>, String> {
    let names_devices = matches!(knob.kind, Kind::Interfaces | Kind::Hcas);
    let useful = match facts.bindings.offer(knob.name) {
        None if names_devices && listed.is_empty() => return Err(UNKNOWN_DEVICES.to_owned()),
        None => return Ok(listed),
        Some(offer) if names_devices && listed.is_empty() => offer.values(),
        // Devices that are no candidates are the user's business.
        Some(offer) if names_devices || !offer.candidates.is_empty() => offer.useful(&listed),
        Some(_) => Vec::new(),
    };
    let why_none = || facts.bindings.offer(knob.name).map(|offer| offer.why_none.clone()).unwrap_or_default();
    if useful.is_empty() { Err(why_none()) } else { Ok(useful) }
}

/// Channel counts that are to be tried and are more than may be.
fn too_wide(facts: &Facts) -> Vec<LeftOut> {
    let most = facts.max_channels.max(1);
    let counts = facts.selection.channels.iter().flatten().filter(|count| most < **count);
    let counts: Vec<String> = counts.map(u16::to_string).collect();
    let why = format!("no choice has over {most} channels here");
    if counts.is_empty() { Vec::new() } else { vec![LeftOut::new(format!("{} channels", counts.join(", ")), why)] }
}

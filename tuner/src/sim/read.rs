//! Reads a cluster file: a [`Cluster`], or an error with its place. Must not judge whether a cluster is plausible.

use gdrtune_profiles::{
    knob,
    nearest::hint,
    profile::{Step, span_of},
    source::{Source, TextError},
};

use super::cluster::{ALGORITHMS, Cluster, EngineModel, FaultKind, KNOBS, MOST_RANKS};

/// What is wrong with a value that could be read.
struct Problem {
    path: Vec<Step>,
    cause: String,
}

impl Problem {
    fn new(path: &[&'static str], cause: impl Into<String>) -> Self {
        Self { path: path.iter().copied().map(Step::Field).collect(), cause: cause.into() }
    }
}

impl Cluster {
    /// Reads a cluster file. `file` names the text in messages.
    ///
    /// # Errors
    /// [`TextError`] says file, line, column, cause and the nearest valid name.
    pub fn parse(text: &str, file: &str) -> Result<Self, TextError> {
        let source = Source { text, file };
        let cluster: Self = source.fields(source.table()?)?;
        let document = source.table()?;
        cluster
            .check()
            .map_err(|Problem { path, cause }| source.wrong_at(span_of(document.get_ref(), &path).start, cause))?;
        for (name, values) in &cluster.search {
            check_search(name, values.get_ref()).map_err(|cause| source.wrong(values, cause))?;
        }
        Ok(cluster)
    }

    /// Checks what no value can by itself.
    fn check(&self) -> Result<(), Problem> {
        let ranks = self.ranks();
        if !(2..=MOST_RANKS).contains(&ranks) {
            let cause = format!("nodes times ranks_per_node is {ranks}: it must be 2 to {MOST_RANKS}");
            return Err(Problem::new(&["nodes"], cause));
        }
        let nics = self.network.iter().flat_map(|network| &network.nics);
        let names: Vec<&str> = nics.map(|nic| nic.name.as_str()).collect();
        if self.nodes.0 > 1 && names.is_empty() {
            let cause = "several nodes need [network] with at least one of `nics`";
            return Err(Problem::new(&["network"], cause));
        }
        if let Some((_, twice)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            return Err(Problem::new(&["network", "nics"], format!("two nics are called `{twice}`")));
        }
        self.check_engine()?;
        self.check_calls()
    }

    fn check_engine(&self) -> Result<(), Problem> {
        let EngineModel { algorithms, protocols, channels, ceiling, .. } = &self.engine;
        let at = |field, cause: String| Err(Problem::new(&["engine", field], cause));
        if let Some(other) = algorithms.iter().find(|algorithm| !ALGORITHMS.contains(algorithm)) {
            let known: Vec<&str> = ALGORITHMS.iter().map(|algorithm| algorithm.name()).collect();
            return at("algorithms", format!("the model has no {other}: use {}", known.join(", ")));
        }
        for (field, is_empty) in [
            ("algorithms", algorithms.is_empty()),
            ("protocols", protocols.is_empty()),
            ("channels", channels.is_empty()),
        ] {
            if is_empty {
                return at(field, format!("no {field}: name at least one"));
            }
        }
        if channels.contains(&0) {
            return at("channels", "channels must be at least 1".to_owned());
        }
        if *ceiling == 0 {
            return at("ceiling", "the ceiling must be at least 1".to_owned());
        }
        Ok(())
    }

    fn check_calls(&self) -> Result<(), Problem> {
        let of = |list: &'static str, index: usize| vec![Step::Field(list), Step::Item(index), Step::Field("calls")];
        let effects = self.effect.iter().enumerate().map(|(index, e)| (of("effect", index), &e.calls));
        let faults = self.fault.iter().enumerate().map(|(index, f)| (of("fault", index), &f.calls));
        let avoids = |index| vec![Step::Field("engine"), Step::Field("avoids"), Step::Item(index)];
        let avoided = self.engine.avoids.iter().enumerate().map(|(index, calls)| (avoids(index), calls));
        for (path, calls) in effects.chain(faults).chain(avoided) {
            let all_known = calls.environment.keys().try_for_each(|name| known(name));
            all_known.map_err(|cause| Problem { path, cause })?;
        }
        let truths = self.truth.environment.iter().try_for_each(|(name, _)| known(name));
        truths.map_err(|cause| Problem::new(&["truth", "environment"], cause))?;
        let untimed = self.fault.iter().position(|f| f.kind == FaultKind::LostNode && f.at_s.0 <= 0.0);
        untimed.map_or(Ok(()), |index| {
            let cause = "a lost node needs at_s, the seconds of the simulated clock when it is lost".to_owned();
            Err(Problem { path: vec![Step::Field("fault"), Step::Item(index)], cause })
        })
    }
}

fn known(name: &str) -> Result<(), String> {
    if KNOBS.contains(&name) {
        return Ok(());
    }
    let near = hint(name, KNOBS.iter().copied());
    Err(format!("the model knows no variable `{name}`: use one of {}{near}", KNOBS.join(", ")))
}

fn check_search(name: &str, values: &[String]) -> Result<(), String> {
    known(name)?;
    if values.is_empty() {
        return Err(format!("no value to try for {name}"));
    }
    let Some(knob) = knob::knob(name) else { return Ok(()) };
    values.iter().try_for_each(|value| knob.check(value).map_err(|error| format!("{name}: {error}")))
}

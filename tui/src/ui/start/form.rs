//! The form of a new run: fields that are options of `gdrtune tune`, and the command line that they are.
//!
//! The command line's own definitions say what a field means, what stands there where nothing is written, and what it takes.
//! What only files and this machine can tell is checked by the event loop ([`Form::take_check`]).

mod command;

use gdrtune_fleet::hosts::parse_list;
use gdrtune_profiles::{
    size::parse_sizes,
    source::Preset,
    space::SpaceFile,
    vocab::{Collective, Engine},
    workload::Workload,
};
use gdrtune_tuner::sim::Cluster;

use self::command::{Options, Refusal, option_in, refusal, split, tune_words};
pub(crate) use self::command::{shell_line, shell_word};
use crate::ui::line_edit::{Edit, LineEdit};

/// Steps between the sizes of a range where the form checks them; another factor makes no other text wrong.
const ANY_FACTOR: u64 = 2;

/// The fields, in the order of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FieldId {
    Engine,
    Cluster,
    Grid,
    Hosts,
    Site,
    RanksPerNode,
    Collectives,
    Sizes,
    Workload,
    Space,
    Budget,
    Trials,
    Out,
    More,
}

impl FieldId {
    pub(crate) const ALL: [Self; 14] = [
        Self::Engine,
        Self::Cluster,
        Self::Grid,
        Self::Hosts,
        Self::Site,
        Self::RanksPerNode,
        Self::Collectives,
        Self::Sizes,
        Self::Workload,
        Self::Space,
        Self::Budget,
        Self::Trials,
        Self::Out,
        Self::More,
    ];

    /// What stands before the field.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Cluster => "cluster",
            Self::Grid => "grid",
            Self::Hosts => "hosts",
            Self::Site => "site file",
            Self::RanksPerNode => "ranks per node",
            Self::Collectives => "collectives",
            Self::Sizes => "sizes",
            Self::Workload => "workload",
            Self::Space => "space",
            Self::Budget => "budget",
            Self::Trials => "trials",
            Self::Out => "output folder",
            Self::More => "more options",
        }
    }

    /// The option of `gdrtune tune` that it is; `More` is options in full.
    const fn option(self) -> Option<&'static str> {
        Some(match self {
            Self::Engine => "engine",
            Self::Cluster => "cluster",
            Self::Grid => "grid",
            Self::Hosts => "hosts",
            Self::Site => "site",
            Self::RanksPerNode => "ranks-per-node",
            Self::Collectives => "collectives",
            Self::Sizes => "sizes",
            Self::Workload => "workload",
            Self::Space => "space",
            Self::Budget => "budget",
            Self::Trials => "trials",
            Self::Out => "out",
            Self::More => return None,
        })
    }

    /// Values that can be chosen without typing.
    pub(crate) fn values(self) -> Vec<&'static str> {
        let names = |presets: &'static [Preset]| presets.iter().map(|preset| preset.name).collect();
        match self {
            Self::Engine => [Engine::Native, Engine::Nccl, Engine::Sim, Engine::Replay].map(Engine::name).to_vec(),
            Self::Cluster => names(Cluster::PRESETS),
            Self::Collectives => Collective::ALL.iter().map(|collective| collective.name()).collect(),
            Self::Workload => names(Workload::PRESETS),
            Self::Space => names(SpaceFile::PRESETS),
            _ => Vec::new(),
        }
    }

    /// Whether only [`FieldId::values`] will do.
    pub(crate) const fn is_choice(self) -> bool {
        matches!(self, Self::Engine)
    }

    /// Whether a recorded grid and a simulated cluster have a value of their own, which holds where none is written.
    const fn is_of_bench(self) -> bool {
        matches!(self, Self::Collectives | Self::Sizes)
    }

    /// What the value must be besides what clap asks of it, by the parsers that read it later.
    fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Hosts => parse_list("-w", text).map(drop).map_err(|error| error.to_string()),
            Self::Sizes => parse_sizes(text, ANY_FACTOR).map(drop).map_err(|error| error.to_string()),
            Self::Cluster | Self::Grid | Self::Site | Self::Workload | Self::Space | Self::Out
                if text.starts_with('~') =>
            {
                Err("no shell is here to replace ~: write the folder out".to_owned())
            }
            Self::More => split(text).map(drop),
            _ => Ok(()),
        }
    }
}

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) id: FieldId,
    pub(crate) input: LineEdit,
    /// What holds where nothing else is written.
    pub(crate) default: String,
    /// The option's default.
    usual: String,
    /// The option's own help.
    pub(crate) help: String,
    /// What is wrong with the value.
    pub(crate) problem: Option<String>,
    /// The value that was looked at last; none where it must be looked at again, since not it alone was what was wrong.
    checked: Option<String>,
}

impl Field {
    pub(crate) fn value(&self) -> &str {
        self.input.text().trim()
    }

    fn is_default(&self) -> bool {
        self.value() == self.default
    }

    /// The words of the command line that this field is.
    fn words(&self) -> Vec<String> {
        let value = self.value();
        match self.id.option() {
            _ if self.is_default() => Vec::new(),
            None => split(value).unwrap_or_default(),
            // clap takes what begins with a dash for another option.
            Some(option) if value.starts_with('-') || value.is_empty() => vec![format!("--{option}={value}")],
            Some("hosts") => vec!["-w".to_owned(), value.to_owned()],
            Some(option) => vec![format!("--{option}"), value.to_owned()],
        }
    }

    fn check(&mut self) {
        if self.checked.as_deref() == Some(self.value()) {
            return;
        }
        self.checked = Some(self.value().to_owned());
        let words = self.words();
        let alone = || if words.is_empty() || self.id == FieldId::More { None } else { refusal(&tune_words(&words)) };
        let deeper = || if self.is_default() { None } else { self.id.check(self.value()).err() };
        self.problem = alone().map(|refusal| refusal.text).or_else(deeper);
    }
}

/// Where the cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    Field(FieldId),
    Start,
}

/// What is known of the command line as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its parts are wrong, or do not go together: why, where no field says it.
    Wrong(Option<String>),
    /// Nobody has looked at its files and hosts yet.
    Asked,
    /// It can be started; which hosts these are, where it does not name them.
    Fine(Option<String>),
}

/// A line of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Field(FieldId),
    /// What is wrong with the field above.
    Problem(FieldId),
    Start,
}

/// What an action on the form leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command line shall be checked.
    Check(Vec<String>),
    /// Nothing but another look.
    Shown,
    /// The command line shall be run.
    Go(Vec<String>),
}

/// The form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    fields: Vec<Field>,
    pub(crate) focus: Focus,
    /// First line that is shown.
    pub(crate) top: usize,
    pub(crate) verdict: Verdict,
    /// The run starts when its check comes back fine.
    pub(crate) is_starting: bool,
}

impl Form {
    /// With every default but what `given` says.
    pub(crate) fn new(given: &[(FieldId, String)]) -> Self {
        let options = Options::read();
        let of = |id: FieldId| given.iter().find(|(of, _)| *of == id).map(|(_, value)| value.as_str());
        let engine = of(FieldId::Engine).unwrap_or(Engine::Native.name()).parse::<Engine>();
        let is_real = engine.is_ok_and(Engine::is_real);
        let field = |id: FieldId| {
            let (usual, help) = options.of(id);
            let default = if id.is_of_bench() && !is_real { String::new() } else { usual.clone() };
            // An earlier run's words may hold what a terminal takes for commands.
            let value: String = of(id).unwrap_or(&default).chars().filter(|c| !c.is_control()).collect();
            let input = LineEdit::new(value);
            Field { id, input, checked: Some(default.clone()), usual, default, help, problem: None }
        };
        let fields = FieldId::ALL.into_iter().map(field).collect();
        let focus = Focus::Field(FieldId::Engine);
        let mut form = Self { fields, focus, top: 0, verdict: Verdict::Asked, is_starting: false };
        form.check();
        form
    }

    /// Puts the defaults of this engine there, where nothing else was written.
    fn change_engine(&mut self) {
        let is_real = self.is_real();
        for field in self.fields.iter_mut().filter(|field| field.id.is_of_bench()) {
            let default = if is_real { field.usual.clone() } else { String::new() };
            if field.is_default() {
                field.input = LineEdit::new(default.as_str());
            }
            field.default = default;
            field.checked = None;
        }
    }

    fn is_real(&self) -> bool {
        self.value(FieldId::Engine).parse::<Engine>().is_ok_and(Engine::is_real)
    }

    pub(crate) fn field(&self, id: FieldId) -> Option<&Field> {
        self.fields.iter().find(|field| field.id == id)
    }

    fn value(&self, id: FieldId) -> &str {
        self.field(id).map_or("", Field::value)
    }

    /// Whether the field has a meaning with what the others say: else it is neither shown nor part of the command line.
    fn is_relevant(&self, id: FieldId) -> bool {
        let engine = self.value(FieldId::Engine);
        let is = |of: Engine| engine == of.name();
        match id {
            FieldId::Cluster => is(Engine::Sim),
            FieldId::Grid => is(Engine::Replay),
            FieldId::Hosts | FieldId::Site | FieldId::RanksPerNode => self.is_real(),
            FieldId::Collectives | FieldId::Sizes => self.value(FieldId::Workload).is_empty(),
            FieldId::Space => !is(Engine::Sim),
            _ => true,
        }
    }

    /// The fields that are shown.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| self.is_relevant(field.id))
    }

    /// The lines from top to bottom.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let of = |field: &Field| {
            let problem = field.problem.is_some().then_some(Line::Problem(field.id));
            [Some(Line::Field(field.id)), problem].into_iter().flatten()
        };
        self.shown().flat_map(of).chain([Line::Start]).collect()
    }

    /// The command line after the program.
    pub(crate) fn words(&self) -> Vec<String> {
        let words: Vec<String> = self.shown().flat_map(Field::words).collect();
        tune_words(&words)
    }

    /// Moves the focus by so many places; it goes round.
    pub(crate) fn move_focus(&mut self, forward: bool) {
        let places: Vec<Focus> = self.shown().map(|field| Focus::Field(field.id)).chain([Focus::Start]).collect();
        let now = places.iter().position(|place| *place == self.focus).unwrap_or(0);
        let step = if forward { 1 } else { places.len() - 1 };
        self.focus = places.get((now + step) % places.len()).copied().unwrap_or(Focus::Start);
    }

    /// Keeps the focus within `rows` lines, with what is wrong there.
    pub(crate) fn scroll_to_focus(&mut self, rows: usize) {
        let lines = self.lines();
        let focus = match self.focus {
            Focus::Field(id) => Line::Field(id),
            Focus::Start => Line::Start,
        };
        let first = lines.iter().position(|line| *line == focus).unwrap_or(0);
        let has_problem = matches!(lines.get(first + 1), Some(Line::Problem(_)));
        let last = first + usize::from(has_problem && 1 < rows);
        self.top = self.top.min(first).max((last + 1).saturating_sub(rows)).min(lines.len().saturating_sub(rows));
    }

    /// What holds where the field is empty, if that is not nothing.
    pub(crate) fn hint(&self, id: FieldId) -> &'static str {
        match id {
            FieldId::Collectives | FieldId::Sizes if self.value(FieldId::Engine) == Engine::Sim.name() => {
                "those of the cluster file"
            }
            FieldId::Collectives | FieldId::Sizes => "those of the grid",
            FieldId::Hosts => "the site file's, or the Slurm job's, or this machine",
            _ => "",
        }
    }

    /// Edits the field that has the focus.
    pub(crate) fn edit(&mut self, edit: Edit) -> Outcome {
        let Focus::Field(id) = self.focus else { return Outcome::Shown };
        if id.is_choice() {
            return match edit {
                Edit::Left => self.turn(false),
                Edit::Right | Edit::Insert(' ') => self.turn(true),
                _ => Outcome::Shown,
            };
        }
        self.change(id, |input| input.apply(edit))
    }

    /// Puts a text into the field that has the focus; one whose values are chosen takes none.
    pub(crate) fn paste(&mut self, text: &str) -> Outcome {
        match self.focus {
            Focus::Field(id) if !id.is_choice() => self.change(id, |input| input.insert(text)),
            _ => Outcome::Shown,
        }
    }

    /// Puts the next of the field's values there, or the one before.
    pub(crate) fn turn(&mut self, forward: bool) -> Outcome {
        let Focus::Field(id) = self.focus else { return Outcome::Shown };
        let mut values = id.values();
        if values.is_empty() {
            return Outcome::Shown;
        }
        // What may be left empty comes round, too.
        if self.field(id).is_some_and(|field| field.default.is_empty()) {
            values.push("");
        }
        let now = values.iter().position(|value| *value == self.value(id));
        let next = match (now, forward) {
            (Some(now), true) => (now + 1) % values.len(),
            (Some(now), false) => (now + values.len() - 1) % values.len(),
            (None, _) => 0,
        };
        let value = values.get(next).copied().unwrap_or_default();
        self.change(id, |input| *input = LineEdit::new(value))
    }

    fn change(&mut self, id: FieldId, change: impl FnOnce(&mut LineEdit)) -> Outcome {
        self.is_starting = false;
        let Some(field) = self.fields.iter_mut().find(|field| field.id == id) else { return Outcome::Shown };
        let before = field.value().to_owned();
        change(&mut field.input);
        if field.value() == before {
            return Outcome::Shown;
        }
        if id == FieldId::Engine {
            self.change_engine();
        }
        self.check()
    }

    /// Checks what needs neither files nor hosts.
    pub(crate) fn check(&mut self) -> Outcome {
        self.fields.iter_mut().for_each(Field::check);
        if self.shown().any(|field| field.problem.is_some()) {
            self.verdict = Verdict::Wrong(None);
            return Outcome::Shown;
        }
        let words = self.words();
        if let Some(refusal) = refusal(&words) {
            self.blame(refusal);
            return Outcome::Shown;
        }
        self.verdict = Verdict::Asked;
        Outcome::Check(words)
    }

    /// What files and hosts say of the command line of `words`.
    pub(crate) fn take_check(&mut self, words: &[String], result: Result<Option<String>, String>) -> Outcome {
        if self.verdict != Verdict::Asked || self.words() != words {
            return Outcome::Shown;
        }
        match result {
            Ok(about) => {
                self.verdict = Verdict::Fine(about);
                if std::mem::take(&mut self.is_starting) { Outcome::Go(words.to_vec()) } else { Outcome::Shown }
            }
            Err(text) => {
                self.is_starting = false;
                self.blame(Refusal { option: option_in(&text), text });
                Outcome::Shown
            }
        }
    }

    /// Starts the run, after a last look at what it needs.
    pub(crate) fn start(&mut self) -> Outcome {
        let outcome = self.check();
        self.is_starting = self.verdict == Verdict::Asked;
        let wrong = self.shown().find(|field| field.problem.is_some()).map(|field| field.id);
        if let (false, Some(id)) = (self.is_starting, wrong) {
            self.focus = Focus::Field(id);
        }
        outcome
    }

    /// Says what is wrong beside the field that it is about, or else of the whole.
    fn blame(&mut self, refusal: Refusal) {
        let id = self
            .shown()
            .map(|field| field.id)
            .find(|id| id.option().is_some() && id.option() == refusal.option.as_deref());
        match id.and_then(|id| self.fields.iter_mut().find(|field| field.id == id)) {
            Some(field) => {
                field.problem = Some(refusal.text);
                field.checked = None;
                self.verdict = Verdict::Wrong(None);
            }
            None => self.verdict = Verdict::Wrong(Some(refusal.text)),
        }
    }
}

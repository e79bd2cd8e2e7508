//! Tests of the start screen through its two doors: inputs into `update`, and `draw` of the state that results.

mod argv;
mod drawing;
mod scripts;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gdrtune_profiles::profile::Profile;
use ratatui::{Terminal, backend::TestBackend};

use super::{
    draw,
    form::FieldId,
    keys,
    profile::ProfilePage,
    state::{ClusterLine, Effect, Input, RunLine, RunState, State, Stock},
    update::update,
};
use crate::ui::{
    Colour,
    theme::{Charset, Theme, ThemeName},
};

/// A profile with an environment of two variables and two rules.
const PROFILE: &str = r#"
format = 1
[cluster]
nodes = 4
ranks = 32
gpu = "NVIDIA H200"
nccl = "2.28.9"
fingerprint = "sha256:00"
[run]
id = "2026-11-29T14:02:11Z-7f3a"
tool = "0.1.0"
engine = "nccl"
emulated = true
baseline = "site"
workload = "default"
trials = 412
notes = ["without node03: its GPUs are in use"]
[[env]]
name = "NCCL_BUFFSIZE"
value = "8388608"
class = "system"
speedup = { median = 1.21, low = 1.17, high = 1.25, p_faster = 1.0, repeats = 9 }
[[env]]
name = "NCCL_NTHREADS"
value = "256"
class = "debugging"
[[rule]]
collective = "allreduce"
nodes = 4
ranks = 32
bytes = { min = 0, max = 65536 }
algorithm = "tree"
protocol = "ll"
channels = 2
default_us = 128.7
tuned_us = 113.6
speedup = { median = 1.13, low = 1.09, high = 1.18, p_faster = 0.99, repeats = 9 }
[[rule]]
collective = "allreduce"
nodes = 4
ranks = 32
bytes = { min = 65537 }
algorithm = "ring"
protocol = "simple"
default_us = 1287.0
tuned_us = 1136.0
speedup = { median = 1.13, low = 1.09, high = 1.18, p_faster = 0.99, repeats = 9 }
"#;

fn run(name: &str, hosts: &str, engine: &str, end: RunState) -> RunLine {
    let gain = (end == RunState::Ended("tuned".to_owned())).then_some(1.214);
    let can_resume = !matches!(end, RunState::Running | RunState::Undecided(_) | RunState::Ended(_));
    let (name, hosts, engine) = (name.to_owned(), hosts.to_owned(), engine.to_owned());
    RunLine { name, age_s: Some(7_200), hosts, engine, ranks: 32, end, can_resume, gain }
}

fn cluster(name: &str, about: &str, fields: &[(FieldId, &str)]) -> ClusterLine {
    let fields = fields.iter().map(|(id, value)| (*id, (*value).to_owned())).collect();
    ClusterLine { name: name.to_owned(), about: about.to_owned(), fields }
}

/// Several runs, of which one is alive, and three clusters.
fn stock() -> Stock {
    let ended = |word: &str| RunState::Ended(word.to_owned());
    let runs = vec![
        run("r6", "node[01-04]", "nccl", RunState::Running),
        run("r5", "node[01-04],a-host-with-a-long-name-that-does-not-fit", "nccl", ended("tuned")),
        run("r4", "bimodal-channels", "sim", ended("defaults best")),
        run("r3", "ノード[1-4]", "native", RunState::Killed),
        run("r2", "localhost", "native", RunState::CutOff("interrupted".to_owned())),
        run("r1", "localhost", "native", RunState::Failed("failed".to_owned())),
    ];
    let clusters = vec![
        cluster(
            "alps",
            "site file alps.toml: 32 ranks, nccl, tuned 2 h ago",
            &[(FieldId::Site, "alps.toml"), (FieldId::Engine, "nccl"), (FieldId::More, "--fanout '16'")],
        ),
        cluster("this machine", "4 ranks over the loopback, native engine: no GPU is here", &[]),
        cluster("null", "SIMULATED: nothing is planted", &[(FieldId::Engine, "sim"), (FieldId::Cluster, "null")]),
    ];
    Stock { runs, clusters, dir: "/home/me/.local/state/gdrtune/runs".to_owned(), n_unreadable: 1, ..Stock::default() }
}

/// Before the store was read.
fn waiting(size: (u16, u16)) -> State {
    State::new(size, ThemeName::Base, Colour::Allowed)
}

fn with_stock(size: (u16, u16), stock: Stock) -> State {
    let mut state = waiting(size);
    update(&mut state, Input::Stock(Box::new(stock)));
    state
}

fn lists(size: (u16, u16)) -> State {
    with_stock(size, stock())
}

fn page() -> ProfilePage {
    let (profile, _) = Profile::parse(PROFILE, "profile.toml").unwrap();
    ProfilePage::new("tuned/profile.toml".to_owned(), &profile, &["line 3: something is odd".to_owned()])
}

/// A profile is shown.
fn profile(size: (u16, u16)) -> State {
    let mut state = lists(size);
    press(&mut state, "o 'tuned Enter");
    update(&mut state, Input::Opened(Ok(page())));
    state
}

/// The event of a key by the name that the help shows.
fn key(name: &str) -> KeyEvent {
    let mut all = keys::BINDINGS.iter().flat_map(|b| b.keys.iter());
    all.find(|chord| chord.name() == name).unwrap_or_else(|| panic!("no key is called {name}")).event()
}

/// Presses keys, separated by spaces, and types what stands behind a quote; the effects other than redraws.
fn press(state: &mut State, script: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for word in script.split_whitespace() {
        let events = match word.strip_prefix('\'') {
            None => vec![key(word)],
            Some(text) => text.chars().map(|c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)).collect(),
        };
        for event in events {
            effects.extend(update(state, Input::Key(event)));
        }
    }
    effects.retain(|effect| *effect != Effect::Redraw);
    effects
}

fn words(text: &str) -> Vec<String> {
    shell_words::split(text).unwrap()
}

fn paint(state: &State, charset: Charset) -> TestBackend {
    let (columns, rows) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let theme = Theme::new(state.theme, charset);
    terminal.draw(|frame| draw::draw(state, &theme, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().clone()
}

/// The screen as text.
fn screen(state: &State, charset: Charset) -> Vec<String> {
    let backend = paint(state, charset);
    let rows = backend.buffer().content.chunks(usize::from(state.size.0));
    rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect()).collect()
}

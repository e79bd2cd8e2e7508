//! The profile: what would ship, what differs, the files.

use gdrtune_profiles::{
    emit::{EmitOptions, Format, emit},
    profile::{Profile, Rule, Speedup},
};
use gdrtune_session::event::RunEnd;
use ratatui::style::{Color, Modifier};

use super::{drawing::style_of, *};
use crate::ui::{
    state::{Asks, Overlay},
    tabs::{Tab, profile::Section},
};

/// What the search of the run takes for best in its middle.
const DRAFT: &str = r#"
format = 1

[cluster]
nodes = 4
ranks = 4
fingerprint = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

[run]
id = "2026-11-29T14:02:11Z-7f3a"
tool = "0.1.0"
engine = "native"
emulated = true
unverified = true
baseline = "site"
workload = "default"
trials = 60

[[env]]
name = "NCCL_SOCKET_IFNAME"
value = "=fast0"
class = "system"

[[rule]]
collective = "allreduce"
nodes = 4
ranks = 4
bytes = { min = 1024, max = 8192 }
algorithm = "ring"
protocol = "simple"
channels = 1
default_us = 75.3
tuned_us = 45.9
speedup = { median = 1.64, low = 1.64, high = 1.64, p_faster = 0.5, repeats = 1 }

[[rule]]
collective = "allreduce"
nodes = 4
ranks = 4
bytes = { min = 8193, max = 67108864 }
algorithm = "ring"
protocol = "simple"
channels = 2
default_us = 13802.1
tuned_us = 3370.7
speedup = { median = 4.09, low = 4.09, high = 4.09, p_faster = 0.5, repeats = 1 }

[[rule]]
collective = "allgather"
nodes = 4
ranks = 4
bytes = { min = 1024, max = 2048 }
algorithm = "ring"
protocol = "ll"
channels = 1
default_us = 42.7
tuned_us = 30.2
speedup = { median = 1.41, low = 1.41, high = 1.41, p_faster = 0.5, repeats = 1 }
"#;

fn draft() -> Profile {
    Profile::parse(DRAFT, "draft").unwrap().0
}

/// What passes the A/B of it.
fn shipped() -> Profile {
    let mut profile = draft();
    profile.run.unverified = false;
    // Two decimals, as in a file that is read by people.
    let cents = |ratio: f64| (ratio * 100.0).round() / 100.0;
    let speedup = |median: f64| {
        let (low, high) = (cents(median * 0.95), cents(median * 1.06));
        Speedup { median, low, high, p_faster: 0.999, repeats: 21 }
    };
    profile.env[0].speedup = Some(speedup(2.48));
    profile.rule.truncate(2);
    profile.rule.iter_mut().for_each(|rule| rule.speedup = speedup(rule.speedup.median));
    profile
}

/// What was installed before: another rail, one rule more and one cut in another place.
fn installed() -> Profile {
    let mut profile = shipped();
    profile.cluster.nodes = 2;
    profile.env[0].value = "=slow0".to_owned();
    profile.rule[1].bytes.min = 1 << 20;
    profile.rule[0].bytes.max = Some(4096);
    profile.rule.push(Rule {
        bytes: gdrtune_profiles::profile::ByteRange { min: 1 << 27, max: None },
        ..profile.rule[1].clone()
    });
    profile
}

fn tell(state: &mut State, profile: Profile, left_out: &[&str]) {
    let left_out = left_out.iter().map(|line| (*line).to_owned()).collect();
    let t_ms = state.view.elapsed_ms;
    feed(state, [&Record { seq: 0, t_ms, event: Event::Profile { profile: Box::new(profile), left_out } }]);
}

const LEFT_OUT: [&str; 2] = [
    "allgather 1K ring/ll/1: 1.01x [0.97, 1.05] is no sure gain",
    "NCCL_NTHREADS: without it, the candidate is as fast: it does not earn its place",
];

/// In the search, with a draft.
fn drafted(size: (u16, u16)) -> State {
    let mut state = searching(size);
    tell(&mut state, draft(), &[]);
    press(&mut state, "6");
    state
}

/// Over, with what ships.
fn tuned(size: (u16, u16)) -> State {
    let mut state = finished(size);
    tell(&mut state, shipped(), &LEFT_OUT);
    press(&mut state, "6");
    state
}

/// Over, and nothing ships.
fn untuned(size: (u16, u16)) -> State {
    let mut state = verifying(size);
    tell(&mut state, Profile { env: Vec::new(), rule: Vec::new(), ..shipped() }, &LEFT_OUT);
    let summary = "the defaults are best: the candidate is not faster".to_owned();
    feed(
        &mut state,
        [&Record { seq: 0, t_ms: 149_000, event: Event::Finished { end: RunEnd::DefaultsBest, summary } }],
    );
    press(&mut state, "6");
    state
}

/// Types a name into the prompt, and takes it.
fn load(state: &mut State, name: &str, read: Result<Profile, String>) {
    press(state, "o ^U");
    let typed: Vec<String> = name.chars().map(|c| c.to_string()).collect();
    assert_eq!(press(state, &format!("{} Enter", typed.join(" "))), [Effect::Load(name.to_owned())]);
    update(state, Input::Loaded { name: name.to_owned(), read: read.map(Box::new) });
}

/// With a profile to compare with.
fn compared(size: (u16, u16)) -> State {
    let mut state = tuned(size);
    load(&mut state, "old/profile.toml", Ok(installed()));
    state
}

fn with_keys(start: fn((u16, u16)) -> State, size: (u16, u16), script: &str) -> State {
    let mut state = start(size);
    press(&mut state, script);
    state
}

#[test]
fn screens_of_what_would_ship() {
    for size in [(80, 24), (120, 40), (60, 15)] {
        let (columns, rows) = size;
        for (name, state) in [
            ("draft", drafted(size)),
            ("tuned", tuned(size)),
            ("defaults_best", untuned(size)),
            ("compared", compared(size)),
            ("env", with_keys(tuned, size, "] ] ] ]")),
            ("tuner_csv", with_keys(drafted, size, "[ [")),
        ] {
            insta::assert_snapshot!(format!("ships_{name}_{columns}x{rows}"), paint(&state, Charset::Unicode));
        }
    }
    let mut wrong = tuned((80, 24));
    let error = "old/profile.toml:12:13: unknown variant `treee`: use one of tree, ring, collnetdirect, collnetchain, nvls, \
                 nvlstree, pat; did you mean `tree`?";
    load(&mut wrong, "old/profile.toml", Err(error.to_owned()));
    insta::assert_snapshot!("ships_not_loaded", paint(&wrong, Charset::Unicode));
    insta::assert_snapshot!("ships_ascii", paint(&compared((80, 24)), Charset::Ascii));
    assert!(rows_of(paint(&compared((80, 24)), Charset::Ascii).buffer()).concat().is_ascii());
}

#[test]
fn keys_turn_the_sections_and_scroll() {
    use Section::{Diff, Emitted, Rules, Toml};
    let table: &[(&str, Section, usize)] = &[
        ("", Rules, 0),
        ("]", Diff, 0),
        ("Right Right", Toml, 0),
        ("l l l", Emitted(Format::Sh), 0),
        ("[", Emitted(Format::Json), 0),
        ("Left h", Emitted(Format::TunerCsv), 0),
        ("] ] j", Toml, 1),
        ("] ] j j k", Toml, 1),
        ("] ] G g", Toml, 0),
        ("] ] j ]", Emitted(Format::Sh), 0),
        // All of it is on the screen.
        ("] j G", Diff, 0),
    ];
    for (script, section, top) in table {
        let state = with_keys(tuned, (80, 24), script);
        let view = &state.view.tabs.profile;
        assert_eq!((view.section, view.top), (*section, *top), "{script}");
    }
    let state = with_keys(tuned, (80, 24), "] ] G");
    let screen = rows(&state);
    assert!(screen[screen.len() - 3].contains("speedup = { median = 4.09"), "the last line: {screen:#?}");
}

#[test]
fn what_is_shown_is_exported_under_its_usual_name_and_copied() {
    let emitted = |format| emit(&shipped(), format, &EmitOptions::plain()).unwrap();
    for (script, name, text) in [
        ("", "profile.toml", shipped().to_toml()),
        ("] ]", "profile.toml", shipped().to_toml()),
        ("] ] ]", "profile.sh", emitted(Format::Sh)),
        ("] ] ] ]", "profile.env", emitted(Format::Env)),
        ("[ [ [", "nccl.conf", emitted(Format::NcclConf)),
        ("[ [", "nccl-tuner.csv", emitted(Format::TunerCsv)),
        ("[", "profile.json", emitted(Format::Json)),
    ] {
        let mut state = with_keys(tuned, (80, 24), script);
        let effects = press(&mut state, "y e");
        let [Effect::Copy(copied), Effect::Export(export)] = &effects[..] else { panic!("{script}: {effects:?}") };
        assert_eq!((copied, export.name.as_str(), &export.text), (&text, name, &text), "{script}");
    }
    let mut state = with_keys(tuned, (80, 24), "]");
    let [Effect::Export(diff)] = &press(&mut state, "e")[..] else { panic!() };
    assert!(diff.name == "profile.diff" && diff.text.contains("\n+ NCCL_SOCKET_IFNAME==fast0\n"), "{}", diff.text);
    assert_eq!(press(&mut with_keys(searching, (80, 24), "6"), "y e"), [], "nothing is there yet");
}

#[test]
fn what_the_clipboard_would_drop_is_not_copied() {
    let mut state = searching((80, 24));
    let rule = draft().rule[0].clone();
    let rules =
        (0..600).map(|n| Rule { bytes: gdrtune_profiles::profile::ByteRange { min: n, max: Some(n) }, ..rule.clone() });
    tell(&mut state, Profile { rule: rules.collect(), ..draft() }, &[]);
    press(&mut state, "6");
    assert_eq!(press(&mut state, "y"), []);
    assert!(rows(&state).last().unwrap().contains("too much for the terminal's clipboard: e writes a file"));
    assert!(matches!(&press(&mut state, "e")[..], [Effect::Export(_)]));
}

#[test]
fn what_cannot_be_read_leaves_the_line_and_a_change_of_it_takes_the_error_away() {
    let mut state = tuned((80, 24));
    load(&mut state, "no", Err("no: No such file".to_owned()));
    let error = |state: &State| match &state.view.overlay {
        Some(Overlay::Prompt(prompt)) if prompt.asks == Asks::Load => prompt.error.clone(),
        _ => panic!("the line is gone"),
    };
    assert_eq!(error(&state).as_deref(), Some("no: No such file"));
    press(&mut state, "t");
    assert_eq!(error(&state), None);
    update(&mut state, Input::Loaded { name: "not".to_owned(), read: Ok(Box::new(installed())) });
    assert_eq!(state.view.overlay, None);
    assert_eq!(state.view.tabs.profile.section, Section::Diff);
    assert!(rows(&state).iter().any(|row| row.contains("Profile against not ")));
    // The last one is there to be changed, and Esc leaves everything as it was.
    press(&mut state, "o");
    let Some(Overlay::Prompt(prompt)) = &state.view.overlay else { panic!() };
    assert_eq!(prompt.line.text(), "not");
    press(&mut state, "Esc");
    assert!(state.view.tabs.profile.other.is_some());
    // One that comes when nobody waits for it any more says so in the footer.
    update(&mut state, Input::Loaded { name: "x".to_owned(), read: Err("x: gone".to_owned()) });
    assert!(rows(&state).last().unwrap().contains("x: gone"));
}

#[test]
fn the_shown_profile_is_always_the_last_one() {
    let mut state = drafted((80, 24));
    assert!(rows(&state).concat().contains("4.09x estimate"));
    tell(&mut state, shipped(), &[]);
    assert!(rows(&state).concat().contains("4.09x [3.89-4.34]"), "while the view is shown");
    press(&mut state, "1");
    tell(&mut state, Profile { rule: Vec::new(), ..draft() }, &[]);
    press(&mut state, "6");
    assert!(!rows(&state).concat().contains("4.09x"), "and while it was not");
    press(&mut state, "p");
    tell(&mut state, draft(), &[]);
    assert!(!rows(&state).concat().contains("4.09x"), "the display is frozen");
    press(&mut state, "p");
    assert!(rows(&state).concat().contains("4.09x estimate"));
    let event = Event::NodeSet { hosts: "vh[1-3]".into(), nodes: 3, ranks: 3, left_out: Vec::new() };
    feed(&mut state, [&Record { seq: 0, t_ms: 60_000, event }]);
    assert!(rows(&state).concat().contains("Nothing yet"), "that was of other nodes");
}

#[test]
fn what_does_not_change_it_does_not_make_it_anew() {
    let mut state = drafted((80, 24));
    let made = crate::ui::tabs::profile::rows;
    let before = made(&state).as_ptr();
    feed(&mut state, RECORDS.iter().filter(|record| matches!(record.event, Event::Trial(_))));
    press(&mut state, "j k");
    assert_eq!(made(&state).as_ptr(), before, "the same lines in the same place");
    press(&mut state, "] [");
    assert_ne!(made(&state).as_ptr(), before);
}

#[test]
fn styles_of_a_profile_tell_what_its_words_tell_too() {
    let state = compared((120, 40));
    assert_eq!(style_of(&state, "+ NCCL_SOCKET").fg, Some(Color::Green));
    assert_eq!(style_of(&state, "~ NCCL_SOCKET").fg, Some(Color::Magenta));
    assert_eq!(style_of(&state, "- allreduce").fg, Some(Color::Red));
    assert!(style_of(&state, "[Diff]").add_modifier.contains(Modifier::REVERSED));
    assert!(!style_of(&state, " Rules ").add_modifier.contains(Modifier::REVERSED));
    let file = with_keys(tuned, (120, 40), "] ] ] ]");
    assert!(style_of(&file, "# gdrtune settings").add_modifier.contains(Modifier::DIM));
    assert!(!style_of(&file, "NCCL_SOCKET_IFNAME==fast0").add_modifier.contains(Modifier::DIM));
    assert_eq!(style_of(&drafted((120, 40)), "NOT VERIFIED").fg, Some(Color::Magenta));
}

#[test]
fn hostile_texts_of_a_loaded_profile_stay_in_their_columns() {
    let mut other = installed();
    other.cluster.gpu = Some("日本\u{1b}[2J\nGPU".repeat(20));
    let mut state = tuned((60, 15));
    update(&mut state, Input::Loaded { name: "日\u{1b}本/".repeat(30), read: Ok(Box::new(other)) });
    press(&mut state, "G");
    let screen = rows(&state).concat();
    assert!(
        !screen.contains('\u{1b}') && screen.contains("[2J GPU") && screen.contains("- allreduce 128M and more"),
        "{screen}"
    );
}

#[test]
fn every_section_of_every_state_can_be_drawn_at_every_size() {
    for start in [drafted, tuned, untuned, compared] {
        let mut state = start((80, 24));
        for (columns, height) in [(60, 15), (61, 16), (80, 24), (200, 60)] {
            update(&mut state, Input::Resize(columns, height));
            for _ in Section::all() {
                press(&mut state, "] G");
                assert_eq!(state.view.tab, Tab::Profile);
                let n_rows = crate::ui::tabs::profile::rows(&state).len();
                assert!(0 < n_rows, "{:?}", state.view.tabs.profile.section);
                rows(&state);
            }
        }
    }
}

#[test]
fn after_the_ab_sizes_and_overview_name_what_ships_and_not_what_it_left_out() {
    let mut settings_only = shipped();
    settings_only.rule.clear();
    let nothing = Profile { env: Vec::new(), ..settings_only.clone() };
    for (profile, expected) in [
        (draft(), ["ring/simple/1", "ring/simple/2", "ring/ll/1"]),
        (shipped(), ["ring/simple/1", "ring/simple/2", "engine's own"]),
        (settings_only, ["engine's own", "engine's own", "engine's own"]),
        (nothing, ["default", "default", "default"]),
    ] {
        let mut state = finished((120, 40));
        tell(&mut state, profile, &[]);
        press(&mut state, "2");
        let screen = rows(&state);
        for (point, choice) in ["allreduce     1K", "allreduce    16K", "allgather     1K"].into_iter().zip(expected) {
            let row = screen.iter().find(|row| row.contains(point)).unwrap();
            assert!(row.contains(&format!("x  {choice} ")), "{choice}: {row}");
        }
        press(&mut state, "1 g");
        let caption = rows(&state).into_iter().find(|row| row.contains(" best ") && row.contains("1K")).unwrap();
        assert!(caption.contains(expected[0]), "{caption}");
    }
}

#[test]
fn the_end_says_the_next_command() {
    for (engine, end, next) in [
        ("nccl", RunEnd::Tuned, Some("Next: gdrtune install tuned/profile.toml --to FOLDER")),
        ("native", RunEnd::Tuned, None),
        ("native", RunEnd::DefaultsBest, None),
        ("native", RunEnd::Inconclusive, None),
        ("native", RunEnd::Interrupted, Some("Next: gdrtune runs resume 2026-11-29T14:02:11Z-7f3a")),
        ("native", RunEnd::NodesLost, Some("Next: gdrtune runs resume 2026-11-29T14:02:11Z-7f3a")),
        ("native", RunEnd::Failed, None),
    ] {
        let mut state = finished((80, 24));
        let summary = &mut state.run.summary;
        summary.label.as_mut().unwrap().engine = engine.parse().unwrap();
        summary.written = vec!["tuned/profile.toml".to_owned()];
        summary.ended.as_mut().unwrap().end = Some(end);
        let screen = rows(&state).join("\n");
        assert_eq!(screen.contains("Next: "), next.is_some(), "{screen}");
        assert!(next.is_none_or(|next| screen.contains(next)), "{screen}");
    }
}

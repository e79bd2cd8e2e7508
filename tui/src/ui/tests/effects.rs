//! Keys and what they do: scripts as tables, and the agreement of handler, footer and help.

use std::fmt::Write as _;

use gdrtune_session::event::{Command, RunEnd, Wish};

use super::*;
use crate::ui::{
    keys::{Action, BINDINGS, Context},
    state::{Direction, Jump, Overlay, Play, Question, Speed, Stop},
    tabs::Tab,
};

type Start = fn((u16, u16)) -> State;

#[test]
fn keys_tell_the_run_what_was_asked() {
    use Effect::{Command as Tell, Quit, Repaint, Suspend};
    let table: &[(&str, Start, &str, &[Effect])] = &[
        ("q only asks", searching, "q", &[]),
        ("no is the default", searching, "q Enter", &[]),
        ("q twice is no", searching, "q q", &[]),
        ("yes stops", searching, "q y", &[Tell(Command::Stop)]),
        ("s stops too", searching, "q s", &[Tell(Command::Stop)]),
        ("d stops here for the background", searching, "q d", &[Tell(Command::Stop)]),
        ("c cancels", searching, "q c", &[]),
        ("q kills a run that is stopping", searching, "q y q", &[Tell(Command::Stop), Tell(Command::Kill)]),
        ("the ladder of ^C", searching, "^C ^C ^C", &[Tell(Command::Stop), Tell(Command::Kill), Quit]),
        ("^C answers a question too", searching, "q ^C", &[Tell(Command::Stop)]),
        ("^C works in the help", searching, "? ^C ^C", &[Tell(Command::Stop), Tell(Command::Kill)]),
        ("q closes the help", searching, "? q", &[]),
        ("nothing to ask when over", finished, "q", &[Quit]),
        ("nothing to stop when over", finished, "^C", &[Quit]),
        ("space pauses and goes on", searching, "space space", &[Tell(Command::Pause), Tell(Command::Resume)]),
        ("nothing to pause when over", finished, "space", &[]),
        ("F asks", searching, "F", &[]),
        ("F and no", searching, "F n", &[]),
        ("F and yes", searching, "F y", &[Tell(Command::Finish)]),
        ("F once only", searching, "F y F", &[Tell(Command::Finish)]),
        (
            "F ends a pause",
            searching,
            "space F y",
            &[Tell(Command::Pause), Tell(Command::Resume), Tell(Command::Finish)],
        ),
        ("no search to finish", verifying, "F", &[]),
        ("p is for the display only", searching, "p", &[]),
        ("x skips", searching, "x", &[Tell(Command::Skip)]),
        ("w writes", searching, "w w", &[Tell(Command::Write), Tell(Command::Write)]),
        ("nothing to skip or write when over", finished, "x w", &[]),
        ("^Z and ^L", searching, "^Z ^L", &[Suspend, Repaint]),
        ("Y alone means nothing", searching, "Y", &[]),
    ];
    for (what, start, script, expected) in table {
        assert_eq!(press(&mut start((80, 24)), script), *expected, "{what}");
    }
}

#[test]
fn what_is_only_watched_is_left_without_a_question_and_never_told_anything() {
    for script in ["q", "^C"] {
        assert_eq!(press(&mut attached((80, 24)), script), [Effect::Quit], "{script}");
    }
    let mut state = attached((80, 24));
    assert_eq!(press(&mut state, "space F f > ."), []);
    assert!(!state.control.paused && state.view.overlay.is_none());
}

#[test]
fn a_replay_is_steered_by_keys() {
    use Effect::{Play as Tell, Quit};
    use Play::{Pause, Resume, Seek, Step};
    // The run takes 100 s, and is shown at 40 s.
    let speed = |factor| Tell(Play::Speed(Speed::new(factor).unwrap()));
    let table: &[(&str, &[Effect])] = &[
        ("q", &[Quit]),
        ("^C", &[Quit]),
        ("space space", &[Tell(Pause), Tell(Resume)]),
        ("f f", &[Tell(Seek(45_000)), Tell(Seek(50_000))]),
        ("b", &[Tell(Seek(35_000))]),
        ("0 b", &[Tell(Seek(0)), Tell(Seek(0))]),
        ("$ f", &[Tell(Seek(100_000)), Tell(Seek(100_000))]),
        (". ,", &[Tell(Step(Direction::Forward)), Tell(Step(Direction::Back))]),
        (". space", &[Tell(Step(Direction::Forward)), Tell(Resume)]),
        ("> <", &[speed(20.0), speed(10.0)]),
        ("< < < < < <", &[speed(5.0), speed(2.0), speed(1.0), speed(0.5), speed(0.5), speed(0.5)]),
        ("F", &[]),
    ];
    for (script, expected) in table {
        assert_eq!(press(&mut replayed((80, 24)), script), *expected, "{script}");
    }
    let mut state = replayed((80, 24));
    state.control.playback.as_mut().unwrap().speed = Speed::MAX;
    assert_eq!(press(&mut state, "f"), [Tell(Pause), Tell(Seek(45_000))], "or it would be over at once");
    assert_eq!([Speed::new(1e3).unwrap(), Speed::MAX].map(|speed| speed.next(Direction::Forward)), [Speed::MAX; 2]);
    assert_eq!(Speed::new(7.0).unwrap().next(Direction::Back), Speed::new(5.0).unwrap());
}

#[test]
fn a_jump_back_takes_the_view_along() {
    let mut state = replayed((80, 24));
    feed(&mut state, RECORDS.iter().skip(100));
    press(&mut state, "] 5 G");
    assert!(state.run.summary.is_over() && state.view.tabs.trials.cursor.is_some());
    let early = feed_new(12);
    update(&mut state, Input::Jumped(Box::new(Jump { run: early.run.clone(), t_ms: 3_000 })));
    assert!(state.run == early.run && state.view.elapsed_ms == 3_000, "time goes back");
    assert_eq!((state.view.tabs.trials.cursor, state.view.tabs.overview.collective), (None, 1));
    press(&mut state, "space");
    assert!(state.control.paused, "what is over is not, further back");
}

/// A state that took so many records.
fn feed_new(count: usize) -> State {
    let mut state = new_state((80, 24));
    feed(&mut state, RECORDS.iter().take(count));
    state
}

#[test]
fn the_end_of_the_run_takes_its_question_away() {
    let mut state = searching((80, 24));
    press(&mut state, "p q");
    assert_eq!(state.view.overlay, Some(Overlay::Question(Question::Leave)));
    feed(&mut state, RECORDS.iter().skip(RECORDS.len() - 1));
    assert!(state.view.overlay.is_none() && state.view.frozen.is_none());
    assert_eq!(press(&mut state, "q"), [Effect::Quit]);
}

#[test]
fn what_was_asked_is_shown_until_it_is_done() {
    for (script, badge) in
        [("space", " PAUSED "), ("q y", " STOPPING "), ("q y q", " KILLING "), ("F y", " FINISHING ")]
    {
        let mut state = searching((80, 24));
        press(&mut state, script);
        let progress = rows(&state).get(1).cloned().unwrap();
        assert!(progress.contains(badge), "{script}: {progress}");
    }
}

#[test]
fn a_frozen_display_counts_what_it_does_not_show() {
    let mut state = searching((80, 24));
    let before = rows(&state);
    press(&mut state, "p");
    feed(&mut state, RECORDS.iter().skip(150).take(20));
    let frozen = rows(&state);
    assert_eq!(frozen.split_last().unwrap().1, before.split_last().unwrap().1, "only the footer differs");
    let footer = frozen.last().unwrap();
    assert!(footer.contains("DISPLAY FROZEN") && footer.contains("20 records since"), "{footer}");
    press(&mut state, "p");
    assert_ne!(rows(&state).get(1), before.get(1));
}

#[test]
fn tab_and_digits_turn_through_the_views() {
    for size in [(80, 24), (60, 15)] {
        let mut state = searching(size);
        for tab in Tab::ALL.into_iter().skip(1).chain([Tab::Overview]) {
            press(&mut state, "Tab");
            assert_eq!(state.view.tab, tab);
        }
        press(&mut state, "Shift-Tab");
        assert_eq!(state.view.tab, Tab::Log);
        for tab in Tab::ALL {
            press(&mut state, &tab.number().to_string());
            assert_eq!(state.view.tab, tab);
            let names =
                rows(&state).into_iter().find(|row| row.contains(&format!(" {} {} ", tab.number(), tab.name())));
            assert!(names.is_some(), "{tab:?} is named at {size:?}");
        }
    }
}

#[test]
fn collectives_turn_around() {
    let mut state = searching((80, 24));
    for (script, expected) in [("]", 1), ("]", 0), ("[", 1), ("Left", 0), ("Right", 1), ("l", 0), ("h", 1)] {
        press(&mut state, script);
        assert_eq!(state.view.tabs.overview.collective, expected, "{script}");
    }
    assert!(rows(&state).iter().any(|row| row.starts_with("allgather (2 of 2)")));
}

#[test]
fn refused_colours_stay_refused() {
    let mut state = State::new((80, 24), ThemeName::Mono, Colour::Refused, Source::Live);
    press(&mut state, "t");
    assert_eq!(state.view.theme, ThemeName::Mono);
    assert!(rows(&state).last().unwrap().contains("NO_COLOR"));
}

#[test]
fn every_key_of_the_table_is_in_the_help() {
    for (start, tab) in [searching, attached, replayed].into_iter().flat_map(|start| Tab::ALL.map(|tab| (start, tab))) {
        let mut state = start((120, 90));
        state.view.tab = tab;
        let bindings: Vec<_> = keys::bindings(&state.contexts()).collect();
        press(&mut state, "?");
        let help = rows(&state).join("\n");
        for binding in bindings {
            let line = help.lines().find(|line| line.contains(&format!("┃ {} ", binding.key_names())));
            assert!(line.is_some_and(|line| line.contains(binding.help)), "{}:\n{help}", binding.key_names());
        }
    }
}

/// `UPDATE_DOCS=1 cargo test` writes it.
#[test]
fn the_docs_list_the_keys_of_the_table() {
    let mut text =
        "# Keys of the terminal UI\n\nMade from the key table; `?` in the UI lists those of the present view.\n"
            .to_owned();
    for (name, bindings) in keys::sections().into_iter().chain(crate::ui::start::keys::sections()) {
        write!(text, "\n## {name}\n\n| keys | what they do |\n|---|---|\n").unwrap();
        for (keys, help) in bindings {
            let names = keys.iter().map(|key| format!("`{}`", key.name()));
            let names = names.collect::<Vec<_>>().join(" ").replace('|', "\\|");
            writeln!(text, "| {names} | {} |", help.replace('|', "\\|")).unwrap();
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/keys.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text, "UPDATE_DOCS=1 cargo test writes docs/keys.md");
}

#[test]
fn the_footer_names_the_keys_of_the_table() {
    for (start, script) in [
        (searching as Start, ""),
        (searching, "5"),
        (searching, "?"),
        (searching, "q"),
        (attached, ""),
        (replayed, "7"),
    ] {
        let mut state = start((260, 45));
        press(&mut state, script);
        let contexts = state.contexts();
        let entries = keys::footer(&contexts).filter_map(|b| Some(format!("{} {}", b.keys.first()?.name(), b.footer?)));
        let expected = entries.collect::<Vec<_>>().join("  ");
        let footer = rows(&state).last().map(|row| row.trim_end().to_owned()).unwrap();
        assert_eq!(footer.trim_start_matches(" 40 % at 10x  "), expected);
    }
}

/// A state in which the action has something to do.
fn state_for(context: Context, action: Action) -> State {
    let mut state = match context {
        Context::Attached => attached((80, 18)),
        Context::Replay => replayed((80, 18)),
        _ => searching((80, 18)),
    };
    let script = match context {
        Context::Main | Context::Live | Context::LiveElsewhere | Context::Attached | Context::Replay => "",
        Context::Question => "F",
        Context::Leaving => "q",
        Context::Help => "?",
        // The cursor stands between two words.
        Context::Prompt => "5 / a space b Left",
        Context::Overview => "1",
        Context::Sizes => "2",
        Context::Search | Context::LiveSearch => "3",
        Context::Cluster => "4",
        Context::Trials | Context::Rows | Context::Sorted | Context::Marked | Context::Filtered => "5",
        Context::Profile => "6",
        Context::Log => "7",
    };
    press(&mut state, script);
    let script = match (context, action) {
        (Context::Main, Action::Show(Tab::Overview)) => "7",
        (Context::Overview, Action::Bottom) => "g",
        (Context::Overview | Context::Rows, Action::Up | Action::PageUp | Action::Top) => "G",
        (Context::Filtered, Action::Back) => "/ a Enter",
        (Context::Marked, Action::NextMark) => "m G",
        (Context::Help, Action::Up | Action::PageUp | Action::Top) => "j",
        _ => "",
    };
    press(&mut state, script);
    state
}

#[test]
fn every_key_of_the_table_does_something() {
    for binding in BINDINGS {
        for chord in binding.keys {
            let mut state = state_for(binding.context, binding.action);
            let contexts = state.contexts();
            assert!(contexts.contains(&binding.context), "{:?} is no context of the state", binding.context);
            let before = state.clone();
            let effects = update(&mut state, Input::Key(chord.event()));
            let acts = effects.iter().any(|e| *e != Effect::Redraw);
            assert!(acts || state != before, "{:?} {}", binding.context, chord.name());
        }
    }
}

#[test]
fn what_is_typed_is_checked_before_the_run_is_told() {
    let extend = |seconds, trials| Effect::Command(Command::Extend { seconds, trials });
    let pin = |knob: &str, value: Option<&str>| {
        Effect::Command(Command::Pin { knob: knob.to_owned(), value: value.map(str::to_owned) })
    };
    // What is typed, what the run is told, and what the footer says after it.
    let table: &[(&str, &str, Option<Effect>, &str)] = &[
        ("B", "90s", Some(extend(Some(90.0), None)), "told the run"),
        ("B", "5m", Some(extend(Some(300.0), None)), "told the run"),
        ("B", "200 trials", Some(extend(None, Some(200))), "told the run"),
        ("B", "200t", Some(extend(None, Some(200))), "told the run"),
        ("B", "200", None, "time or trials?"),
        ("B", "0 trials", None, "above 0"),
        ("B", "5 days", None, "unknown unit `days`"),
        ("B", "", None, "q quit"),
        ("P", "NCCL_SOCKET_IFNAME==fast0", Some(pin("NCCL_SOCKET_IFNAME", Some("=fast0"))), "told the run"),
        ("P", "NCCL_SOCKET_IFNAME=", Some(pin("NCCL_SOCKET_IFNAME", None)), "told the run"),
        ("P", "algo=ring", Some(pin("algo", Some("ring"))), "told the run"),
        ("P", "NCCL_SOCKET_IFNAME=fast9", None, "fast9"),
        ("P", "NCCL_SOCKET_IFNAM=x", None, "is not searched here"),
        ("P", "NCCL_SOCKET_IFNAME", None, "is not pinned"),
    ];
    for (key, typed, told, said) in table {
        let mut state = searching((160, 24));
        press(&mut state, key);
        for c in typed.chars() {
            update(&mut state, Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
        }
        assert_eq!(press(&mut state, "Enter"), told.iter().cloned().collect::<Vec<_>>(), "{key} {typed}");
        // What is wrong may need the row above it.
        let screen = rows(&state);
        let footer = screen.get(screen.len() - 2..).unwrap().concat();
        assert!(footer.contains(said), "{key} {typed}: {footer}");
        // A line that is wrong can be corrected.
        assert_eq!(matches!(state.view.overlay, Some(Overlay::Prompt(_))), told.is_none() && !typed.is_empty());
    }
}

#[test]
fn pins_stay_on_the_screen_until_they_are_taken_away() {
    let mut state = searching((120, 40));
    let wish = |wish| Record { seq: 0, t_ms: 98_000, event: Event::Wish { question: 1, wish } };
    feed(&mut state, [&wish(Wish::Pin { knob: "algo".into(), value: Some("ring".into()) })]);
    assert!(rows(&state)[2].contains(" PINNED algo=ring "), "{}", rows(&state)[2]);
    let unpinned = press(&mut state, "P a l g o Enter");
    assert_eq!(unpinned, [Effect::Command(Command::Unpin { knob: "algo".into() })]);
    feed(&mut state, [&wish(Wish::Unpin { knob: "algo".into() })]);
    assert!(!rows(&state)[2].contains("PINNED"));
}

#[test]
fn what_is_detached_ends_here_unless_it_is_done_by_then() {
    for (end, is_detached) in [(RunEnd::Interrupted, true), (RunEnd::Tuned, false), (RunEnd::Failed, false)] {
        let mut state = searching((80, 24));
        press(&mut state, "q d");
        assert!(rows(&state)[1].contains(" DETACHING ") && !state.is_detached(), "{}", rows(&state)[1]);
        let event = Event::Finished { end, summary: "The reason.".to_owned() };
        feed(&mut state, [&Record { seq: 0, t_ms: 99_000, event }]);
        assert_eq!(state.is_detached(), is_detached, "{end:?}");
    }
}

#[test]
fn what_is_typed_filters_at_once() {
    // Keys, the filter then, and whether it is still typed.
    let table: &[(&str, &str, bool)] = &[
        ("5 /", "", true),
        ("5 / r i n g", "ring", true),
        ("5 / ! r i n g Backspace Enter", "!rin", false),
        ("5 / r i n g Esc", "", false),
        ("5 / r i n g Enter Esc", "", false),
        ("5 / a space b ^W c Home x", "xa c", true),
        ("5 / a b Left Del End d", "ad", true),
        ("5 / a b ^U c Enter / d", "cd", true),
    ];
    for (script, text, is_typed) in table {
        let mut state = searching((80, 24));
        press(&mut state, script);
        assert_eq!(state.view.tabs.trials.filter.text(), *text, "{script}");
        assert_eq!(matches!(state.view.overlay, Some(Overlay::Prompt(_))), *is_typed, "{script}");
    }
}

#[test]
fn rows_are_copied_and_exported() {
    for (script, copied, name, lines) in [
        ("1", "run 2026-11-29T14:02:11Z-7f3a on vh[1-4]: 126 trials, verified 2.66x", "sizes.csv", 19),
        ("2 G", "allgather 64M: default", "sizes.csv", 19),
        ("2 m j m", "allreduce 4K: default", "sizes.csv", 3),
        ("5", "125,", "trials.csv", 127),
        ("5 G", "0,", "trials.csv", 127),
        ("5 / h u n g Enter G m", "", "trials.csv", 2),
        ("7 G", "", "log.txt", 0),
    ] {
        let mut state = finished((120, 40));
        press(&mut state, script);
        let effects = press(&mut state, "y e");
        let [Effect::Copy(text), Effect::Export(export)] = &effects[..] else { panic!("{script}: {effects:?}") };
        assert!(text.starts_with(copied) && !text.contains('\n'), "{script}: {text}");
        let expected = format!("gdrtune-2026-11-29T14-02-11Z-7f3a-{name}");
        assert_eq!(export.name, expected, "{script}");
        assert!(lines == 0 || export.text.lines().count() == lines, "{script}: {}", export.text);
    }
    assert_eq!(press(&mut new_state((80, 24)), "5 y e"), [], "nothing is there yet");
}

#[test]
fn no_key_beside_the_table_does_anything() {
    let codes =
        (' '..='~').map(KeyCode::Char).chain((1..=12).map(KeyCode::F)).chain([KeyCode::Insert, KeyCode::Delete]);
    for (code, modifiers) in codes.flat_map(|code| [(code, KeyModifiers::NONE), (code, KeyModifiers::CONTROL)]) {
        let event = KeyEvent::new(code, modifiers);
        for (start, script) in [
            (searching as Start, ""),
            (searching, "5"),
            (searching, "q"),
            (searching, "?"),
            (attached, ""),
            (replayed, ""),
        ] {
            let mut state = start((80, 24));
            press(&mut state, script);
            if keys::action_for(&state.contexts(), event).is_some() {
                continue;
            }
            let before = state.clone();
            assert_eq!(update(&mut state, Input::Key(event)), [], "{event:?}");
            assert!(state == before, "{event:?}");
        }
    }
}

#[test]
fn a_small_terminal_can_still_be_left() {
    let mut state = searching((40, 10));
    assert!(rows(&state).join("\n").contains("now 40x10, needed 60x15"));
    press(&mut state, "q");
    assert!(rows(&state).join("\n").contains("Leave? d detach, s stop, C cancel"));
    assert_eq!(press(&mut state, "s"), [Effect::Command(Command::Stop)]);
    assert_eq!(state.control.stop, Stop::Stopping);
}

#[test]
fn the_environment_decides_about_colours_and_characters() {
    use crate::ui::UiOptions;
    for (variables, theme, colour, charset) in [
        (&[("LANG", "C.UTF-8")][..], ThemeName::Base, Colour::Allowed, Charset::Unicode),
        (&[("LANG", "de_DE.utf8"), ("NO_COLOR", "1")], ThemeName::Mono, Colour::Refused, Charset::Unicode),
        (&[("LANG", "C.UTF-8"), ("NO_COLOR", "")], ThemeName::Base, Colour::Allowed, Charset::Unicode),
        (&[("LANG", "C.UTF-8"), ("LC_ALL", "C")], ThemeName::Base, Colour::Allowed, Charset::Ascii),
        (&[("LANG", "C"), ("LC_CTYPE", "C.UTF-8")], ThemeName::Base, Colour::Allowed, Charset::Unicode),
        (&[("LANG", "C.UTF-8"), ("TERM", "dumb")], ThemeName::Mono, Colour::Refused, Charset::Ascii),
        (&[], ThemeName::Base, Colour::Allowed, Charset::Ascii),
    ] {
        let lookup = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let options = UiOptions::from_environment(Source::Live, lookup);
        assert_eq!((options.theme, options.colour, options.charset), (theme, colour, charset), "{variables:?}");
    }
}

#[test]
fn whoever_suspends_a_run_that_holds_nodes_is_told_what_follows() {
    let size = (80, 24);
    let mut simulated = searching(size);
    if let Some(label) = &mut simulated.run.summary.label {
        label.engine = gdrtune_profiles::vocab::Engine::Sim;
    }
    for (state, is_told) in [
        (searching(size), true),
        (verifying(size), true),
        (new_state(size), false),
        (finished(size), false),
        (attached(size), false),
        (replayed(size), false),
        (simulated, false),
    ] {
        let words = state.suspension_words();
        assert_eq!(words.contains("fg within 12 s"), is_told, "{words}");
    }
}

#[test]
fn the_name_of_a_knob_alone_asks_for_a_value() {
    for name in ["algo", "channels", "NCCL_SOCKET_IFNAME"] {
        let mut state = searching((80, 24));
        press(&mut state, "P");
        update(&mut state, Input::Paste(name.to_owned()));
        let Some(Overlay::Prompt(prompt)) = &state.view.overlay else { panic!("a line is typed") };
        assert_eq!(prompt.error, Some(format!("{name} is not pinned: add = and a value")));
    }
}

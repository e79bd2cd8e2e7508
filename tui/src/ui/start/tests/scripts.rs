//! Key scripts: `(state, keys, expected)`.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::{
    super::{
        form::{Focus, Verdict},
        keys::{BINDINGS, Context},
        state::{Page, Panel, Request},
    },
    *,
};

const SIZE: (u16, u16) = (80, 24);

#[test]
fn keys_ask_for_what_the_help_says() {
    let go = |line: &str| vec![Effect::Go(words(line))];
    let open = |path: &str| vec![Effect::Ask(Request::Open(path.to_owned()))];
    let check = |line: &str| Effect::Ask(Request::Check(words(line)));
    let cases: Vec<(&str, Vec<Effect>, Page)> = vec![
        ("q", vec![Effect::Leave], Page::Lists),
        ("^C", vec![Effect::Leave], Page::Lists),
        ("^Z", vec![Effect::Suspend], Page::Lists),
        ("^L", vec![Effect::Repaint], Page::Lists),
        ("R", vec![Effect::Ask(Request::Reload)], Page::Lists),
        ("d", go("demo"), Page::Lists),
        ("Enter", go("attach r6"), Page::Lists),
        ("j Enter", go("replay r5"), Page::Lists),
        ("j j j Enter", go("replay r3"), Page::Lists),
        ("j j j r", go("runs resume r3"), Page::Lists),
        ("G r", go("runs resume r1"), Page::Lists),
        ("r", vec![], Page::Lists),
        ("j r", vec![], Page::Lists),
        ("o", vec![], Page::Prompt),
        ("o Enter", vec![], Page::Prompt),
        ("o Esc", vec![], Page::Lists),
        ("o 'qn?/x Enter", open("qn?/x"), Page::Prompt),
        ("o ^C", vec![Effect::Leave], Page::Prompt),
        ("n", vec![check("tune")], Page::Form),
        ("n 'q", vec![check("tune")], Page::Form),
        ("n Esc q", vec![check("tune"), Effect::Leave], Page::Lists),
        ("n ? Esc", vec![check("tune")], Page::Lists),
        ("Tab Down Enter", vec![check("tune")], Page::Form),
        ("Tab Enter", vec![check("tune --engine nccl --site alps.toml --fanout 16")], Page::Form),
        ("Tab G Enter", vec![check("tune --engine sim --cluster null")], Page::Form),
        ("Shift-Tab G Enter", vec![check("tune --engine sim --cluster null")], Page::Form),
        ("n Left", vec![check("tune"), check("tune --engine replay")], Page::Form),
        ("n Tab 'a[ '1]", vec![check("tune"), check("tune -w a"), check("tune -w 'a[1]'")], Page::Form),
        ("? q q", vec![Effect::Leave], Page::Lists),
        ("n F1 q", vec![check("tune")], Page::Form),
    ];
    for (script, expected, page) in cases {
        let mut state = lists(SIZE);
        let effects = press(&mut state, script);
        assert_eq!((effects, state.page), (expected, page), "{script}");
    }
}

#[test]
fn a_form_is_started_when_all_that_it_names_is_there() {
    let mut state = lists(SIZE);
    press(&mut state, "n Right Right Tab 'null");
    let line = words("tune --engine sim --cluster null");
    assert_eq!(state.form.words(), line);
    // What is known of an earlier line is not known of this one.
    let checked = |words: &[String], result| Input::Checked { words: words.to_vec(), result };
    update(&mut state, checked(&words("tune --engine sim --cluster nul"), Ok(None)));
    assert_eq!(state.form.verdict, Verdict::Asked);

    let effects = press(&mut state, "Shift-Tab Shift-Tab Enter");
    assert_eq!((effects, state.form.focus), (vec![Effect::Ask(Request::Check(line.clone()))], Focus::Start));
    let refusal = "--cluster: read null: No such file".to_owned();
    update(&mut state, checked(&line, Err(refusal.clone())));
    assert_eq!(state.form.field(FieldId::Cluster).unwrap().problem.as_ref(), Some(&refusal));
    assert_eq!(state.form.verdict, Verdict::Wrong(None));

    // The file is there now.
    assert_eq!(press(&mut state, "Enter"), [Effect::Ask(Request::Check(line.clone()))]);
    let effects = update(&mut state, checked(&line, Ok(None)));
    assert_eq!(effects, [Effect::Go(line.clone())]);

    // Whoever types on has not started.
    let mut state = lists(SIZE);
    press(&mut state, "n Right Right Tab 'null Shift-Tab Shift-Tab Enter Tab Tab 'x Backspace");
    assert_eq!(update(&mut state, checked(&line, Ok(None))), [Effect::Redraw]);
    assert_eq!(state.form.verdict, Verdict::Fine(None));
}

#[test]
fn what_is_wrong_is_said_beside_its_field() {
    for (script, id, expected) in [
        ("Tab 'node[3-1]", FieldId::Hosts, "-w"),
        ("Tab Tab '~/alps.toml", FieldId::Site, "no shell is here to replace ~"),
        ("Tab Tab Tab '0", FieldId::RanksPerNode, "0 is not in 1..=1024"),
        ("Tab Tab Tab Tab 's", FieldId::Collectives, "unknown collective `allreduces`"),
        ("Tab Tab Tab Tab Tab ^U", FieldId::Sizes, "no size"),
        ("Tab Tab Tab Tab Tab ^U '4M-1K", FieldId::Sizes, "4M-1K"),
        ("Shift-Tab Shift-Tab Shift-Tab Shift-Tab '0", FieldId::Trials, "0 is not in 1.."),
        ("Shift-Tab Shift-Tab Shift-Tab Shift-Tab Shift-Tab '5w", FieldId::Budget, "unknown unit `w`"),
        ("Shift-Tab Shift-Tab 'it's", FieldId::More, "a quotation is not closed"),
    ] {
        let mut state = lists(SIZE);
        press(&mut state, &format!("n {script}"));
        let problem = state.form.field(id).unwrap().problem.clone().unwrap_or_default();
        assert!(problem.contains(expected), "{script}: {problem:?}");
        assert_eq!(state.form.verdict, Verdict::Wrong(None), "{script}");
        // Enter on the button goes there instead.
        while state.form.focus != Focus::Start {
            press(&mut state, "Tab");
        }
        assert_eq!((press(&mut state, "Enter"), state.form.focus), (vec![], Focus::Field(id)), "{script}");
    }
    for (more, expected) in [
        ("'--sizes=1K", "--sizes"),
        ("'--nonsense", "unexpected argument '--nonsense'"),
        ("'--help", "--help and --version start no run"),
    ] {
        let mut state = lists(SIZE);
        press(&mut state, &format!("n Tab Tab Tab Tab Tab ^U '4K Shift-Tab {}", "Shift-Tab ".repeat(6)));
        assert_eq!(state.form.focus, Focus::Field(FieldId::More));
        press(&mut state, more);
        let sizes = state.form.field(FieldId::Sizes).unwrap().problem.clone();
        let said = match &state.form.verdict {
            Verdict::Wrong(text) => text.clone().or(sizes).unwrap_or_default(),
            other => panic!("{more}: {other:?}"),
        };
        assert!(said.contains(expected), "{more}: {said}");
    }
}

#[test]
fn text_is_written_where_the_cursor_is() {
    for (script, expected) in [
        ("Tab 'ab Home 'x End 'y", "tune -w xaby"),
        ("Tab 'ab Left 'x Right 'y", "tune -w axby"),
        ("Tab 'abc Left Backspace", "tune -w ac"),
        ("Tab 'abc Home ^D", "tune -w bc"),
        ("Tab 'abc Left ^U", "tune -w c"),
        ("Tab 'a ^W 'b", "tune -w b"),
        ("Down Down Down '8 Up Up 'a", "tune -w a --ranks-per-node 8"),
        ("Enter 'a Enter 's.toml", "tune -w a --site s.toml"),
        ("Right Right Left", "tune --engine nccl"),
        ("PgDn PgDn PgDn PgUp", "tune --engine sim"),
        ("Tab Tab Tab Tab PgDn", "tune --collectives allgather"),
        ("Tab Tab Tab Tab PgUp", "tune --collectives sendrecv"),
    ] {
        let mut state = lists(SIZE);
        press(&mut state, &format!("n {script}"));
        assert_eq!(state.form.words(), words(expected), "{script}");
    }
}

#[test]
fn a_form_is_kept_until_it_is_emptied() {
    let mut state = lists(SIZE);
    press(&mut state, "n Tab 'a Esc j n");
    assert_eq!(state.form.words(), words("tune -w a"));
    press(&mut state, "^R");
    assert_eq!(state.form.words(), words("tune"));
}

#[test]
fn an_answer_that_nobody_waits_for_is_not_shown() {
    let mut state = lists(SIZE);
    press(&mut state, "o 'x Enter Esc");
    update(&mut state, Input::Opened(Ok(page())));
    assert_eq!((state.page, state.profile.is_none()), (Page::Lists, true));
}

#[test]
fn a_profile_is_scrolled_and_left() {
    let top = |state: &State| state.profile.as_ref().unwrap().top;
    let mut state = profile((60, 15));
    for (script, expected) in
        [("j j", 2), ("k", 1), ("G", 14), ("j", 14), ("PgUp", 3), ("PgDn", 14), ("g", 0), ("G", 14)]
    {
        press(&mut state, script);
        assert_eq!((top(&state), state.page), (expected, Page::Profile), "{script}");
    }
    update(&mut state, Input::Resize(200, 60));
    press(&mut state, "j");
    assert_eq!(top(&state), 0, "all of it fits");
    press(&mut state, "o Esc");
    assert_eq!(state.page, Page::Lists);
}

#[test]
fn on_a_terminal_that_is_too_small_only_leaving_works() {
    let mut state = lists((50, 10));
    assert_eq!(press(&mut state, "Enter n d"), []);
    assert_eq!((state.page, press(&mut state, "q")), (Page::Lists, vec![Effect::Leave]));
}

#[test]
fn the_mouse_chooses_and_scrolls() {
    let mouse = |kind, row| Input::Mouse(MouseEvent { kind, column: 10, row, modifiers: KeyModifiers::NONE });
    let down = MouseEventKind::Down(MouseButton::Left);
    let mut state = lists(SIZE);
    let row_of = |state: &State, text: &str| {
        screen(state, Charset::Unicode).iter().position(|row| row.contains(text)).unwrap() as u16
    };
    let killed = row_of(&state, "killed");
    update(&mut state, mouse(down, killed));
    assert_eq!(state.runs.selected().map(|run| run.name.as_str()), Some("r3"));
    let null = row_of(&state, "SIMULATED");
    update(&mut state, mouse(down, null));
    assert_eq!((state.focus, state.clusters.cursor), (Panel::Clusters, 2));
    update(&mut state, mouse(MouseEventKind::ScrollUp, null));
    assert_eq!(state.clusters.cursor, 0);
    press(&mut state, "n");
    let sizes = row_of(&state, "  sizes ");
    update(&mut state, mouse(down, sizes));
    assert_eq!(state.form.focus, Focus::Field(FieldId::Sizes));
}

#[test]
fn no_key_has_two_meanings_in_one_place() {
    let states = [lists(SIZE), with_focus(Panel::Clusters), form(), prompt(), profile(SIZE), help(), lists((9, 9))];
    for state in &states {
        let contexts = state.contexts();
        let all: Vec<_> = keys::bindings(contexts).flat_map(|b| b.keys.iter().map(|k| (*k, b.action))).collect();
        for (position, (chord, action)) in all.iter().enumerate() {
            assert_eq!(keys::action_for(contexts, chord.event()), Some(*action), "{contexts:?} {}", chord.name());
            assert!(all.iter().skip(position + 1).all(|(other, _)| other != chord), "{contexts:?} {}", chord.name());
        }
    }
    let seen = |context: Context| states.iter().any(|state| state.contexts().contains(&context));
    assert!(BINDINGS.iter().all(|binding| seen(binding.context)));
}

fn with_focus(panel: Panel) -> State {
    let mut state = lists(SIZE);
    state.focus = panel;
    press(&mut state, "j");
    state
}

/// With the cursor in the middle of a text that has other values.
fn form() -> State {
    let mut state = lists(SIZE);
    press(&mut state, "n Tab Tab Tab Tab Left Left");
    state
}

fn prompt() -> State {
    let mut state = lists(SIZE);
    press(&mut state, "o 'ab/cd Left Left");
    state
}

fn help() -> State {
    let mut state = lists((60, 15));
    press(&mut state, "? j");
    state
}

#[test]
fn every_key_of_the_help_does_something() {
    let mut scrolled = profile((60, 15));
    press(&mut scrolled, "j j");
    let states =
        [with_focus(Panel::Runs), with_focus(Panel::Clusters), form(), prompt(), scrolled, help(), lists((9, 9))];
    for binding in BINDINGS {
        let here = states.iter().filter(|state| state.contexts().contains(&binding.context));
        for (state, chord) in here.flat_map(|state| binding.keys.iter().map(move |chord| (state, chord))) {
            let mut after = state.clone();
            let effects = update(&mut after, Input::Key(chord.event()));
            let asks = effects.iter().any(|effect| *effect != Effect::Redraw);
            assert!(asks || after != *state, "{:?} {}", binding.context, chord.name());
        }
    }
}

#[test]
fn pasted_text_goes_into_a_field_and_is_no_key() {
    let mut state = lists(SIZE);
    let paste = |state: &mut State, text: &str| update(state, Input::Paste(text.to_owned()));
    assert_eq!(paste(&mut state, "dq"), [Effect::Redraw], "neither a demo nor the end");
    press(&mut state, "n Tab");
    let check = Effect::Ask(Request::Check(words("tune -w n1,n2")));
    assert_eq!(paste(&mut state, "n1,n2\n"), [check, Effect::Redraw]);
    press(&mut state, "Esc o");
    paste(&mut state, "/tmp/a profile\n");
    assert_eq!(press(&mut state, "Enter"), [Effect::Ask(Request::Open("/tmp/a profile".to_owned()))]);
}

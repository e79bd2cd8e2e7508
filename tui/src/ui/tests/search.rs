//! The search view: the heat map of a space as large as NCCL's, the environments, the knobs, and its keys.

use std::time::{Duration, Instant};

use gdrtune_profiles::vocab::{Environment, Point};
use gdrtune_session::event::{Command, Failure};
use ratatui::style::{Color, Modifier};

use self::fixture::{
    ALLGATHER, ALLREDUCE, FAMILIES, USUAL, choice, event, many, nccl, nccl_start, overlay, trial, with_environments,
};
use super::{drawing::style_of, *};
use crate::ui::{
    state::{Overlay, Question},
    tabs::search::{Part, grid::Grid, grid::Standing, shown_overlay, shown_point},
};

mod fixture;

#[test]
fn screens_of_a_large_space() {
    for (columns, rows) in [(80, 24), (120, 40), (60, 15)] {
        let size = (columns, rows);
        for (name, mut state, script) in [
            ("usual", nccl(size, &USUAL), "3"),
            ("many", nccl(size, &many()), "3"),
            ("environments", with_environments(size), "3 v"),
        ] {
            press(&mut state, script);
            let name = format!("search_{name}_{columns}x{rows}");
            insta::assert_snapshot!(name, paint(&state, Charset::Unicode));
        }
    }
    let mut wide = with_environments((200, 50));
    press(&mut wide, "3");
    insta::assert_snapshot!("search_environments_200x50", paint(&wide, Charset::Unicode));
    for (name, mut state) in [("usual", nccl((80, 24), &USUAL)), ("many", nccl((80, 24), &many()))] {
        press(&mut state, "3");
        insta::assert_snapshot!(format!("search_{name}_ascii"), paint(&state, Charset::Ascii));
    }
    let mut question = nccl((80, 24), &USUAL);
    press(&mut question, "3 x");
    insta::assert_snapshot!("search_drop_question", paint(&question, Charset::Unicode));
}

/// What is looked at: point, overlay, choice under the cursor.
fn looked_at(state: &State) -> (Point, u32, String) {
    let grid = Grid::of(state).unwrap();
    let cursor = crate::ui::tabs::search::cursor_choice(state, &grid).unwrap();
    (shown_point(state).unwrap(), shown_overlay(state), cursor.to_string())
}

#[test]
fn keys_move_in_the_heat_map_and_in_the_table() {
    // With the second environment in play, whose best is ring/simple/4. Keys, and what is looked at then.
    let table: &[(&str, Point, u32, &str)] = &[
        ("", ALLREDUCE, 1, "ring/simple/4"),
        ("l", ALLREDUCE, 1, "ring/simple/8"),
        ("h h h h", ALLREDUCE, 1, "ring/simple/1"),
        ("Right Right Right Right Right Right Right", ALLREDUCE, 1, "ring/simple/64"),
        ("j Down", ALLREDUCE, 1, "collnet_chain/simple/4"),
        ("k", ALLREDUCE, 1, "ring/ll128/4"),
        ("g", ALLREDUCE, 1, "tree/ll/4"),
        ("G l", ALLREDUCE, 1, "pat/simple/8"),
        // At the other point nothing was tried, and other choices are offered.
        ("]", ALLGATHER, 1, "ring/ll/1"),
        ("[", ALLGATHER, 1, "ring/ll/1"),
        ("] ]", ALLREDUCE, 1, "ring/simple/4"),
        ("h ] [", ALLREDUCE, 1, "ring/simple/2"),
        ("}", ALLREDUCE, 2, "tree/ll/1"),
        ("{", ALLREDUCE, 0, "ring/ll128/8"),
        ("} } }", ALLREDUCE, 0, "ring/ll128/8"),
        ("{ h ] =", ALLREDUCE, 1, "ring/simple/4"),
        ("{ h ] Esc", ALLREDUCE, 1, "ring/simple/4"),
        ("v j", ALLREDUCE, 2, "tree/ll/1"),
        ("v g", ALLREDUCE, 0, "ring/ll128/8"),
        ("Enter G Enter k", ALLREDUCE, 3, "tree/ll/1"),
        // Sorted by gain: the best, the first, the one that was given up, the failed one.
        ("v s g", ALLREDUCE, 1, "ring/simple/4"),
        ("v s j", ALLREDUCE, 0, "ring/ll128/8"),
        ("v s S g", ALLREDUCE, 3, "tree/ll/1"),
        ("s }", ALLREDUCE, 0, "ring/ll128/8"),
    ];
    for (script, point, overlay, choice) in table {
        for size in [(80, 24), (120, 40), (60, 15)] {
            let mut state = with_environments(size);
            press(&mut state, "3");
            assert_eq!(press(&mut state, script), [], "{script}");
            assert_eq!(looked_at(&state), (*point, *overlay, (*choice).to_owned()), "{script} at {size:?}");
        }
    }
}

#[test]
fn the_cursor_can_be_seen_wherever_it_goes() {
    let mut state = nccl((60, 15), &many());
    press(&mut state, "3");
    let head = |state: &State| rows(state)[4].clone();
    assert!(head(&state).contains(" 1 2 3 ") && !head(&state).contains("32"), "{}", head(&state));
    for _ in 0..24 {
        press(&mut state, "Right");
    }
    press(&mut state, "G");
    let screen = rows(&state);
    assert!(screen[4].contains("32") && !screen[4].contains(" 1 2 3 "), "{screen:#?}");
    assert!(screen[10].starts_with("▸pat/simple"), "{screen:#?}");
    assert!(screen[11].contains("columns 12-32 of 32"), "{screen:#?}");
    press(&mut state, "Left");
    assert!(
        head(&state).contains("  12  14 ") && head(&state).contains("31"),
        "it stays as it is while the cursor can be seen: {}",
        head(&state)
    );
}

#[test]
fn the_heat_map_goes_along_until_it_is_held() {
    let mut state = nccl((80, 24), &USUAL);
    let start = |index| Event::EnvironmentStarted { index, environment: overlay(index), why: "a try".to_owned() };
    let score = |index, score| Event::EnvironmentScored {
        index,
        environment: overlay(index),
        score: Some(score),
        note: String::new(),
    };
    let at = |state: &State| (shown_point(state).unwrap(), shown_overlay(state));
    assert_eq!(at(&state), (ALLREDUCE, 0));
    trial(&mut state, 0, ALLGATHER, choice(FAMILIES[3], 4), Ok(50.0));
    assert_eq!(at(&state), (ALLGATHER, 0), "the point that is tried");
    event(&mut state, score(0, 0.5));
    event(&mut state, start(1));
    assert_eq!(at(&state), (ALLGATHER, 1), "the environment that the search turned to");
    trial(&mut state, 0, ALLREDUCE, choice(FAMILIES[3], 4), Ok(50.0));
    assert_eq!(at(&state), (ALLREDUCE, 0), "the one that it came back to");
    assert!(rows(&state)[2].contains("environment 1 of 12: defaults"), "{}", rows(&state)[2]);
    let mut held = state.clone();
    press(&mut held, "3 ] }");
    let title = rows(&held)[4].clone();
    assert!(title.contains("allgather 16M, 2 of 2, held") && title.contains("environment 2 of 12, held"), "{title}");
    for state in [&mut state, &mut held] {
        trial(state, 1, ALLREDUCE, choice(FAMILIES[3], 4), Ok(40.0));
        event(state, score(1, 0.6));
    }
    assert_eq!((at(&state), at(&held)), ((ALLREDUCE, 1), (ALLGATHER, 1)));
    let mut moved = state.clone();
    press(&mut moved, "3 Up");
    trial(&mut moved, 0, ALLGATHER, choice(FAMILIES[3], 4), Ok(50.0));
    assert_eq!(at(&moved), (ALLREDUCE, 1), "what the cursor was moved in stays");
    press(&mut moved, "=");
    assert_eq!(at(&moved), (ALLGATHER, 0));
    event(&mut state, Event::Phase { phase: Phase::Verify });
    assert_eq!(at(&state), (ALLREDUCE, 0), "after the search it is the best one");
    let grid = Grid::of(&state).unwrap();
    assert_eq!(grid.present, None, "nothing of it is being tried any more");
}

#[test]
fn every_kind_of_cell_is_told() {
    let mut state = nccl((80, 24), &USUAL);
    let (nearly, out) = (choice(FAMILIES[3], 1), choice(FAMILIES[3], 2));
    trial(&mut state, 0, ALLREDUCE, nearly, Err(Failure::Hung));
    trial(&mut state, 0, ALLREDUCE, out, Err(Failure::Hung));
    let (environment, why) = (overlay(0), "hung 2 times".to_owned());
    event(&mut state, Event::Dropped { environment, point: ALLREDUCE, choice: out, why });
    let grid = Grid::of(&state).unwrap();
    for (family, channels, expected) in [
        (0, 64, Standing::Untried),
        (0, 3, Standing::Absent),
        (8, 8, Standing::Refused),
        (6, 1, Standing::Failed(Failure::Hung)),
        (6, 2, Standing::Failed(Failure::Crashed)),
        (6, 4, Standing::Failed(Failure::Wrong)),
        (6, 8, Standing::Failed(Failure::Substituted)),
        (6, 16, Standing::Refused),
        (7, 1, Standing::Dropped),
        // It worked, too, so it is still in the race.
        (3, 1, Standing::Timed { gap: 0.57, is_dropped: false }),
        (3, 2, Standing::Failed(Failure::Hung)),
        (4, 8, Standing::Timed { gap: 0.0, is_dropped: false }),
        (4, 4, Standing::Timed { gap: 0.01, is_dropped: false }),
        (0, 1, Standing::Timed { gap: 19.47, is_dropped: true }),
    ] {
        let standing = grid.standing(choice(FAMILIES[family], channels));
        match (standing, expected) {
            (
                Standing::Timed { gap, is_dropped },
                Standing::Timed { gap: expected_gap, is_dropped: expected_is_dropped },
            ) => {
                assert!((gap - expected_gap).abs() < 1e-3, "{family} {channels}: {gap}");
                assert_eq!(is_dropped, expected_is_dropped, "{family} {channels}");
            }
            _ => assert_eq!(standing, expected, "{family} {channels}"),
        }
    }
    assert_eq!(grid.best, Some((choice(FAMILIES[4], 8), 100.0)));
    assert_eq!(grid.present, Some(out));
    let gain = grid.gain(choice(FAMILIES[4], 8)).unwrap();
    assert!((gain - 1.5).abs() < 1e-6, "{gain}");
}

#[test]
fn what_was_given_up_is_not_the_best_while_anything_else_is_there() {
    let mut state = nccl_start((80, 24), &USUAL);
    let (first, second) = (choice(FAMILIES[0], 1), choice(FAMILIES[0], 2));
    let drop = |choice| Event::Dropped { environment: overlay(0), point: ALLREDUCE, choice, why: "enough".to_owned() };
    trial(&mut state, 0, ALLREDUCE, first, Ok(50.0));
    trial(&mut state, 0, ALLREDUCE, second, Ok(100.0));
    event(&mut state, drop(first));
    assert_eq!(Grid::of(&state).unwrap().best, Some((second, 100.0)));
    event(&mut state, drop(second));
    assert_eq!(Grid::of(&state).unwrap().best, Some((first, 50.0)));
}

#[test]
fn a_choice_is_dropped_after_a_question() {
    let tell = |family, channels| {
        let command = Command::Drop { point: Some(ALLREDUCE), choice: choice(FAMILIES[family], channels) };
        vec![Effect::Command(command)]
    };
    for (script, expected, said) in [
        ("3 x y", tell(4, 8), ""),
        ("3 x n", vec![], ""),
        ("3 x Enter", vec![], ""),
        ("3 g l x y", tell(0, 16), ""),
        ("3 G x", vec![], "the library does not offer it here"),
        ("3 v x", vec![], "go to the choice first"),
        ("3 F y x", vec![Effect::Command(Command::Finish)], "the search is over or ending"),
    ] {
        let mut state = nccl((80, 24), &USUAL);
        assert_eq!(press(&mut state, script), expected, "{script}");
        assert_eq!(state.view.overlay, None, "{script}");
        let notice = state.view.notice.clone().unwrap_or_default();
        assert!(notice.contains(said) && notice.is_empty() == said.is_empty(), "{script}: {notice}");
    }
    let mut state = nccl((80, 24), &USUAL);
    press(&mut state, "3 x");
    assert_eq!(state.view.overlay, Some(Overlay::Question(Question::Drop(ALLREDUCE, choice(FAMILIES[4], 8)))));
    for start in [attached, replayed, verifying, finished] {
        let mut state = start((80, 24));
        assert_eq!(press(&mut state, "3 x y").iter().filter(|e| matches!(e, Effect::Command(_))).count(), 0);
        assert_eq!(state.view.overlay, None);
    }
    assert_eq!(press(&mut new_state((80, 24)), "3 x"), []);
}

#[test]
fn cells_and_environments_are_copied_and_exported() {
    for (script, expected) in [
        (
            "3 {",
            "ring/ll128/8 at allreduce 1M with defaults: median 100.0 us of 3 samples, the best here, 1.50x the default",
        ),
        (
            "3 { g h h h",
            "tree/ll/1 at allreduce 1M with defaults: median 2047.0 us of 3 samples, +1947.0 % to the best, 0.07x the default; dropped: 20.86 times slower than the leader",
        ),
        ("3 G", "pat/simple/4 at allreduce 1M with NCCL_BUFFSIZE=1048576: no time; not offered by the library here"),
        ("3 k", "ring/ll128/4 at allreduce 1M with NCCL_BUFFSIZE=1048576: no time; not tried yet"),
        (
            "3 v",
            "environment 2: NCCL_BUFFSIZE=1048576: in play, 1.43x the default, 3 trials: NCCL_BUFFSIZE moved from unset",
        ),
        (
            "3 v j j",
            "environment 4: NCCL_IB_SPLIT_DATA_ON_QPS=1: failed, 0 trials: the model expects 1.05x (workers did not start: no such device)",
        ),
    ] {
        let mut state = with_environments((80, 24));
        press(&mut state, script);
        assert_eq!(press(&mut state, "y"), [Effect::Copy(expected.to_owned())], "{script}");
    }
    let mut state = with_environments((80, 24));
    press(&mut state, "3 ] }");
    let effects = press(&mut state, "e");
    let [Effect::Export(export)] = &effects[..] else { panic!("{effects:?}") };
    assert!(export.name.ends_with("-search.csv"), "{}", export.name);
    // Six rows of six timed choices, five that failed and one that was dropped, and two of the second environment.
    assert_eq!(export.text.lines().count(), 1 + 36 + 5 + 1 + 2, "{}", export.text);
    for line in [
        "environment,settings,collective,bytes,size,choice,median_us,samples,gap_percent,gain,state,why",
        "1,\"defaults\",allreduce,1048576,1M,ring/ll128/8,100.0000,3,0.0000,1.5000,timed,\"\"",
        "1,\"defaults\",allreduce,1048576,1M,collnet_direct/simple/1,,0,,,hung,\"hung: killed after 2 s\"",
        "1,\"defaults\",allreduce,1048576,1M,collnet_chain/simple/1,,0,,,dropped,\"the user dropped it\"",
        "2,\"NCCL_BUFFSIZE=1048576\",allreduce,1048576,1M,ring/simple/8,84.5000,2,5.6250,1.7751,timed,\"\"",
    ] {
        assert!(export.text.lines().any(|each| each == line), "{line} is missing:\n{}", export.text);
    }
    assert_eq!(press(&mut nccl_start((80, 24), &USUAL), "3 e"), [], "nothing was tried");
}

#[test]
fn heat_is_told_by_symbol_and_style() {
    let style = |theme: &str, text: &str| {
        let mut state = with_environments((120, 40));
        press(&mut state, &format!("{theme} 3 {{ g"));
        style_of(&state, text)
    };
    let orange = Color::Indexed(208);
    let blue = Color::Indexed(33);
    for (text, base, colorblind) in [
        ("█   1", Color::Green, blue),
        ("▓   8", Color::Green, blue),
        ("▒  27", Color::Magenta, orange),
        ("░ 267", Color::Red, orange),
        ("✗h", Color::Red, orange),
        ("◆best", Color::Green, blue),
    ] {
        for (theme, colour) in [("", base), ("t", colorblind), ("t t", Color::Reset)] {
            assert_eq!(style(theme, text).fg, Some(colour), "{text} {theme}");
        }
    }
    for (text, modifier) in [("█   1", Modifier::BOLD), ("░ 267", Modifier::DIM), ("✗h", Modifier::BOLD)] {
        assert!(style("t t", text).add_modifier.contains(modifier), "{text}");
    }
    // The cursor is the choice in reverse, and a symbol before its row; its channels are in reverse, too.
    let mut state = with_environments((120, 40));
    press(&mut state, "3");
    for text in ["◆best", "4     8    16    32    64"] {
        assert!(style_of(&state, text).add_modifier.contains(Modifier::REVERSED), "{text}");
    }
    assert!(!style_of(&state, "6◂").add_modifier.contains(Modifier::REVERSED));
    assert_eq!(style_of(&state, "◂").fg, Some(Color::Magenta));
    for (text, colour) in
        [("✗ failed        0", Color::Red), ("✓ mattered", Color::Green), ("◌ in play", Color::Magenta)]
    {
        assert_eq!(style_of(&state, text).fg, Some(colour), "{text}");
    }
    // Of the two parts, the one that the keys move in has its title in reverse.
    for (script, heat, table) in [("", true, false), ("v", false, true), ("v v", true, false)] {
        let mut state = state.clone();
        press(&mut state, script);
        let reversed = |text| style_of(&state, text).add_modifier.contains(Modifier::REVERSED);
        assert_eq!((reversed("allreduce 1M, 1 of 2"), reversed("Environments")), (heat, table), "{script}");
    }
}

#[test]
fn the_mouse_chooses_a_cell_or_an_environment() {
    use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
    let click = |state: &mut State, text: &str| {
        let screen = rows(state);
        let found =
            screen.iter().enumerate().find_map(|(y, row)| Some((row.get(..row.find(text)?)?.chars().count(), y)));
        let (column, row) = found.unwrap_or_else(|| panic!("{text} is not there: {screen:#?}"));
        let kind = MouseEventKind::Down(MouseButton::Left);
        let event = MouseEvent { kind, column: column as u16, row: row as u16, modifiers: KeyModifiers::NONE };
        update(state, Input::Mouse(event));
    };
    let mut state = with_environments((120, 40));
    press(&mut state, "3");
    click(&mut state, "6◂");
    assert_eq!(looked_at(&state), (ALLREDUCE, 1, "ring/simple/8".to_owned()));
    click(&mut state, "nvls_tree/simple");
    assert_eq!(looked_at(&state), (ALLREDUCE, 1, "nvls_tree/simple/8".to_owned()), "the column stays");
    click(&mut state, "given up");
    assert_eq!((shown_overlay(&state), state.view.tabs.search.part), (2, Part::Environments));
    click(&mut state, "tree/ll128");
    assert_eq!(state.view.tabs.search.part, Part::HeatMap);
    let before = state.clone();
    for text in ["channels", "◆ best", "Environments", "settings", "✓ mattered"] {
        click(&mut state, text);
        assert!(state == before, "{text}");
    }
    let mut narrow = with_environments((80, 24));
    press(&mut narrow, "3 v");
    click(&mut narrow, "✗ failed");
    assert_eq!(shown_overlay(&narrow), 3);
}

#[test]
fn a_large_space_is_drawn_at_once() {
    let mut state = nccl_start((200, 60), &many());
    let all = FAMILIES.iter().flat_map(|family| (1..=32).map(|n| choice(*family, n)));
    for (n, choice) in all.enumerate() {
        trial(&mut state, 0, ALLREDUCE, choice, Ok(100.0 + n as f64));
    }
    for index in 1..500 {
        let environment = Environment::new().with("NCCL_BUFFSIZE", index.to_string());
        event(&mut state, Event::EnvironmentStarted { index, environment, why: "a try".to_owned() });
    }
    press(&mut state, "3 v s v {");
    let start = Instant::now();
    for _ in 0..10 {
        rows(&state);
    }
    let draw_time = start.elapsed() / 10;
    // An unoptimized build on a loaded machine takes a few milliseconds.
    assert!(draw_time < Duration::from_millis(200), "{draw_time:?}");
}

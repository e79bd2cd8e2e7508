//! Snapshots of whole screens, and the styles and words that carry meaning.

use gdrtune_profiles::vocab::{Engine, Point};
use gdrtune_session::event::{Event, LeftOut, NodeState, Owner, RunEnd};
use ratatui::style::{Color, Modifier, Style};

use super::*;
use crate::ui::tabs::Tab;

#[test]
fn every_view_at_the_sizes_that_people_have() {
    for (size, tab) in [(80, 24), (120, 40), (60, 15)].into_iter().flat_map(|size| Tab::ALL.map(|tab| (size, tab))) {
        let (columns, rows) = size;
        let name = tab.name().to_lowercase();
        for (what, mut state) in [("searching", searching(size)), ("finished", finished(size))] {
            press(&mut state, &tab.number().to_string());
            insta::assert_snapshot!(format!("{name}_{what}_{columns}x{rows}"), paint(&state, Charset::Unicode));
        }
    }
    for (what, state) in [("searching", searching((160, 45))), ("finished", finished((160, 45)))] {
        insta::assert_snapshot!(format!("overview_{what}_160x45"), paint(&state, Charset::Unicode));
    }
}

#[test]
fn screens_of_what_is_watched_and_of_what_is_played_back() {
    for (columns, rows) in [(80, 24), (120, 40)] {
        let size = (columns, rows);
        insta::assert_snapshot!(format!("attached_{columns}x{rows}"), paint(&attached(size), Charset::Unicode));
        insta::assert_snapshot!(format!("replayed_{columns}x{rows}"), paint(&replayed(size), Charset::Unicode));
    }
    let mut paused = replayed((80, 24));
    press(&mut paused, "space");
    insta::assert_snapshot!("replayed_paused", paint(&paused, Charset::Unicode));
    let mut help = replayed((80, 24));
    press(&mut help, "?");
    insta::assert_snapshot!("replayed_help", paint(&help, Charset::Unicode));
    let mut gone = attached((80, 24));
    update(&mut gone, Input::Severed("the process of this run (pid 4711 on head) is gone".to_owned()));
    insta::assert_snapshot!("attached_gone", paint(&gone, Charset::Unicode));
    feed(&mut gone, RECORDS.iter().skip(150).take(1));
    assert!(!gone.run.summary.is_over(), "it lives after all");
}

#[test]
fn other_screens() {
    let with_keys = |size, script: &str| {
        let mut state = searching(size);
        press(&mut state, script);
        state
    };
    for (name, state) in vec![
        ("waiting", new_state((80, 24))),
        ("help_80x24", with_keys((80, 24), "?")),
        ("help_60x15", with_keys((60, 15), "? j j")),
        ("leave_question", with_keys((80, 24), "q")),
        ("finish_question", with_keys((80, 24), "F")),
        ("pin_typed", with_keys((80, 24), "P a l g o = r i n k")),
        ("stopping", with_keys((80, 24), "q y")),
        ("size_cursor", with_keys((80, 24), "j g j j j")),
        ("trial_detail_80x24", with_keys((80, 24), "5 / t r e e Enter j j Enter")),
        ("trial_detail_120x40", with_keys((120, 40), "5 j j m Enter")),
        ("trial_detail_60x15", with_keys((60, 15), "5 G Enter")),
        ("trials_by_gain", with_keys((80, 24), "5 s m j j")),
        ("filter_typed", with_keys((80, 24), "5 / ! r i n g Left Left")),
        ("too_small", with_keys((59, 15), "")),
    ] {
        insta::assert_snapshot!(name, paint(&state, Charset::Unicode));
    }
    for tab in Tab::ALL {
        let mut state = searching((80, 24));
        state.view.tab = tab;
        insta::assert_snapshot!(format!("ascii_{}", tab.name().to_lowercase()), paint(&state, Charset::Ascii));
    }
}

#[test]
fn a_new_shape_is_named_and_its_charts_begin_anew() {
    let mut state = finished((120, 40));
    state.run.summary.ended = None;
    let (n_trials, n_points) = (state.run.trials.len(), state.run.summary.points.len());
    assert!(state.run.summary.gain().is_some());
    let event = Event::Shape { index: 1, of: 3, nodes: 2, ranks: 16 };
    feed(&mut state, [&Record { seq: 0, t_ms: 0, event }]);
    assert!(rows(&state)[0].contains("shape 2 of 3: 2 nodes, 16 ranks"), "{}", rows(&state)[0]);
    assert!(rows(&state).concat().contains("of 4 ready"), "the run's nodes, not the shape's");
    let summary = &state.run.summary;
    assert_eq!((summary.n_ranks(), summary.gain(), summary.points.len()), (16, None, n_points));
    assert!(summary.points.values().all(|series| series.default_us().is_none() && series.verdict.is_none()));
    assert_eq!(state.run.trials.len(), n_trials, "the list of trials is the whole run's");
}

#[test]
fn with_fewer_nodes_the_charts_and_the_time_begin_anew() {
    let mut state = finished((120, 40));
    state.run.summary.ended = None;
    let budget_ms = |state: &State| state.run.summary.label.as_ref().unwrap().budget_ms.unwrap();
    let (budget, n_trials) = (budget_ms(&state), state.run.trials.len());
    let left_out = vec![LeftOut { index: 2, host: "vh3".into(), why: "lost: silent for 12 s".into() }];
    let event = Event::NodeSet { hosts: "vh[1-2,4]".into(), nodes: 3, ranks: 3, left_out };
    feed(&mut state, [&Record { seq: 0, t_ms: 60_000, event }]);
    let rows = rows(&state);
    assert!(rows[0].contains("vh[1-2,4]") && rows[0].contains("3 nodes, 3 ranks"), "{}", rows[0]);
    assert!(rows.concat().contains("of 3 ready"), "{rows:#?}");
    let said = "goes on with vh[1-2,4]: 3 nodes, 3 ranks, without vh3 (lost: silent for 12 s)";
    assert_eq!(state.run.log.get(state.run.log.end() - 1).map(|line| line.text.as_str()), Some(said));
    assert_eq!(budget_ms(&state), budget + 60_000);
    let summary = &state.run.summary;
    assert!(summary.points.values().all(|series| series.default_us().is_none() && series.verdict.is_none()));
    assert_eq!((summary.gain(), state.run.trials.len()), (None, n_trials), "the list of trials is the whole run's");
}

#[test]
fn a_resumed_run_is_not_over() {
    let mut state = finished((120, 40));
    assert!(state.run.summary.is_over());
    let event = Event::Resumed { at: "2026-11-30T08:00:00Z".into(), trials: 126, by: Owner::default() };
    feed(&mut state, [&Record { seq: 0, t_ms: 90_000, event }]);
    assert!(!state.run.summary.is_over());
    let said = "resumed at 2026-11-30T08:00:00Z: 126 trials are kept";
    assert!(rows(&state).concat().contains(said), "{:#?}", rows(&state));
}

#[test]
fn ascii_screens_are_ascii() {
    let states = [searching((120, 40)), finished((120, 40)), new_state((80, 24))];
    for (mut state, tab) in states.into_iter().flat_map(|state| Tab::ALL.map(|tab| (state.clone(), tab))) {
        state.view.tab = tab;
        let text = rows_of(paint(&state, Charset::Ascii).buffer()).concat();
        assert!(text.is_ascii(), "{:?}", text.chars().find(|c| !c.is_ascii()));
    }
}

#[test]
fn no_size_and_no_state_breaks_a_draw() {
    for mut state in [new_state((1, 1)), searching((1, 1)), finished((1, 1))] {
        for (columns, height) in (1..200).step_by(19).flat_map(|c| (1..60).step_by(7).map(move |h| (c, h))) {
            update(&mut state, Input::Resize(columns, height));
            for script in ["Tab", "Tab", "Tab", "Tab", "Tab", "Enter", "Tab", "Tab", "?", "?"] {
                press(&mut state, script);
                assert_eq!(rows(&state).len(), usize::from(height));
            }
        }
    }
}

/// The style of the cells where `text` stands for the first time.
pub(super) fn style_of(state: &State, text: &str) -> Style {
    let backend = paint(state, Charset::Unicode);
    let screen = rows_of(backend.buffer());
    let found = screen.iter().enumerate().find_map(|(y, row)| {
        let byte = row.find(text)?;
        Some((row.get(..byte)?.chars().count() as u16, y as u16))
    });
    let position = found.unwrap_or_else(|| panic!("{text} is not on the screen:\n{}", screen.join("\n")));
    backend.buffer().cell(position).unwrap().style()
}

#[test]
fn styles_tell_what_words_and_symbols_tell_too() {
    let state = searching((120, 40));
    assert_eq!(style_of(&state, "✗ 1 failed").fg, Some(Color::Red));
    assert_eq!(style_of(&state, "✓ 4 of 4 ready").fg, Some(Color::Green));
    assert_eq!(style_of(&state, "◆ best").fg, Some(Color::Green));
    assert_eq!(style_of(&state, "× current").fg, Some(Color::Magenta));
    assert!(style_of(&state, "1 Overview").add_modifier.contains(Modifier::REVERSED));
    assert!(!style_of(&state, "5 Trials").add_modifier.contains(Modifier::REVERSED));

    let mut mono = searching((120, 40));
    press(&mut mono, "t t");
    assert_eq!(style_of(&mono, "✗ 1 failed").fg, Some(Color::Reset));
    assert!(style_of(&mono, "✗ 1 failed").add_modifier.contains(Modifier::BOLD));
}

#[test]
fn what_is_not_a_real_cluster_says_so() {
    let started = |engine| {
        let mut record = RECORDS.first().unwrap().clone();
        if let Event::RunStarted { engine: e, .. } = &mut record.event {
            *e = engine;
        }
        record
    };
    let one_machine = Record { seq: 1, t_ms: 1, event: Event::Emulated { why: "vh[1-4] run on one machine".into() } };
    for (engine, emulated, source, expected) in [
        (Engine::Nccl, true, Source::Live, Some(" EMULATED ")),
        (Engine::Sim, false, Source::Live, Some(" SIMULATED ")),
        (Engine::Replay, false, Source::Live, Some(" RECORDED GRID ")),
        (Engine::Native, false, Source::Replay, Some(" REPLAY ")),
        (Engine::Sim, false, Source::Replay, Some(" SIMULATED ")),
        (Engine::Nccl, true, Source::Attached, Some(" EMULATED ")),
        (Engine::Nccl, false, Source::Attached, Some(" ATTACHED ")),
        (Engine::Nccl, false, Source::Live, None),
    ] {
        let mut state = State::new((80, 24), ThemeName::Base, Colour::Allowed, source);
        feed(&mut state, [&started(engine)]);
        let mut wide = State::new((120, 40), ThemeName::Base, Colour::Allowed, source);
        feed(&mut wide, [&started(engine)]);
        if emulated {
            feed(&mut state, [&one_machine]);
        }
        let header = rows(&state).first().cloned().unwrap();
        let is_without_nodes = rows_of(paint(&wide, Charset::Unicode).buffer()).concat().contains("not from nodes");
        assert_eq!(is_without_nodes, !engine.is_real(), "{engine}");
        let has_clock = rows(&wide).get(1).is_some_and(|progress| progress.contains("0:00 of 5:00"));
        assert_eq!(has_clock, engine.is_real(), "{engine}: recorded and simulated seconds are not the clock's");
        match expected {
            Some(badge) => {
                assert!(header.contains(badge), "{header}");
                assert!(style_of(&state, badge.trim()).add_modifier.contains(Modifier::REVERSED));
            }
            None => {
                assert!(
                    !["EMULATED", "SIMULATED", "RECORDED", "REPLAY"].iter().any(|b| header.contains(b)),
                    "{header}"
                );
            }
        }
    }
}

#[test]
fn an_estimate_is_marked_until_the_verdicts_are_in() {
    let progress = |state: &State| rows(state).get(1).cloned().unwrap();
    assert!(progress(&new_state((80, 24))).contains("no gain known yet"));
    assert!(progress(&searching((80, 24))).contains("x (estimate)"));
    let end = progress(&finished((80, 24)));
    assert!(end.contains("verified 2.66x [2.53-2.81]"), "{end}");
}

fn ending(events: Vec<Event>) -> Vec<String> {
    let mut state = searching((80, 24));
    for (seq, event) in (1000..).zip(events) {
        feed(&mut state, [&Record { seq, t_ms: 100_000 + seq, event }]);
    }
    rows(&state)
}

#[test]
fn every_end_has_its_banner_and_the_way_out() {
    let finish = |end| vec![Event::Finished { end, summary: "The reason.".to_owned() }];
    for (end, title) in [
        (RunEnd::Tuned, "✓ tuned"),
        (RunEnd::DefaultsBest, "✓ the defaults are best"),
        (RunEnd::Inconclusive, "! inconclusive, the defaults stay"),
        (RunEnd::Interrupted, "! interrupted"),
        (RunEnd::NodesLost, "✗ nodes lost"),
        (RunEnd::Failed, "✗ failed"),
    ] {
        let text = ending(finish(end)).join("\n");
        for expected in [title, "The reason.", "not verified", "No files were written", "q leaves"] {
            assert!(text.contains(expected), "{expected} is missing:\n{text}");
        }
    }
}

#[test]
fn a_run_that_ends_without_a_word_is_a_failure() {
    let mut state = searching((80, 24));
    update(&mut state, Input::RecordsClosed);
    let text = rows(&state).join("\n");
    assert!(text.contains("✗ failed") && text.contains("the run ended without its last record"), "{text}");
    assert_eq!(press(&mut state, "q"), [Effect::Quit]);
}

#[test]
fn lost_nodes_and_wide_names_keep_their_columns() {
    let node = |index, host: &str, state| Event::Node { index, host: host.into(), state, detail: "gone".into() };
    let screen = ending(vec![
        node(0, "日本語-ノード", NodeState::Lost),
        node(1, "vh2", NodeState::Failed),
        node(2, "vh3", NodeState::Connecting),
    ]);
    let text = screen.join("\n");
    // The test backend shows the second column of a wide character as a space.
    for expected in ["! 1 lost: 日 本 語", "✗ 1 failed: vh2", "◌ 1 connecting", "✓ 1 of 4 ready"] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
}

#[test]
fn a_collective_without_any_time_says_so() {
    let mut state = new_state((80, 24));
    feed(&mut state, RECORDS.iter().take(1));
    let text = rows(&state).join("\n");
    assert!(text.contains("no time of allreduce yet"), "{text}");
    press(&mut state, "5");
    assert!(rows(&state).join("\n").contains("no trial yet"));
    assert!(
        state
            .run
            .summary
            .points
            .contains_key(&Point { collective: gdrtune_profiles::vocab::Collective::AllGather, bytes: 1024 })
    );
}

#[test]
fn the_second_line_says_how_it_ended_and_holds_only_the_search_against_its_budget() {
    let progress = |state: &State| rows(state)[1].clone();
    for (end, word) in [
        (RunEnd::Tuned, "over "),
        (RunEnd::Failed, "failed "),
        (RunEnd::Inconclusive, "inconclusive "),
        (RunEnd::Interrupted, "interrupted "),
        (RunEnd::NodesLost, "nodes lost "),
    ] {
        let mut state = finished((80, 24));
        state.run.summary.ended.as_mut().unwrap().end = Some(end);
        assert!(progress(&state).starts_with(word), "{}", progress(&state));
    }
    for (start, is_held) in [(searching as fn((u16, u16)) -> State, true), (verifying, false), (finished, false)] {
        let mut state = start((80, 24));
        state.run.summary.label.as_mut().unwrap().max_trials = Some(400);
        assert_eq!(progress(&state).contains(" of 400 trials"), is_held, "{}", progress(&state));
    }
}

#[test]
fn a_score_that_did_not_change_is_logged_once() {
    let mut state = searching((80, 24));
    let scored = |score| Event::EnvironmentScored {
        index: 1,
        environment: gdrtune_profiles::vocab::Environment::new(),
        score: Some(score),
        note: String::new(),
    };
    for (seq, score) in (900..).zip([0.5, 0.5, 0.5, 0.4, 0.5]) {
        feed(&mut state, [&Record { seq, t_ms: seq, event: scored(score) }]);
    }
    press(&mut state, "7");
    let told = rows(&state)
        .into_iter()
        .filter_map(|row| Some(row.split_once("environment 2: best is ")?.1.trim_end().to_owned()));
    assert_eq!(told.collect::<Vec<_>>(), ["2.00x the default", "2.50x the default", "2.00x the default"]);
}

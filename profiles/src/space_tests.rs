use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::knob;

fn parse(text: &str) -> Result<SpaceFile, String> {
    SpaceFile::parse(text, "s.toml").map_err(|error| error.to_string())
}

fn names(space: &SpaceFile) -> Vec<&str> {
    space.selection.knobs.iter().map(|knob| knob.name.as_str()).collect()
}

#[test]
fn a_file_stands_alone_or_builds_on_a_preset() {
    let alone = parse(
        "algorithms = [\"ring\"]\nchannels = [8, 1, 8]\n[[knob]]\nname = \"NCCL_BUFFSIZE\"\nvalues = [\"1048576\", 2097152]",
    )
    .unwrap();
    assert_eq!((alone.name.as_str(), alone.budget_s), ("s", 300.0));
    assert_eq!(alone.selection.channels, Some(vec![1, 8]));
    assert_eq!(alone.selection.knobs[0].values, ["1048576", "2097152"]);

    let standard = SpaceFile::preset("standard").unwrap();
    let more = "base = \"standard\"\nexclude = [\"tree\"]\nadd = [\"NCCL_NTHREADS=512\"]\nbudget_s = 60\n\
                [[knob]]\nname = \"NCCL_BUFFSIZE\"\nvalues = [2097152]\n\
                [[knob]]\nname = \"NCCL_IB_TC\"\nvalues = [106]\nwhen = \"NCCL_CROSS_NIC=0,1\"";
    let more = parse(more).unwrap();
    assert!((more.budget_s - 60.0).abs() < 1e-9);
    assert_eq!(names(&more)[..names(&more).len() - 1], names(&standard));
    assert_eq!(names(&more).last(), Some(&"NCCL_IB_TC"));
    assert_eq!(more.selection.knobs.last().unwrap().when.as_ref().unwrap().to_string(), "NCCL_CROSS_NIC=0,1");
    let buffers = more.selection.knobs.iter().find(|knob| knob.name == "NCCL_BUFFSIZE").unwrap();
    assert_eq!(buffers.values, ["2097152"], "replaced");
    assert_eq!((more.settings.excludes.join(" ").as_str(), more.settings.adds.len()), ("tree", 1));
}

#[test]
fn errors_name_place_cause_and_the_nearest_name() {
    let knob = |rest: &str| format!("[[knob]]\n{rest}\n");
    for (text, message) in [
        (knob("name = \"NCCL_BUFSIZE\""), "s.toml:2:8: unknown variable `NCCL_BUFSIZE`: did you mean NCCL_BUFFSIZE?"),
        (
            knob("nam = \"NCCL_BUFFSIZE\""),
            "s.toml:2:1: unknown field `nam`: use one of name, values, when; did you mean `name`?",
        ),
        (knob("name = \"NCCL_BUFFSIZE\"\nvalues = [1048576, \"2M\"]"), "s.toml:3:20: NCCL_BUFFSIZE: "),
        (knob("name = \"NCCL_BUFFSIZE\"\nvalues = []"), "s.toml:3:10: no value: leave the knob out"),
        (knob("name = \"NCCL_IB_TC\""), "s.toml:2:8: write the values of NCCL_IB_TC"),
        (knob("name = \"NCCL_ALGO\"\nvalues = [\"ring\"]"), "s.toml:2:8: NCCL_ALGO cannot be searched"),
        (knob("name = \"NCCL_BUFFSIZE\"\nwhen = \"NCCL_BUFFSIZE\""), "s.toml:3:8: NCCL_BUFFSIZE depends on itself"),
        (knob("name = \"NCCL_BUFFSIZE\"\nwhen = \"NCCL_CROSS_NICK=1\""), "did you mean NCCL_CROSS_NIC?"),
        (
            knob("name = \"NCCL_BUFFSIZE\"") + &knob("name = \"NCCL_BUFFSIZE\""),
            "s.toml:4:8: NCCL_BUFFSIZE is named twice",
        ),
        ("algorithms = [\"rign\"]".to_owned(), "did you mean `ring`?"),
        ("protocols = [\"ll\", \"simpel\"]".to_owned(), "s.toml:1:20: unknown name `simpel`"),
        ("channels = [4, 0]".to_owned(), "s.toml:1:16: 0 is no channel count: write 1 to 64"),
        ("budget_s = 0".to_owned(), "s.toml:1:12: budget_s is a time above 0"),
        (
            "base = \"quik\"".to_owned(),
            "s.toml:1:8: unknown base `quik`: use one of quick, standard, full, demo; did you mean `quick`?",
        ),
        ("pin = [\"NCCL_CROSS_NIC=0\", \"NCCL_CROSS_NIC=7\"]".to_owned(), "s.toml:1:28: NCCL_CROSS_NIC: "),
        ("exclude = [\"trea\"]".to_owned(), "s.toml:1:12: unknown variable `trea`"),
        ("add = [\"NCCL_NTHREADS\"]".to_owned(), "s.toml:1:8: `NCCL_NTHREADS` is no setting: write NAME=VALUE"),
        ("[[forbid]]\nsettings = [\"NCCL_CROSS_NIC=1\"]".to_owned(), "s.toml:1:1: two settings or more"),
        (
            "[[forbid]]\nsettings = [\"NCCL_CROSS_NIC=1\", \"NCCL_FOO\"]".to_owned(),
            "s.toml:2:33: unknown variable `NCCL_FOO`",
        ),
        ("[[knob]".to_owned(), "s.toml:1:"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(message), "{text}\n{error}");
    }
}

#[test]
fn presets_are_read_and_know_the_catalogue() {
    let mut budgets = Vec::new();
    for preset in SpaceFile::PRESETS {
        let space = SpaceFile::preset(preset.name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(space.name, preset.name);
        assert!(!space.about.is_empty() && space.about.len() < 69, "{}", preset.name);
        assert!(!preset.text.contains("base ="), "{}: a preset with a base might never end", preset.name);
        for knob in &space.selection.knobs {
            // With another preset's values it would not be the knob that was meant.
            let catalogue = knob::knob(&knob.name).unwrap_or_else(|| panic!("{}: {}", preset.name, knob.name));
            assert!(knob.values.iter().all(|value| catalogue.check(value).is_ok()), "{}: {}", preset.name, knob.name);
            let target = knob.when.as_ref().map(|when| &when.name);
            assert!(target.is_none_or(|name| names(&space).contains(&name.as_str())), "{}: {}", preset.name, knob.name);
        }
        budgets.push(space.budget_s);
    }
    assert!(budgets[0] < budgets[1] && budgets[1] < budgets[2], "{budgets:?}");
}

#[test]
fn full_has_every_knob_that_is_worth_a_try() {
    let full = SpaceFile::preset("full").unwrap();
    let listed: BTreeSet<&str> = names(&full).into_iter().collect();
    let worth = knob::catalogue().filter(|knob| !knob.candidates.is_empty()).map(|knob| knob.name);
    let worth: BTreeSet<&str> = worth.chain(DEVICES).collect();
    assert_eq!(listed, worth);
    for name in ["quick", "standard"] {
        let smaller = SpaceFile::preset(name).unwrap();
        assert!(names(&smaller).iter().all(|name| listed.contains(name)), "{name}");
    }
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(text in "\\PC{0,80}") {
        drop(parse(&text));
    }

    #[test]
    fn any_damage_is_taken_or_refused(
        preset in 0..SpaceFile::PRESETS.len(),
        at in 0.0_f64..1.0,
        damage in "\\PC{0,3}|[\"'\\[\\]{}=\n0-9-]{1,4}",
        removed in 0_usize..9,
    ) {
        let text: Vec<char> = SpaceFile::PRESETS[preset].text.chars().collect();
        let start = (at * text.len() as f64) as usize;
        let end = (start + removed).min(text.len());
        let broken: String = text[..start].iter().copied().chain(damage.chars()).chain(text[end..].iter().copied()).collect();
        if let Ok(space) = parse(&broken) {
            prop_assert!(space.selection.knobs.iter().all(|knob| knob::knob(&knob.name).is_some()));
            prop_assert!(0.0 < space.budget_s);
        }
    }
}

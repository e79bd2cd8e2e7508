use proptest::prelude::*;

use super::*;

const GOOD: &str = include_str!("../../tests/golden/nccl.toml");

fn refused(text: &str) -> String {
    Profile::parse(text, "p.toml").unwrap_err().to_string()
}

/// The good profile with one text replaced by another.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    GOOD.replacen(old, new, 1)
}

#[test]
fn errors_name_place_cause_and_the_nearest_name() {
    for (text, message) in [
        (
            with("channels = 2", "chanels = 2"),
            "p.toml:44:1: unknown field `chanels`: use one of collective, nodes, ranks, bytes, algorithm, protocol, channels, default_us, tuned_us, speedup; did you mean `channels`?",
        ),
        (
            with("\"tree\"", "\"treee\""),
            "p.toml:42:13: unknown name `treee`: use one of tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat; did you mean `tree`?",
        ),
        (
            with("class = \"system\"", "class = \"sys\""),
            "p.toml:23:9: unknown name `sys`: use one of system, debugging",
        ),
        (with("engine = \"nccl\"\n", ""), "p.toml:12:1: missing field `engine`"),
        (with("trials = 412", "trials = \"many\""), "p.toml:18:10: invalid type: string \"many\", expected u64"),
        (with("[run]", "[run"), "p.toml:12:5: unclosed table, expected `]`"),
        (with("format = 1\n", ""), "p.toml:1:1: missing field `format`: a profile starts with format = 1"),
        (String::new(), "p.toml:1:1: missing field `format`: a profile starts with format = 1"),
        (with("format = 1", "format = \"1\""), "p.toml:3:10: format is not a whole number: write format = 1"),
        (with("format = 1", "format = 0"), "p.toml:3:10: format 0 never existed: this gdrtune reads format 1"),
        (with("nodes = 4", "nodes = -4"), "p.toml:6:9: invalid value: integer `-4`, expected u32"),
    ] {
        assert_eq!(refused(&text), message);
    }
}

#[test]
fn a_newer_format_is_said_to_be_newer_whatever_else_it_holds() {
    let newer = with("format = 1", "format = 2\nnew_field = [1, 2]");
    assert_eq!(refused(&newer), "p.toml:3:10: format 2 is newer than this gdrtune reads (1): update gdrtune");
    assert!(matches!(Profile::parse(&newer, "p"), Err(ProfileError::NewerFormat { found: 2, .. })));
}

#[test]
fn what_cannot_be_is_an_error_with_its_line() {
    for (text, message) in [
        (with("min = 0, max = 65536", "min = 9, max = 8"), "p.toml:41: the sizes run backwards: min 9 is above max 8"),
        (with("channels = 2", "channels = 65"), "p.toml:44: 65 channels cannot be: write 1 to 64, or leave them out"),
        (with("tuned_us = 113.6", "tuned_us = nan"), "p.toml:46: tuned_us is not a time: write microseconds above 0"),
        (
            with("\"4\"", "\"4 \""),
            "p.toml:28: NCCL_IB_QPS_PER_CONNECTION cannot be `4 `: NCCL reads it as 4 and ignores the rest; write a whole number from 1 to 128",
        ),
        (
            with("protocol = \"ll\"\nchannels = 2", "protocol = \"ll\"\nchannels = 0")
                .replace("nodes = 4\nranks = 32\nbytes", "nodes = 0\nranks = 32\nbytes"),
            "p.toml:39: 0 nodes hold nothing (and 2 more)",
        ),
    ] {
        assert_eq!(refused(&text), message);
    }
}

#[test]
fn warnings_come_with_the_profile() {
    let (_, diagnostics) = Profile::parse(&with("min = 16777216", "min = 65536"), "p.toml").unwrap();
    let shown: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "p.toml:53: warning: an earlier rule for allreduce on 4 nodes and 32 ranks overlaps: the first one (tree/ll/2) wins from 64K to 64K"
        ]
    );
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let error = Profile::parse_bytes(b"format = 1\n\xff\xfe", "p.toml").unwrap_err();
    assert_eq!(error.to_string(), "p.toml:2:1: not UTF-8 text: this is no profile, or it is damaged");
    assert!(Profile::parse_bytes(GOOD.as_bytes(), "p.toml").is_ok());
}

#[test]
fn deep_nesting_is_refused() {
    for bracket in ["[", "{a=", "[{a="] {
        assert!(Profile::parse(&format!("format = {}", bracket.repeat(50_000)), "p.toml").is_err());
    }
}

#[test]
fn every_truncation_is_taken_or_refused() {
    for end in 0..GOOD.len() {
        drop(Profile::parse_bytes(&GOOD.as_bytes()[..end], "p.toml"));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Profile::parse_bytes(&bytes, "p.toml").is_err());
    }

    #[test]
    fn any_damage_is_taken_or_refused(at in 0..GOOD.len(), damage in "\\PC{0,3}|[\"'\\[\\]{}=\n0-9]{1,3}", removed in 0_usize..9) {
        let end = (at + removed).min(GOOD.len());
        drop(Profile::parse(&format!("{}{damage}{}", &GOOD[..at], &GOOD[end..]), "p.toml"));
    }
}

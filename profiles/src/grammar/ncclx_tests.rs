use proptest::prelude::*;

use super::*;

#[test]
fn intervals_are_those_of_the_tuners_readme() {
    for (text, inside, outside) in [
        ("*", &[i64::MIN, 0, i64::MAX][..], &[][..]),
        ("5", &[5], &[4, 6]),
        ("[2,4]", &[2, 4], &[1, 5]),
        ("(2,4)", &[3], &[2, 4]),
        ("(2,4]", &[3, 4], &[2, 5]),
        ("[2,4)", &[2, 3], &[1, 4]),
        ("(1,)", &[2, i64::MAX], &[1]),
        ("[2,)", &[2], &[1]),
        ("(,4]", &[4, -9], &[5]),
        (" [ 2 , 4 ] ", &[2], &[5]),
    ] {
        let interval = Interval::parse(text).unwrap_or_else(|| panic!("{text}"));
        assert!(
            inside.iter().all(|n| interval.contains(*n)) && !outside.iter().any(|n| interval.contains(*n)),
            "{text}"
        );
    }
    for text in ["", "x", "[1", "[1]", "[1,2,3]", "(2,1]", "1x", "[a,2]", "{1,2}"] {
        assert_eq!(Interval::parse(text), None, "{text}");
    }
}

#[test]
fn rules_are_keyed_by_bytes_per_rank_and_the_first_match_wins() {
    let text = "# c\n\nallreduce,[0,2048],tree,ll,2,4,8\n allreduce , [2048,) , ring,simple,-1,*,*\n";
    let rules = parse_csv(text).unwrap();
    let choice = |bytes, nodes, ranks| {
        lookup(&rules, Collective::AllReduce, bytes, nodes, ranks).map(|choice| choice.to_string())
    };
    assert_eq!(choice(65536, 4, 32).as_deref(), Some("tree/ll/2"), "2048 for each of 32 ranks");
    assert_eq!(choice(65567, 4, 32).as_deref(), Some("tree/ll/2"), "rounded down");
    assert_eq!(choice(65568, 4, 32).as_deref(), Some("ring/simple"));
    assert_eq!(choice(65536, 2, 16).as_deref(), Some("ring/simple"));
    assert_eq!(choice(65536, 2, 64), None);
    assert_eq!(lookup(&rules, Collective::AllGather, 0, 4, 32), None);
    // 8 ranks on 3 nodes: it counts 2 for each, and divides by 6.
    assert_eq!(divisor(3, 8), 6);
}

#[test]
fn the_json_says_the_same() {
    let text = r#"{"comments": ["c"], "rules": [
        {"filter": {"collective": "allreduce", "bytesPerRank": "[0,2048]", "nNodes": 4, "nLocalRanks": 8},
         "config": {"algorithm": "tree", "protocol": "ll", "channels": 2}},
        {"comments": ["c"], "filter": {"collective": "allreduce", "bytesPerRank": "[2048,)"},
         "config": {"algorithm": "ring", "protocol": "simple"}}]}"#;
    let csv = "allreduce,[0,2048],tree,ll,2,4,8\nallreduce,[2048,),ring,simple,-1,*,*\n";
    assert_eq!(parse_json(text), parse_csv(csv));
    assert_eq!(parse_json(r#"{"rules": []}"#), Ok(vec![]));
}

#[test]
fn what_fails_the_communicator_is_an_error_with_its_place() {
    for (text, message) in [
        ("allreduce,*,tree,ll,2,4", "line 1: 7 columns are read here, and this line has 6"),
        ("\nallreduce,*,tree,ll,2,4,8,-1", "line 2: 7 columns are read here, and this line has 8"),
        ("allreduce,[2,1],tree,ll,2,4,8", "line 1: bytesPerRank cannot be `[2,1]`"),
        ("allreduce,*,tree,ll,x,4,8", "line 1: channels cannot be `x`"),
        ("alltoall,*,tree,ll,1,4,8", "line 1: alltoall has no algorithm to choose"),
    ] {
        assert_eq!(parse_csv(text).unwrap_err().to_string(), message, "{text}");
    }
    for (text, message) in [
        ("{}", "file 0: there is no array `rules`"),
        (r#"{"rules": [{"filter": {}}]}"#, "rule 1: there is no object `config`"),
        (
            r#"{"rules": [{"filter": {"collective": "allreduce"}, "config": {"algorithm": "ring", "protocol": "ll", "channels": [4]}}]}"#,
            "rule 1: channels cannot be [4]",
        ),
    ] {
        assert_eq!(parse_json(text).unwrap_err().to_string(), message, "{text}");
    }
    assert!(parse_csv("allreduce,*,tre,ll,2,4,8").is_err());
}

proptest! {
    #[test]
    fn intervals_read_back(min in proptest::option::of(any::<i64>()), length in proptest::option::of(0_i64..1000)) {
        let max = length.map(|length| min.unwrap_or(0).saturating_add(length));
        let interval = Interval { min, max };
        prop_assert_eq!(Interval::parse(&interval.to_string()), Some(interval));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,80}|(allreduce,|ring,|ll,|[0-9,\\[\\]()*\n]){0,20}") {
        drop(parse_csv(&text));
        drop(parse_json(&text));
    }
}

use proptest::prelude::*;

use super::*;

fn diagnostics(text: &str) -> Vec<String> {
    RuleTable::parse(text).1.iter().map(ToString::to_string).collect()
}

fn lookup(text: &str, call: Call) -> Option<String> {
    let (table, diagnostics) = RuleTable::parse(text);
    assert_eq!(diagnostics, []);
    table.lookup(&call).map(|choice| choice.to_string())
}

fn allreduce(bytes: u64) -> Call {
    Call::new(Collective::AllReduce, bytes, 4, 32)
}

#[test]
fn both_bounds_are_inclusive_and_the_first_match_wins() {
    let text =
        "# c\nallreduce,0,65536,tree,ll,2,4,32,-1,-1\nallreduce,65536,9000000000000000000,ring,simple,-1,-1,-1\n";
    for (bytes, choice) in [
        (0, Some("tree/ll/2")),
        (65536, Some("tree/ll/2")),
        (65537, Some("ring/simple")),
        (9_000_000_000_000_000_000, Some("ring/simple")),
        (9_000_000_000_000_000_001, None),
    ] {
        assert_eq!(lookup(text, allreduce(bytes)).as_deref(), choice, "{bytes}");
    }
    assert_eq!(lookup(text, Call::new(Collective::AllGather, 8, 4, 32)), None);
    assert_eq!(lookup(text, Call::new(Collective::AllReduce, 8, 2, 16)).as_deref(), None);
}

#[test]
fn wildcards_and_absent_columns_match_everything() {
    let call = |num_pipe_ops, reg_buff| Call { num_pipe_ops, reg_buff, ..allreduce(8) };
    for (tail, call, is_match) in [
        ("-1,-1", call(3, true), true),
        ("4,32", call(3, true), true),
        ("4,32,1", call(1, true), true),
        ("4,32,1", call(2, true), false),
        ("4,32,-1,0", call(2, false), true),
        ("4,32,-1,0", call(2, true), false),
        ("4,32,-1,1", call(2, true), true),
        ("4,31,-1,-1", call(1, false), false),
        ("5,-1,-1,-1", call(1, false), false),
    ] {
        let text = format!("allreduce,0,8,ring,ll128,4,{tail}");
        assert_eq!(lookup(&text, call).is_some(), is_match, "{tail}");
    }
}

#[test]
fn the_search_can_go_on_behind_a_rule_that_cannot_run() {
    let text = "allreduce,0,8,nvls,simple,1,-1,-1\nallreduce,0,8,ring,simple,2,-1,-1\n";
    let (table, _) = RuleTable::parse(text);
    let choices: Vec<String> = table.matching(&allreduce(8)).map(|rule| rule.choice.to_string()).collect();
    assert_eq!(choices, ["nvls/simple/1", "ring/simple/2"]);
    assert_eq!(table.rules()[1].line, 2);
}

#[test]
fn the_example_plugin_has_one_channel_where_no_rule_gives_a_number() {
    let text = "allreduce,0,8,tree,ll,4,-1,-1\nallreduce,9,16,ring,simple,-1,-1,-1\n";
    let (table, _) = RuleTable::parse(text);
    for (bytes, expected) in [
        (8, (Some((Algorithm::Tree, Protocol::Ll)), 4)),
        (9, (Some((Algorithm::Ring, Protocol::Simple)), 1)),
        (17, (None, 1)),
    ] {
        assert_eq!(table.example_plugin(&allreduce(bytes)), expected, "{bytes}");
    }
}

#[test]
fn blanks_and_carriage_returns_are_trimmed() {
    let text = "\r\nallreduce , 0,8,ring,\tll , 4,-1,-1,-1,-1\r\n";
    assert_eq!(lookup(text, allreduce(8)).as_deref(), Some("ring/ll/4"));
}

#[test]
fn what_the_plugin_misreads_is_an_error_with_its_line() {
    for (text, message) in [
        (HEADER, "nccl-tuner.csv:1: a header line is read as a rule: put `#` before it"),
        (
            "\nallredcue,0,8,ring,ll,1,1,1",
            "nccl-tuner.csv:2: unknown collective `allredcue`: use one of allreduce, allgather, reducescatter, broadcast, reduce, alltoall, sendrecv; did you mean `allreduce`?; the plugin would take allreduce",
        ),
        (
            "allreduce,0,8,tre,ll,1,1,1",
            "nccl-tuner.csv:1: unknown algorithm `tre`: use one of tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat; did you mean `tree`?; the plugin would take ring",
        ),
        (
            "allreduce,0,8,ring,LL,1,1,1",
            "nccl-tuner.csv:1: unknown protocol `LL`: use one of ll, ll128, simple; did you mean `ll`?; the plugin would take simple",
        ),
        ("alltoall,0,8,ring,ll,1,1,1", "nccl-tuner.csv:1: alltoall has no algorithm to choose: leave the rule out"),
        (
            "allreduce,0,8,ring,ll,1,1",
            "nccl-tuner.csv:1: a rule has 8 to 10 columns, and this line has 7: the plugin drops what it cannot use",
        ),
        (
            "allreduce,0,8,ring,ll,1,1,1,1,1,1",
            "nccl-tuner.csv:1: a rule has 8 to 10 columns, and this line has 11: the plugin drops what it cannot use",
        ),
        (
            "allreduce,0,,ring,ll,1,1,1,1",
            "nccl-tuner.csv:1: column 3 (max_bytes) is empty: the plugin closes the gap and reads the wrong columns",
        ),
        (
            "allreduce,0,-1,ring,ll,1,1,1",
            "nccl-tuner.csv:1: max_bytes cannot be `-1`: write bytes as a whole number of at most 64 bits",
        ),
        (
            "allreduce,0,8,ring,ll,65,1,1",
            "nccl-tuner.csv:1: channels cannot be `65`: write 1 to 64, or -1 to leave it to the engine",
        ),
        ("allreduce,0,8,ring,ll,1,4x,1", "nccl-tuner.csv:1: nNodes cannot be `4x`: write a number, or -1 for any"),
        ("allreduce,0,8,ring,ll,1,1,1,1,2", "nccl-tuner.csv:1: regBuff cannot be `2`: write 0, 1, or -1 for any"),
    ] {
        assert_eq!(diagnostics(text), [message]);
        assert_eq!(RuleTable::parse(text).0.rules(), []);
    }
    let backwards = "allreduce,9,8,ring,ll,1,1,1";
    assert_eq!(
        diagnostics(backwards),
        ["nccl-tuner.csv:1: warning: min_bytes is above max_bytes: the rule never matches"]
    );
}

#[test]
fn lines_over_255_bytes_are_split_as_the_plugin_splits_them() {
    let rule = "allreduce,0,8,ring,ll,1,-1,-1";
    let hidden = format!("#{}{rule}\n", "x".repeat(254));
    let (table, diagnostics) = RuleTable::parse_file(&hidden, "f");
    assert_eq!(table.rules().len(), 1, "the rest of a long comment is a rule");
    assert_eq!(
        diagnostics[0].to_string(),
        "f:1: the line is longer than 255 bytes: the plugin reads its rest as a line of its own"
    );
    let exact = format!("#{}\n{rule}\n", "x".repeat(254));
    assert_eq!(lookup(&exact, allreduce(8)).as_deref(), Some("ring/ll/1"));
}

proptest! {
    #[test]
    fn the_first_of_the_matching_rules_is_taken(
        rules in proptest::collection::vec((0_u64..20, 0_u64..20, 1_u16..=64, -1_i32..3), 1..8),
        bytes in 0_u64..20,
        nodes in 0_u32..3,
    ) {
        let text: Vec<String> = rules
            .iter()
            .map(|(min, max, channels, nodes)| format!("allreduce,{min},{max},ring,simple,{channels},{nodes},-1"))
            .collect();
        let (table, _) = RuleTable::parse(&text.join("\n"));
        let expected = rules
            .iter()
            .find(|(min, max, _, n)| *min <= bytes && bytes <= *max && (*n == -1 || *n == nodes as i32))
            .map(|(_, _, channels, _)| *channels);
        let found = table.lookup(&Call::new(Collective::AllReduce, bytes, nodes, 8)).map(|choice| choice.channels);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_text_is_read(text in "(?s).{0,300}|([a-z0-9,#\n-]|allreduce,|ring,|ll,){0,60}") {
        drop(RuleTable::parse(&text));
    }
}

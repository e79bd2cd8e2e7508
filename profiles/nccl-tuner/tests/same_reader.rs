//! The plugin reads a rule file as `gdrtune_profiles` does: what was tuned, shown and emitted is what runs.

mod support;

use gdrtune_profiles::{
    grammar::tuner_csv::{Call, RuleTable},
    vocab::{Algorithm, Collective, Protocol},
};
use proptest::prelude::*;
use support::{COLLECTIVES, Query, Tuner, WARN, take_log, texts, turn};

/// By `ncclFunc_t`.
const FUNCTIONS: [Collective; 5] = [
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllReduce,
];

/// One of the usual tokens, or rarely one of the odd ones.
fn token(usual: &'static [&'static str], odd: &'static [&'static str]) -> impl Strategy<Value = String> {
    let odd = proptest::sample::select(if odd.is_empty() { usual } else { odd });
    prop_oneof![60 => proptest::sample::select(usual), 1 => odd].prop_map(str::to_owned)
}

fn rule() -> impl Strategy<Value = String> {
    const SIZES: &[&str] = &["0", "1", "7", "8", "9", "16", "007", "18446744073709551615"];
    const ODD_NUMBERS: &[&str] =
        &["", "-1", "+1", "-2", "1e3", " 8 ", "18446744073709551616", "0x8", "\u{a0}8", "８", "8\0"];
    const COUNTS: &[&str] = &["-1", "-1", "-1", "0", "1", "2", "4", "32"];
    const ODD_COUNTS: &[&str] = &["", "-2", "+1", "2147483647", "2147483648", " -1\t", "- 1", "4 4", "-01"];
    let columns = (
        token(
            &["allreduce", "allreduce", "allreduce", "broadcast", "reduce", "allgather", "reducescatter"],
            &["alltoall", "sendrecv", "AllReduce", " allreduce", "collective_type", "#allreduce", "", "all reduce"],
        ),
        token(SIZES, ODD_NUMBERS),
        token(SIZES, ODD_NUMBERS),
        token(
            &["tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"],
            &["Tree", "", " ring\t", "x"],
        ),
        token(&["ll", "ll128", "simple"], &["LL", "", "ll 128", "simple "]),
        token(&["-1", "0", "1", "2", "63", "64"], &["65", "", "+2", "-2", "002"]),
        token(COUNTS, ODD_COUNTS),
        token(COUNTS, ODD_COUNTS),
        token(COUNTS, ODD_COUNTS),
        token(&["-1", "-1", "0", "1"], &["2", "", "-0", "01"]),
    );
    let n_columns = prop_oneof![20 => 8_usize..=10, 1 => 0_usize..=12];
    (columns, n_columns).prop_map(|((a, b, c, d, e, f, g, h, i, j), n_columns)| {
        let mut columns = vec![a, b, c, d, e, f, g, h, i, j, "-1".to_owned(), "-1".to_owned()];
        columns.truncate(n_columns);
        columns.join(",")
    })
}

fn line() -> impl Strategy<Value = String> {
    let padding = prop_oneof![20 => Just(0_usize), 1 => 200..260_usize];
    let padded = (rule(), padding).prop_map(|(rule, padding)| rule + &" ".repeat(padding));
    let comment = (250..258_usize).prop_map(|length| format!("#{}", "é".repeat(length / 2) + &"c".repeat(length % 2)));
    prop_oneof![
        40 => padded,
        2 => Just("# comment".to_owned()),
        2 => Just("  \t".to_owned()),
        1 => Just(" # not in the first column".to_owned()),
        1 => Just("\0allreduce".to_owned()),
        1 => Just("\u{feff}# mark".to_owned()),
        1 => comment,
    ]
}

fn file() -> impl Strategy<Value = String> {
    let end = proptest::sample::select(&["\n", "\n", "\n", "\r\n", "\r", "\n\n"]);
    (proptest::collection::vec(line(), 0..8), end, any::<bool>())
        .prop_map(|(lines, end, is_ended)| lines.join(end) + if is_ended { end } else { "" })
}

/// What NCCL might ask, and which cells of 7 x 3 it forbids.
fn query() -> impl Strategy<Value = (Query, Vec<bool>)> {
    let bytes = proptest::sample::select(&[0_u64, 1, 7, 8, 9, 10, 16, 17, u64::MAX]);
    let forbidden = prop_oneof![Just(vec![false; 21]), proptest::collection::vec(any::<bool>(), 21)];
    (COLLECTIVES, bytes, 0..3_i32, 0..2_i32, forbidden).prop_map(
        |(collective, bytes, num_pipe_ops, reg_buff, forbidden)| {
            let mut query = Query { num_pipe_ops, reg_buff, ..Query::new(collective, bytes as usize) };
            for (cost, is_forbidden) in query.costs.iter_mut().zip(&forbidden) {
                *cost = if *is_forbidden { support::IGNORE } else { *cost };
            }
            (query, forbidden)
        },
    )
}

/// What our reader says, with the search going on behind what NCCL does not allow.
fn expected(
    table: &RuleTable,
    query: &Query,
    forbidden: &[bool],
    nodes: u32,
    ranks: u32,
) -> Option<(usize, usize, i32)> {
    let call = Call {
        num_pipe_ops: query.num_pipe_ops as u32,
        reg_buff: query.reg_buff == 1,
        ..Call::new(FUNCTIONS[query.collective as usize], query.bytes as u64, nodes, ranks)
    };
    table.matching(&call).find_map(|rule| {
        let algorithm = Algorithm::ALL.iter().position(|a| *a == rule.choice.algorithm)?;
        let protocol = Protocol::ALL.iter().position(|p| *p == rule.choice.protocol)?;
        let is_allowed = !forbidden[algorithm * 3 + protocol];
        is_allowed.then_some((algorithm, protocol, rule.choice.channels.into()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_table_decides_as_our_reader_does(
        text in file(),
        queries in proptest::collection::vec(query(), 12),
        nodes in proptest::sample::select(&[1_u32, 2, 4]),
        ranks in proptest::sample::select(&[2_u32, 4, 32]),
        version in 4..=6_i32,
    ) {
        let _turn = turn();
        let (table, diagnostics) = RuleTable::parse(&text);
        let is_valid = !diagnostics.iter().any(gdrtune_profiles::diagnostic::Diagnostic::is_error);
        let tuner = Tuner::with_rules_for(version, &text, ranks as usize, nodes as usize);
        let warnings = take_log();
        prop_assert_eq!(texts(&warnings, WARN).is_empty(), is_valid, "{:?} and {:?}", warnings, diagnostics);
        for (query, forbidden) in queries {
            // A file with an error in it is refused as a whole, here as by the worker.
            let expected = is_valid.then(|| expected(&table, &query, &forbidden, nodes, ranks)).flatten();
            prop_assert_eq!(tuner.choose(query.clone()), expected, "{:?}", query);
        }
    }
}

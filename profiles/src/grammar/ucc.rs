//! `UCC_TL_<NAME>_TUNE`: which of UCC's transport layers runs a call, in `ucc.conf` or in the environment.
//!
//! Sources: openucx/ucc `docs/user_guide.md` ("CLs and TLs") and `src/coll_score/ucc_coll_score.c`: tokens separated by `#`, each of
//! qualifiers separated by `:`, which are told apart by their form. Ranges of sizes take in their start and leave out their
//! end; a score of `inf` wins. `ucc.conf` has `VARIABLE = value` lines and `#` comments.

use crate::vocab::Collective;

/// The variable that hands calls to NCCL.
pub(crate) const VARIABLE: &str = "UCC_TL_NCCL_TUNE";

/// One token of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Collectives; empty is all.
    pub collectives: Vec<Collective>,
    /// Sizes as start (inclusive) and end (exclusive; absent is `inf`); empty is all.
    pub sizes: Vec<(u64, Option<u64>)>,
    /// Memory types; empty is all.
    pub memory: Vec<String>,
    /// Numbers of ranks, both ends inclusive; empty is all.
    pub ranks: Vec<(u32, u32)>,
    /// The score; absent is `inf`, which beats every other.
    pub score: Option<u32>,
}

impl Token {
    /// Whether a call of `bytes` (UCC's message size) on `ranks` ranks is meant.
    pub fn matches(&self, collective: Collective, bytes: u64, ranks: u32) -> bool {
        (self.collectives.is_empty() || self.collectives.contains(&collective))
            && (self.sizes.is_empty()
                || self.sizes.iter().any(|(from, to)| *from <= bytes && to.is_none_or(|to| bytes < to)))
            && (self.ranks.is_empty() || self.ranks.iter().any(|(from, to)| (*from..=*to).contains(&ranks)))
    }
}

/// A text that UCC would refuse, or that says something else than a list of tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct UccError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub cause: String,
}

/// UCC's name of a collective that NCCL has a choice for (`ucc_coll_type_from_str`, in any case).
pub(crate) const fn collective_name(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce => "allreduce",
        Collective::AllGather => "allgather",
        Collective::ReduceScatter => "reduce_scatter",
        Collective::Broadcast => "bcast",
        Collective::Reduce => "reduce",
        Collective::AllToAll => "alltoall",
        // UCC has no such collective; no rule names it.
        Collective::SendRecv => "sendrecv",
    }
}

/// Reads a `ucc.conf` that sets nothing but [`VARIABLE`]; a file without it gives no tokens.
///
/// # Errors
/// [`UccError`] names the first line that is none of that.
pub fn parse(text: &str) -> Result<Vec<Token>, UccError> {
    let mut tokens = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let error = |cause: String| UccError { line: idx + 1, cause };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| error("the line has no `=`".to_owned()))?;
        if name.trim() != VARIABLE || !tokens.is_empty() {
            return Err(error(format!("only one {VARIABLE} is read here")));
        }
        tokens = value.trim().split('#').map(token).collect::<Result<_, _>>().map_err(error)?;
    }
    Ok(tokens)
}

fn token(text: &str) -> Result<Token, String> {
    let mut token =
        Token { collectives: Vec::new(), sizes: Vec::new(), memory: Vec::new(), ranks: Vec::new(), score: None };
    let mut has_score = false;
    for qualifier in text.split(':') {
        let refused =
            || format!("`{}` is no collective, size, memory type, team size or score", qualifier.escape_debug());
        let parts: Vec<&str> = qualifier.split(',').collect();
        if let Some(inner) = qualifier.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            token.ranks = inner.split(',').map(team).collect::<Option<_>>().ok_or_else(refused)?;
        } else if let Some(found) = parts.iter().map(|part| collective(part)).collect::<Option<Vec<_>>>() {
            token.collectives = found;
        } else if parts.iter().all(|part| ["host", "cuda", "cuda_managed", "rocm", "rocm_managed"].contains(part)) {
            token.memory = parts.into_iter().map(str::to_owned).collect();
        } else if qualifier == "inf" {
            has_score = true;
        } else if let Ok(score) = qualifier.parse() {
            (token.score, has_score) = (Some(score), true);
        } else {
            token.sizes = parts.into_iter().map(sizes).collect::<Option<_>>().ok_or_else(refused)?;
        }
    }
    if has_score { Ok(token) } else { Err(format!("`{}` has no score", text.escape_debug())) }
}

fn collective(name: &str) -> Option<Collective> {
    let choosing = || Collective::ALL.iter().copied().filter(|collective| *collective != Collective::SendRecv);
    choosing().find(|collective| collective_name(*collective).eq_ignore_ascii_case(name))
}

fn team(text: &str) -> Option<(u32, u32)> {
    let (from, to) = text.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// `0-4096`, `1048576-inf`; units are not written here.
fn sizes(text: &str) -> Option<(u64, Option<u64>)> {
    let (from, to) = text.split_once('-')?;
    let to = if to == "inf" { None } else { Some(to.parse().ok()?) };
    Some((from.parse().ok()?, to))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_are_told_apart_by_their_form() {
        let text = "# c\nUCC_TL_NCCL_TUNE = allreduce,bcast:0-4096,65536-inf:cuda:[2-4,8-8]:inf#alltoall:0\n";
        let tokens = parse(text).unwrap();
        assert_eq!(tokens.len(), 2);
        for (collective, bytes, ranks, expected) in [
            (Collective::AllReduce, 0, 2, true),
            (Collective::AllReduce, 4095, 4, true),
            (Collective::AllReduce, 4096, 4, false),
            (Collective::Broadcast, u64::MAX, 8, true),
            (Collective::Broadcast, 65536, 5, false),
            (Collective::Reduce, 0, 2, false),
        ] {
            assert_eq!(tokens[0].matches(collective, bytes, ranks), expected, "{collective} {bytes} {ranks}");
        }
        assert_eq!((tokens[0].score, tokens[1].score), (None, Some(0)));
        assert_eq!(parse("# nothing\n"), Ok(vec![]));
    }

    #[test]
    fn what_ucc_refuses_is_refused_with_its_line() {
        for (text, message) in [
            (
                "UCC_TL_NCCL_TUNE=all_reduce:inf",
                "line 1: `all_reduce` is no collective, size, memory type, team size or score",
            ),
            ("\nUCC_TL_NCCL_TUNE=allreduce", "line 2: `allreduce` has no score"),
            ("UCC_CLS=basic", "line 1: only one UCC_TL_NCCL_TUNE is read here"),
            ("x", "line 1: the line has no `=`"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,60}|(UCC_TL_NCCL_TUNE=|allreduce|:|#|inf|[0-9,\\[\\]-]){0,16}") {
            drop(parse(&text));
        }
    }
}

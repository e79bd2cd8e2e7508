//! Names of variables: which are NCCL's, which were renamed, which only look alike.

use std::{collections::BTreeSet, sync::LazyLock};

use crate::{knob, nearest::nearest};

/// Variables that some NCCL from 2.4 to 2.30 reads and that are not in the catalogue of [`knob`]. Made from `NCCL_PARAM`, `ncclGetEnv`
/// and `getenv` in NCCL's `src`, `plugins` and `ext-*`, and from its `env.rst`, at every release's tag.
const OTHER_NAMES: &str = include_str!("other_names.txt");

static OTHERS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| OTHER_NAMES.lines().collect());

/// Beginnings of names that others read: network plugins, nccl-tests, and what builds look for.
const FOREIGN: &[&str] = &[
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_FASTRAK_",
    "NCCL_GIB_",
    "NCCL_SHARP_",
    "NCCL_UCX_",
    "NCCL_TESTS_",
    "NCCL_TEST_",
    "NCCL_SHIMNET_",
    "NCCL_CTRAN_",
    "NCCL_COLLTRACE",
];
/// Names that others read; the same.
const FOREIGN_NAMES: &[&str] = &[
    "NCCL_BUILD",
    "NCCL_DIR",
    "NCCL_HOME",
    "NCCL_INCLUDE",
    "NCCL_INCLUDE_DIR",
    "NCCL_INSTALL_PATH",
    "NCCL_LIB",
    "NCCL_LIBRARY",
    "NCCL_LIB_DIR",
    "NCCL_PATH",
    "NCCL_PLUGIN_P2P",
    "NCCL_PLUGIN_PATH",
    "NCCL_PREFIX",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
    "NCCL_SO_PATH",
    "NCCL_SRC",
    "NCCL_VERSION",
];

/// A name that should be another one now.
pub(super) struct Renamed {
    pub(super) name: &'static str,
    /// What became of it, to follow the name.
    pub(super) fate: &'static str,
    /// What to write.
    pub(super) instead: &'static str,
}

/// Sources: NCCL `env.rst` (first versions, deprecations), `PyTorch`'s `ProcessGroupNCCL.hpp` (its own, since 2.2).
pub(super) const RENAMED: &[Renamed] = &[
    moved("NCCL_MIN_NCHANNELS", "is deprecated since 2.17", "NCCL_MIN_CTAS"),
    moved("NCCL_MAX_NCHANNELS", "is deprecated since 2.17", "NCCL_MAX_CTAS"),
    moved("NCCL_MIN_NRINGS", "is the name of 2.4 and older", "NCCL_MIN_CTAS"),
    moved("NCCL_MAX_NRINGS", "is the name of 2.4 and older", "NCCL_MAX_CTAS"),
    moved("NCCL_IB_GDR_LEVEL", "is the name of 2.3 and older", "NCCL_NET_GDR_LEVEL"),
    moved("NCCL_IB_CUDA_SUPPORT", "was removed in 2.4", "NCCL_NET_GDR_LEVEL"),
    moved("NCCL_LL_THRESHOLD", "was removed in 2.5", "a tuner file"),
    moved("NCCL_TREE_THRESHOLD", "was removed in 2.5", "a tuner file"),
    moved("NCCL_SINGLE_RING_THRESHOLD", "was removed in 2.3", "a tuner file"),
    moved("NCCL_CHECKS_DISABLE", "is deprecated since 2.2.12", "NCCL_CHECK_MODE"),
    moved("NCCL_CHECK_POINTERS", "is deprecated since 2.29.7", "NCCL_CHECK_MODE=DEBUG_LOCAL"),
    moved("NCCL_ASYNC_ERROR_HANDLING", "is PyTorch's, and renamed there", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    moved("NCCL_BLOCKING_WAIT", "is PyTorch's, and renamed there", "TORCH_NCCL_BLOCKING_WAIT"),
    moved("NCCL_DESYNC_DEBUG", "is PyTorch's, and renamed there", "TORCH_NCCL_DESYNC_DEBUG"),
    moved("NCCL_ENABLE_TIMING", "is PyTorch's, and renamed there", "TORCH_NCCL_ENABLE_TIMING"),
    moved("NCCL_TRACE_BUFFER_SIZE", "is PyTorch's, and renamed there", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
    moved("NCCL_USE_COMM_NONBLOCKING", "is PyTorch's, and renamed there", "TORCH_NCCL_USE_COMM_NONBLOCKING"),
];

const fn moved(name: &'static str, fate: &'static str, instead: &'static str) -> Renamed {
    Renamed { name, fate, instead }
}

/// Slips of the prefix, as people make them.
const MISSPELT_PREFIXES: &[&str] = &["NCLL_", "NCC_", "NNCL_", "NCCCL_", "NCL_", "NCCLL_"];

/// Whether a name is one of NCCL's, or was meant to be.
pub(super) fn is_ours(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.starts_with("NCCL_") || MISSPELT_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
}

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// NCCL reads it, or something else that is known does.
    Known,
    /// Nobody reads it, and it is nearly this one.
    Near(&'static str),
    /// Nobody is known to read it.
    Unknown,
}

/// Whether some NCCL reads a variable of this name.
pub(super) fn is_read(name: &str) -> bool {
    let is_old = || RENAMED.iter().any(|renamed| renamed.name == name);
    knob::knob(name).is_some() || OTHERS.contains(name) || is_old()
}

pub(super) fn standing(name: &str) -> Standing {
    let is_listed =
        is_read(name) || FOREIGN_NAMES.contains(&name) || FOREIGN.iter().any(|prefix| name.starts_with(prefix));
    if is_listed {
        return Standing::Known;
    }
    let upper = name.to_ascii_uppercase();
    let bare = MISSPELT_PREFIXES.iter().find_map(|prefix| upper.strip_prefix(prefix)).unwrap_or(&upper);
    let others = || OTHER_NAMES.lines().map(|known| known.strip_prefix("NCCL_").unwrap_or(known));
    let bare = bare.strip_prefix("NCCL_").unwrap_or(bare);
    match knob::nearest(bare).or_else(|| {
        let near = nearest(bare, others())?;
        OTHER_NAMES.lines().find(|known| known.strip_prefix("NCCL_") == Some(near))
    }) {
        Some(near) => Standing::Near(near),
        None => Standing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_as_they_should() {
        for (name, expected) in [
            ("NCCL_DEBUG", Standing::Known),
            ("NCCL_GIN_TYPE", Standing::Known),
            ("NCCL_HOME", Standing::Known),
            ("NCCL_FASTRAK_NUM_FLOWS", Standing::Known),
            ("nccl_debug", Standing::Near("NCCL_DEBUG")),
            ("NCLL_IB_HCA", Standing::Near("NCCL_IB_HCA")),
            ("NCCL_SOCKET_IFNAMES", Standing::Near("NCCL_SOCKET_IFNAME")),
            ("NCCL_GIN_TYPES", Standing::Near("NCCL_GIN_TYPE")),
            ("NCCL_SOMETHING_OF_MY_SITE", Standing::Unknown),
        ] {
            assert_eq!(standing(name), expected, "{name}");
        }
        assert!(is_ours("NCLL_DEBUG") && !is_ours("NCCLX_TUNER") && !is_ours("PATH"));
    }

    #[test]
    fn the_other_names_are_sorted_and_not_in_the_catalogue() {
        let names: Vec<&str> = OTHER_NAMES.lines().collect();
        assert!(names.is_sorted() && names.iter().all(|name| name.starts_with("NCCL_")));
        assert!(names.iter().all(|name| knob::knob(name).is_none()));
    }
}

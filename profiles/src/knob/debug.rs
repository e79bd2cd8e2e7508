//! Knobs of logging and of where settings come from. They change no path, but a profile may have to carry them.

use super::{Kind, Knob};

const LEVELS: &[&str] = &["VERSION", "WARN", "INFO", "TRACE"];
/// NCCL `src/debug.cc` (subsystem names); a leading `^` inverts the list.
const SUBSYSTEMS: &[&str] = &[
    "INIT",
    "COLL",
    "P2P",
    "SHM",
    "NET",
    "GRAPH",
    "TUNING",
    "ENV",
    "ALLOC",
    "CALL",
    "PROXY",
    "NVLS",
    "BOOTSTRAP",
    "REG",
    "PROFILE",
    "RAS",
    "ALL",
];

pub(super) const KNOBS: &[Knob] = &[
    Knob::system("NCCL_CONF_FILE", Kind::Path, "replaces ~/.nccl.conf; /etc/nccl.conf is read as well").since(2, 23),
    Knob::system("NCCL_DEBUG", Kind::Word(LEVELS), "log level; never measure with INFO on the measured stdout"),
    Knob::system("NCCL_DEBUG_FILE", Kind::Path, "log file per process: %h is the host, %p the pid"),
    Knob::system("NCCL_DEBUG_SUBSYS", Kind::Words(SUBSYSTEMS, ','), "subsystems that log at INFO"),
    Knob::system("NCCL_IGNORE_CPU_AFFINITY", Kind::Flag, "use the GPU's CPU affinity instead of the job's"),
];

//! The options of `gdrtune topo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::HostArgs;

/// `gdrtune topo`.
#[derive(Debug, Args)]
pub(crate) struct TopoArgs {
    /// Read machines from files instead of hosts (several: they are compared; - is standard input)
    ///
    /// Each is one machine, and which kind it is shows by itself: the output of `nvidia-smi topo -m`; a topology file of NCCL, as it
    /// writes for `NCCL_TOPO_DUMP_FILE` and as clouds ship for `NCCL_TOPO_FILE`; or a folder with copies of a machine's
    /// /sys and /proc.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "HostArgs")]
    pub(crate) from: Vec<PathBuf>,
    /// Print what jobs can be bound to: lists of HCAs and interfaces that all nodes have, with why, and what is in none of them
    ///
    /// These are the candidates that `tune` searches, for all GPUs of the nodes; those that are the same as leaving the variable
    /// unset are marked.
    #[arg(long)]
    pub(crate) bindings: bool,
    /// Print all that is known of each machine in the place of how it is wired
    ///
    /// GPUs, HCAs with their ports and GIDs, network devices, bridges, drivers, limits, libraries, NCCL's settings as they hold; `?` is
    /// what nobody tells, and what could not be read stands at the end. Of files, only folders have that much; the output of
    /// `nvidia-smi -q -x` may lie in such a folder as nvidia-smi-q.xml.
    #[arg(long, conflicts_with = "bindings")]
    pub(crate) inventory: bool,
    /// Record this machine in a new folder, for --from and for `doctor --from`, here or elsewhere
    ///
    /// Copied is what --inventory reads of /proc, /sys and /etc, and the output of `nvidia-smi -q -x`; no processes but gdrtune's own (its
    /// limits, CPUs, control groups), no mounts but /dev/shm, no serial numbers, variables or other boot parameters. It has the host's name,
    /// addresses of HCAs (GUIDs, GIDs), /etc/nccl.conf and UUIDs of GPUs: look before you pass it on. As root it has ACS and IOMMU groups,
    /// too.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "bindings", "inventory", "format", "HostArgs"])]
    pub(crate) record: Option<PathBuf>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = TopoFormat::Text)]
    pub(crate) format: TopoFormat,
    /// Which hosts.
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
}

/// How a topology is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopoFormat {
    /// Tables for people
    Text,
    /// One JSON document
    Json,
}

//! Vocabulary, knob catalogue, profile format and emitters of gdrtune.
//!
//! This crate owns every *name* that the product speaks: collectives, algorithms, protocols, choices, points and
//! environments, the catalogue of NCCL variables, the profile file and the texts emitted from it. It also owns our
//! implementation of each receiving grammar (`NCCL_ALGO`, `nccl.conf`, the tuner CSV, ...), so that what is written
//! is read back before anybody says that it was written. It does no IO and starts nothing.
//!
//! | module | what it owns |
//! |---|---|
//! | [`vocab`], [`size`], [`version`] | the words: collective, algorithm, protocol, choice, environment; sizes; NCCL versions |
//! | [`matrix`] | which (collective, algorithm, protocol) an engine can run, by version, as data |
//! | [`knob`] | the catalogue of process-level settings: kind, domain, versions, class, scope, conflicts |
//! | [`profile`] | the profile file, format 1: reading with places and nearest names, checking, writing |
//! | [`grammar`] | what receives our texts: `NCCL_ALGO`, `NCCL_IB_HCA`, interfaces, nccl.conf, env file, shell, tuner CSV, NCCLX, UCC, `mpirun`, `ENV` lines, YAML; and what tells of machines: `nvidia-smi topo -m`, NCCL's topology files and its log |
//! | [`topology`] | GPUs and HCAs of a machine, and how far they are from each other |
//! | [`bindings`] | candidates for the variables that bind a job to HCAs and interfaces, from how nodes are wired and what a probe measured |
//! | [`block`] | a profile's settings as a marked block in a script, nccl.conf or Dockerfile: where, whether it is current, what else sets the same |
//! | [`diff`] | what differs between two profiles: settings by variable, choices by range |
//! | [`emit`] | profile to every [`emit::Format`]: snippets and files of variables, rule files, manifests, JSON; each read back first |
//! | [`gdr`] | what NCCL's logs say of GPU Direct RDMA: who uses it, and why not the others |
//! | [`install`] | what an installation consists of: its files' names and texts, its manifest |
//! | [`lint`] | traps in the files that jobs have already: readers for six kinds of files, a table of rules |
//! | [`workload`], [`space`], [`setting`] | what a job calls how often; what is searched; `NAME=VALUE` texts. With presets |
//! | [`diagnostic`], [`nearest`], [`source`] | findings with file and line; the nearest known name; errors of our TOML files |
//! | [`stats`], [`json`] | medians and quantiles; JSON that is safe to show |

pub mod bindings;
pub mod block;
pub mod diagnostic;
pub mod diff;
pub mod emit;
pub mod gdr;
pub mod grammar;
pub mod install;
pub mod json;
pub mod knob;
pub mod lint;
pub mod matrix;
pub mod nearest;
pub mod profile;
pub mod setting;
pub mod size;
pub mod source;
pub mod space;
pub mod stats;
pub mod topology;
pub mod version;
pub mod vocab;
pub mod workload;

//! Vocabulary, knob catalogue, profile format and emitters of gdrtune.
//!
//! This crate owns every *name* that the product speaks: collectives, algorithms, protocols, choices, points and
//! environments, the catalogue of NCCL variables, the profile file and the texts emitted from it. It also owns our
//! implementation of each receiving grammar (`NCCL_ALGO`, `nccl.conf`, the tuner CSV, ...), so that what is written
//! is read back before anybody says that it was written. It does no IO and starts nothing.

pub mod diagnostic;
pub mod emit;
pub mod grammar;
pub mod knob;
pub mod matrix;
pub mod nearest;
pub mod profile;
pub mod size;
pub mod version;
pub mod vocab;

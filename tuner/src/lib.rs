//! Search space, search, statistics and verdict of gdrtune.
//!
//! Pure: no IO, no clock, no threads, no async. Time is a value that a [`bench::Bench`] reports. The real cluster, the
//! replay of a recorded grid and the simulated cluster are all a `Bench`, and the search cannot tell them apart.

pub mod ab;
pub mod bench;
pub mod deployment;
pub mod gdr;
pub mod grid;
pub mod objective;
pub mod observe;
pub mod plan;
pub mod predict;
pub mod race;
pub mod replay;
pub mod search;
pub mod sim;
pub mod space;
pub mod stats;
pub mod steadiness;
pub mod stragglers;
pub mod verdict;
pub mod verify;

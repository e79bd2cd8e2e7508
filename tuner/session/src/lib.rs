//! A run: the fleet as a bench (or a bench without one), quarantine and relaunch, the A/B, events and commands, and the run store.
//!
//! Runs on one plain thread (the search pulls measurements synchronously); the fleet's tokio tasks feed it through a
//! channel. Draws nothing and prints nothing: whoever shows a run listens to its [`event::Record`]s.

pub mod cluster;
pub mod connect;
pub mod control;
pub mod doctor;
pub mod event;
pub mod evidence;
pub mod explain;
pub mod export;
pub mod fit;
pub mod gdr;
pub mod grid;
pub mod hardware;
pub mod homogeneity;
pub mod index;
pub mod install;
pub mod lock;
mod members;
pub mod offline;
pub mod open;
pub mod output;
pub mod probe;
pub mod recheck;
pub mod recorder;
pub mod report;
pub mod resume;
pub mod run;
pub mod store;
pub mod topology;
pub mod verifications;

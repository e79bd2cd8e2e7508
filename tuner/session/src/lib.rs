//! A run: the fleet as a bench, quarantine and relaunch, the A/B, events and commands, and the run store.

pub mod event;

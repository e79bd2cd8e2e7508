//! Workers with the NCCL engine, on stand-ins for the CUDA driver and NCCL, with the real tuner plugin.
//!
//! What a stand-in cannot show: that the real libraries behave as it does. See `benches/gpu`.

#[path = "../support/items.rs"]
mod items;
#[path = "../support/worker_process.rs"]
mod worker_process;

mod choices;
mod faults;
mod lab;
mod measures;
mod modes;
mod plugin;
mod readback;
mod start;

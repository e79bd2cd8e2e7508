//! The verbs layer, both ends of each rail in one process. These run in the guest, whose devices and links they use.

mod faults;
mod leak;
mod pair;
mod ports;
mod traffic;

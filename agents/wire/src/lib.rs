//! Messages between gdrtune and its agents, and between an agent and its workers; and their codec. No IO.
//!
//! Both ends are one build: [`Hello`] carries a *build id*, and a mismatch ends the conversation. So messages may change
//! freely between versions, and nothing here is a stored format.
//!
//! ```text
//! gdrtune  --ToAgent-->  agent  --ToWorker-->  worker (one per rank)
//!          <-FromAgent--        <-FromWorker--
//! ```

pub mod codec;
mod inventory;
mod message;
mod probe;
mod reach;
mod script;
mod template;
mod worker_command;

pub use inventory::*;
pub use message::*;
pub use probe::*;
pub use reach::*;
pub use script::*;
pub use template::{Syntax, Template, TemplateError};
pub use worker_command::{Places, WorkerCommand};

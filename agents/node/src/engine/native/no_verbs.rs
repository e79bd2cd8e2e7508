//! Stands in for RDMA verbs in a build without them.

use super::{
    config::{NativeConfig, TRANSPORT_VARIABLE, Transport},
    transport::{Identity, Mesh},
};
use crate::engine::EngineError;

/// There is none.
pub(super) enum Opened {}

impl Opened {
    /// Nothing, and an error where nothing will not do.
    pub(super) fn open(_: &Identity, _: &NativeConfig, is_wanted: bool) -> Result<Option<Self>, EngineError> {
        if !is_wanted {
            return Ok(None);
        }
        Err(EngineError::Setting {
            name: TRANSPORT_VARIABLE,
            value: Transport::Verbs.name().to_owned(),
            why: "this gdrtune was built without RDMA: build it with `--features rdma`".to_owned(),
        })
    }

    pub(super) fn offer(&self) -> Result<Vec<u8>, EngineError> {
        match *self {}
    }

    pub(super) fn meet(self, _: &Identity, _: &NativeConfig, _: &[Vec<u8>]) -> Result<Mesh, EngineError> {
        match self {}
    }
}

//! Process-level knobs of the native engine. They are read once per process, as NCCL reads its own.

use gdrtune_profiles::{knob, size::parse_size};

use crate::engine::EngineError;

/// Which interfaces carry data; NCCL's own variable and syntax.
pub const IFNAME_VARIABLE: &str = "NCCL_SOCKET_IFNAME";
/// Bytes that the `simple` protocol passes on at a time; K and M are understood.
pub const CHUNK_VARIABLE: &str = knob::NATIVE_CHUNKSIZE;
/// Sockets, or queue pairs, that share the data of one channel.
pub const SOCKETS_VARIABLE: &str = knob::NATIVE_NSOCKS;
/// What carries data: `tcp` or `verbs`. Unset, verbs where every rank can, else TCP.
pub const TRANSPORT_VARIABLE: &str = knob::NATIVE_TRANSPORT;
/// Which HCAs and ports carry data over verbs; NCCL's own variable and syntax.
pub const HCA_VARIABLE: &str = "NCCL_IB_HCA";
/// How long an adapter waits for an acknowledgement, as NCCL has it: 4.096 us times two to the power of this.
const TIMEOUT_VARIABLE: &str = "NCCL_IB_TIMEOUT";
/// How often it tries again.
const RETRIES_VARIABLE: &str = "NCCL_IB_RETRY_CNT";
/// InfiniBand service level.
const SERVICE_LEVEL_VARIABLE: &str = "NCCL_IB_SL";
/// Traffic class of packets.
const TRAFFIC_CLASS_VARIABLE: &str = "NCCL_IB_TC";

/// Below this a chunk is mostly system calls.
const MIN_CHUNK_BYTES: usize = 4 << 10;
/// Above this a chunk leaves every cache.
const MAX_CHUNK_BYTES: usize = 16 << 20;
/// Never far from the best of 64 KiB to 1 MiB on four ranks over loopback (`benches/openmpi`); two fit a second-level cache.
const DEFAULT_CHUNK_BYTES: usize = 256 << 10;
/// As many as NCCL takes threads times sockets for (`MAX_SOCKETS` in `src/transport/net_socket.cc` is 64).
const MAX_SOCKETS: usize = 16;

/// What carries data between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Sockets.
    Tcp,
    /// RDMA verbs.
    Verbs,
}

impl Transport {
    /// As [`TRANSPORT_VARIABLE`] has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Verbs => "verbs",
        }
    }
}

/// Process-level settings of the native engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeConfig {
    /// [`IFNAME_VARIABLE`], if set and not empty.
    pub socket_ifname: Option<String>,
    /// [`CHUNK_VARIABLE`].
    pub chunk_bytes: usize,
    /// [`SOCKETS_VARIABLE`].
    pub sockets_per_channel: usize,
    /// [`TRANSPORT_VARIABLE`], if set and not empty.
    pub transport: Option<Transport>,
    /// What is for verbs only.
    pub verbs: VerbsConfig,
}

/// Settings of the transport over verbs, each absent where its variable is unset or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerbsConfig {
    /// [`HCA_VARIABLE`].
    pub hca: Option<String>,
    /// `NCCL_IB_TIMEOUT`. Without it and the next, a cut link is told within a second.
    pub timeout: Option<u8>,
    /// `NCCL_IB_RETRY_CNT`.
    pub retries: Option<u8>,
    /// `NCCL_IB_SL`.
    pub service_level: Option<u8>,
    /// `NCCL_IB_TC`.
    pub traffic_class: Option<u8>,
}

impl NativeConfig {
    /// Reads the variables through `lookup`.
    ///
    /// # Errors
    /// [`EngineError::Setting`] names a variable whose value is out of range or no number.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, EngineError> {
        let chunk = number(&lookup, CHUNK_VARIABLE, MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES)?;
        let sockets = number(&lookup, SOCKETS_VARIABLE, 1..=MAX_SOCKETS)?;
        // The ranges are those of the catalogue (`profiles`, `knob/infiniband.rs`).
        let byte = |name, range| number(&lookup, name, range).map(|value| value.map(|value| value as u8));
        let text = |name| lookup(name).filter(|value| !value.is_empty());
        Ok(Self {
            socket_ifname: text(IFNAME_VARIABLE),
            chunk_bytes: chunk.unwrap_or(DEFAULT_CHUNK_BYTES),
            sockets_per_channel: sockets.unwrap_or(1),
            transport: text(TRANSPORT_VARIABLE).map(transport).transpose()?,
            verbs: VerbsConfig {
                hca: text(HCA_VARIABLE),
                timeout: byte(TIMEOUT_VARIABLE, 1..=31)?,
                retries: byte(RETRIES_VARIABLE, 0..=7)?,
                service_level: byte(SERVICE_LEVEL_VARIABLE, 0..=15)?,
                traffic_class: byte(TRAFFIC_CLASS_VARIABLE, 0..=255)?,
            },
        })
    }

    /// Reads the variables of this process.
    ///
    /// # Errors
    /// As [`NativeConfig::read`].
    pub fn from_environment() -> Result<Self, EngineError> {
        Self::read(|name| std::env::var(name).ok())
    }
}

fn number(
    lookup: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<Option<usize>, EngineError> {
    let Some(value) = lookup(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    match parse_size(&value) {
        Ok(number) if range.contains(&(number as usize)) => Ok(Some(number as usize)),
        Ok(_) => Err(EngineError::Setting { name, value, why: format!("use {} to {}", range.start(), range.end()) }),
        Err(error) => Err(EngineError::Setting { name, value, why: error.to_string() }),
    }
}

fn transport(value: String) -> Result<Transport, EngineError> {
    let known = [Transport::Tcp, Transport::Verbs].into_iter().find(|known| known.name() == value);
    known.ok_or_else(|| EngineError::Setting { name: TRANSPORT_VARIABLE, value, why: "use tcp or verbs".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<NativeConfig, String> {
        let lookup = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        NativeConfig::read(lookup).map_err(|error| error.to_string())
    }

    #[test]
    fn unset_and_empty_variables_mean_the_defaults() {
        let expected = NativeConfig {
            socket_ifname: None,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
            sockets_per_channel: 1,
            transport: None,
            verbs: VerbsConfig::default(),
        };
        assert_eq!(read(&[]), Ok(expected.clone()));
        let names = [IFNAME_VARIABLE, CHUNK_VARIABLE, SOCKETS_VARIABLE, TRANSPORT_VARIABLE, HCA_VARIABLE];
        assert_eq!(read(&names.map(|name| (name, ""))), Ok(expected));
    }

    #[test]
    fn values_are_read() {
        let expected = NativeConfig {
            socket_ifname: Some("=eth1".into()),
            chunk_bytes: 65536,
            sockets_per_channel: 2,
            transport: Some(Transport::Verbs),
            verbs: VerbsConfig { hca: Some("=rxe1:1".into()), timeout: Some(18), ..VerbsConfig::default() },
        };
        let pairs = [
            (IFNAME_VARIABLE, "=eth1"),
            (CHUNK_VARIABLE, "64K"),
            (SOCKETS_VARIABLE, "2"),
            (TRANSPORT_VARIABLE, "verbs"),
            (HCA_VARIABLE, "=rxe1:1"),
            (TIMEOUT_VARIABLE, "18"),
            (RETRIES_VARIABLE, ""),
        ];
        assert_eq!(read(&pairs), Ok(expected));
    }

    #[test]
    fn bad_values_name_variable_and_range() {
        let error = read(&[(CHUNK_VARIABLE, "1")]).unwrap_err();
        assert_eq!(error, "GDRTUNE_NATIVE_CHUNKSIZE=1 cannot be used: use 4096 to 16777216");
        let error = read(&[(TRANSPORT_VARIABLE, "ib")]).unwrap_err();
        assert_eq!(error, "GDRTUNE_NATIVE_TRANSPORT=ib cannot be used: use tcp or verbs");
        let error = read(&[(TIMEOUT_VARIABLE, "0")]).unwrap_err();
        assert_eq!(error, "NCCL_IB_TIMEOUT=0 cannot be used: use 1 to 31");
        let error = read(&[(SOCKETS_VARIABLE, "many")]).unwrap_err();
        assert!(error.starts_with("GDRTUNE_NATIVE_NSOCKS=many cannot be used: `many` is not a size"), "{error}");
    }
}

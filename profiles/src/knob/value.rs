//! Checks a value against a knob's domain.
//!
//! NCCL reads integers with `strtoll` in base 0 and ignores what follows them (`src/misc/param.cc`): `22s` is 22 and
//! `4M` is 4. We refuse such texts, because nobody means them.

use super::{Kind, Knob};
use crate::{
    grammar::{
        algo::{self, Dialect},
        hca::HcaList,
        ifname::InterfaceList,
    },
    nearest::hint,
    size::parse_size,
    vocab::{Algorithm, Protocol},
};

/// A value that a knob does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} cannot be `{shown}`: {cause}")]
pub struct ValueError {
    /// The knob.
    pub name: &'static str,
    /// The value, made printable.
    pub shown: String,
    /// What is wrong with it and what to write instead.
    pub cause: String,
}

/// What is wrong with `value` as one line of a file or an argument of exec, whatever its name.
pub(crate) fn unprintable(value: &str) -> Option<&'static str> {
    if value.contains('\0') {
        return Some("no process can be given a NUL byte");
    }
    value.contains(['\n', '\r']).then_some("a line break in a value is never meant")
}

pub(super) fn check(knob: &Knob, value: &str) -> Result<(), ValueError> {
    let error = |cause: String| ValueError { name: knob.name, shown: value.escape_debug().to_string(), cause };
    if let Some(cause) = unprintable(value) {
        return Err(error(cause.to_owned()));
    }
    if value.is_empty() {
        return Err(error("an empty value sets nothing: leave the variable out".to_owned()));
    }
    of_kind(knob.kind, value).map_err(error)
}

fn of_kind(kind: Kind, value: &str) -> Result<(), String> {
    match kind {
        Kind::Flag => integer(value, 0, 1, "0 or 1"),
        Kind::Int { min, max } => integer(value, min, max, &format!("a whole number from {min} to {max}")),
        Kind::Bytes { min, max } => bytes(value, min, max),
        Kind::Word(words) => word(value, words),
        Kind::Words(words, separator) => {
            value.strip_prefix('^').unwrap_or(value).split(separator).try_for_each(|part| word(part, words))
        }
        Kind::NetDevices => net_devices(value),
        Kind::Interfaces => InterfaceList::parse(value).map(drop).map_err(|error| error.to_string()),
        Kind::Hcas => HcaList::parse(value).map(drop).map_err(|error| error.to_string()),
        Kind::Algorithms => either_dialect(|dialect| algo::parse::<Algorithm>(value, dialect).map(drop)),
        Kind::Protocols => either_dialect(|dialect| algo::parse::<Protocol>(value, dialect).map(drop)),
        Kind::Path | Kind::Text if value.trim() == value => Ok(()),
        Kind::Path | Kind::Text => Err("it begins or ends with a blank".to_owned()),
    }
}

fn either_dialect(parse: impl Fn(Dialect) -> Result<(), algo::ListError>) -> Result<(), String> {
    match parse(Dialect::V224Plus) {
        Err(error) if parse(Dialect::Legacy).is_err() => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn integer(value: &str, min: i64, max: i64, expected: &str) -> Result<(), String> {
    match read_integer(value) {
        Some(number) if min <= number && number <= max => Ok(()),
        Some(number) if number.to_string() != value => Err(format!("NCCL reads it as {number}; write {expected}")),
        Some(_) => Err(format!("write {expected}")),
        None => Err(match leading_number(value) {
            Some(number) => format!("NCCL reads it as {number} and ignores the rest; write {expected}"),
            None => format!("write {expected}"),
        }),
    }
}

fn bytes(value: &str, min: u64, max: u64) -> Result<(), String> {
    let expected = format!("bytes from {min} to {max}");
    match read_integer(value).map(u64::try_from) {
        Some(Ok(number)) if min <= number && number <= max => Ok(()),
        Some(_) => Err(format!("write {expected}")),
        None => Err(match parse_size(value) {
            Ok(number) => format!("units are not read here; write {number}"),
            Err(_) => format!("write {expected}"),
        }),
    }
}

/// Reads what `strtoll` in base 0 reads whole: decimal, `0x` hexadecimal, or octal after a leading 0.
fn read_integer(value: &str) -> Option<i64> {
    let (is_negative, digits) = match value.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, value.strip_prefix('+').unwrap_or(value)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        // from_str_radix takes a sign of its own, which must not follow the prefix.
        Some(hex) => hex.bytes().all(|b| b.is_ascii_hexdigit()).then(|| i64::from_str_radix(hex, 16).ok())?,
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    }?;
    Some(if is_negative { -magnitude } else { magnitude })
}

/// The decimal number that `value` begins with, for the message.
fn leading_number(value: &str) -> Option<&str> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    (0 < digits).then(|| &value[..digits])
}

fn word(value: &str, words: &[&str]) -> Result<(), String> {
    if words.iter().any(|word| word.eq_ignore_ascii_case(value)) {
        return Ok(());
    }
    Err(format!("use one of {}{}", words.join(", "), hint(value, words.iter().copied())))
}

fn net_devices(value: &str) -> Result<(), String> {
    let upper = value.to_ascii_uppercase();
    let count = upper.strip_prefix("MAX:").and_then(|count| count.parse::<u8>().ok());
    if upper == "AUTO" || upper == "ALL" || count.is_some_and(|count| 0 < count) {
        return Ok(());
    }
    Err("use AUTO, ALL or MAX:N with N from 1".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::knob::{catalogue, knob};

    #[test]
    fn values_in_the_domain_pass() {
        for (name, values) in [
            ("NCCL_P2P_DISABLE", &["0", "1", "0x1"][..]),
            ("NCCL_IB_GID_INDEX", &["-1", "3"]),
            ("NCCL_IB_TC", &["106", "0x6a", "0152"]),
            ("NCCL_BUFFSIZE", &["4194304"]),
            ("NCCL_NET_GDR_LEVEL", &["SYS", "pix"]),
            ("NCCL_CTA_POLICY", &["EFFICIENCY", "EFFICIENCY|ZERO"]),
            ("NCCL_DEBUG_SUBSYS", &["INIT,TUNING", "^NET"]),
            ("NCCL_NETDEVS_POLICY", &["AUTO", "MAX:2"]),
            ("NCCL_SOCKET_IFNAME", &["=eth0,eth1", "^docker,lo"]),
            ("NCCL_IB_HCA", &["=mlx5_0:1,mlx5_1:1"]),
            ("NCCL_ALGO", &["allreduce:tree;allgather:ring", "Ring,Tree"]),
            ("NCCL_PROTO", &["^LL128", "allreduce:ll,simple"]),
            ("NCCL_TOPO_FILE", &["/opt/microsoft/ndv5-topo.xml"]),
            ("GDRTUNE_NATIVE_CHUNKSIZE", &["4096", "16777216"]),
            ("GDRTUNE_NATIVE_NSOCKS", &["1", "16"]),
        ] {
            for value in values {
                assert_eq!(knob(name).unwrap().check(value), Ok(()), "{name}");
            }
        }
    }

    #[test]
    fn values_outside_say_what_to_write() {
        for (name, value, message) in [
            ("NCCL_P2P_DISABLE", "2", "NCCL_P2P_DISABLE cannot be `2`: write 0 or 1"),
            (
                "NCCL_IB_TIMEOUT",
                "22s",
                "NCCL_IB_TIMEOUT cannot be `22s`: NCCL reads it as 22 and ignores the rest; write a whole number from 1 to 31",
            ),
            (
                "NCCL_IB_TIMEOUT",
                "010000",
                "NCCL_IB_TIMEOUT cannot be `010000`: NCCL reads it as 4096; write a whole number from 1 to 31",
            ),
            ("NCCL_BUFFSIZE", "4M", "NCCL_BUFFSIZE cannot be `4M`: units are not read here; write 4194304"),
            ("NCCL_BUFFSIZE", "-1", "NCCL_BUFFSIZE cannot be `-1`: write bytes from 1024 to 1073741824"),
            (
                "NCCL_NET_GDR_LEVEL",
                "SY",
                "NCCL_NET_GDR_LEVEL cannot be `SY`: use one of LOC, PIX, PXB, PHB, SYS; did you mean `SYS`?",
            ),
            (
                "NCCL_NETDEVS_POLICY",
                "MAX:0",
                "NCCL_NETDEVS_POLICY cannot be `MAX:0`: use AUTO, ALL or MAX:N with N from 1",
            ),
            ("NCCL_NET", "", "NCCL_NET cannot be ``: an empty value sets nothing: leave the variable out"),
            ("NCCL_NET", "a\nb", "NCCL_NET cannot be `a\\nb`: a line break in a value is never meant"),
            ("NCCL_NET", "a\0", "NCCL_NET cannot be `a\\0`: no process can be given a NUL byte"),
            ("NCCL_TOPO_FILE", " /x", "NCCL_TOPO_FILE cannot be ` /x`: it begins or ends with a blank"),
        ] {
            assert_eq!(knob(name).unwrap().check(value).unwrap_err().to_string(), message);
        }
        for (name, value) in [
            ("NCCL_ALGO", "tre"),
            ("NCCL_PROTO", "allreduce: ll"),
            ("NCCL_IB_HCA", "=^mlx5_0"),
            ("NCCL_SOCKET_IFNAME", "eth0,,"),
            ("NCCL_IB_TC", "0x-1"),
            ("NCCL_IB_TC", "+"),
            ("GDRTUNE_NATIVE_CHUNKSIZE", "4095"),
            ("GDRTUNE_NATIVE_NSOCKS", "17"),
        ] {
            assert!(knob(name).unwrap().check(value).is_err(), "{name}={value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken_or_refused(value in "[-0-9a-zA-Z:,;^=|xX ]{0,24}|\\PC{0,24}") {
            for knob in catalogue() {
                drop(knob.check(&value));
            }
        }
    }
}

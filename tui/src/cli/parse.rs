//! Values of options, from their text. The errors are shown behind the option's name.

use gdrtune_fleet::{launcher::LauncherCommand, site::folder_problem};
use gdrtune_profiles::{
    nearest,
    vocab::{Choice, Collective, DataType},
};
use gdrtune_wire::WorkerCommand;

use crate::ui::Speed;

/// A value of a closed vocabulary.
pub(super) fn parse_named<T: std::str::FromStr>(text: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.trim().parse().map_err(|error: T::Err| error.to_string())
}

/// A collective, in our spelling or NCCL's; the error names the nearest one.
pub(super) fn parse_collective(text: &str) -> Result<Collective, String> {
    let name = text.trim();
    let is_named = |known: &&Collective| known.name() == name || known.nccl_name() == name;
    Collective::ALL.iter().find(is_named).copied().ok_or_else(|| {
        let names = || Collective::ALL.iter().map(|known| known.name());
        let near = nearest::hint(name, names());
        format!("unknown collective `{name}`: use one of {}{near}", names().collect::<Vec<_>>().join(", "))
    })
}

/// The words of a worker command.
pub(super) fn parse_worker_command(text: &str) -> Result<WorkerCommand, String> {
    WorkerCommand::parse(text).map_err(|error| error.to_string())
}

/// The words of a launcher command.
pub(super) fn parse_launcher_command(text: &str) -> Result<LauncherCommand, String> {
    LauncherCommand::parse(text).map_err(|error| error.to_string())
}

/// A folder on the hosts.
pub(super) fn parse_remote_folder(text: &str) -> Result<String, String> {
    folder_problem(text).map_or_else(|| Ok(text.to_owned()), |problem| Err(problem.to_owned()))
}

/// Seconds of `90`, `90s`, `5m`, `1h` or `7d`.
pub(crate) fn parse_duration_s(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("unknown unit `{unit}`: use s, m, h or d")),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value * factor < 1e7 => Ok(value * factor),
        _ => Err("expected a time above 0, such as 90s, 5m or 1h".to_owned()),
    }
}

/// Run time per wall time of a replay: a factor, or `max`.
pub(super) fn parse_speed(text: &str) -> Result<Speed, String> {
    match text.trim() {
        // 0 as well: it once meant "at once".
        "max" | "0" => Ok(Speed::MAX),
        other => {
            let factor =
                other.strip_suffix('x').unwrap_or(other).parse().ok().filter(|factor: &f64| factor.is_finite());
            factor.and_then(Speed::new).ok_or_else(|| "expected a factor above 0, such as 10 or 0.5, or max".to_owned())
        }
    }
}

/// A percentage from 0 to 100.
pub(super) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "expected a percentage from 0 to 100".to_owned())
}

/// A part of a whole, from 0 to 1, or with `%`.
pub(super) fn parse_fraction(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let value = match trimmed.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => trimmed.parse().ok(),
    };
    value.filter(|part| (0.0..=1.0).contains(part)).ok_or_else(|| "expected a part from 0 to 1, such as 0.5".to_owned())
}

/// An element type, by our name or by the short ones of frameworks.
pub(super) fn parse_data_type(text: &str) -> Result<DataType, String> {
    match text.trim() {
        "bf16" => Ok(DataType::Bf16),
        "fp16" | "half" => Ok(DataType::F16),
        "fp32" => Ok(DataType::F32),
        other => parse_named(other),
    }
}

/// `2x8`: nodes, and ranks over all of them.
pub(super) fn parse_shape(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| 0 < *number);
    let parts = text.split_once('x').and_then(|(nodes, ranks)| Some((number(nodes)?, number(ranks)?)));
    let shape = parts.and_then(|(nodes, per_node)| Some((nodes, nodes.checked_mul(per_node)?)));
    shape.ok_or_else(|| "expected NODESxRANKS_PER_NODE, such as 4x8".to_owned())
}

/// `ring/simple` or `ring/simple/2`.
pub(super) fn parse_choice(text: &str) -> Result<Choice, String> {
    let mut parts = text.split('/');
    let (Some(algorithm), Some(protocol)) = (parts.next(), parts.next()) else {
        return Err("expected ALGORITHM/PROTOCOL or ALGORITHM/PROTOCOL/CHANNELS, such as ring/simple/2".to_owned());
    };
    let channels = match (parts.next(), parts.next()) {
        (None, _) => 0,
        (Some(count), None) => match count.parse() {
            // 64 is NCCL's limit since 2.25 (src/include/device.h, MAXCHANNELS).
            Ok(count @ 1..=64) => count,
            _ => return Err(format!("`{count}` is no channel count: use 1 to 64")),
        },
        (Some(_), Some(_)) => return Err("too many parts".to_owned()),
    };
    Ok(Choice { algorithm: parse_named(algorithm)?, protocol: parse_named(protocol)?, channels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_types_and_shapes() {
        assert_eq!([parse_fraction("0.5"), parse_fraction("50 %"), parse_fraction("1")], [Ok(0.5), Ok(0.5), Ok(1.0)]);
        assert!(["1.5", "-1", "x", "nan", "150%"].iter().all(|text| parse_fraction(text).is_err()));
        assert_eq!([parse_data_type("bf16"), parse_data_type("float32")], [Ok(DataType::Bf16), Ok(DataType::F32)]);
        assert_eq!(parse_shape("4x8"), Ok((4, 32)));
        assert!(["4", "0x8", "4x", "4294967295x2"].iter().all(|text| parse_shape(text).is_err()));
    }

    #[test]
    fn durations() {
        for (text, seconds) in
            [("90", 90.0), ("90s", 90.0), ("5m", 300.0), ("1.5h", 5400.0), ("7d", 604_800.0), ("500ms", 0.5)]
        {
            assert_eq!(parse_duration_s(text), Ok(seconds), "{text}");
        }
        for text in ["", "0s", "-5m", "5w", "m", "nan", "inf"] {
            assert!(parse_duration_s(text).is_err(), "{text}");
        }
    }
}

//! `gdrtune gdr`: whether GPU Direct RDMA is used, by logs that are there, or what it gains, measured.

mod verdict;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use gdrtune_profiles::{
    gdr::{Log, render},
    json::document,
};

use crate::{
    cli::GdrArgs,
    exit::{Exit, Failure},
};

/// Most bytes of a line that are kept: NCCL cuts its own at 1024, and launchers put a label before them.
const LINE_BYTES: usize = 16 << 10;

/// What is read of a file at once.
const READ_BYTES: usize = 256 << 10;

pub(crate) fn gdr(args: &GdrArgs) -> Result<Exit, Failure> {
    if args.log.is_empty() { verdict::verdict(args) } else { explain(&args.log, args.json) }
}

/// Says what logs say.
fn explain(files: &[PathBuf], as_json: bool) -> Result<Exit, Failure> {
    let mut log = Log::new();
    let mut seen: Vec<(u64, u64)> = Vec::new();
    for path in files {
        let io = |error| Failure::usage(anyhow::Error::from(error).context(format!("read {}", path.display())));
        let mut file = open(path).map_err(io)?;
        // Under another name, too: what it says would count twice.
        let metadata = file.metadata().map_err(io)?;
        let identity = (metadata.dev(), metadata.ino());
        if metadata.is_file() && seen.contains(&identity) {
            super::say(&format!("{}: the same file again, which counts once", path.display()));
            continue;
        }
        seen.push(identity);
        log.begin(&path.display().to_string());
        lines(&mut BufReader::with_capacity(READ_BYTES, &mut file), &mut log).map_err(io)?;
    }
    let report = log.finish();
    if report.hosts.is_empty() && report.versions.is_empty() {
        let failure = Failure::new(Exit::NothingMatched, anyhow::anyhow!("no line of NCCL is in there"));
        return Err(failure.with_hint("run the job with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,ENV"));
    }
    if as_json {
        io::stdout().lock().write_all(document(&render::json(&report)).as_bytes())?;
    } else {
        super::print_fitted(&render::text(&report))?;
    }
    Ok(match report.has_findings() {
        true => Exit::Findings,
        false if report.tells_connections() => Exit::Done,
        false => Exit::NothingMatched,
    })
}

/// A log; `-` is standard input.
fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == "-" { Ok(io::stdin().as_fd().try_clone_to_owned()?.into()) } else { File::open(path) }
}

/// Hands on every line. Of one that has no end in sight, the beginning.
fn lines(reader: &mut dyn BufRead, log: &mut Log) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        line.extend_from_slice(&part[..part.len().min(LINE_BYTES.saturating_sub(line.len()))]);
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            log.take(&line);
            line.clear();
        }
    }
    if !line.is_empty() {
        log.take(&line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_where_they_end_or_get_too_long() {
        let line = |rank: u32| {
            format!("n1:{rank}:1 [0] NCCL INFO Channel 00/0 : {rank}[0] -> 9[0] [send] via NET/IB/0/GDRDMA")
        };
        let endless = "x".repeat(3 * LINE_BYTES);
        let text = format!("{}\n{endless}\n\n{}\r\n{}", line(1), line(2), line(3));
        for capacity in [1, 7, 64, READ_BYTES] {
            let mut log = Log::new();
            log.begin("a");
            lines(&mut BufReader::with_capacity(capacity, text.as_bytes()), &mut log).unwrap();
            let report = log.finish();
            let ranks = &report.communicators[0].ranks;
            let places: Vec<u64> = ranks.iter().map(|rank| rank.uses[0].evidence.line).collect();
            assert_eq!(places, [1, 4, 5], "{capacity}");
        }
    }
}

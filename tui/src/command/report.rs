//! `gdrtune report`: a run on a page, made from its store.

use std::{
    collections::HashSet,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use gdrtune_session::{
    export,
    output::{self, Existing, OutputDir, OutputError},
    report::{Diagnosis, HTML_FILE, MARKDOWN_FILE, Report},
    store::{self, StoredRun},
};

use crate::{
    cli::ReportArgs,
    exit::{Exit, Failure},
    paths,
};

/// Files that `tune` writes for people, unless it is told not to; the first is the one to open.
pub(super) const FILES: [&str; 2] = [HTML_FILE, MARKDOWN_FILE];

pub(crate) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    let dir = paths::runs_dir()?;
    let mut files = Files { made: Vec::new(), are_several: args.runs.len() > 1 };
    let is_asked = [&args.html, &args.markdown, &args.svg, &args.csv, &args.json, &args.nccl_tests];
    let to_stdout = is_asked.iter().all(|file| file.is_none());
    let diagnosis = args.doctor.as_deref().map(diagnosis).transpose()?;
    // Everything is made before anything is written.
    for run in &args.runs {
        let path = super::run_store(&dir, run)?;
        let (stored, report) = read(&path)?;
        let report = match &diagnosis {
            Some(diagnosis) => report.with_doctor(diagnosis.clone()),
            None => report,
        };
        if super::runs::unfinished(&path) == "running" {
            let at = stored.records.last().map_or(0, |record| record.seq + 1);
            super::say(&format!("run {} is going on: the report is of its first {at} records", report.run()));
        }
        if to_stdout {
            io::stdout().lock().write_all(report.markdown().as_bytes())?;
        }
        files.add(args, &stored, &report)?;
    }
    files.write(if args.force { Existing::Replace } else { Existing::Refuse })?;
    Ok(Exit::Done)
}

/// Writes the reports of a run into its output folder.
///
/// # Errors
/// A store that cannot be read, or files that cannot be written; then there are none.
pub(super) fn write_beside(out: &OutputDir, store: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let report = Report::of(&store::read_run(store)?.records).context("the store does not begin as a run")?;
    let texts = [report.html(), report.markdown()];
    let files: Vec<(String, String)> = FILES.map(str::to_owned).into_iter().zip(texts).collect();
    Ok(out.write_all(&files)?)
}

/// What doctor printed into a file.
fn diagnosis(path: &Path) -> Result<Diagnosis, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("read {name}")).map_err(Failure::usage)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{name} is not what `gdrtune doctor --json` prints"))
        .map_err(Failure::usage)
}

fn read(path: &Path) -> Result<(StoredRun, Report), Failure> {
    let stored = store::read_run(path).map_err(Failure::usage)?;
    let report = Report::of(&stored.records);
    let no_run =
        || Failure::usage_text(format!("{} is no run: its first record is not the beginning of one", path.display()));
    Ok((stored, report.ok_or_else(no_run)?))
}

/// Where a path leads, as far as its folders are there. A link as the file itself is replaced, not followed.
fn place(path: &Path) -> PathBuf {
    let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else { return path.to_owned() };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match fs::canonicalize(folder) {
        Ok(folder) => folder.join(name),
        Err(_) => place(folder).join(name),
    }
}

/// What is to be written.
struct Files {
    made: Vec<(PathBuf, String)>,
    are_several: bool,
}

impl Files {
    /// Makes what is asked for of a run.
    fn add(&mut self, args: &ReportArgs, stored: &StoredRun, report: &Report) -> Result<(), Failure> {
        let rows = || export::rows(&stored.records);
        let mut made: Vec<(&Path, &str, String)> = Vec::new();
        if let Some(file) = &args.html {
            made.push((file, "html", report.html()));
        }
        if let Some(file) = &args.markdown {
            made.push((file, "md", report.markdown()));
        }
        if let Some(file) = &args.csv {
            made.push((file, "csv", export::csv(&rows())));
        }
        if let Some(file) = &args.json {
            made.push((file, "json", export::json(&rows()).context("write the trials")?));
        }
        if let Some(file) = &args.nccl_tests {
            made.push((file, "txt", report.nccl_tests()));
        }
        // A file's name may have been chosen by whoever named the run.
        let run = report.run().replace('/', "_");
        for (path, ending, text) in made {
            let path = if self.are_several { path.join(format!("{run}.{ending}")) } else { path.to_owned() };
            self.made.push((path, text));
        }
        if let Some(folder) = &args.svg {
            let folder = if self.are_several { folder.join(&run) } else { folder.clone() };
            self.made.extend(report.plots().into_iter().map(|(name, text)| (folder.join(name), text)));
        }
        Ok(())
    }

    /// The first path that is another's too, however it is spelled. A pipe or a device takes any number of files.
    fn twice(&self) -> Option<&Path> {
        let mut seen = HashSet::new();
        let paths = self.made.iter().map(|(path, _)| path.as_path());
        paths
            .filter(|path| !fs::metadata(path).is_ok_and(|there| !there.is_file()))
            .find(|path| !seen.insert(place(path)))
    }

    /// Writes all of it, or nothing.
    fn write(&self, existing: Existing) -> Result<(), Failure> {
        if let Some(path) = self.twice() {
            let text = format!("two files would be written to {}", path.display());
            return Err(Failure::usage_text(text)
                .with_hint("each needs a path of its own, and runs of the same id are reported one by one"));
        }
        for (path, _) in &self.made {
            output::refuse_existing(path, existing)
                .map_err(|error| Failure::usage(error).with_hint("name another file, or --force replaces it"))?;
        }
        for (path, _) in &self.made {
            let is_in_own_folder = self.are_several || path.extension().is_some_and(|ending| ending == "svg");
            if let Some(folder) = path.parent().filter(|_| is_in_own_folder) {
                fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
            }
        }
        output::write_together(&self.made).map_err(|error: OutputError| anyhow::Error::from(error).into())
    }
}

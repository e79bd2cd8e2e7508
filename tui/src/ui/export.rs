//! Writes what a view shows into a file of the working directory.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use super::tabs::Export;

/// Names that are tried before it is given up.
const MAX_NAMES: u32 = 1_000;

/// Writes an export and says what came of it. A file that is there is never touched: the new one gets a number.
pub(super) fn write(export: &Export) -> String {
    match write_new(Path::new("."), export) {
        Ok(path) => format!("wrote {}", path.strip_prefix(".").unwrap_or(&path).display()),
        Err(error) => format!("failed to write {}: {error}", export.name),
    }
}

fn write_new(folder: &Path, export: &Export) -> std::io::Result<PathBuf> {
    let (stem, extension) = export.name.rsplit_once('.').unwrap_or((&export.name, "txt"));
    for number in 1..=MAX_NAMES {
        let name = if number == 1 { export.name.clone() } else { format!("{stem}-{number}.{extension}") };
        let path = folder.join(name);
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        if let Err(error) = file.write_all(export.text.as_bytes()) {
            // Half a file would be taken for a whole one.
            drop(std::fs::remove_file(&path));
            return Err(error);
        }
        return Ok(path);
    }
    Err(std::io::Error::new(ErrorKind::AlreadyExists, "there are too many of this name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let export = |text: &str| Export { name: "a.b.csv".into(), text: text.into() };
        let paths = ["1", "2", "3"].map(|text| write_new(folder.path(), &export(text)).unwrap());
        let names = paths.clone().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        assert_eq!(names, ["a.b.csv", "a.b-2.csv", "a.b-3.csv"]);
        assert_eq!(paths.map(|path| std::fs::read_to_string(path).unwrap()), ["1", "2", "3"]);
        let lost = write_new(&folder.path().join("none"), &export("x"));
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

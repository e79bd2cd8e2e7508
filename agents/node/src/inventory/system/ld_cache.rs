//! The loader's cache, `/etc/ld.so.cache`: which file a library's name leads to (glibc `sysdeps/generic/dl-cache.h`).

use super::super::Reader;

/// Begins the part that every loader since glibc 2.2 reads; an older part may precede it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// Bytes before the entries: magic, counts, flags, and what later versions added.
const HEADER: usize = 48;

/// Bytes of an entry: flags, offsets of name and path, then what CPUs it is for.
const ENTRY: usize = 24;

/// Most bytes that are read. A machine with everything installed has some 500,000.
const MOST_BYTES: u64 = 16 << 20;

/// Most entries that are read.
const MOST_ENTRIES: usize = 1 << 16;

impl Reader<'_> {
    /// Paths of libraries whose names `wanted` takes; none where there is no cache.
    pub(super) fn cached_libraries(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let bytes = self.try_bytes("etc/ld.so.cache", MOST_BYTES).unwrap_or_default();
        parse(&bytes).into_iter().filter(|(name, _)| wanted(name)).map(|(_, path)| path).collect()
    }
}

/// Names and paths.
fn parse(bytes: &[u8]) -> Vec<(String, String)> {
    let begin = bytes.windows(MAGIC.len()).position(|window| window == MAGIC);
    let Some(cache) = begin.and_then(|at| bytes.get(at..)) else { return Vec::new() };
    let number = |at: usize| Some(u32::from_ne_bytes(cache.get(at..at + 4)?.try_into().ok()?) as usize);
    let text = |at: usize| {
        let rest = cache.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
    };
    let entry = |index: usize| {
        let at = HEADER + index * ENTRY;
        Some((text(number(at + 4)?)?, text(number(at + 8)?)?))
    };
    let count = number(MAGIC.len()).unwrap_or_default().min(MOST_ENTRIES);
    (0..count).map_while(entry).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A cache of these names and paths, with an older part before it.
    pub(crate) fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut table = Vec::new();
        let first = HEADER + entries.len() * ENTRY;
        for (name, path) in entries {
            let mut add = |text: &str| {
                let at = first + strings.len();
                strings.extend(text.as_bytes());
                strings.push(0);
                at as u32
            };
            let (name, path) = (add(name), add(path));
            for number in [0x0303, name, path, 0, 0, 0] {
                table.extend(number.to_ne_bytes());
            }
        }
        let mut bytes = b"ld.so-1.7.0\0\0\0\0\0".to_vec();
        bytes.extend(MAGIC);
        bytes.extend((entries.len() as u32).to_ne_bytes());
        bytes.extend((strings.len() as u32).to_ne_bytes());
        bytes.resize(16 + HEADER, 0);
        bytes.extend(table);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn entries_are_read() {
        let entries = [("libnccl.so.2", "/usr/lib/libnccl.so.2"), ("libc.so.6", "/lib/libc.so.6")];
        let whole = cache(&entries);
        let read = parse(&whole);
        assert_eq!(read, entries.map(|(name, path)| (name.to_owned(), path.to_owned())));
        for cut in 0..whole.len() {
            assert!(parse(&whole[..cut]).len() <= 2);
        }
        assert_eq!(parse(b"none"), []);
    }

    #[test]
    fn this_machines_cache_has_the_c_library() {
        let reader = Reader::new(std::path::Path::new("/"));
        if reader.path("etc/ld.so.cache").exists() {
            assert!(!reader.cached_libraries(|name| name == "libc.so.6").is_empty());
        }
    }
}

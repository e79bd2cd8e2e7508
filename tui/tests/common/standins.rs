//! The stand-ins for CUDA and NCCL under the names of what they stand for.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Makes a folder `name` in `home` with the stand-ins of these kinds, to be a library path.
pub(crate) fn library_path(home: &Path, name: &str, kinds: &[&str]) -> PathBuf {
    let folder = home.join(name);
    fs::create_dir(&folder).expect("a folder of libraries");
    let built = std::env::current_exe().expect("the test's own path");
    for (kind, name) in [("cuda", "libcuda.so"), ("cuda", "libcuda.so.1"), ("nccl", "libnccl.so.2")] {
        if kinds.contains(&kind) {
            let library = built.with_file_name(format!("libgdrtune_standin_{kind}.so"));
            assert!(library.is_file(), "{} was not built", library.display());
            symlink(library, folder.join(name)).expect("a link");
        }
    }
    folder
}

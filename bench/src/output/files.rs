//! Files appear whole or not at all: each is written under another name in its folder and renamed
//! when it is complete.
//!
//! A list of the unfinished ones, and of the output folder if it is new, lets a Ctrl-C handler
//! remove them. The handler keeps the list locked until the process is gone, so that no file can be
//! begun behind its back.
//!
//! A long run writes what it found again and again ([`keep_files`]). So whatever ends it, Ctrl-C, a kill or
//! the machine, leaves the results up to there, or those of the run before.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::Failure;

/// What a run that is interrupted leaves.
#[derive(Default)]
struct Left {
    /// Files that are not complete, and a folder that was made for files.
    unfinished: Vec<PathBuf>,
    /// What was found so far.
    found: Option<Found>,
}

/// What a run found so far: its files hold that already.
pub struct Found {
    /// For standard output.
    pub results: String,
    /// How far the run came, and where the results are.
    pub remark: String,
}

static LEFT: Mutex<Left> = Mutex::new(Left { unfinished: Vec::new(), found: None });

fn left() -> MutexGuard<'static, Left> {
    // The list stays usable whatever happened to the thread that held it.
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An interrupted run. While this is held, no file is begun or finished: a handler keeps it until the
/// process is gone.
pub struct Interrupted(MutexGuard<'static, Left>);

impl Interrupted {
    /// Ends the run and removes what is unfinished.
    pub fn now() -> Interrupted {
        let left = left();
        for path in left.unfinished.iter().rev() {
            // It may be gone already, and a folder may hold something: there is nobody left to tell.
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
        Interrupted(left)
    }

    /// What the run found so far, if it keeps that.
    pub fn found(&self) -> Option<&Found> {
        self.0.found.as_ref()
    }
}

/// Writes files; what was there before is replaced. All of them are complete before the first one
/// appears.
///
/// # Errors
/// Why not, with the file's name. Nothing is left behind then.
pub fn write_files(files: &[(PathBuf, Vec<u8>)]) -> Result<(), Failure> {
    publish(files, &[], None)
}

/// The same; those of `others` that are not among the files are removed, so that what an earlier run
/// left is not taken for this one's.
///
/// # Errors
/// As [`write_files`], or what could not be removed.
pub fn replace_files(files: &[(PathBuf, Vec<u8>)], others: &[PathBuf]) -> Result<(), Failure> {
    publish(files, others, None)
}

/// Writes what was found so far, in the middle of a run; after an interrupt it is there, and said.
///
/// # Errors
/// As [`write_files`].
pub fn keep_files(files: &[(PathBuf, Vec<u8>)], found: Found) -> Result<(), Failure> {
    publish(files, &[], Some(found))
}

/// The files that results are kept in, for a remark; nothing where there are none.
pub(crate) fn kept_in<'a>(paths: impl Iterator<Item = &'a Path>) -> String {
    let names: Vec<_> = paths.map(|path| path.display().to_string()).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!("; what is finished is in {}", names.join(" and "))
    }
}

/// `found` takes the place of what was found before, at the moment at which the files do.
fn publish(
    files: &[(PathBuf, Vec<u8>)],
    others: &[PathBuf],
    found: Option<Found>,
) -> Result<(), Failure> {
    let complete = files.iter().map(|(path, bytes)| Ok((complete(path, bytes)?, path)));
    let complete = complete.collect::<Result<Vec<_>, Failure>>()?;
    let mut left = left();
    left.found = found;
    for (file, path) in complete {
        left.unfinished.retain(|unfinished| unfinished != file.path());
        file.persist(path).map_err(|error| cannot_write(path, error.error))?;
    }
    for stale in others.iter().filter(|other| files.iter().all(|(path, _)| path != *other)) {
        if let Err(error) = fs::remove_file(stale)
            && error.kind() != ErrorKind::NotFound
        {
            let what = format!("is of an earlier run and cannot be removed: {error}");
            return Err(Failure::at(stale, what));
        }
    }
    Ok(())
}

fn cannot_write(path: &Path, cause: impl std::fmt::Display) -> Failure {
    Failure::at(path, format!("cannot be written: {cause}"))
}

/// The folder that a file is to be in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Sees that the files named can be written, before hours of work.
///
/// # Errors
/// Why not, with the file's name; that one is named twice.
pub(crate) fn check_writable<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut known: Vec<&Path> = Vec::new();
    paths.into_iter().try_for_each(|path| {
        if known.contains(&path) {
            return Err(Failure::Usage(format!("{}: named for two results", path.display())));
        }
        known.push(path);
        check(path)
    })
}

fn check(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        // Its name would become the file's: nothing would reach what it points to.
        Ok(found) if found.is_symlink() => return Err(cannot_write(path, "it is a symbolic link")),
        Ok(found) if !found.is_file() => {
            return Err(cannot_write(path, "it is there and not a file"));
        }
        _ => {}
    }
    let probe = tempfile::tempfile_in(folder(path));
    probe.map(drop).map_err(|cause| cannot_write(path, cause))
}

/// Writes what is to be `path` under another name in its folder.
fn complete(path: &Path, bytes: &[u8]) -> Result<NamedTempFile, Failure> {
    check(path)?;
    let written = begin(path).and_then(|file| {
        // Through the file itself: what `tempfile` says of an error has its own name in it.
        file.as_file().write_all(bytes)?;
        file.as_file().sync_data()?;
        Ok(file)
    });
    written.map_err(|cause| cannot_write(path, cause))
}

/// A new file as any program makes it: the user's mask applies.
fn begin(path: &Path) -> std::io::Result<NamedTempFile> {
    let mut options = File::options();
    options.write(true).create_new(true);
    let mut builder = tempfile::Builder::new();
    let mut left = left();
    let file = builder.prefix(".woodlot-").make_in(folder(path), |path| options.open(path))?;
    left.unfinished.push(file.path().to_path_buf());
    Ok(file)
}

/// A file that is made in its place: it is removed if its making fails, or is interrupted.
pub struct Making(Option<PathBuf>);

impl Making {
    /// Makes a file that was not there.
    ///
    /// # Errors
    /// Those of `create`.
    pub fn begin<T>(
        path: &Path,
        create: impl FnOnce() -> std::io::Result<T>,
    ) -> std::io::Result<(T, Making)> {
        let mut left = left();
        let made = create()?;
        left.unfinished.push(path.to_path_buf());
        Ok((made, Making(Some(path.to_path_buf()))))
    }

    /// It is made, and stays.
    pub fn keep(mut self) {
        let made = self.0.take();
        left().unfinished.retain(|unfinished| made.as_ref() != Some(unfinished));
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let mut left = left();
            // That it cannot be removed is not worth more than why it was in vain.
            let _ = fs::remove_file(path);
            left.unfinished.retain(|unfinished| unfinished != path);
        }
    }
}

/// The folder for figures and data. If it was made for this run and nothing was put there, it is
/// removed again.
pub struct OutDir {
    path: PathBuf,
    made: bool,
}

impl OutDir {
    /// Makes the folder if need be, and sees that it can be written to, before the work begins.
    ///
    /// # Errors
    /// Why not, with the folder's name.
    pub fn prepare(path: &Path) -> Result<OutDir, Failure> {
        let made = !path.exists();
        let fail = |cause| Failure::at(path, format!("cannot be used for output: {cause}"));
        let mut left = left();
        fs::create_dir_all(path).map_err(fail)?;
        if made {
            left.unfinished.push(path.to_path_buf());
        }
        drop(left);
        let out = OutDir { path: path.to_path_buf(), made };
        tempfile::tempfile_in(path).map_err(fail)?;
        Ok(out)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OutDir {
    fn drop(&mut self) {
        if self.made {
            left().unfinished.retain(|unfinished| *unfinished != self.path);
            // Refused where it holds something, which is what is wanted.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_appear_together_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let (good, bad) = (folder.path().join("a"), folder.path().join("none").join("b"));
        let files = |second: &Path| [(good.clone(), vec![1]), (second.to_path_buf(), vec![2])];
        assert!(write_files(&files(&bad)).unwrap_err().to_string().contains("none"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        write_files(&files(&folder.path().join("b"))).unwrap();
        assert_eq!(fs::read(&good).unwrap(), [1]);
        assert!(check(folder.path()).is_err() && check(&good).is_ok());
    }

    #[test]
    fn what_an_earlier_run_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(name));
        write_files(&[(a.clone(), vec![1]), (b.clone(), vec![1])]).unwrap();
        replace_files(&[(b.clone(), vec![2])], &[a.clone(), b.clone(), c]).unwrap();
        assert_eq!((a.exists(), fs::read(&b).unwrap()), (false, vec![2]));
    }

    #[test]
    fn what_is_not_made_to_its_end_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let begin = || Making::begin(&path, || File::create_new(&path));
        drop(begin().unwrap());
        assert!(!path.exists());
        begin().unwrap().1.keep();
        assert!(path.exists() && begin().is_err() && path.exists());
        assert!(left().unfinished.iter().all(|unfinished| *unfinished != path));
    }

    #[test]
    fn one_file_cannot_hold_two_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let Err(Failure::Usage(why)) = check_writable([&*path, &path]) else { panic!() };
        assert!(why.ends_with("named for two results"), "{why}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [real, link] = ["real", "link"].map(|name| folder.path().join(name));
        fs::write(&real, [1]).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for bad in [check_writable([&*link]), write_files(&[(link.clone(), vec![2])])] {
            assert!(bad.unwrap_err().to_string().contains("symbolic link"));
        }
        assert!(link.is_symlink() && fs::read(&real).unwrap() == [1]);
    }
}

//! SQLite with its speed test, of which Debian has the source; in a short run its shell, with statements of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::heap::Heap;
use super::program::{Folder, Program};
use super::run::{Ran, run};
use crate::shell::capture;

pub struct Sqlite {
    folder: PathBuf,
    short: bool,
}

/// The speed test's measure of its work: 100 is what its authors take.
const SIZE: &str = "60";

const SQL: &str = "
create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
    select i, hex(i) as h, printf('%0200d', i) as s from n;
create index h on t(h);
select count(distinct h), sum(i), max(length(s)) from t where h > '35';
select group_concat(s) like '%7%' from t;
";

/// Where the system's package manager knows binary packages from.
const SOURCES: [&str; 4] = [
    "/etc/apt/sources.list.d/debian.sources",
    "/etc/apt/sources.list.d/ubuntu.sources",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d/debian.list",
];

impl Sqlite {
    pub fn new(folder: &Folder) -> Result<Sqlite, String> {
        let path = folder.path.join("sqlite");
        fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        let sqlite = Sqlite { folder: path, short: folder.short };
        if folder.short {
            capture(Command::new("sqlite3").arg("--version"))?;
        } else if !sqlite.folder.join("speedtest1").exists() {
            sqlite.fetch()?;
            let mut cc = Command::new("cc");
            cc.args(["-O2", "-w", "-o", "speedtest1", "speedtest1.c", "-lsqlite3"]);
            capture(cc.current_dir(&sqlite.folder))
                .map_err(|why| format!("{why} (package libsqlite3-dev)"))?;
        }
        Ok(sqlite)
    }

    /// Gets the speed test's source from the system's source packages.
    fn fetch(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        for part in ["parts", "lists/partial", "cache/archives/partial", "source"] {
            fs::create_dir_all(self.folder.join(part)).map_err(failed)?;
        }
        for sources in SOURCES.iter().map(Path::new).filter(|path| path.exists()) {
            let text = fs::read_to_string(sources).map_err(failed)?;
            let text = text
                .replace("Types: deb\n", "Types: deb-src\n")
                .replace("deb http", "deb-src http");
            let name = sources.file_name().unwrap_or_default();
            let name = if name == "sources.list" { "sources-list.list".as_ref() } else { name };
            fs::write(self.folder.join("parts").join(name), text).map_err(failed)?;
        }
        let apt = |args: &[&str]| {
            let mut apt = Command::new("apt-get");
            let folder = self.folder.display();
            apt.arg("-o").arg("Dir::Etc::SourceList=/dev/null");
            apt.arg("-o").arg(format!("Dir::Etc::SourceParts={folder}/parts"));
            apt.arg("-o").arg(format!("Dir::State::Lists={folder}/lists"));
            apt.arg("-o").arg(format!("Dir::Cache={folder}/cache"));
            capture(apt.args(args).current_dir(self.folder.join("source")))
        };
        apt(&["update"])?;
        apt(&["source", "--download-only", "sqlite3"])?;
        let unpack = "for f in sqlite3_*.orig.tar.*; do tar xf $f --strip-components=2 -C .. --wildcards '*/test/speedtest1.c'; done";
        let unpacked = Command::new("sh")
            .args(["-c", unpack])
            .current_dir(self.folder.join("source"))
            .status();
        match unpacked.map_err(failed)?.success() && self.folder.join("speedtest1.c").exists() {
            true => Ok(()),
            false => Err("the source of sqlite3 has no speedtest1.c".into()),
        }
    }
}

impl Program for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    /// The answers, or the hash of all answers.
    fn run(&self, heap: &Heap, bindings: Option<&Path>) -> Result<Ran, String> {
        let mut command = if self.short {
            let mut shell = Command::new("sqlite3");
            shell.args([":memory:", SQL]);
            shell
        } else {
            let mut test = Command::new(self.folder.join("speedtest1"));
            test.args(["--memdb", "--size", SIZE, "--verify"]);
            test
        };
        heap.preload(command.current_dir(&self.folder));
        bindings.map(|folder| Heap::write_bindings(&mut command, folder));
        let (took, said) = run(&mut command, &self.folder.join("said"))?;
        let is_answer = |line: &&str| self.short || line.starts_with("Verification Hash:");
        let result: Vec<_> = said.lines().filter(is_answer).collect();
        if result.is_empty() {
            Err(format!("no answer: {said}"))
        } else {
            Ok(Ran { took, result: result.join(" ") })
        }
    }
}

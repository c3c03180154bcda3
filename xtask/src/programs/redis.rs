//! Redis, a server, with statements of ours whose outcome is known, and the load generator that comes with it. The server is what is measured.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::heap::Heap;
use super::program::{Folder, Program};
use super::run::{Ran, Running};
use crate::shell::{capture, succeeds};

pub struct Redis {
    folder: PathBuf,
    requests: usize,
}

/// Requests of each kind, and statements.
const REQUESTS: usize = 200_000;
const REQUESTS_SHORT: usize = 2000;

/// A look whether the server answers, and how many at most.
const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: u32 = 3000;

impl Redis {
    pub fn new(folder: &Folder) -> Result<Redis, String> {
        for program in ["redis-server", "redis-benchmark", "redis-cli"] {
            if !succeeds(Command::new(program).arg("--version")) {
                return Err(format!(
                    "there is no {program} (packages redis-server and redis-tools)"
                ));
            }
        }
        let path = folder.path.join("redis");
        let requests = if folder.short { REQUESTS_SHORT } else { REQUESTS };
        let write = || {
            fs::create_dir_all(&path)
                .and_then(|()| fs::write(path.join("statements"), statements(requests)))
        };
        write().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Redis { folder: path, requests })
    }

    fn client(&self, args: &[&str]) -> Command {
        let mut client = Command::new("redis-cli");
        client.args(["-s", "socket"]).args(args).current_dir(&self.folder);
        client
    }

    /// What is done with a server; what it knows then.
    fn load(&self) -> Result<String, String> {
        if !(0..LOOKS).any(|_| {
            succeeds(&mut self.client(&["ping"])) || {
                thread::sleep(PAUSE);
                false
            }
        }) {
            return Err("the server does not answer".into());
        }
        let statements =
            fs::File::open(self.folder.join("statements")).map_err(|error| error.to_string())?;
        capture(self.client(&["--pipe"]).stdin(Stdio::from(statements)))?;
        let digest = capture(&mut self.client(&["debug", "digest"]))?;
        let mut generator = Command::new("redis-benchmark");
        generator.args([
            "-s",
            "socket",
            "-q",
            "-P",
            "16",
            "-d",
            "100",
            "-r",
            "100000",
            "-n",
            &self.requests.to_string(),
        ]);
        generator.args(["-t", "set,get,incr,lpush,rpop,sadd,hset,zadd"]).current_dir(&self.folder);
        capture(&mut generator)?;
        let keys = capture(&mut self.client(&["exists", "string:1", "hash:1"]))?;
        Ok(format!("{} {}", digest.trim(), keys.trim()))
    }
}

/// Statements that make strings, hashes and sorted sets of many lengths, and take half of them away.
fn statements(count: usize) -> String {
    let mut all = String::new();
    for at in 0..count {
        let text = "x".repeat(at * 7 % 300 + 1);
        let (key, field) = (at / 10, at % 10);
        let _ = write!(
            all,
            "SET string:{at} {text}\r\nHSET hash:{key} {field} {text}\r\nZADD set:{key} {at} {text}\r\n"
        );
        if at % 2 == 1 {
            let _ = write!(
                all,
                "DEL string:{}\r\nAPPEND string:{} {text}\r\n",
                at / 2 * 2,
                at / 3 * 2 + 1
            );
        }
    }
    all
}

impl Program for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    /// The digest of all that the statements have made.
    fn run(&self, heap: &Heap, bindings: Option<&Path>) -> Result<Ran, String> {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no"]);
        command.args(["--enable-debug-command", "local"]).current_dir(&self.folder);
        heap.preload(&mut command);
        bindings.map(|folder| Heap::write_bindings(&mut command, folder));
        let mut server = Running::start(&mut command, &self.folder.join("said"))?;
        let result = self.load().inspect_err(|_| server.kill())?;
        // The server closes the connection instead of an answer.
        capture(&mut self.client(&["shutdown", "nosave"]))?;
        Ok(Ran { took: server.end()?, result })
    }
}

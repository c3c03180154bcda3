//! `cargo xtask moves`: an hour of real moves. A pool under load beside the daemon that compacts it, as fast as it can: `woodlot bench
//! daemon`, which checks each block whenever it is read, written or freed. Its short form is among the tests.

use crate::outcome::Outcome;
use crate::shell::{tee, this_cargo};

/// How long.
const SECONDS: u64 = 3600;

/// Runs it.
pub fn moves() -> Result<Outcome, String> {
    let mut command = this_cargo();
    command.args(["run", "--quiet", "--profile", "checked", "-p", "woodlot-cli", "--"]);
    command.args(["bench", "daemon", "--only", "--repetitions", "1", "--rate", "0"]);
    command.args(["--seconds", &SECONDS.to_string()]);
    let said = tee(&mut command)?;
    let done = done(&said).ok_or("the daemon has not said what it did")?;
    if done.starts_with("0 ") {
        return Err(format!("nothing moved: {done}"));
    }
    Ok(Outcome::Ran(format!("{SECONDS} s under load: {done}; 0 blocks torn, lost or in two hands")))
}

/// What the daemon did, in the words of the benchmark.
fn done(said: &str) -> Option<&str> {
    said.contains("no block was torn, lost or in two hands").then_some(())?;
    let line = said.lines().find_map(|line| line.strip_prefix("the daemon: "))?;
    line.split_once(", for each GiB").map(|(done, _)| done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_found() {
        let line =
            "the daemon: 86 huge frames won with 26705 moves, 0 failed, for each GiB copied 850\n";
        let said = format!("reads\n{line}no block was torn, lost or in two hands\n");
        assert_eq!(done(&said), Some("86 huge frames won with 26705 moves, 0 failed"));
        assert_eq!(done(line), None, "it ended early");
    }
}

//! Running other programs at the root of the repository, where they do not say another folder.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::iter;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Tells cargo to take the workspace of the core crates on the atomics of the checkers of interleavings, which
/// `--cfg woodlot_loom`, `woodlot_explore` and `shuttle` choose.
pub const CHECKING: [&str; 2] = ["--manifest-path", "checking/Cargo.toml"];

/// The cargo that runs this program.
pub fn this_cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs cargo at the root of the repository.
pub fn cargo<A: AsRef<OsStr>>(
    args: impl IntoIterator<Item = A>,
    env: &[(&str, &str)],
) -> Result<(), String> {
    let mut command = this_cargo();
    command.args(args).envs(env.iter().copied());
    run(&mut command)
}

/// Runs a command, said on standard error before, whose output goes where ours does.
pub fn run(command: &mut Command) -> Result<(), String> {
    let shown = announce(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

/// Runs a command whose output goes where ours does; returns what it wrote on standard output.
pub fn tee(command: &mut Command) -> Result<String, String> {
    let shown = announce(command);
    let failed = |error| format!("{shown}: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut said = String::new();
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line = line.map_err(failed)?;
        println!("{line}");
        said.push_str(&line);
        said.push('\n');
    }
    match child.wait().map_err(failed)? {
        status if status.success() => Ok(said),
        status => Err(format!("{shown}: {status}")),
    }
}

/// Runs tests; how many passed, which is an error if there are none: a name may have changed.
pub fn passed(command: &mut Command) -> Result<u64, String> {
    match passed_in(&tee(command)?) {
        0 => Err(format!("no test ran: {}", shown(command))),
        some => Ok(some),
    }
}

/// The sum of what the tests' runner says of tests that passed, for each file of tests and each seed of Miri's.
/// The runner writes a line piece by piece, and seeds run side by side, so that only a piece is whole.
pub fn passed_in(said: &str) -> u64 {
    let counts = said.match_indices(" passed; 0 failed").map(|(at, _)| &said[..at]);
    counts.filter_map(|until| until.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Does pieces of work in their order, two at a time, and returns what they gave. After a failure no
/// further piece is begun.
pub fn two_at_a_time<W: Send, T: Send>(
    pieces: impl IntoIterator<Item = W>,
    does: impl Fn(W) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    let left = Mutex::new(pieces.into_iter().collect::<VecDeque<W>>());
    let queue = || left.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || queue().pop_front();
    let work = || {
        let done = iter::from_fn(next).map(|piece| does(piece).inspect_err(|_| queue().clear()));
        done.collect::<Result<Vec<T>, String>>()
    };
    let [one, other] = thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.map(|worker| worker.join().map_err(|_| "a worker ended early".to_owned())?)
    });
    let mut done = one?;
    done.extend(other?);
    Ok(done)
}

/// Runs a command and returns what it wrote on standard output.
pub fn capture(command: &mut Command) -> Result<String, String> {
    let shown = announce(command);
    let output = command.stderr(Stdio::inherit()).output();
    let Output { status, stdout, .. } = output.map_err(|error| format!("{shown}: {error}"))?;
    let said = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() { Ok(said) } else { Err(format!("{said}{shown}: {status}")) }
}

/// Runs a command and returns what it wrote on standard output and standard error.
pub fn capture_both(command: &mut Command) -> Result<(String, String), String> {
    let shown = announce(command);
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    match output.status.success() {
        true => Ok((said, complained)),
        false => Err(format!("{complained}{shown}: {}", output.status)),
    }
}

/// Runs a command that only asks something: nothing of it is shown.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The machine that programs are built for where nothing else is said.
pub fn host() -> Result<String, String> {
    let said = capture(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| format!("rustc does not say its host: {said}"))
}

fn announce(command: &mut Command) -> String {
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    let env: String = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_string_lossy(), value?.to_string_lossy())))
        .map(|(name, value)| format!("{name}='{value}' "))
        .collect();
    let shown = shown(command);
    eprintln!("xtask: {env}{shown}");
    shown
}

/// A command without its folder and environment.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut shown = program.to_string_lossy().into_owned();
    for arg in command.get_args() {
        shown.push(' ');
        shown.push_str(&arg.to_string_lossy());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_passed_are_added_up() {
        let said = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\
                    seed 3: test result: ok. 40 passed; 0 failed\n12 passed";
        assert_eq!((passed_in(said), passed_in("test result: FAILED. 2 passed")), (42, 0));
    }

    #[test]
    fn tests_that_passed_under_two_seeds_at_once_are_added_up() {
        let said = ".......\ntest result: .\ntest result: okok. 4 passed; 0 failed; 0 ignored; 0 measured; \
                    4 filtered out. 4 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished \
                    in 10.00s\n\n; finished in 9.98s\n";
        assert_eq!(passed_in(said), 8);
    }

    #[test]
    fn pieces_of_work_are_all_done_or_one_fails() {
        let mut done = two_at_a_time(0..9, |n| Ok(2 * n)).expect("none fails");
        done.sort();
        assert_eq!(done, [0, 2, 4, 6, 8, 10, 12, 14, 16]);
        let fails = |n| if n == 3 { Err("three".to_owned()) } else { Ok(n) };
        assert_eq!(two_at_a_time(0..9, fails), Err("three".into()));
    }
}

//! Command lines of `woodlot`: parsed, never run.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::iter;
use std::os::unix::ffi::OsStringExt;

use clap::{Command, CommandFactory, FromArgMatches};
use woodlot_cli::Cli;

/// Values that arguments may take, and some that they may not.
const VALUES: [&str; 12] = [
    "0",
    "5",
    "1001",
    "-1",
    "18446744073709551616",
    "0,9",
    "--",
    "=",
    ",",
    ".",
    "a.wtrace",
    "1GiB",
];
/// Ends an argument.
const END: u8 = 255;
/// Comes before the number of a word.
const WORD: u8 = 254;

/// The command line, built once, and the words that it knows.
struct Known {
    line: Command,
    words: Vec<String>,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::new(Known::new());
}

/// A byte is itself, the end of an argument, or announces the number of a word.
pub fn command(data: &[u8]) {
    KNOWN.with_borrow_mut(|known| {
        let line = known.line(data);
        let parsed = known.line.try_get_matches_from_mut(line);
        let parsed = parsed.and_then(|matches| {
            Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut known.line))
        });
        match parsed {
            Ok(cli) => assert!(!format!("{cli:?}").is_empty()),
            Err(error) => {
                assert!(matches!(error.exit_code(), 0 | 2), "exit code {}", error.exit_code());
                assert!(!error.to_string().is_empty(), "an error without a word");
            }
        }
    });
}

impl Known {
    fn new() -> Self {
        let mut line = Cli::command();
        line.build();
        let mut words = BTreeSet::from(VALUES.map(str::to_owned));
        collect(&line, &mut words);
        Known { line, words: words.into_iter().collect() }
    }

    fn line(&self, data: &[u8]) -> Vec<OsString> {
        let mut args = vec![b"woodlot".to_vec()];
        let mut arg = Vec::new();
        let mut bytes = data.iter();
        while let Some(&byte) = bytes.next() {
            match byte {
                END => args.push(std::mem::take(&mut arg)),
                WORD => {
                    let number = bytes.next().map_or(0, |&number| usize::from(number));
                    arg.extend(self.words[number % self.words.len()].as_bytes());
                }
                letter => arg.push(letter),
            }
        }
        args.push(arg);
        args.into_iter().map(OsString::from_vec).collect()
    }
}

/// The names of commands and options, and the values that options name.
fn collect(command: &Command, words: &mut BTreeSet<String>) {
    words.insert(command.get_name().to_owned());
    for argument in command.get_arguments() {
        let values = argument.get_possible_values();
        words.extend(values.iter().map(|value| value.get_name().to_owned()));
        let long = argument.get_long().map(|long| format!("--{long}"));
        let short = argument.get_short().map(|short| format!("-{short}"));
        words.extend(iter::empty().chain(long).chain(short));
    }
    command.get_subcommands().for_each(|command| collect(command, words));
}

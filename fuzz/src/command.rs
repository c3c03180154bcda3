//! Command lines of `woodlot`: parsed, never run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Parser;
use woodlot_cli::Cli;

/// What the command line knows, so that a byte is enough for it.
const WORDS: [&str; 40] = [
    "replay",
    "trace",
    "bench",
    "frag",
    "convert",
    "info",
    "help",
    "--help",
    "-h",
    "--version",
    "--out",
    "--engine",
    "llfree",
    "linux",
    "--zones",
    "one",
    "--threads",
    "--rounds",
    "0",
    "5",
    "1000",
    "1001",
    "-1",
    "--every",
    "18446744073709551616",
    "--start-owned",
    "--hidden-owned",
    "--curve",
    "--name",
    "--order",
    "0,9",
    "--slots",
    "8",
    "--check",
    "repeat",
    "--",
    "=",
    ",",
    "file.wtrace",
    "--seconds",
];
/// Ends an argument.
const END: u8 = 255;

/// A byte is a known word, the end of an argument, or itself.
pub fn command(data: &[u8]) {
    let mut args = vec![b"woodlot".to_vec(), Vec::new()];
    for &byte in data {
        match (WORDS.get(usize::from(byte) ^ 128), args.last_mut()) {
            (_, None) | (_, Some(_)) if byte == END => args.push(Vec::new()),
            (Some(word), Some(arg)) => arg.extend(word.as_bytes()),
            (None, Some(arg)) => arg.push(byte),
            (_, None) => {}
        }
    }
    match Cli::try_parse_from(args.into_iter().map(OsString::from_vec)) {
        Ok(cli) => assert!(!format!("{cli:?}").is_empty()),
        Err(error) => {
            assert!(matches!(error.exit_code(), 0 | 2), "exit code {}", error.exit_code());
            assert!(!error.to_string().is_empty(), "an error without a word");
        }
    }
}

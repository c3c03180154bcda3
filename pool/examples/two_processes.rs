//! Two processes share a pool. One is killed; the other one gets its memory back, and goes on.
//!
//! ```text
//!   cargo run --release -p woodlot-pool --example two_processes
//! ```
#![cfg(target_os = "linux")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use woodlot_pool::{FrameId, Options, Order, Pool, PoolError};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[cfg_attr(test, expect(dead_code, reason = "a test has its own"))]
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => child(Path::new(&path)),
        None => run(|path| {
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            child.arg(path);
            child
        }),
    }
}

/// 64 MiB, of which 16 MiB may be memory. Whoever comes first makes the pool.
fn open(path: &Path) -> Result<Pool> {
    // SAFETY: both processes use the file in this way only.
    Ok(unsafe { Options::new(64 << 20).cap(16 << 20).shared(path) }.build()?)
}

/// The first process. `again` is the command for the second one, which calls [`child`] with this path.
pub fn run(again: impl FnOnce(&Path) -> Command) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pool");
    let pool = open(&path)?;
    let mut kept = pool.alloc(Order(4))?;
    kept.fill(1);

    let mut child = again(&path).stdout(Stdio::piped()).spawn()?;
    let said = BufReader::new(child.stdout.take().ok_or("the child says nothing")?);
    // It has what it wants, and goes on without end. It says where a message lies.
    let said = said.lines().find_map(|line| line.ok()?.strip_prefix("message ")?.parse().ok());
    let message = pool.pointer(FrameId(said.ok_or("the child has not come so far")?));
    // SAFETY: the child has written this page, and lets it be.
    let text = unsafe { std::slice::from_raw_parts(message.ok_or("a wrong number")?, 5) };
    assert_eq!(text, b"hello");
    assert!(matches!(pool.alloc(Order(10)), Err(PoolError::OutOfMemory { .. })));

    sleep(Duration::from_millis(20));
    child.kill()?;
    child.wait()?;
    println!("process {} was killed; {} bytes are resident", child.id(), pool.resident());
    // An allocation that finds no memory would do the same.
    let freed = pool.reap();
    println!("it had {freed} bytes, which are free again");
    drop(pool.alloc_batch(Order(10), 3)?);
    assert!(kept.iter().all(|&byte| byte == 1), "this process lives, and keeps its own");
    drop(kept);
    println!("{} bytes given back, {} resident", pool.give_back(usize::MAX)?, pool.resident());
    Ok(())
}

/// The second process: takes nearly all of the pool, and allocates and frees until it is killed.
pub fn child(path: &Path) -> Result<()> {
    let pool = open(path)?;
    let mut message = pool.alloc(Order(0))?;
    message[..5].copy_from_slice(b"hello");
    let _much = pool.alloc_run(13 << 20)?;
    println!("message {}", message.frame().0);
    stdout().flush()?;
    loop {
        pool.alloc(Order(3))?.fill(2);
    }
}

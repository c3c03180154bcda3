//! Pools that several processes have: what a death takes with it, and files that are no such pool.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use woodlot_pool::{
    Block, BuildError, Engine, FrameId, Options, Order, Pool, PoolError, SharedError,
};
use woodlot_zone::HugeUse;

const MIB: usize = 1 << 20;
const HUGE: usize = 2 * MIB;
const SIZE: usize = 128 * MIB;
const CAP: usize = 64 * MIB;

/// Where a child finds the file.
const CHILD: &str = "WOODLOT_POOL_CHILD";

fn options(path: &Path) -> Options {
    // SAFETY: only such pools use the file, or the test looks what they do with a wrong one.
    unsafe { Options::new(SIZE).cap(CAP).shared(path) }
}

fn open(path: &Path) -> Pool {
    options(path).build().expect("a shared pool")
}

fn refused(options: Options) -> (BuildError, String) {
    let error = options.build().expect_err("no such pool");
    let said = error.to_string();
    (error, said)
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    (folder, path)
}

fn in_use(pool: &Pool) -> usize {
    pool.resident() - pool.free_bytes()
}

/// Allocates, frees and gives back by chance. Each page of a block has the number of its owner until it is freed.
struct Owner<'p> {
    pool: &'p Pool,
    blocks: Vec<Block<'p>>,
    rng: u64,
}

impl<'p> Owner<'p> {
    fn new(pool: &'p Pool) -> Self {
        Owner { pool, blocks: Vec::new(), rng: process::id().into() }
    }

    fn below(&mut self, end: usize) -> usize {
        self.rng = self.rng.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.rng >> 33) as usize % end
    }

    fn call(&mut self) {
        match self.below(200) {
            0 => drop(self.pool.give_back(4 * MIB).expect("the system takes memory")),
            1 => drop(self.pool.reap()),
            _ if self.below(5) < 3 && self.blocks.len() < 64 => {
                let order = if self.below(20) == 0 { 10 } else { self.below(7) as u8 };
                match self.pool.alloc(Order(order)) {
                    Ok(block) => self.blocks.push(signed(block)),
                    Err(PoolError::OutOfMemory { .. }) => self.blocks.clear(),
                    Err(error) => panic!("{error}"),
                }
            }
            _ if self.blocks.is_empty() => {}
            number => {
                let block = self.blocks.swap_remove(number % self.blocks.len());
                check(&block);
            }
        }
    }
}

fn signed(mut block: Block<'_>) -> Block<'_> {
    let me = process::id().to_le_bytes();
    block.chunks_exact_mut(4096).for_each(|page| page[..4].copy_from_slice(&me));
    block
}

fn check(block: &[u8]) {
    let me = process::id().to_le_bytes();
    assert!(block.chunks_exact(4096).all(|page| page[..4] == me), "another owner has been here");
}

/// Held while a process is being made: it has all files of this one until it runs its program.
static SPAWNING: Mutex<()> = Mutex::new(());

/// Drops pools. Nothing keeps them alive any more.
fn gone(pools: impl IntoIterator<Item = Pool>) {
    let _none_is_made = SPAWNING.lock().expect("nobody panics with it");
    pools.into_iter().for_each(drop);
}

fn spawn(path: &Path, test: &str) -> Child {
    let _one_is_made = SPAWNING.lock().expect("nobody panics with it");
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", test]).env(CHILD, path).spawn().expect("a child")
}

#[test]
fn one_engine_has_zones_that_processes_share() {
    let (_folder, path) = folder();
    let (error, said) = refused(options(&path).engine(Engine::OneWrite));
    assert!(matches!(error, BuildError::SharedEngine(Engine::OneWrite)));
    assert_eq!(said, "a shared pool has the engine llfree, and not onewrite");
    assert!(!path.exists(), "nothing is made");
    assert_eq!(
        options(&path).engine(Engine::LLFree).build().expect("a pool").engine(),
        Engine::LLFree
    );
}

#[test]
fn who_is_killed_gives_its_memory_to_the_others() {
    if let Ok(path) = env::var(CHILD) {
        let pool = open(Path::new(&path));
        let mut owner = Owner::new(&pool);
        loop {
            owner.call();
        }
    }
    const NAME: &str = "who_is_killed_gives_its_memory_to_the_others";
    const KILLS: usize = 12;
    let (_folder, path) = folder();
    let pool = open(&path);
    let mut owner = Owner::new(&pool);
    let mut reaped = 0;
    for round in 0..KILLS / 3 {
        let mut children = [(); 3].map(|()| spawn(&path, NAME));
        sleep(Duration::from_millis(60 + 20 * round as u64));
        for child in &mut children {
            (0..200).for_each(|_| owner.call());
            child.kill().expect("it lives");
            let ended = child.wait().expect("it ends");
            assert_eq!(ended.code(), None, "it met another owner, and was not killed");
            reaped += pool.reap();
        }
    }
    assert!(pool.resident() <= pool.cap());
    owner.blocks.drain(..).for_each(|block| check(&block));
    drop(owner);
    pool.reap();
    let hidden = in_use(&pool);
    assert!(hidden <= KILLS * 4 * MIB, "a block for each at most: {hidden}");
    println!("{KILLS} processes killed, {reaped} bytes freed by this one, {hidden} hidden");
    gone([pool]);

    // Who comes alone finds all of it, and the cap is what it was.
    let pool = open(&path);
    assert_eq!((pool.resident(), pool.free_bytes()), (0, 0));
    let all = pool.alloc_batch(Order(9), CAP / HUGE).expect("nothing is lost");
    let error = pool.alloc(Order(0)).expect_err("there is no more");
    assert!(matches!(error, PoolError::OutOfMemory { free: 0, .. }), "{error}");
    drop(all);
}

/// Two processes make, recover and join a pool again and again, until they are killed in the middle of that.
#[test]
fn who_is_killed_while_it_opens_leaves_a_pool() {
    // SAFETY: only such pools use the file.
    let small = |path: &Path| unsafe { Options::new(16 * MIB).cap(8 * MIB).shared(path) }.build();
    if let Ok(path) = env::var(CHILD) {
        loop {
            let pool = small(Path::new(&path)).expect("a shared pool");
            std::mem::forget(signed(pool.alloc(Order(9)).expect("each has one")));
        }
    }
    const NAME: &str = "who_is_killed_while_it_opens_leaves_a_pool";
    let (_folder, path) = folder();
    for round in 0..32 {
        let mut children = [(); 2].map(|()| spawn(&path, NAME));
        sleep(Duration::from_millis(10 + round % 8));
        for child in &mut children {
            child.kill().expect("it lives");
            assert_eq!(child.wait().expect("it ends").code(), None, "it was killed");
        }
        let pool = small(&path).expect("whatever they have left");
        assert_eq!((pool.resident(), pool.free_bytes()), (0, 0));
        let all = pool.alloc_batch(Order(9), 4).expect("all of it");
        pool.alloc(Order(0)).expect_err("the cap");
        drop(all);
        gone([pool]);
        if round % 4 == 0 {
            fs::remove_file(&path).expect("it is there");
        }
    }
}

#[test]
fn what_a_dead_process_had_is_found_when_memory_runs_out() {
    let (_folder, path) = folder();
    let pool = open(&path);
    let kept = signed(pool.alloc(Order(3)).expect("memory"));
    let other = open(&path);
    assert_eq!(in_use(&pool), kept.len(), "who lives keeps its frames when another one joins");
    // A pool that is dropped without its blocks is to the others as one whose process has died.
    let all = other.alloc_batch(Order(9), CAP / HUGE - 1).expect("so much is free");
    all.into_iter().for_each(std::mem::forget);
    assert!(matches!(pool.alloc(Order(10)), Err(PoolError::OutOfMemory { .. })), "it is alive");
    assert_eq!(pool.reap(), 0, "a living process keeps its frames");
    gone([other]);
    let block = pool.alloc(Order(10)).expect("what the dead one had");
    assert_eq!(in_use(&pool), block.len() + kept.len());
    let last = open(&path);
    let at = last.alloc_at(FrameId(block.frame().0), Order(0));
    assert!(matches!(at, Err(PoolError::Place(_))), "it is another process's");
    drop((block, at));
    check(&kept);
}

#[test]
fn both_see_one_memory_and_a_block_changes_hands() {
    let (_folder, path) = folder();
    let (one, other) = (open(&path), open(&path));
    let frame = signed(one.alloc(Order(4)).expect("memory")).into_frame();
    // SAFETY: nobody else has its number.
    let block = unsafe { other.adopt(frame, Order(4)) }.expect("it is allocated");
    check(&block);
    // SAFETY: the pool refuses a block that is free.
    let free = unsafe { other.adopt(FrameId(frame.0 + 16), Order(4)) };
    assert!(matches!(free, Err(PoolError::NotAllocated(_))));
    gone([one]);
    assert_eq!(other.reap(), 0, "it is the other one's now");
    check(&block);
    drop(block);
    assert_eq!(in_use(&other), 0);
    assert_eq!(other.give_back(usize::MAX).expect("the system takes memory"), HUGE);
    assert_eq!(other.resident(), 0);
    let again = other.alloc_at(frame, Order(4)).expect("it is free");
    assert!(again.iter().all(|&byte| byte == 0), "what was given back is zero");
}

#[test]
fn a_memory_file_that_was_passed_on() {
    let file = rustix::fs::memfd_create("shared", MemfdFlags::ALLOW_SEALING).expect("a file");
    let by_descriptor = |file: &std::os::fd::OwnedFd| {
        let file = file.try_clone().expect("a copy");
        // SAFETY: only such pools use the file.
        unsafe { Options::new(SIZE).cap(CAP).shared_descriptor(file) }
    };
    let (one, other) = (by_descriptor(&file).build(), by_descriptor(&file).build());
    let (one, other) = (one.expect("a pool"), other.expect("the same pool"));
    let block = signed(one.alloc(Order(2)).expect("memory"));
    let place = other.pointer(block.frame()).expect("it is in the pool");
    assert_ne!(place.cast_const(), block.as_ptr());
    // SAFETY: the page is mapped, and nobody writes to it now.
    assert_eq!(unsafe { place.cast::<u32>().read() }, process::id());
    File::from(file.try_clone().expect("a copy")).set_len(0).expect_err("nobody makes it shorter");
    // Passed on for reading only.
    let number = std::os::fd::AsRawFd::as_raw_fd(&file.as_fd());
    let read = File::open(format!("/proc/self/fd/{number}")).expect("it can be read");
    let (error, said) = refused(by_descriptor(&read.into()));
    assert!(matches!(error, BuildError::File { doing: "open it", .. }), "{said}");
}

#[test]
fn files_that_are_not_this_pool() {
    let (_folder, path) = folder();
    let pool = open(&path);
    let block = signed(pool.alloc(Order(5)).expect("memory"));
    // SAFETY: the pools are refused.
    let of = |size: usize, cap: usize| unsafe { Options::new(size).cap(cap).shared(&path) };
    let said = |options: Options| refused(options).1;
    let name = path.display();
    assert_eq!(
        said(of(SIZE, CAP / 2)),
        format!("{name}: cap of the pool: {} is asked for, and the shared pool has {CAP}", CAP / 2)
    );
    assert_eq!(
        said(of(SIZE / 2, CAP)),
        format!(
            "{name}: size of the pool: {} is asked for, and the shared pool has {SIZE}",
            SIZE / 2
        )
    );
    // SAFETY: the pool is refused.
    let (error, text) = refused(unsafe { Options::new(SIZE).file(&path) });
    assert!(matches!(error, BuildError::FileInUse(_)), "{text}");
    drop(block);
    gone([pool]);

    let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file");
    let len = file.metadata().expect("a length").len();
    for wrong in [len - 4096, len + 4096, 100] {
        file.set_len(wrong).expect("another length");
        let (error, text) = refused(options(&path));
        assert!(matches!(error, BuildError::FileLength { .. }), "{text}");
        file.set_len(len).expect("its length");
        if wrong == 100 {
            break;
        }
    }
    let (error, text) = refused(options(&path));
    assert!(matches!(error, BuildError::Shared { cause: SharedError::Zone(_), .. }), "{text}");
    fs::remove_file(&path).expect("it is there");

    gone([open(&path)]);
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file");
    let mut page = [0; 64];
    let at = (0..len).step_by(4096).find(|&at| {
        file.read_exact_at(&mut page, at).expect("it is so long");
        page.starts_with(b"Pool\x1a")
    });
    let (at, cause_of) = (at.expect("a pool page"), |error: BuildError| match error {
        BuildError::Shared { cause, .. } => cause,
        other => panic!("{other}"),
    });
    let mut words: [u64; 8] = std::array::from_fn(|word| {
        u64::from_le_bytes(page[8 * word..8 * word + 8].try_into().expect("a word"))
    });
    words[2] += 1;
    let put = |words: &[u64; 8]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.write_all_at(&bytes, at).expect("it is written");
    };
    put(&words);
    assert_eq!(cause_of(refused(options(&path)).0), SharedError::Damaged);
    words[1] = woodlot_zone::checksum(&words[2..]);
    put(&words);
    let (what, expected, found) = ("version of the pool page", 1, 2);
    let cause = cause_of(refused(options(&path)).0);
    assert_eq!(cause, SharedError::Differs { what, expected, found });
    words[0] = 1;
    put(&words);
    assert_eq!(cause_of(refused(options(&path)).0), SharedError::NotAPool { magic: 1 });
    // One that somebody began to make is made.
    words[0] = u64::from_le_bytes(*b"pool?\0\0\0");
    put(&words);
    let pool = open(&path);
    drop(pool.alloc_batch(Order(9), CAP / HUGE).expect("all of it"));
    gone([pool]);
    // Also one that nothing but the mark is there of.
    fs::remove_file(&path).expect("it is there");
    File::create(&path).expect("a file").write_all_at(b"pool?\0\0\0", at).expect("a mark");
    drop(open(&path).alloc_batch(Order(9), CAP / HUGE).expect("all of it"));
}

#[test]
fn a_file_of_a_pool_of_one_process() {
    let (folder, path) = folder();
    // SAFETY: nobody else writes to it.
    let own = unsafe { Options::new(SIZE).cap(HUGE).file(&path) };
    let pool = own.build().expect("a pool");
    let mut block = pool.alloc(Order(9)).expect("memory");
    block.fill(7);
    let (error, said) = refused(options(&path));
    assert!(matches!(error, BuildError::FileInUse(_)), "{said}");
    drop(block);
    gone([pool]);
    let (error, said) = refused(options(&path));
    assert!(said.contains("not a shared pool: this is no zone"), "{said}");
    assert!(matches!(error, BuildError::Shared { .. }));
    let page = fs::read(&path).expect("it can be read");
    assert!(page[..HUGE].iter().all(|&byte| byte == 7), "nothing has changed");
    let (error, said) = refused(options(folder.path()));
    assert!(matches!(error, BuildError::File { doing: "open it", .. }), "{said}");
    let (_, said) = refused(options(Path::new("/dev/null")));
    assert!(said.contains("not a regular file"), "nothing is written to a device: {said}");
}

#[test]
fn a_file_that_is_made_shorter_is_an_error() {
    let (_folder, path) = folder();
    let pool = open(&path);
    let file = OpenOptions::new().write(true).open(&path).expect("the file");
    let len = file.metadata().expect("a length").len();
    file.set_len(len - 4096).expect("a shorter file");
    let error = pool.alloc(Order(0)).expect_err("what is not there is not handed out");
    assert!(error.to_string().contains("somebody has made the file shorter"), "{error}");
    file.set_len(len).expect("its length");
    drop(signed(pool.alloc(Order(0)).expect("it is there again")));
    // What is made in a file that somebody has would hand out the same frames again.
    file.set_len(0).expect("a shorter file");
    let (error, text) = refused(options(&path));
    assert!(matches!(error, BuildError::FileLength { bytes: 0, .. }), "{text}");
    assert_eq!(file.metadata().expect("a length").len(), 0, "nothing is made");
    file.set_len(len).expect("a length that the pool can be dropped with");
}

/// What `woodlot zone map` and `woodlot top` do with the file.
#[test]
fn others_can_look_at_the_zone() {
    let (_folder, path) = folder();
    let pool = open(&path);
    let huge = pool.alloc(Order(9)).expect("memory");
    let small = pool.alloc(Order(0)).expect("memory");
    let file = File::open(&path).expect("the file");
    let len = file.metadata().expect("a length").len() as usize;
    // SAFETY: the system chooses the place, nobody unmaps it, and the pool keeps the file as long.
    let memory = unsafe {
        let (any, read) = (std::ptr::null_mut(), rustix::mm::ProtFlags::READ);
        let start = rustix::mm::mmap(any, len, read, rustix::mm::MapFlags::SHARED, file, 0);
        woodlot_zone::Memory::new(start.expect("a mapping").cast(), len).expect("it is aligned")
    };
    woodlot_zone::in_use(memory).expect("it is in use");
    // SAFETY: nobody formats the zone, and the mapping stays.
    let view = unsafe { woodlot_zone::view::<woodlot_frame::Base4K>(memory) };
    let (info, view) = view.expect("a zone");
    assert_eq!(info.config.frames * 4096, SIZE);
    let count = |use_: HugeUse| view.huge_frames().filter(|huge| huge.used_as == use_).count();
    assert_eq!((count(HugeUse::Offline), count(HugeUse::Whole)), ((SIZE - CAP) / HUGE, 1));
    assert_eq!(count(HugeUse::Split { free: 511 }), 1);
    drop((huge, small));
}

#[test]
fn there_is_room_for_64_processes() {
    let (_folder, path) = folder();
    // SAFETY: only such pools use the file.
    let small = || unsafe { Options::new(HUGE).shared(&path).slots(2) };
    let mut pools: Vec<Pool> = (0..64).map(|_| small().build().expect("there is room")).collect();
    let (error, said) = refused(small());
    let full = SharedError::Full { members: 64 };
    assert!(matches!(error, BuildError::Shared { cause, .. } if cause == full), "{said}");
    let block = signed(pools[63].alloc(Order(3)).expect("memory"));
    check(&block);
    drop(block);
    gone(pools.drain(..20));
    (0..20).for_each(|_| pools.push(small().build().expect("the dead have made room")));
    refused(small());
}

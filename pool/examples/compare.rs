//! Allocate, touch and free: a pool beside malloc and mmap. Give memory back and take it again: beside madvise alone. Pools
//! of each engine beside each other.
//!
//! `cargo run --release -p woodlot-pool --example compare` prints the tables of the crate's README, and with `-- engines` the
//! last one alone.

use std::cell::RefCell;
use std::env;
use std::error::Error;
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::time::{ClockId, clock_gettime};
use woodlot_pool::{Block, Engine, Options, Order, Pool, PoolError, SlotBy};

const REPETITIONS: usize = 9;
/// How long each measurement takes at least.
const LEAST: Duration = Duration::from_millis(15);
const PAGE: usize = 4096;
const GIB: usize = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let only: Vec<String> = env::args().skip(1).collect();
    let alone = match only.as_slice() {
        [] => false,
        [word] if word == "engines" => true,
        _ => return Err(format!("{}: not a table; engines is one", only.join(" ")).into()),
    };
    machine();
    if !alone {
        others()?;
    }
    engines()?;
    println!("\nLoad average at the end: {}", read("/proc/loadavg"));
    Ok(())
}

/// The pool beside others.
fn others() -> Result<(), Box<dyn Error>> {
    let pools = [SlotBy::Thread, SlotBy::Cpu].map(|by| Options::new(GIB).slot_by(by).build());
    let [by_thread, by_cpu] = pools;
    let (by_thread, by_cpu) = (by_thread?, by_cpu?);
    let sources = [
        Source::Pool(&by_thread),
        Source::Pool(&by_cpu),
        Source::Malloc,
        Source::Aligned,
        Source::Mmap,
        Source::Stack(&by_thread),
    ];

    println!(
        "\nAllocate, touch and free. ns for each block: wall, thread CPU (median of {REPETITIONS}; least)."
    );
    println!(
        "\n| block | touched | threads | held | pool | pool, slot by CPU | malloc | posix_memalign | mmap | vector | malloc, posix_memalign, mmap / pool, by CPU time |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (order, many) in [(0, 1024), (4, 64), (9, 32)] {
        let order = Order(order);
        for (touch, held) in [
            (Touch::Pages, Held::One),
            (Touch::Pages, Held::Chance(many)),
            (Touch::Pages, Held::All(many)),
            (Touch::Bytes, Held::One),
        ] {
            for threads in [1, 2] {
                row(Load { order, touch, threads, held }, sources);
            }
        }
    }

    println!("\nAsk for the slot and nothing else, ns: {}.", slots());
    println!(
        "\nGive 1 GiB back and take it again, touching a byte of each page. ms: wall, thread CPU (median of {REPETITIONS}; least)."
    );
    println!(
        "\n| memory | madvise | give_back | touch | alloc and touch | both alone / both with the pool, by CPU time |"
    );
    println!("|---|---|---|---|---|---|");
    give_and_take("4 KiB pages", Options::new(GIB))?;
    give_and_take("transparent huge pages", Options::new(GIB).huge_pages())
}

/// Each engine, where each call goes to it.
fn engines() -> Result<(), Box<dyn Error>> {
    let pool = |engine| Options::new(GIB).magazines(false).engine(engine).build();
    let [llfree, onewrite] = [pool(Engine::LLFree)?, pool(Engine::OneWrite)?];
    let sources = [Source::Pool(&llfree), Source::Pool(&onewrite)];
    println!(
        "\nAllocate, touch and free without magazines. ns for each block: wall, thread CPU (median of {REPETITIONS}; least)."
    );
    println!(
        "\n| block | touched | threads | held | llfree | onewrite | llfree / onewrite, by CPU time |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (order, many) in [(0, 1 << 16), (4, 1 << 12), (9, 128)] {
        let (order, touch) = (Order(order), Touch::Byte);
        for held in [Held::One, Held::Chance(many), Held::All(many)] {
            for threads in [1, 2] {
                let load = Load { order, touch, threads, held };
                let [llfree, onewrite] = medians(load, sources);
                let ratio = llfree.0 / onewrite.0;
                println!("{load} {} | {} | {ratio:.2} |", llfree.1, onewrite.1);
            }
        }
    }
    Ok(())
}

/// What is measured, and where.
fn machine() {
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
    // SAFETY: it returns a string that lives for ever.
    let libc = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    println!(
        "{model}, {cpus} CPUs; Linux {}, glibc {}",
        read("/proc/sys/kernel/osrelease"),
        libc.to_string_lossy()
    );
    println!(
        "Commit {}; {}",
        said("git", &["describe", "--always", "--dirty"]),
        said("date", &["-Iminutes"])
    );
    println!("Load average at the start: {}", read("/proc/loadavg"));
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| "unknown".into(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// Where memory comes from.
#[derive(Clone, Copy)]
enum Source<'p> {
    Pool(&'p Pool),
    Malloc,
    /// `posix_memalign`, to a page.
    Aligned,
    Mmap,
    /// A vector of free blocks, of one thread: what the loop and the touch cost.
    Stack(&'p Pool),
}

/// How much of a block is written.
#[derive(Clone, Copy, PartialEq)]
enum Touch {
    /// The first byte.
    Byte,
    /// A byte of each page.
    Pages,
    /// All bytes.
    Bytes,
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Touch::Byte => "1 byte",
            Touch::Pages => "1 byte a page",
            Touch::Bytes => "all",
        })
    }
}

/// Which blocks a thread holds.
#[derive(Clone, Copy, PartialEq)]
enum Held {
    /// One, which is freed at once.
    One,
    /// So many, which are then freed, the first one first.
    All(usize),
    /// So many always: a block that is chosen by chance makes room for each new one.
    Chance(usize),
}

impl Held {
    fn blocks(self) -> usize {
        match self {
            Held::One => 1,
            Held::All(blocks) | Held::Chance(blocks) => blocks,
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::One => f.write_str("1"),
            Held::All(blocks) => write!(f, "{blocks}, freed in order"),
            Held::Chance(blocks) => write!(f, "{blocks}, freed by chance"),
        }
    }
}

#[derive(Clone, Copy)]
struct Load {
    order: Order,
    touch: Touch,
    threads: usize,
    held: Held,
}

/// ns for each block, or ms.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Cost {
    wall: f64,
    cpu: f64,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load { order, touch, threads, held } = self;
        let kib = (order.frames() * PAGE) >> 10;
        write!(f, "| {kib} KiB | {touch} | {threads} | {held} |")
    }
}

/// What each source takes for a load, by turns: the median of the CPU times, and a text.
fn medians<const N: usize>(load: Load, sources: [Source; N]) -> [(f64, String); N] {
    let mut costs = [const { Vec::new() }; N];
    for _ in 0..REPETITIONS {
        for (source, costs) in sources.iter().zip(&mut costs) {
            costs.push(measure(*source, load));
        }
    }
    costs.map(|costs| summary(&costs))
}

fn row(load: Load, sources: [Source; 6]) {
    let medians = medians(load, sources);
    let ratio = |source: usize| medians[source].0 / medians[0].0;
    print!("{load}");
    medians.iter().for_each(|(_, text)| print!(" {text} |"));
    println!(" {:.1}, {:.1}, {:.1} |", ratio(2), ratio(3), ratio(4));
}

/// The median of the CPU times, and a text with both medians and both least.
fn summary(costs: &[Cost]) -> (f64, String) {
    let (walls, cpus) =
        (sorted(costs.iter().map(|cost| cost.wall)), sorted(costs.iter().map(|cost| cost.cpu)));
    let (wall, cpu) = (walls[walls.len() / 2], cpus[cpus.len() / 2]);
    (cpu, format!("{}, {} ({}, {})", short(wall), short(cpu), short(walls[0]), short(cpus[0])))
}

/// Three digits where there are fewer.
fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The mean cost of the threads, which all begin together.
fn measure(source: Source, load: Load) -> Cost {
    let start = Barrier::new(load.threads);
    let costs: Vec<Cost> = thread::scope(|scope| {
        let work = || {
            run(source, load, Duration::ZERO);
            start.wait();
            run(source, load, LEAST)
        };
        let threads: Vec<_> = (0..load.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let mean = |cost: fn(&Cost) -> f64| costs.iter().map(cost).sum::<f64>() / costs.len() as f64;
    Cost { wall: mean(|cost| cost.wall), cpu: mean(|cost| cost.cpu) }
}

/// Allocates, touches and frees for at least so long, or once.
fn run(source: Source, load: Load, least: Duration) -> Cost {
    let bytes = load.order.frames() * PAGE;
    let touched = |block: *mut u8| touch(block, bytes, load.touch);
    match source {
        Source::Pool(pool) => {
            let take = || {
                let mut block = pool.alloc(load.order).expect("the pool is large enough");
                touched(block.as_mut_ptr());
                block
            };
            rounds(load.held, least, take, drop)
        }
        Source::Malloc => {
            let take = || {
                // SAFETY: what it returns is checked, used for as many bytes, and freed once.
                let block = unsafe { libc::malloc(bytes) }.cast::<u8>();
                assert!(!block.is_null(), "no memory");
                touched(block);
                block
            };
            // SAFETY: it comes from malloc, and is freed once.
            rounds(load.held, least, take, |block| unsafe { libc::free(block.cast()) })
        }
        Source::Aligned => {
            let take = || {
                let mut block = null_mut();
                // SAFETY: what it returns is checked, used for as many bytes, and freed once.
                let refused = unsafe { libc::posix_memalign(&mut block, PAGE, bytes) };
                assert_eq!(refused, 0, "no memory");
                touched(block.cast());
                block
            };
            // SAFETY: it comes from posix_memalign, and is freed once.
            rounds(load.held, least, take, |block| unsafe { libc::free(block) })
        }
        Source::Mmap => {
            let take = || {
                let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
                // SAFETY: the system chooses addresses that nobody has.
                let block =
                    unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, flags.0, flags.1) };
                let block = block.expect("memory").cast::<u8>();
                touched(block);
                block
            };
            rounds(load.held, least, take, |block| {
                // SAFETY: it comes from mmap, and is unmapped once.
                unsafe { rustix::mm::munmap(block.cast(), bytes) }.expect("it is mapped");
            })
        }
        Source::Stack(pool) => {
            let run = pool.alloc_run(bytes * load.held.blocks()).expect("memory");
            let start = run.as_ptr().cast_mut();
            let blocks = (0..load.held.blocks()).map(|block| start.wrapping_add(block * bytes));
            let stack = RefCell::new(blocks.collect::<Vec<_>>());
            let take = || {
                let block = stack.borrow_mut().pop().expect("as many as are held");
                touched(block);
                block
            };
            rounds(load.held, least, take, |block| stack.borrow_mut().push(block))
        }
    }
}

fn rounds<B>(held: Held, least: Duration, take: impl Fn() -> B, free: impl Fn(B)) -> Cost {
    let mut blocks = Vec::with_capacity(held.blocks());
    if let Held::Chance(count) = held {
        blocks.extend((0..count).map(|_| take()));
    }
    let (began, cpu) = (Instant::now(), cpu_time());
    let (mut done, mut rounds, mut chance) = (0, 1, 1u64);
    let cost = loop {
        match held {
            Held::One => (0..rounds).for_each(|_| free(take())),
            Held::All(count) => {
                for _ in 0..rounds {
                    blocks.extend((0..count).map(|_| take()));
                    blocks.drain(..).for_each(&free);
                }
            }
            Held::Chance(count) => {
                for _ in 0..rounds {
                    chance =
                        chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    // A number below `count`, without a division.
                    let chosen = ((chance >> 32) * count as u64) >> 32;
                    free(blocks.swap_remove(chosen as usize));
                    blocks.push(take());
                }
            }
        }
        done += rounds * if let Held::All(count) = held { count } else { 1 };
        let wall = began.elapsed();
        if wall >= least {
            let each = |time: Duration| time.as_nanos() as f64 / done as f64;
            break Cost { wall: each(wall), cpu: each(cpu_time() - cpu) };
        }
        rounds = (rounds * 2).min(1 << 10);
    };
    blocks.drain(..).for_each(&free);
    cost
}

#[inline]
fn touch(block: *mut u8, bytes: usize, touch: Touch) {
    match touch {
        // SAFETY: the block has so many bytes, and is the caller's.
        Touch::Byte => unsafe { block.write_volatile(1) },
        Touch::Pages => {
            for at in (0..bytes).step_by(PAGE) {
                // SAFETY: the block has so many bytes, and is the caller's.
                unsafe { block.add(at).write_volatile(1) };
            }
        }
        // SAFETY: as above.
        Touch::Bytes => unsafe { block.write_bytes(1, bytes) },
    }
    // The compiler does not see that nobody reads it.
    black_box(block);
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What it costs to ask which slot to use, each way.
fn slots() -> String {
    thread_local!(static NUMBER: usize = read("/proc/loadavg").len());
    let each = |ask: fn() -> usize| {
        let times = (0..REPETITIONS).map(|_| {
            let began = Instant::now();
            (0..1_000_000).for_each(|_| _ = black_box(ask()));
            began.elapsed().as_nanos() as f64 / 1e6
        });
        sorted(times)[REPETITIONS / 2]
    };
    let by_thread = each(|| NUMBER.with(|&number| number));
    // SAFETY: it has no arguments.
    let by_cpu = each(|| unsafe { libc::sched_getcpu() } as usize);
    let by_vdso = each(rustix::thread::sched_getcpu);
    format!(
        "{by_thread:.1} by a thread-local number, {by_cpu:.1} by the C library's getcpu, {by_vdso:.1} by the vDSO's"
    )
}

/// One memory, both ways in turn, on the same range.
fn give_and_take(memory: &str, options: Options) -> Result<(), Box<dyn Error>> {
    let pool = options.build()?;
    let mut costs: [Vec<Cost>; 4] = Default::default();
    // The first touch of all is not measured.
    drop(touched(&pool)?);
    for _ in 0..REPETITIONS {
        let mut run = pool.alloc_run(GIB)?;
        let (start, len) = (run.as_mut_ptr(), run.len());
        let (cost, advised) = timed(|| {
            // SAFETY: the run is ours; what it held is not needed.
            unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxDontNeed) }
        });
        advised?;
        costs[0].push(cost);
        costs[2].push(timed(|| touch(start, len, Touch::Pages)).0);
        drop(run);

        let (cost, given) = timed(|| pool.give_back(GIB));
        assert_eq!(given?, GIB);
        costs[1].push(cost);
        let (cost, blocks) = timed(|| touched(&pool));
        costs[3].push(cost);
        drop(blocks?);
    }
    let [madvise, give_back, touch, alloc] = costs.map(|costs| summary(&costs));
    print!("| {memory} | {} | {} | {} | {} |", madvise.1, give_back.1, touch.1, alloc.1);
    println!(" {:.3} |", (madvise.0 + touch.0) / (give_back.0 + alloc.0));
    Ok(())
}

/// What a call costs, in ms, and what it returns.
fn timed<T>(call: impl FnOnce() -> T) -> (Cost, T) {
    let (began, cpu) = (Instant::now(), cpu_time());
    let result = call();
    let (wall, cpu) = (began.elapsed(), cpu_time() - cpu);
    (Cost { wall: wall.as_secs_f64() * 1e3, cpu: cpu.as_secs_f64() * 1e3 }, result)
}

/// All huge frames of the pool, touched.
fn touched(pool: &Pool) -> Result<Vec<Block<'_>>, PoolError> {
    let mut blocks = pool.alloc_batch(Order(9), pool.size() >> 21)?;
    blocks.iter_mut().for_each(|block| touch(block.as_mut_ptr(), block.len(), Touch::Pages));
    Ok(blocks)
}

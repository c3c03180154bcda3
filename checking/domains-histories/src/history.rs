//! One history: threads that allocate and free while others add and remove memory, and what must be true.
//!
//! ```text
//!   workers     allocate, free ──►  owned: no frame twice, and none of what is absent
//!   pluggers    add, remove, take offline ──►  nothing that is owned goes; what a zone was made from goes after a grace period
//! ```
//!
//! At the end all memory is there, and all of it is free.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use fastrand::Rng;
use shuttle::sync::RwLock;
use shuttle::thread;
use woodlot_domains::{DomainId, Domains, Map, Present, Room, Setup};
use woodlot_frame::{
    FrameAllocator, FrameId, Geometry, Init, METADATA_ALIGN, MetadataSize, Order, RawMetadata,
    Request, Slot,
};

use crate::defect::Defect;
use crate::made::{self, Geo, Made};
use crate::plugger::Plugger;

/// What histories have done.
#[derive(Default)]
pub struct Figures {
    pub schedules: AtomicU64,
    pub calls: AtomicU64,
    /// Blocks of memory that was added.
    pub elsewhere: AtomicU64,
    pub added: AtomicU64,
    pub removed: AtomicU64,
    pub reclaimed: AtomicU64,
    pub in_use: AtomicU64,
    pub busy: AtomicU64,
}

/// Frames of a chunk.
const CHUNK: usize = Geo::MAX_FRAMES;
/// Chunks: one that stays, and one for each plugger.
const CHUNKS: usize = 3;
const PLUGGERS: usize = CHUNKS - 1;

pub struct World {
    pub machine: Domains<'static, Made>,
    pub defect: Defect,
    /// Held shared by every call, and alone by who lets go of what a zone was made from.
    pub grace: RwLock<()>,
    /// Which frames are allocated.
    pub owned: Vec<AtomicBool>,
    /// Which huge frames nobody may be given.
    pub absent: Vec<AtomicBool>,
    pub figures: Arc<Figures>,
}

/// A machine of one chunk that can grow.
fn machine(slots: usize) -> Domains<'static, Made> {
    // The domains lie there for good, since what they hold cannot be dropped.
    let memory = |bytes: usize| {
        let memory = vec![0_u8; bytes + METADATA_ALIGN].leak().as_mut_ptr();
        (memory.wrapping_add(memory.align_offset(METADATA_ALIGN)), bytes)
    };
    let metadata = |_, size: MetadataSize| {
        Ok(RawMetadata { durable: memory(size.durable), volatile: memory(size.volatile) })
    };
    let mut ranges = [Present::new(FrameId(0)..FrameId(CHUNK), DomainId(0))];
    let map = Map::new(&mut ranges).expect("it is right");
    let room = Room::new(FrameId(0)..FrameId(CHUNKS * CHUNK), PLUGGERS);
    let setup = Setup::new(map, slots).growing(room);
    // SAFETY: the memory is new, and stays.
    unsafe { setup.make(metadata, Init::Free) }.expect("it is right")
}

/// Runs the history of a seed, under the schedule that shuttle makes.
pub fn run(seed: u64, defect: Defect, figures: &Arc<Figures>) {
    made::begin(defect);
    let mut random = Rng::with_seed(seed);
    let workers = random.usize(1..=2);
    let frames = || (0..CHUNKS * CHUNK).map(|_| AtomicBool::new(false)).collect();
    let huge = (0..CHUNKS * 2).map(|huge| AtomicBool::new(huge >= 2)).collect();
    let world = Arc::new(World {
        machine: machine(workers),
        defect,
        grace: RwLock::new(()),
        owned: frames(),
        absent: huge,
        figures: figures.clone(),
    });
    let start = |number: usize| {
        let (world, mut random) = (world.clone(), random.fork());
        thread::spawn(move || match number.checked_sub(workers) {
            None => world.work(Slot(number), &mut random),
            Some(plugger) => {
                let times = random.usize(3..14);
                Plugger::new(&world, plugger + 1).work(times, &mut random);
            }
        })
    };
    let threads: Vec<_> = (0..workers + PLUGGERS).map(start).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a panic ends all"));
    world.settle(workers);
    world.figures.schedules.fetch_add(1, Relaxed);
    drop(world);
    // SAFETY: nobody else is left, and nobody panicked.
    unsafe { made::end() };
}

impl World {
    /// A call under way.
    pub fn call<T>(&self, does: impl FnOnce(&Domains<'static, Made>) -> T) -> T {
        let under_way = self.grace.read().expect("nobody panics with it");
        let done = does(&self.machine);
        drop(under_way);
        done
    }

    fn work(&self, slot: Slot, random: &mut Rng) {
        let mut blocks = Vec::new();
        for _ in 0..random.usize(8..30) {
            self.figures.calls.fetch_add(1, Relaxed);
            if blocks.is_empty() || random.u8(..5) < 3 {
                // Mostly what fills the machine soon.
                let order = Order([0, 3, 4, 4, 5, 6][random.usize(..6)]);
                let request = Request::movable(order, slot);
                if let Ok(first) = self.call(|machine| machine.alloc(request)) {
                    self.own(first, order);
                    blocks.push((first, order));
                }
            } else {
                let (first, order) = blocks.swap_remove(random.usize(..blocks.len()));
                self.free(first, order, slot);
            }
            if random.u8(..10) == 0 {
                self.call(|machine| machine.drain(slot)).expect("it is a slot");
            }
        }
        blocks.into_iter().for_each(|(first, order)| self.free(first, order, slot));
    }

    fn own(&self, first: FrameId, order: Order) {
        for frame in first.0..first.0 + order.frames() {
            assert!(!self.owned[frame].swap(true, SeqCst), "frame {frame} has two owners");
            let huge = frame / Geo::HUGE_FRAMES;
            assert!(!self.absent[huge].load(SeqCst), "frame {frame} is absent, and handed out");
        }
        self.figures.elsewhere.fetch_add(u64::from(first.0 >= CHUNK), Relaxed);
    }

    fn free(&self, first: FrameId, order: Order, slot: Slot) {
        let frames = first.0..first.0 + order.frames();
        frames.for_each(|frame| self.owned[frame].store(false, SeqCst));
        let freed = self.call(|machine| machine.free(first, order, slot));
        assert_eq!(freed, Ok(()), "it is allocated");
    }

    fn settle(&self, slots: usize) {
        (0..slots).for_each(|slot| self.machine.drain(Slot(slot)).expect("it is a slot"));
        let stats = self.machine.stats();
        let all = (CHUNKS * CHUNK, CHUNKS * 2, 0);
        let has = (stats.free_frames, stats.free_huge, stats.offline_huge);
        assert_eq!(has, all, "all memory is there, and free");
    }
}

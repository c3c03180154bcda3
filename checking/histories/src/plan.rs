//! What the threads of a history are to do: by chance, but all of it follows from one seed.

use std::ops::Range;

use fastrand::Rng;
use woodlot_frame::{
    Batch, Class, ClassPolicy, FrameId, Geometry, HugeId, Init, Order, Place, Prefer, RangeRequest,
    Reclaim, Request, Slot, Unsupported, ZoneConfig,
};

/// A zone and what happens in it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The zone.
    pub config: ZoneConfig,
    /// How it begins.
    pub init: Init,
    /// Frees of LLFree reserve a tree after so many in a row; 0: never.
    pub reserve_after_frees: u8,
    /// Is the approximate count of free frames exact when all threads have ended? It is if each thread
    /// has a slot of its own, and nobody counts the zone exactly meanwhile.
    pub counts_are_kept: bool,
    /// How many frames are to be free, about, when the threads begin.
    pub leave_free: usize,
    /// What each thread does.
    pub threads: Vec<Vec<Step>>,
}

/// One call, and the slot that it names.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The slot.
    pub slot: Slot,
    /// The call.
    pub op: Op,
}

/// A call. What it is made on is chosen when it is made, by the number `pick`, from what the thread
/// owns then.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Allocates a block, of this order anywhere or in a window, or this very one.
    Alloc(Request),
    /// Allocates a run of frames.
    Run(RangeRequest),
    /// Allocates several.
    Batch(Request, Batch, usize),
    /// Frees a block that the thread owns, or one that another thread does.
    Free {
        /// Which.
        pick: usize,
        /// Another thread's?
        remote: bool,
    },
    /// Frees a part of a block, and keeps the rest.
    FreePart {
        /// Which block.
        pick: usize,
        /// Which part.
        part: usize,
    },
    /// Frees a block together with its neighbour, if the thread owns both.
    FreeMerged {
        /// Which.
        pick: usize,
    },
    /// Frees several blocks of one order.
    FreeBatch {
        /// The first of them.
        pick: usize,
        /// So many at most.
        most: usize,
    },
    /// Frees blocks that follow one another as one run.
    FreeRange {
        /// One of them.
        pick: usize,
        /// So many at most.
        most: usize,
    },
    /// Drains the slot.
    Drain,
    /// Takes huge frames out.
    Offline(HugeId, usize),
    /// Puts a huge frame back that the thread has taken out.
    Online {
        /// Which.
        pick: usize,
    },
    /// Allocates a block anywhere, and says which huge frames it prefers.
    Preferring(Request, Prefer),
    /// Reclaims so many huge frames at most.
    Reclaim(Reclaim, usize),
    /// Gives back huge frames that the thread has taken out, zeroed.
    Give {
        /// The first of them.
        pick: usize,
        /// So many at most.
        most: usize,
    },
    /// Fills a block of huge frames with zeros, says so, and frees it.
    FreeZeroed {
        /// Which.
        pick: usize,
    },
    /// Looks at the zone.
    Look {
        /// The block that the thread looks for.
        pick: usize,
    },
    /// A call that must be refused.
    Wrong {
        /// What it is made with.
        pick: usize,
        /// What is wrong with it.
        how: Mistake,
    },
}

/// What is wrong with a call.
#[derive(Clone, Copy, Debug)]
pub enum Mistake {
    /// A slot that the zone has not.
    Slot,
    /// A class that it has not.
    Class,
    /// An order larger than the largest.
    Order,
    /// A free of a block that does not begin where blocks of its order do.
    Misaligned,
    /// A block behind the zone's end.
    OutOfRange,
    /// An allocation of a block that the thread owns.
    Owned,
    /// Taking out a huge frame in which the thread owns something.
    OfflineOwned,
    /// Putting back a huge frame that is not out.
    OnlineOwned,
    /// A free of what is offline: of this huge frame, if it can be taken out.
    FreeOffline(HugeId),
    /// A free of a part where the engine has declared that away.
    Part,
    /// Runs that no zone has: of no frames, in a reversed window, outside of the zone.
    Run,
    /// Frees of such runs.
    FreeRun,
    /// A run that ends with a block that the thread owns, and begins so many frames before.
    OwnedRun(usize),
    /// A free of a run that begins with the thread's own frame, and goes on in a huge frame that is offline:
    /// this one, if it can be taken out.
    FreeRunOffline(HugeId),
    /// A free of a run that ends within a block where the engine has declared that away.
    PartOfRun,
}

impl Mistake {
    /// The huge frame that is to be offline.
    pub fn offline(self) -> Option<HugeId> {
        match self {
            Mistake::FreeOffline(huge) | Mistake::FreeRunOffline(huge) => Some(huge),
            _ => None,
        }
    }
}

impl Plan {
    /// The plan of a seed, for an engine that cannot do some things, and may reclaim.
    pub fn new<G: Geometry>(seed: u64, unsupported: Unsupported, reclaims: bool) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let threads = rng.usize(3..=6);
        let most_trees = if G::HUGE_FRAMES > 8 { 2 } else { 4 };
        let mut frames = rng.usize(1..=most_trees) * G::TREE_FRAMES;
        let mut start = FrameId(rng.usize(0..3) * G::TREE_FRAMES);
        if rng.u8(..).is_multiple_of(4) {
            frames -= rng.usize(0..G::HUGE_FRAMES);
            start.0 += rng.usize(0..G::HUGE_FRAMES);
        }
        let own_slots = rng.bool();
        let slots = if own_slots { threads } else { rng.usize(1..=3) };
        let classes = if rng.bool() { ClassPolicy::SINGLE } else { ClassPolicy::SHIPPED };
        let config = ZoneConfig::new(frames, slots).starting_at(start).with_classes(classes);
        let allocated = !unsupported.partial_free && rng.u8(..).is_multiple_of(4);
        let few = rng.usize(0..=2 * threads);
        let leave_free = [frames, frames / 2, few, few][rng.usize(0..4)];
        let reserve_after_frees = [0, 1, 2, 4][rng.usize(0..4)];
        let geometry = std::marker::PhantomData;
        let mut maker = Maker::<G> { rng, config, unsupported, reclaims, geometry };
        let script = |me: usize| {
            let steps = maker.rng.usize(2..=5);
            let slot = |rng: &mut Rng| if own_slots { me } else { rng.usize(0..slots) };
            (0..steps)
                .map(|_| {
                    let slot = Slot(slot(&mut maker.rng));
                    Step { slot, op: maker.op(slot) }
                })
                .collect()
        };
        let threads: Vec<Vec<Step>> = (0..threads).map(script).collect();
        let looks = |step: &Step| matches!(step.op, Op::Look { .. });
        let counts_are_kept = own_slots && !threads.iter().flatten().any(looks);
        let init = if allocated { Init::Allocated } else { Init::Free };
        Plan { config, init, reserve_after_frees, counts_are_kept, leave_free, threads }
    }
}

/// Makes calls for one zone.
struct Maker<G> {
    rng: Rng,
    config: ZoneConfig,
    unsupported: Unsupported,
    reclaims: bool,
    geometry: std::marker::PhantomData<G>,
}

impl<G: Geometry> Maker<G> {
    fn op(&mut self, slot: Slot) -> Op {
        let pick = self.rng.usize(..);
        if self.reclaims && self.rng.u8(0..8) == 0 {
            return self.reclaiming(slot, pick);
        }
        match self.rng.u8(0..100) {
            0..24 => Op::Alloc(self.request(slot)),
            24..28 => {
                let window = self.window();
                Op::Alloc(self.request(slot).within(window))
            }
            28..33 => {
                let order = self.order();
                let frame = self.frame(order);
                Op::Alloc(Request { order, ..self.request(slot) }.at(frame))
            }
            33..39 => {
                let batch = if self.rng.bool() { Batch::All } else { Batch::UpTo };
                Op::Batch(self.request(slot), batch, self.rng.usize(1..=4))
            }
            39..56 => Op::Free { pick, remote: self.rng.u8(..).is_multiple_of(4) },
            56..62 if self.unsupported.partial_free => Op::Free { pick, remote: true },
            56..62 => Op::FreePart { pick, part: self.rng.usize(..) },
            62..65 if self.unsupported.partial_free => Op::Free { pick, remote: false },
            62..65 => Op::FreeMerged { pick },
            65..69 => Op::FreeBatch { pick, most: self.rng.usize(1..=4) },
            69..72 => Op::Drain,
            72..76 => Op::Offline(self.huge(), self.rng.usize(1..=2)),
            76..79 => Op::Online { pick },
            79..82 => Op::Look { pick },
            82..90 => Op::Run(self.run(slot)),
            90..96 => Op::FreeRange { pick, most: self.rng.usize(1..=4) },
            _ => Op::Wrong { pick, how: self.mistake() },
        }
    }

    /// Calls of an engine that reclaims.
    fn reclaiming(&mut self, slot: Slot, pick: usize) -> Op {
        let most = self.rng.usize(1..=3);
        match self.rng.u8(0..5) {
            0 => Op::Reclaim(Reclaim::Soft, most),
            1 => Op::Reclaim(Reclaim::Hard, most),
            2 => Op::Give { pick, most },
            3 => Op::FreeZeroed { pick },
            _ => {
                let prefer = if self.rng.bool() { Prefer::Zeroed } else { Prefer::Backed };
                Op::Preferring(self.request(slot), prefer)
            }
        }
    }

    /// A run of a few frames, of less than a huge frame or of more; anywhere, in a window, or at a frame.
    fn run(&mut self, slot: Slot) -> RangeRequest {
        let longest = [4, G::HUGE_FRAMES, 2 * G::HUGE_FRAMES + 1][self.rng.usize(0..3)];
        let frames = self.rng.usize(1..=longest);
        let align = if self.rng.u8(..).is_multiple_of(4) { self.order() } else { Order::BASE };
        let place = match self.rng.u8(0..4) {
            0 => Place::At(self.frame(align)),
            1 => Place::within(self.window()),
            _ => Place::Anywhere,
        };
        let Request { class, .. } = self.request(slot);
        RangeRequest { place, ..RangeRequest::new(frames, class, slot).aligned(align) }
    }

    /// A part of the zone, which may go beyond its end.
    fn window(&mut self) -> Range<FrameId> {
        let start = self.config.start.0 + self.rng.usize(0..self.config.frames);
        FrameId(start)..FrameId(start + self.rng.usize(1..=2 * G::HUGE_FRAMES))
    }

    fn mistake(&mut self) -> Mistake {
        let mistakes = [
            Mistake::Slot,
            Mistake::Class,
            Mistake::Order,
            Mistake::Misaligned,
            Mistake::OutOfRange,
            Mistake::Owned,
            Mistake::OfflineOwned,
            Mistake::OnlineOwned,
            Mistake::FreeOffline(self.huge()),
            Mistake::Part,
            Mistake::Run,
            Mistake::FreeRun,
            Mistake::OwnedRun(self.rng.usize(1..=G::HUGE_FRAMES)),
            Mistake::FreeRunOffline(self.huge()),
            Mistake::PartOfRun,
        ];
        mistakes[self.rng.usize(0..mistakes.len())]
    }

    /// Small ones, huge ones, the largest, any.
    fn order(&mut self) -> Order {
        let max = Order::max::<G>().0;
        match self.rng.u8(0..6) {
            0 | 1 => Order(0),
            2 => Order(1),
            3 => Order(max - 1),
            4 if self.rng.bool() => Order(max),
            _ => Order(self.rng.u8(0..=max)),
        }
    }

    fn request(&mut self, slot: Slot) -> Request {
        let classes = self.config.classes.count() as u8;
        Request::new(self.order(), Class(self.rng.u8(0..classes)), slot)
    }

    /// A block of the zone, as near to its beginning as can be: there blocks are in use.
    fn frame(&mut self, order: Order) -> FrameId {
        let first = self.config.start.0.next_multiple_of(order.frames());
        let count = self.config.end().0.saturating_sub(first) >> order.0;
        FrameId(first + (self.rng.usize(0..count.max(1)) << order.0))
    }

    fn huge(&mut self) -> HugeId {
        let range = self.config.huge_range::<G>();
        HugeId(self.rng.usize(range.start.0..range.end.0.max(range.start.0 + 1)))
    }
}

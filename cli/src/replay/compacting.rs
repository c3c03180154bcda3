//! The replay with a daemon beside it that compacts: movable frames of the trace may move, the others not.
//!
//! ```text
//!   steps ─► worker ─► zones ◄── daemon, so many of its steps after so many of the trace's
//!              └──► Moving: where each frame of each block is ◄── Relocate
//! ```
//!
//! A block moves as a whole as long as none of it was freed; then its frames move one by one, as frames owned at the start do. The
//! daemon's clock counts the steps of the trace.

use std::ops::Range;
use std::time::Instant;

use woodlot_compact::{
    Asks, Block, Candidate, Chunk, Daemon, Event, Fmfi, Index, Lookup, Refusal, Relocate,
    Report as Work, Settings,
};
use woodlot_frame::{
    Base4K, Class, Construct, FrameAllocator, FrameId, HugeId, InitError, Order, Slot,
};
use woodlot_trace::{FrameSet, HUGE_FRAMES};

use super::Thrift;
use super::manner::Manner;
use super::plan::{AT_START, Plan};
use super::report::{Compacted, Report};
use super::sequential::compare;
use super::worker::{Ledger, PROGRESS, Scene, Worker, check_end};
use super::zones::Zones;

/// The daemon may work after so many steps of the trace.
const TURN: usize = 64;
/// It moves at the most so many base frames in each turn.
const MOVES: usize = 2048;
/// log2 of the huge frames of a chunk of its index: 256 MiB.
const CHUNK: u32 = 7;

/// Replays one step after the other with a daemon beside. The slot behind those of the trace is the daemon's.
pub fn replay<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    manner: Manner,
    thrift: Thrift,
    progress: &dyn Fn(usize),
) -> Result<Report, InitError> {
    let (scene, owned, refused) = Scene::<A>::new(plan, manner)?;
    let zones = &scene.zones;
    let mut worker = Worker::new(plan, &scene, Moving::new(plan, owned));
    worker.report.checks.of_plan(plan, refused);
    let started = Instant::now();
    let mut rows = plan.rows.iter().peekable();
    let parts: Vec<_> = zones.each().map(|zone| [zone.zone().huge_range::<Base4K>()]).collect();
    let mut memory: Vec<_> = parts.iter().map(|part| Memory::new(part)).collect();
    let mut daemons: Vec<_> = memory
        .iter_mut()
        .zip(&parts)
        .map(|(memory, part)| memory.daemon(part, plan, thrift))
        .collect();
    let asks = Asks::new();
    for (done, step) in plan.steps.iter().enumerate() {
        while let Some(row) = rows.next_if(|row| row.after <= done) {
            compare(row, zones, &worker.ledger.owned, &mut worker.report);
            worker.possible(zones);
        }
        if done % PROGRESS == 0 {
            progress(done);
        }
        worker.step(step.slot, step.action);
        if done % TURN == 0 {
            for (daemon, zone) in daemons.iter_mut().zip(zones.each()) {
                let fmfi = || Fmfi::of::<Base4K>(&zone.stats());
                let step = |daemon: &mut Daemon| {
                    daemon.step(done as u64, &**zone, &mut worker.ledger, &asks, fmfi)
                };
                turn(daemon, step);
            }
        }
    }
    for row in rows {
        compare(row, zones, &worker.ledger.owned, &mut worker.report);
        worker.possible(zones);
    }
    let mut work = Work::default();
    let (mut runs, mut in_vain) = (0, 0);
    for (daemon, zone) in daemons.iter_mut().zip(zones.each()) {
        daemon.cancel(&**zone, &asks);
        work.add(&daemon.counters().all);
        runs += daemon.counters().runs;
        in_vain += daemon.counters().in_vain;
    }
    let Worker { ledger, mut report, .. } = worker;
    report.checks.overlapping_frames += ledger.overlapping;
    report.seconds = started.elapsed().as_secs_f64();
    report.compacted = Some(Compacted { work, runs, in_vain });
    check_end(zones, &ledger.owned, &mut report.checks);
    Ok(report)
}

/// Lets a daemon work until it rests or has done enough.
fn turn(daemon: &mut Daemon, mut step: impl FnMut(&mut Daemon) -> Event) {
    // Each run looks at all regions, so that no turn ends with less than that.
    while let Event::Started { .. } | Event::Worked(_) = step(daemon) {}
}

/// The memory of a daemon.
struct Memory {
    chunks: Vec<Chunk>,
    candidates: Vec<Candidate>,
}

impl Memory {
    fn new(parts: &[Range<HugeId>]) -> Memory {
        let huge = parts.iter().map(|part| part.end.0 - part.start.0).sum();
        let chunks = vec![Chunk::default(); Index::chunks_for(parts, CHUNK)];
        Memory { chunks, candidates: vec![Candidate::EMPTY; huge] }
    }

    fn daemon<'m>(
        &'m mut self,
        parts: &'m [Range<HugeId>],
        plan: &Plan,
        Thrift { gain, price }: Thrift,
    ) -> Daemon<'m> {
        let slot = Slot(plan.slots - 1);
        let (interval, rest, longest_rest) = (TURN as u64, TURN as u64, 8 * TURN as u64);
        let settings = Settings {
            gain,
            price,
            moves: MOVES,
            interval,
            rest,
            longest_rest,
            ..Settings::new(slot)
        };
        // A zone of a trace has huge frames; one that has none needs no daemon, and gets one that never starts.
        let index = Index::new(&mut self.chunks, parts, CHUNK).expect("a zone has huge frames");
        Daemon::new(settings, index, &mut self.candidates)
    }
}

impl<A: Construct + FrameAllocator<Geometry = Base4K>> Worker<'_, A, Moving<'_>> {
    /// Notes with the last row what could be free.
    fn possible(&mut self, zones: &Zones<A>) {
        let possible = Some(self.ledger.possible(zones));
        self.report.rows.last_mut().into_iter().for_each(|row| row.possible = possible);
    }
}

/// Who owns a frame of ours.
#[derive(Clone, Copy)]
struct Owner {
    /// A block of the trace, or [`NOBODY`]; [`AT_START`], where its frame is the offset.
    block: u32,
    offset: u32,
}

const NOBODY: u32 = AT_START - 1;

/// The ledger of a replay whose frames move.
struct Moving<'a> {
    plan: &'a Plan,
    owned: FrameSet,
    owners: Vec<Owner>,
    /// Where each frame of the trace's start is, and then each frame of each block.
    places: Vec<u32>,
    /// Where the frames of each block begin there.
    starts: Vec<u32>,
    /// Blocks of which a part was freed.
    split: Vec<bool>,
    /// Frames of each huge frame that do not move.
    pinned: Vec<u16>,
    overlapping: usize,
}

impl<'a> Moving<'a> {
    fn new(plan: &'a Plan, owned: FrameSet) -> Moving<'a> {
        let frames = plan.frames();
        let mut end = frames as u32;
        let begin = |&order: &u8| {
            end += 1 << order;
            end - (1 << order)
        };
        let starts: Vec<u32> = plan.orders.iter().map(begin).collect();
        let mut places = vec![u32::MAX; end as usize];
        let mut owners = vec![Owner { block: NOBODY, offset: 0 }; frames];
        let mut pinned = vec![0; frames.div_ceil(HUGE_FRAMES)];
        for frame in
            plan.claims.iter().flat_map(|claim| claim.frame..claim.frame + (1 << claim.order))
        {
            owners[frame] = Owner { block: AT_START, offset: frame as u32 };
            places[frame] = frame as u32;
            pinned[frame / HUGE_FRAMES] += u16::from(!plan.movable_at_start.contains(frame));
        }
        let split = vec![false; plan.orders.len()];
        Moving { plan, owned, owners, places, starts, split, pinned, overlapping: 0 }
    }

    fn is_movable(&self, owner: Owner) -> bool {
        match owner.block {
            AT_START => self.plan.movable_at_start.contains(owner.offset as usize),
            NOBODY => false,
            block => self.plan.movable[block as usize],
        }
    }

    /// Where the place of a frame is noted.
    fn entry(&self, owner: Owner) -> usize {
        let start = if owner.block == AT_START { 0 } else { self.starts[owner.block as usize] };
        (start + owner.offset) as usize
    }

    fn set_owner(&mut self, frame: usize, owner: Owner) {
        let before = std::mem::replace(&mut self.owners[frame], owner);
        let pins = |moving: &Self, owner: Owner| {
            u16::from(owner.block != NOBODY && !moving.is_movable(owner))
        };
        let (less, more) = (pins(self, before), pins(self, owner));
        let pinned = &mut self.pinned[frame / HUGE_FRAMES];
        *pinned = *pinned + more - less;
    }

    /// How many huge frames could be free, were the frames that can move moved together.
    fn possible<A: Construct + FrameAllocator<Geometry = Base4K>>(
        &self,
        zones: &Zones<A>,
    ) -> usize {
        let possible = |range: Range<HugeId>| {
            let own = range.start.0..range.end.0;
            let all: usize = self.owned.free_by_huge().skip(own.start).take(own.len()).sum();
            let open = (range.start.0..range.end.0).filter(|&huge| self.pinned[huge] == 0);
            open.count().min(all / HUGE_FRAMES)
        };
        zones.each().map(|zone| possible(zone.zone().huge_range::<Base4K>())).sum()
    }
}

impl Ledger for Moving<'_> {
    fn place(&self, block: u32) -> Option<usize> {
        let place = self.places[self.starts[block as usize] as usize];
        (place != u32::MAX).then_some(place as usize)
    }

    fn set_place(&mut self, block: u32, frame: Option<FrameId>) {
        let Some(frame) = frame else { return };
        for offset in 0..1 << self.plan.orders[block as usize] {
            let owner = Owner { block, offset };
            self.set_owner(frame.0 + offset as usize, owner);
            let entry = self.entry(owner);
            self.places[entry] = frame.0 as u32 + offset;
        }
    }

    /// Frame by frame, for each may be somewhere else by now.
    fn runs(&self, plan: &Plan, first: u32, count: u32) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for piece in &plan.pieces[first as usize..][..count as usize] {
            for offset in piece.offset..piece.offset + piece.frames {
                let place = self.places[self.entry(Owner { block: piece.block, offset })] as usize;
                match runs.last_mut() {
                    // What could not be served has no place.
                    _ if place == u32::MAX as usize => {}
                    Some(run) if run.end == place => run.end += 1,
                    _ => runs.push(place..place + 1),
                }
            }
        }
        runs
    }

    fn take(&mut self, frame: usize, order: u8) -> usize {
        self.owned.take(frame..frame + (1 << order))
    }

    fn give(&mut self, frame: usize, order: u8) {
        self.owned.give(frame..frame + (1 << order));
        for frame in frame..frame + (1 << order) {
            let owner = self.owners[frame];
            if owner.block < NOBODY {
                self.split[owner.block as usize] |= order < self.plan.orders[owner.block as usize];
            }
            self.set_owner(frame, Owner { block: NOBODY, offset: 0 });
        }
    }
}

impl Relocate for Moving<'_> {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        let owner = self.owners[frame.0];
        if !self.is_movable(owner) {
            return Lookup::Pinned;
        }
        let (first, order) = match owner.block {
            AT_START => (frame, Order::BASE),
            block if self.split[block as usize] => (frame, Order::BASE),
            block => {
                (FrameId(frame.0 - owner.offset as usize), Order(self.plan.orders[block as usize]))
            }
        };
        let class = if order >= Order::huge::<Base4K>() { Class::HUGE } else { Class::MOVABLE };
        Lookup::Movable(Block { first, order, class })
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        let frames = block.order.frames();
        self.overlapping += self.owned.take(to.0..to.0 + frames);
        self.owned.give(block.first.0..block.first.0 + frames);
        for offset in 0..frames {
            let owner = self.owners[block.first.0 + offset];
            self.set_owner(block.first.0 + offset, Owner { block: NOBODY, offset: 0 });
            self.set_owner(to.0 + offset, owner);
            let entry = self.entry(owner);
            self.places[entry] = (to.0 + offset) as u32;
        }
        Ok(())
    }

    fn has_pinned(&mut self, huge: HugeId) -> bool {
        self.pinned[huge.0] > 0
    }
}

//! A trace as an allocator sees it that chooses its own frames.
//!
//! ```text
//!   claims   exact blocks, made before the first step
//!   steps    Alloc(block 7) · Free(pieces 3..5) · Probe · …     in the trace's order
//!   pieces   (block 7, from its frame 2, 4 frames) …            what the frees free
//!   rows     after step n, Linux had … free
//! ```
//!
//! A *block* is one allocation of the trace, by its number; frames owned at the start belong to
//! the block [`AT_START`], whose frame *n* is frame *n*, because claims keep the trace's numbers.

use std::ops::Range;

use woodlot_frame::{Base4K, Class, Order, Slot, compaction_cost};
use woodlot_trace::{
    CurveRow, Event, EventKind, FrameSet, LinuxFrames, Migrate, Pfn, StartUse, Trace,
    aligned_pieces,
};

use super::report::Side;

/// The block that stands for all frames owned at the start.
pub const AT_START: u32 = u32::MAX;

/// Which class serves a migrate type. Reclaimable frames (inode and dentry caches) are immovable
/// and outlive what asked for them, as does what was there before the allocator.
pub fn class_of(migrate: Migrate, order: u8) -> Class {
    match migrate {
        _ if order >= Order::huge::<Base4K>().0 => Class::HUGE,
        Migrate::Movable => Class::MOVABLE,
        Migrate::Unmovable => Class::IMMOVABLE,
        Migrate::Reclaimable => Class::LONG_LIVED,
    }
}

fn class_at_start(usage: StartUse) -> Class {
    match usage {
        StartUse::Boot => Class::LONG_LIVED,
        StartUse::Allocated(migrate) => class_of(migrate, 0),
    }
}

/// How the frames are divided among allocators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum ZoneLayout {
    /// One zone over all frames
    #[default]
    One,
    /// One zone for each zone that Linux had (DMA, DMA32 …); what a zone cannot serve falls to the
    /// zones below it, as in Linux
    Linux,
}

/// A zone of the replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanZone {
    /// `all`, or Linux's name.
    pub name: String,
    /// Its frames.
    pub frames: Range<usize>,
}

/// A block that is owned before the first step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its first frame.
    pub frame: usize,
    /// 2^order frames.
    pub order: u8,
    /// What for.
    pub class: Class,
}

/// What a step asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// 2^order frames.
    pub order: u8,
    /// What for.
    pub class: Class,
    /// The zone to try first.
    pub zone: u8,
}

/// One thing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// For which CPU.
    pub slot: Slot,
    /// What.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Allocates what is block `block` from now on.
    Alloc { block: u32, want: Want },
    /// Tries what failed in Linux.
    Probe { want: Want },
    /// Frees some of [`Plan::pieces`].
    Free { first: u32, count: u32 },
}

/// Some frames in a row of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Which block.
    pub block: u32,
    /// From which of its frames on.
    pub offset: u32,
    /// How many.
    pub frames: u32,
}

/// A moment to compare at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GridRow {
    /// After this many steps.
    pub after: usize,
    /// In microseconds since the kernel's clock began.
    pub time_us: u64,
    /// What the moment is called.
    pub label: String,
    /// Does it count for the mean?
    pub regular: bool,
    /// What Linux had.
    pub linux: Side,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Plan {
    /// The zones.
    pub zones: Vec<PlanZone>,
    /// How many slots: one for each CPU that occurs.
    pub slots: usize,
    /// What is owned at the start.
    pub claims: Vec<Claim>,
    /// What happens.
    pub steps: Vec<Step>,
    /// What frees free.
    pub pieces: Vec<Piece>,
    /// The order of each block that is allocated.
    pub orders: Vec<u8>,
    /// Which of them can be moved.
    pub movable: Vec<bool>,
    /// Frames owned at the start that can be moved.
    pub movable_at_start: FrameSet,
    /// When to compare.
    pub rows: Vec<GridRow>,
    /// Frames by which the trace contradicts itself: allocated while owned, freed while free.
    pub conflicts: usize,
    /// Rows of the recorded curve that the replay of Linux's own frames does not confirm.
    pub unconfirmed_rows: usize,
}

impl Plan {
    /// Plans a trace. A trace without a recorded curve is compared every `every` steps.
    pub fn new(trace: &Trace, layout: ZoneLayout, every: usize) -> Plan {
        let zones = match layout {
            ZoneLayout::One => vec![PlanZone { name: "all".into(), frames: 0..trace.frames() }],
            ZoneLayout::Linux => trace.zones.iter().map(linux_zone).collect(),
        };
        let mut planner = Planner::new(trace, zones);
        let mut recorded = trace.curve.iter().peekable();
        for (index, event) in trace.events.iter().enumerate() {
            let before = planner.plan.steps.len();
            planner.event(event);
            let steps = planner.plan.steps.len();
            while let Some(row) = recorded.next_if(|row| row.after as usize == index + 1) {
                planner.recorded_row(row);
            }
            if trace.curve.is_empty() && steps > before && steps.is_multiple_of(every) {
                planner.row(event.time_us, format!("every{every}"), None);
            }
        }
        if let (true, Some(last)) = (trace.curve.is_empty(), trace.events.last()) {
            planner.row(last.time_us, "end".into(), None);
        }
        planner.plan
    }

    /// All frames, the zones together.
    pub fn frames(&self) -> usize {
        self.zones.last().map_or(0, |zone| zone.frames.end)
    }

    /// What a free of these pieces frees of ours, given where each block is (`None` where we could
    /// not serve it): runs of frames, joined where they touch.
    pub fn runs(
        &self,
        first: u32,
        count: u32,
        place: impl Fn(u32) -> Option<usize>,
        mut each: impl FnMut(Range<usize>),
    ) {
        let mut run = 0..0;
        for piece in &self.pieces[first as usize..][..count as usize] {
            let base = if piece.block == AT_START { Some(0) } else { place(piece.block) };
            let Some(start) = base.map(|base| base + piece.offset as usize) else { continue };
            let end = start + piece.frames as usize;
            if run.end == start && !run.is_empty() {
                run.end = end;
            } else if !run.is_empty() {
                each(std::mem::replace(&mut run, start..end));
            } else {
                run = start..end;
            }
        }
        if !run.is_empty() {
            each(run);
        }
    }
}

fn linux_zone(zone: &woodlot_trace::Zone) -> PlanZone {
    let frames = zone.span.start.0 as usize..zone.span.end() as usize;
    PlanZone { name: zone.name.clone(), frames }
}

/// Who owns a Linux frame: nobody, somebody since the start, or a block by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner(u32);

impl Owner {
    const NOBODY: Owner = Owner(0);
    const START: Owner = Owner(AT_START);

    fn block(number: u32) -> Owner {
        Owner(number + 1)
    }

    fn number(self) -> Option<u32> {
        match self {
            Owner::NOBODY => None,
            Owner::START => Some(AT_START),
            Owner(n) => Some(n - 1),
        }
    }
}

struct Planner {
    plan: Plan,
    linux: LinuxFrames,
    owners: Vec<Owner>,
    /// Linux's first frame of each block.
    bases: Vec<u32>,
    /// The slot of each CPU number.
    slots: Vec<usize>,
}

impl Planner {
    fn new(trace: &Trace, zones: Vec<PlanZone>) -> Self {
        let cpus = trace.cpus();
        let mut slots = vec![0; cpus.last().map_or(1, |&cpu| cpu as usize + 1)];
        for (slot, &cpu) in cpus.iter().enumerate() {
            slots[cpu as usize] = slot;
        }
        let mut owners = vec![Owner::NOBODY; trace.frames()];
        let start = trace.start.iter().map(|s| (s.span, class_at_start(s.usage)));
        let hidden = trace.hidden.iter().map(|&span| (span, Class::LONG_LIVED));
        let mut movable_at_start = FrameSet::new(trace.frames());
        for start in &trace.start {
            if start.usage == StartUse::Allocated(Migrate::Movable) {
                let span = start.span;
                movable_at_start.take(span.start.0 as usize..span.end() as usize);
            }
        }
        // Nobody knows what these are.
        for span in &trace.hidden {
            movable_at_start.give(span.start.0 as usize..span.end() as usize);
        }
        let mut claims = Vec::new();
        for (span, class) in start.chain(hidden) {
            let mut free = span.start.0 as usize;
            for frame in span.range().map(|frame| frame as usize) {
                // A hidden frame may be on the list of owned ones as well.
                if owners[frame] != Owner::NOBODY {
                    claim(&mut claims, free..frame, class);
                    free = frame + 1;
                }
                owners[frame] = Owner::START;
            }
            claim(&mut claims, free..span.end() as usize, class);
        }
        let plan = Plan {
            zones,
            slots: cpus.len().max(1),
            claims,
            steps: Vec::with_capacity(trace.events.len()),
            pieces: Vec::new(),
            orders: Vec::new(),
            movable: Vec::new(),
            movable_at_start,
            rows: Vec::new(),
            conflicts: 0,
            unconfirmed_rows: 0,
        };
        Self { plan, linux: LinuxFrames::new(trace), owners, bases: Vec::new(), slots }
    }

    fn event(&mut self, event: &Event) {
        self.plan.conflicts += self.linux.apply(event.kind);
        let action = match event.kind {
            EventKind::Alloc { pfn: Some(pfn), order, migrate, .. } => {
                let zone = self.zone_of(pfn);
                let want = Want { order, class: class_of(migrate, order), zone };
                self.plan.movable.push(migrate == Migrate::Movable);
                Action::Alloc { block: self.alloc(pfn, order), want }
            }
            EventKind::Alloc { pfn: None, order, migrate, .. } => {
                let zone = (self.plan.zones.len() as u8).saturating_sub(1);
                Action::Probe { want: Want { order, class: class_of(migrate, order), zone } }
            }
            EventKind::Free { pfn, order } => {
                let first = self.plan.pieces.len() as u32;
                self.free(pfn, order);
                let count = self.plan.pieces.len() as u32 - first;
                if count == 0 {
                    return;
                }
                Action::Free { first, count }
            }
            EventKind::Marker(_) => return,
        };
        let slot = Slot(self.slots[event.cpu as usize]);
        self.plan.steps.push(Step { slot, action });
    }

    fn zone_of(&self, pfn: Pfn) -> u8 {
        let holds = |zone: &PlanZone| zone.frames.contains(&(pfn.0 as usize));
        self.plan.zones.iter().position(holds).unwrap_or(0) as u8
    }

    fn alloc(&mut self, pfn: Pfn, order: u8) -> u32 {
        let number = self.plan.orders.len() as u32;
        self.plan.orders.push(order);
        self.bases.push(pfn.0);
        self.owners[pfn.0 as usize..][..1 << order].fill(Owner::block(number));
        number
    }

    /// Finds out whose frames these are, and notes each run of one owner.
    fn free(&mut self, pfn: Pfn, order: u8) {
        let first = self.plan.pieces.len();
        for frame in pfn.0..pfn.0 + (1 << order) {
            if self.linux.is_hidden(Pfn(frame)) {
                continue;
            }
            let owner = std::mem::replace(&mut self.owners[frame as usize], Owner::NOBODY);
            let Some(block) = owner.number() else { continue };
            let base = self.bases.get(block as usize).copied().unwrap_or(0);
            let offset = frame - base;
            match self.plan.pieces[first..].last_mut() {
                Some(last) if last.block == block && last.offset + last.frames == offset => {
                    last.frames += 1;
                }
                _ => self.plan.pieces.push(Piece { block, offset, frames: 1 }),
            }
        }
    }

    fn recorded_row(&mut self, row: &CurveRow) {
        let confirmed = row.free_frames as usize == self.linux.recorded_free()
            && row.free_huge as usize == self.linux.owned().free_huge();
        self.plan.unconfirmed_rows += usize::from(!confirmed);
        self.row(row.time_us, row.label.clone(), Some(row));
    }

    fn row(&mut self, time_us: u64, label: String, recorded: Option<&CurveRow>) {
        let owned = self.linux.owned();
        let by_huge: Vec<usize> = owned.free_by_huge().collect();
        let linux = Side {
            free_huge: recorded.map_or(owned.free_huge(), |row| row.free_huge as usize),
            free_frames: recorded.map_or(owned.free_frames(), |row| row.free_frames as usize),
            moves: compaction_cost::<Base4K>(&by_huge),
        };
        let regular = recorded.map_or(label.starts_with("every"), CurveRow::is_regular);
        let after = self.plan.steps.len();
        self.plan.rows.push(GridRow { after, time_us, label, regular, linux });
    }
}

fn claim(claims: &mut Vec<Claim>, frames: Range<usize>, class: Class) {
    let largest = Order::max::<Base4K>().0;
    let blocks =
        aligned_pieces(frames, largest).map(|(frame, order)| Claim { frame, order, class });
    claims.extend(blocks);
}

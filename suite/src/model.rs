//! The judge: what a zone must look like after every call, kept as naively as can be.
//!
//! ```text
//!   state   [ F F A A A F O O O O K … ]    one byte per frame of the zone
//!             free  allocated  offline  kept for who has isolated its huge frame
//! ```
//!
//! [`Model`] does not choose frames. An allocator makes the call, and the model says whether its
//! answer was a legal one (module `judge`), then follows it. Invariants:
//!
//! 1. `state` has one entry for each frame of the zone and nothing else is believed.
//! 2. `free` and `huge_free` are counts over `state`, kept only for speed: they say where there is
//!    nothing to look for. [`recount`](Model::recount) compares them with it.
//! 3. Only legal answers are followed. A wrong one ends the test; what the model says after it means
//!    nothing.

use std::ops::Range;

use woodlot_frame::{FrameId, HugeId, Init, Order, Unsupported, ZoneConfig};

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Anyone may have it.
    Free,
    /// Someone has it.
    Allocated,
    /// Nobody may have it until its huge frame is online again.
    Offline,
    /// Nobody has it, and nobody but who has isolated its huge frame may.
    Kept,
}

pub(crate) const FREE: u8 = 0;
pub(crate) const ALLOCATED: u8 = 1;
pub(crate) const OFFLINE: u8 = 2;
pub(crate) const KEPT: u8 = 3;

/// A whole block of free frames, to compare with; the largest order of any geometry is 13.
static FREE_BLOCK: [u8; 1 << 13] = [FREE; 1 << 13];
pub(crate) static ALLOCATED_BLOCK: [u8; 1 << 13] = [ALLOCATED; 1 << 13];

/// The naive model of one zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    pub(crate) config: ZoneConfig,
    pub(crate) unsupported: Unsupported,
    pub(crate) huge_order: u32,
    max_order: Order,
    pub(crate) state: Vec<u8>,
    /// Order + 1 at the first frame of each block as it was allocated, 0 elsewhere: looked at only
    /// for engines that cannot free in parts.
    pub(crate) blocks: Vec<u8>,
    pub(crate) free: usize,
    /// Free frames of each huge frame, the partial ones at the ends included.
    huge_free: Vec<usize>,
    /// Which huge frames have changed since somebody compared them.
    touched: Vec<bool>,
    /// Which huge frames are isolated.
    isolated: Vec<bool>,
}

impl Model {
    /// The model of a fresh zone with huge frames of this order, of an engine that lacks these
    /// abilities, and whose largest order is that of two huge frames.
    pub fn new(config: &ZoneConfig, init: Init, huge: Order, unsupported: Unsupported) -> Model {
        let first = config.start.0 >> huge.0;
        let last = (config.end().0 - 1) >> huge.0;
        let mut model = Model {
            config: *config,
            unsupported,
            huge_order: huge.0.into(),
            max_order: Order(huge.0 + 1),
            state: vec![FREE; config.frames],
            blocks: vec![0; config.frames],
            free: 0,
            huge_free: vec![0; last - first + 1],
            touched: vec![false; last - first + 1],
            isolated: vec![false; last - first + 1],
        };
        if init == Init::Allocated {
            model.state.fill(ALLOCATED);
        }
        model.count();
        model
    }

    /// The same of an allocator that has larger blocks.
    pub fn with_max_order(self, max_order: Order) -> Model {
        Model { max_order, ..self }
    }

    /// A model with the states that `state` says, for zones that threads have worked on.
    pub fn from_states(
        config: &ZoneConfig,
        huge: Order,
        unsupported: Unsupported,
        state: impl Fn(FrameId) -> State,
    ) -> Model {
        let mut model = Model::new(config, Init::Free, huge, unsupported);
        for (index, entry) in model.state.iter_mut().enumerate() {
            *entry = match state(FrameId(config.start.0 + index)) {
                State::Free => FREE,
                State::Allocated => ALLOCATED,
                State::Offline => OFFLINE,
                State::Kept => KEPT,
            };
        }
        model.count();
        model
    }

    fn count(&mut self) {
        let free = |frames: Range<usize>| {
            let first = self.config.start.0;
            let states = &self.state[frames.start - first..frames.end - first];
            states.iter().filter(|&&state| state == FREE).count()
        };
        let huge_free = (0..self.huge_free.len()).map(|n| free(self.huge_frame(n))).collect();
        self.huge_free = huge_free;
        self.free = self.huge_free.iter().sum();
    }

    /// Panics if the counts are not those of the frames: a fault of the suite, not of an engine.
    pub fn recount(&self) {
        let mut again = self.clone();
        again.count();
        assert!(*self == again, "the model's own counts are wrong");
    }

    // ---- What is where ----

    /// The zone.
    pub fn config(&self) -> &ZoneConfig {
        &self.config
    }

    /// The largest order.
    pub fn max_order(&self) -> Order {
        self.max_order
    }

    /// The largest order of the geometry: two huge frames.
    pub(crate) fn pair_order(&self) -> Order {
        Order(self.huge_order as u8 + 1)
    }

    /// Every order, smallest first.
    pub(crate) fn orders(&self) -> impl DoubleEndedIterator<Item = Order> + use<> {
        (0..=self.max_order().0).map(Order)
    }

    /// What a frame is; `None` outside the zone.
    pub fn state(&self, frame: FrameId) -> Option<State> {
        let index = frame.0.checked_sub(self.config.start.0)?;
        self.state.get(index).map(|&state| match state {
            FREE => State::Free,
            ALLOCATED => State::Allocated,
            KEPT => State::Kept,
            _ => State::Offline,
        })
    }

    /// Free frames.
    pub fn free_frames(&self) -> usize {
        self.free
    }

    /// Allocated frames, in order.
    pub fn allocated(&self) -> impl DoubleEndedIterator<Item = FrameId> + '_ {
        let frames = self.state.iter().enumerate().filter(|&(_, &state)| state == ALLOCATED);
        frames.map(|(index, _)| FrameId(self.config.start.0 + index))
    }

    /// The states of a block; `None` for what is not a block of the zone.
    pub(crate) fn block(&self, frame: FrameId, order: Order) -> Option<&[u8]> {
        let legal = order <= self.max_order()
            && frame.is_aligned(order)
            && self.config.contains(frame, order);
        let first = frame.0.checked_sub(self.config.start.0).filter(|_| legal)?;
        self.state.get(first..first + order.frames())
    }

    /// Is every frame of this block free? False for what is not a block of the zone.
    pub fn is_free(&self, frame: FrameId, order: Order) -> bool {
        self.block(frame, order).is_some_and(|block| block == &FREE_BLOCK[..block.len()])
    }

    /// Which of these frames are free, one by one.
    pub(crate) fn are_free(&self, frames: Range<usize>) -> Vec<bool> {
        let start = self.config.start.0;
        let states = &self.state[frames.start - start..frames.end - start];
        states.iter().map(|&state| state == FREE).collect()
    }

    /// Is every frame of this block allocated?
    pub fn is_allocated(&self, frame: FrameId, order: Order) -> bool {
        self.block(frame, order).is_some_and(|block| block == &ALLOCATED_BLOCK[..block.len()])
    }

    /// Every block of `order` that lies wholly in the zone.
    pub fn blocks(&self, order: Order) -> impl Iterator<Item = FrameId> + use<> {
        self.blocks_in(order, self.config.start.0..self.config.end().0)
    }

    /// Every block of `order` that lies wholly in these frames.
    pub(crate) fn blocks_in(
        &self,
        order: Order,
        frames: Range<usize>,
    ) -> impl Iterator<Item = FrameId> + use<> {
        let first = frames.start.checked_next_multiple_of(order.frames());
        let first = first.unwrap_or(usize::MAX);
        let count = frames.end.saturating_sub(first) >> order.0;
        (0..count).map(move |n| FrameId(first + (n << order.0)))
    }

    /// The frames of the zone in pieces of the largest order, the ones at the ends ragged.
    fn pieces(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (start, end, shift) = (self.config.start.0, self.config.end().0, self.max_order.0);
        let pieces = start >> shift..=(end - 1) >> shift;
        let behind = move |n: usize| (n << shift).saturating_add(1 << shift);
        pieces.map(move |n| start.max(n << shift)..end.min(behind(n)))
    }

    /// The free blocks of `order`: how many could be allocated, one after the other.
    pub fn free_blocks(&self, order: Order) -> impl Iterator<Item = FrameId> + '_ {
        let first = self.config.start.0 >> self.huge_order;
        // Where nothing is free, nothing is looked at.
        let has_free = move |piece: &Range<usize>| {
            let huge = (piece.start >> self.huge_order) - first;
            let last = ((piece.end - 1) >> self.huge_order) - first;
            self.huge_free[huge..=last].iter().sum::<usize>() >= order.frames()
        };
        let pieces = self.pieces().filter(has_free);
        let blocks = pieces.flat_map(move |piece| self.blocks_in(order, piece));
        blocks.filter(move |&frame| self.is_free(frame, order))
    }

    /// Could a block of `order` be allocated?
    pub fn has_free_block(&self, order: Order) -> bool {
        order <= self.max_order() && self.free_blocks(order).next().is_some()
    }

    /// Free frames of a huge frame; 0 outside the zone.
    pub fn free_in_huge(&self, huge: HugeId) -> usize {
        let first = self.config.start.0 >> self.huge_order;
        let index = huge.0.checked_sub(first);
        index.and_then(|index| self.huge_free.get(index)).copied().unwrap_or(0)
    }

    /// The frames of the huge frames that have changed since the last call of
    /// [`compared`](Self::compared).
    pub(crate) fn touched(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let touched = self.touched.iter().enumerate().filter(|&(_, &touched)| touched);
        touched.map(|(n, _)| self.huge_frame(n))
    }

    /// The frames of the zone in its `n`th huge frame, the first and the last ones ragged.
    fn huge_frame(&self, n: usize) -> Range<usize> {
        let (start, end, shift) = (self.config.start.0, self.config.end().0, self.huge_order);
        let first = ((start >> shift) + n) << shift;
        start.max(first)..end.min(first.saturating_add(1 << shift))
    }

    /// What has changed so far was compared.
    pub(crate) fn compared(&mut self) {
        self.touched.fill(false);
    }

    /// What is allocated, in the largest blocks up to `most` that can be freed at once: as they were
    /// allocated, for engines that cannot free in parts.
    pub(crate) fn next_allocated(&self, from: FrameId, most: Order) -> Option<(FrameId, Order)> {
        let first = from.0 - self.config.start.0;
        let next = self.state[first..].iter().position(|&state| state == ALLOCATED)?;
        let frame = FrameId(from.0 + next);
        if self.unsupported.partial_free {
            return Some((frame, Order(self.blocks[first + next].checked_sub(1)?)));
        }
        let mut orders = (0..=most.0).rev().map(Order);
        Some((frame, orders.find(|&order| self.is_allocated(frame, order))?))
    }

    /// The huge frames that lie wholly inside the zone.
    pub fn huge_range(&self) -> Range<usize> {
        let first = (self.config.start.0 >> self.huge_order)
            + usize::from(!self.config.start.is_aligned(Order(self.huge_order as u8)));
        first..(self.config.end().0 >> self.huge_order).max(first)
    }

    /// The huge frames that are wholly free, in order.
    pub fn free_huge_frames(&self) -> impl Iterator<Item = HugeId> + '_ {
        let whole = 1 << self.huge_order;
        self.huge_range().map(HugeId).filter(move |&huge| self.free_in_huge(huge) == whole)
    }

    /// The huge frames that are offline.
    pub fn offline_huge_frames(&self) -> impl Iterator<Item = HugeId> + '_ {
        let is_offline = |n: &usize| self.state(FrameId(n << self.huge_order));
        let range = self.huge_range();
        range.filter(move |n| is_offline(n) == Some(State::Offline)).map(HugeId)
    }

    /// The index of a huge frame of the zone.
    fn huge_index(&self, huge: HugeId) -> Option<usize> {
        let index = huge.0.checked_sub(self.config.start.0 >> self.huge_order)?;
        (index < self.isolated.len()).then_some(index)
    }

    /// Is a huge frame isolated?
    pub fn is_isolated(&self, huge: HugeId) -> bool {
        self.huge_index(huge).is_some_and(|index| self.isolated[index])
    }

    /// The huge frames that are isolated.
    pub fn isolated_huge_frames(&self) -> impl Iterator<Item = HugeId> + '_ {
        self.huge_range().map(HugeId).filter(|&huge| self.is_isolated(huge))
    }

    /// The frames of isolated huge frames that nobody has.
    pub(crate) fn kept_frames(&self) -> usize {
        self.state.iter().filter(|&&state| state == KEPT).count()
    }

    /// How many frames of a huge frame are allocated.
    pub fn frames_in_use(&self, huge: HugeId) -> usize {
        let Some(index) = self.huge_index(huge) else { return 0 };
        let start = self.config.start.0;
        let frames = self.huge_frame(index);
        let states = &self.state[frames.start - start..frames.end - start];
        states.iter().filter(|&&state| state == ALLOCATED).count()
    }

    /// Isolates a huge frame of the zone, or ends that: what nobody has is kept, or free.
    pub(crate) fn set_isolated(&mut self, huge: HugeId, isolated: bool) {
        let index = self.huge_index(huge).expect("the caller has looked");
        self.isolated[index] = isolated;
        let (from, to) = if isolated { (FREE, KEPT) } else { (KEPT, FREE) };
        let start = self.config.start.0;
        for frame in self
            .huge_frame(index)
            .filter(|&frame| self.state[frame - start] == from)
            .collect::<Vec<_>>()
        {
            self.set(FrameId(frame), 1, to);
        }
        self.touched[index] = true;
    }

    /// Nothing is isolated any more, as after a restart.
    pub(crate) fn forget_isolation(&mut self) {
        for huge in self.isolated_huge_frames().collect::<Vec<_>>() {
            self.set_isolated(huge, false);
        }
    }

    /// These frames change to a state; those of isolated huge frames that become free are kept.
    pub(crate) fn set(&mut self, frame: FrameId, frames: usize, state: u8) {
        let first = frame.0 - self.config.start.0;
        let first_huge = self.config.start.0 >> self.huge_order;
        self.blocks[first..first + frames].fill(0);
        let mut done = 0;
        // One piece per huge frame, so that each has its count corrected once.
        while done < frames {
            let number = frame.0 + done;
            let to_next = (1 << self.huge_order) - (number & ((1 << self.huge_order) - 1));
            let piece = to_next.min(frames - done);
            let huge = (number >> self.huge_order) - first_huge;
            let state = if state == FREE && self.isolated[huge] { KEPT } else { state };
            let states = &mut self.state[first + done..first + done + piece];
            let was = match states.len() {
                1 => usize::from(states[0] == FREE),
                _ if *states == FREE_BLOCK[..piece] => piece,
                _ => states.iter().filter(|&&state| state == FREE).count(),
            };
            states.fill(state);
            let is = if state == FREE { piece } else { 0 };
            self.touched[huge] = true;
            self.huge_free[huge] = self.huge_free[huge] + is - was;
            self.free = self.free + is - was;
            done += piece;
        }
    }

    pub(crate) fn allocate(&mut self, frame: FrameId, order: Order) {
        self.set(frame, order.frames(), ALLOCATED);
        self.blocks[frame.0 - self.config.start.0] = order.0 + 1;
    }
}

//! Memory of a zone on the heap, and what a test owns of it.
#![allow(dead_code, reason = "each test takes a part of it")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ops::Range;

use fastrand::Rng;
use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{
    Base64K, Class, FrameAllocator, FrameId, Geometry, Order, Request, Slot, Volatile, ZoneConfig,
};
use woodlot_zone::{
    Check, Closed, Medium, Memory, NotDurable, Opened, PAGE, Persistence, Zone, ZoneError,
};

/// Huge frames of 32 base frames, so that all of a zone is small.
pub type G = Base64K;

/// The zone of most tests: it begins in the middle of a huge frame, ends in the middle of another one, and has a
/// tree of its own in between.
pub fn config() -> ZoneConfig {
    ZoneConfig::new(2 * G::TREE_FRAMES + 77, 3).starting_at(FrameId(5))
}

/// Page-aligned memory.
pub struct Buffer {
    start: *mut u8,
    len: usize,
}

impl Buffer {
    pub fn new(len: usize) -> Self {
        // SAFETY: the layout has a size.
        let start = unsafe { alloc_zeroed(Self::layout(len)) };
        assert!(!start.is_null());
        Self { start, len }
    }

    /// Memory for a zone.
    pub fn of<G: Geometry>(config: &ZoneConfig) -> Self {
        Self::new(woodlot_zone::Layout::of::<G>(config).expect("a zone").len)
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), PAGE).expect("it fits")
    }

    /// All of it, or less.
    pub fn first(&self, len: usize) -> Result<Memory<'_>, ZoneError> {
        assert!(len <= self.len);
        // SAFETY: the memory is there for as long as the buffer is borrowed, and is written by zones, or while
        // there is none.
        unsafe { Memory::new(self.start, len) }
    }

    pub fn memory(&self) -> Memory<'_> {
        self.first(self.len).expect("it is aligned")
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// A copy of the bytes. No call is under way.
    pub fn image(&self) -> Vec<u8> {
        // SAFETY: the memory is initialised.
        unsafe { std::slice::from_raw_parts(self.start, self.len).to_vec() }
    }

    pub fn set_image(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len);
        // SAFETY: `&mut self` shows that no zone is there.
        unsafe { self.start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    pub fn of_image(bytes: &[u8]) -> Self {
        let mut buffer = Self::new(bytes.len());
        buffer.set_image(bytes);
        buffer
    }

    /// Changes a byte.
    pub fn flip(&mut self, at: usize, by: u8) {
        assert!(at < self.len);
        // SAFETY: it lies inside, and `&mut self` shows that no zone is there.
        unsafe { *self.start.add(at) ^= by };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it came from there.
        unsafe { dealloc(self.start, Self::layout(self.len)) };
    }
}

/// The end of a process that has not closed its zone, or not opened it to the end.
pub fn die<T>(_: T) {}

/// Closes a zone in which nobody died.
pub fn close<G: Geometry, M: Medium>(zone: Zone<'_, G, M>) {
    assert_eq!(zone.close(), Ok(Closed::Clean));
}

/// Blocks that a test owns: first frame and order.
pub type Blocks = BTreeMap<usize, u8>;

pub fn frames(blocks: &Blocks) -> impl Iterator<Item = usize> {
    blocks.iter().flat_map(|(&first, &order)| first..first + (1 << order))
}

/// Random calls; what is owned in the end is added to `blocks`.
pub fn churn<A: FrameAllocator>(zone: &A, blocks: &mut Blocks, calls: usize, rng: &mut Rng) {
    let (max, slots) = (A::Geometry::MAX_ORDER as u8, zone.zone().slots);
    for _ in 0..calls {
        let slot = Slot(rng.usize(..slots));
        if rng.u8(..5) < 3 {
            let order = if rng.bool() { 0 } else { rng.u8(..=max) };
            let class = Class(rng.u8(..zone.classes().count() as u8));
            if let Ok(frame) = zone.alloc(Request::new(Order(order), class, slot)) {
                assert_eq!(blocks.insert(frame.0, order), None, "it has an owner");
            }
        } else if !blocks.is_empty() {
            let (&first, &order) = blocks.iter().nth(rng.usize(..blocks.len())).expect("there is");
            blocks.remove(&first);
            zone.free(FrameId(first), Order(order), slot).expect("it is allocated");
        }
    }
}

/// Checks that nothing that is owned is free, that all else is if `exact`, that every frame that is free can be
/// allocated once, and that all can be freed again.
pub fn judge<A: FrameAllocator>(zone: &A, owned: &Blocks, exact: bool) {
    let all = zone.zone().range();
    let mut taken: Vec<bool> = vec![false; all.end.0];
    for frame in frames(owned) {
        taken[frame] = true;
        assert!(!zone.is_free(FrameId(frame), Order::BASE), "frame {frame} is owned and free");
    }
    let free = zone.stats().free_frames;
    if exact {
        assert_eq!(free, zone.zone().frames - frames(owned).count());
    }
    let mut had = Vec::new();
    while let Ok(frame) = zone.alloc(Request::movable(Order::BASE, Slot(0))) {
        assert!(all.contains(&frame) && !taken[frame.0], "frame {} has two owners", frame.0);
        taken[frame.0] = true;
        had.push(frame);
    }
    assert_eq!(had.len(), free, "all that is free can be had");
    for frame in had {
        zone.free(frame, Order::BASE, Slot(1)).expect("it was allocated");
    }
    for (&first, &order) in owned {
        zone.free(FrameId(first), Order(order), Slot(0)).expect("it is owned");
    }
}

/// Opens a zone of [`config`] in its memory.
pub fn open<M: Medium>(
    buffer: &Buffer,
    check: Check,
    medium: M,
) -> Result<(Zone<'_, G, M>, Opened), ZoneError> {
    // SAFETY: every test has a buffer to itself.
    unsafe { Zone::open(buffer.memory(), Some(&config()), check, medium) }
}

/// A medium that keeps what its pages were at each synchronisation, as a file system would.
pub struct Recorder<'b> {
    pub buffer: &'b Buffer,
    pub images: std::cell::RefCell<Vec<Vec<u8>>>,
    /// The synchronisation that fails.
    pub fails_at: usize,
}

impl<'b> Recorder<'b> {
    pub fn new(buffer: &'b Buffer, fails_at: usize) -> Self {
        Self { buffer, images: vec![buffer.image()].into(), fails_at }
    }
}

impl Medium for &Recorder<'_> {
    const MODEL: Persistence = Persistence::File;

    type WriteBack = Volatile;

    fn write_back(&self) -> Volatile {
        Volatile
    }

    fn persist(&self, bytes: Range<usize>, _: &[AtomicU64]) -> Result<(), NotDurable> {
        assert!([bytes.start, bytes.end].iter().all(|end| end.is_multiple_of(PAGE)));
        let now = self.buffer.image();
        let mut images = self.images.borrow_mut();
        if images.len() > self.fails_at {
            return Err(NotDurable(5));
        }
        let mut durable = images.last().expect("there is one").clone();
        durable[bytes.clone()].copy_from_slice(&now[bytes]);
        images.push(durable);
        Ok(())
    }
}

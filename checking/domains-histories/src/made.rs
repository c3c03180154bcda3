//! An allocator of a zone, made from words of its own wherever its metadata is said to be, perhaps with a seeded defect.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use woodlot_frame::{
    AllocError, Construct, FrameAllocator, FrameId, FreeError, HugeId, Init, InitError,
    MetadataSize, OfflineError, Order, RawMetadata, Request, Unsupported, ZoneConfig, forward,
};
use woodlot_histories::engine::{Family, OfLLFree, Tiny};
use woodlot_llfree::LLFree;

use crate::defect::Defect;

/// Huge frames of 32 frames, trees of four. A chunk is two huge frames.
pub type Geo = Tiny<HUGE_ORDER, 4>;
const HUGE_ORDER: u32 = 5;

type Words = <OfLLFree as Family>::Words;

/// What a zone was made from, until its history has ended.
struct Piece {
    words: *mut Words,
    first: FrameId,
    is_there: Arc<AtomicBool>,
}

thread_local! {
    static PIECES: RefCell<Vec<Piece>> = const { RefCell::new(Vec::new()) };
    static DEFECT: Cell<Defect> = const { Cell::new(Defect::Nothing) };
}

/// The allocator of a zone.
pub struct Made {
    zone: LLFree<'static, Geo>,
    is_there: Arc<AtomicBool>,
    defect: Defect,
}

/// Begins a history, whose threads are all of one thread of the system. What an earlier one left, which panicked, stays.
pub fn begin(defect: Defect) {
    PIECES.take().clear();
    DEFECT.set(defect);
}

/// The words of the zone that begins there are let go.
pub fn let_go(first: FrameId) {
    let is_it = |piece: &&Piece| piece.first == first;
    PIECES.with_borrow(|pieces| {
        pieces.iter().filter(is_it).for_each(|piece| piece.is_there.store(false, Relaxed));
    });
}

/// Ends a history.
///
/// # Safety
/// Nobody uses a zone any more.
pub unsafe fn end() {
    for piece in PIECES.take() {
        // SAFETY: they came from a box, and nobody uses them.
        drop(unsafe { Box::from_raw(piece.words) });
    }
}

impl Made {
    fn zone(&self) -> &LLFree<'static, Geo> {
        assert!(self.is_there.load(Relaxed), "a call looks at a zone whose memory was let go");
        &self.zone
    }
}

impl Construct for Made {
    /// The words are elsewhere.
    fn metadata_size(_: &ZoneConfig) -> Result<MetadataSize, InitError> {
        Ok(MetadataSize { durable: 64, volatile: 64 })
    }

    unsafe fn construct(
        config: &ZoneConfig,
        _: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        let words = Box::into_raw(Box::new(OfLLFree::words::<Geo>(config)));
        // SAFETY: they are freed when the history has ended.
        let zone = OfLLFree::zone::<Geo>(unsafe { &*words }, config, init, 2);
        let is_there = Arc::new(AtomicBool::new(true));
        let piece = Piece { words, first: config.start, is_there: is_there.clone() };
        PIECES.with_borrow_mut(|pieces| pieces.push(piece));
        Ok(Made { zone, is_there, defect: DEFECT.get() })
    }
}

impl FrameAllocator for Made {
    type Geometry = Geo;

    const NAME: &'static str = "made";

    const UNSUPPORTED: Unsupported = LLFree::<Geo>::UNSUPPORTED;

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        self.zone().alloc(request)
    }

    fn free(
        &self,
        frame: FrameId,
        order: Order,
        slot: woodlot_frame::Slot,
    ) -> Result<(), FreeError> {
        self.zone().free(frame, order, slot)
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        match (self.defect, self.zone().offline(first, count)) {
            (Defect::TakesOutWhatIsInUse, Err(OfflineError::InUse(_))) => Ok(()),
            (Defect::AllocatesWhatIsOut, Ok(())) => self.zone.online(first, 1),
            (_, result) => result,
        }
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        match self.defect {
            Defect::StaysOut => Ok(()),
            _ => self.zone().online(first, count),
        }
    }

    forward!(zone: zone, can_free, drain, isolate, unisolate, claim_isolated, is_isolated);
    forward!(zone: frames_in_use, used_map, is_available, free_frames, stats, is_free, free_map);
    forward!(zone: free_in_huge);
}

//! A zone of a few frames: a bit for each. It serves what a layer of addresses asks for: single frames, several at a time.

use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_frame::{
    AllocError, BadSlot, Base4K, Batch, FrameAllocator, FrameId, FreeBatchError, FreeError, HugeId,
    OfflineError, Order, Request, Slot, Stats, Unsupported, ZoneConfig,
};

pub(super) struct Zone {
    config: ZoneConfig,
    /// 1: the frame is in use.
    used: AtomicU32,
}

impl Zone {
    pub(super) fn new(config: ZoneConfig) -> Zone {
        Zone { config, used: AtomicU32::new(0) }
    }
}

impl FrameAllocator for Zone {
    type Geometry = Base4K;
    const NAME: &'static str = "a few frames";
    const UNSUPPORTED: Unsupported = Unsupported {
        exact_frame: true,
        partial_free: true,
        classes: true,
        offline: true,
        isolation: true,
        recovery: true,
        exact_exhaustion: false,
    };

    fn zone(&self) -> &ZoneConfig {
        &self.config
    }

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let mut room = [FrameId(0)];
        self.alloc_batch(request, Batch::All, &mut room).map(|_| room[0])
    }

    /// One step, so that the explorer has fewer states.
    fn alloc_batch(
        &self,
        request: Request,
        _: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        assert_eq!(request.order, Order::BASE);
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let free = (0..self.config.frames).filter(|frame| used >> frame & 1 == 0);
            let places = out.iter_mut().zip(free);
            let (count, taken) = places.fold((0, used), |(count, taken), (place, frame)| {
                *place = FrameId(frame);
                (count + 1, taken | 1 << frame)
            });
            if count == 0 {
                return Err(AllocError::OutOfMemory);
            }
            match self.used.compare_exchange(used, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(count),
                Err(now) => used = now,
            }
        }
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.free_batch(&[frame], order, slot).map_err(|error| error.cause)
    }

    fn free_batch(&self, frames: &[FrameId], _: Order, _: Slot) -> Result<(), FreeBatchError> {
        let bits = frames.iter().fold(0, |bits, frame| bits | 1 << frame.0);
        let before = self.used.fetch_and(!bits, Ordering::Release);
        assert_eq!(before & bits, bits, "frames are freed that nobody has");
        Ok(())
    }

    fn can_free(&self, frame: FrameId, order: Order, _: Slot) -> Result<(), FreeError> {
        if self.is_free(frame, order) { Err(FreeError::NotAllocated(frame)) } else { Ok(()) }
    }

    fn drain(&self, _: Slot) -> Result<(), BadSlot> {
        Ok(())
    }

    fn offline(&self, _: HugeId, _: usize) -> Result<(), OfflineError> {
        Err(OfflineError::Unsupported)
    }

    fn online(&self, _: HugeId, _: usize) -> Result<(), OfflineError> {
        Err(OfflineError::Unsupported)
    }

    fn is_available(&self, order: Order) -> bool {
        order == Order::BASE && self.free_frames() > 0
    }

    fn free_frames(&self) -> usize {
        self.config.frames - self.used.load(Ordering::Relaxed).count_ones() as usize
    }

    fn stats(&self) -> Stats {
        Stats { free_frames: self.free_frames(), ..Stats::default() }
    }

    fn is_free(&self, frame: FrameId, _: Order) -> bool {
        self.used.load(Ordering::Relaxed) >> frame.0 & 1 == 0
    }

    fn free_in_huge(&self, _: HugeId) -> usize {
        self.free_frames()
    }
}

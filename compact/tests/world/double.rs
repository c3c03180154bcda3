use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Mutex;
use woodlot_frame::*;
use woodlot_llfree::LLFree;
pub struct Zone(pub Double);
impl Deref for Zone { type Target = Double; fn deref(&self) -> &Double { &self.0 } }
pub struct Double { pub e: Owned<LLFree<'static, Base4K>>, iso: Mutex<BTreeMap<usize, BTreeSet<usize>>> }
impl Double {
    pub fn new(e: Owned<LLFree<'static, Base4K>>) -> Self { Self { e, iso: Mutex::new(BTreeMap::new()) } }
    fn grab(&self, set: &mut BTreeSet<usize>, frame: usize) {
        if self.e.alloc(Request::movable(Order(0), Slot(0)).at(FrameId(frame))).is_ok() { set.insert(frame); }
    }
}
impl FrameAllocator for Double {
    type Geometry = Base4K;
    const NAME: &'static str = "double";
    const UNSUPPORTED: Unsupported = <LLFree<'static, Base4K> as FrameAllocator>::UNSUPPORTED;
    fn zone(&self) -> &ZoneConfig { self.e.zone() }
    fn alloc(&self, r: Request) -> Result<FrameId, AllocError> { self.e.alloc(r) }
    fn free(&self, f: FrameId, o: Order, s: Slot) -> Result<(), FreeError> {
        let mut iso = self.iso.lock().unwrap();
        for x in f.0..f.0 + o.frames() { if iso.get(&(x >> 9)).is_some_and(|s| s.contains(&x)) { return Err(FreeError::NotAllocated(FrameId(x))); } }
        self.e.free(f, o, s)?;
        for x in f.0..f.0 + o.frames() { if let Some(set) = iso.get_mut(&(x >> 9)) { self.grab(set, x); } }
        Ok(())
    }
    fn can_free(&self, f: FrameId, o: Order, s: Slot) -> Result<(), FreeError> { self.e.can_free(f, o, s) }
    fn drain(&self, s: Slot) -> Result<(), BadSlot> { self.e.drain(s) }
    fn offline(&self, f: HugeId, c: usize) -> Result<(), OfflineError> { self.e.offline(f, c) }
    fn online(&self, f: HugeId, c: usize) -> Result<(), OfflineError> { self.e.online(f, c) }
    fn is_available(&self, o: Order) -> bool { self.e.is_available(o) }
    fn free_frames(&self) -> usize { self.e.free_frames() }
    fn stats(&self) -> Stats { self.e.stats() }
    fn is_free(&self, f: FrameId, o: Order) -> bool { self.e.is_free(f, o) }
    fn free_in_huge(&self, h: HugeId) -> usize { self.e.free_in_huge(h) }
    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let mut iso = self.iso.lock().unwrap();
        for h in first.0..first.0 + count { if iso.contains_key(&h) { return Err(IsolateError::Isolated(HugeId(h))); } }
        for h in first.0..first.0 + count { let mut set = BTreeSet::new(); for f in h * 512..h * 512 + 512 { self.grab(&mut set, f); } iso.insert(h, set); }
        Ok(())
    }
    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let mut iso = self.iso.lock().unwrap();
        for h in first.0..first.0 + count { for f in iso.remove(&h).expect("isolated") { self.e.free(FrameId(f), Order(0), Slot(0)).unwrap(); } }
        Ok(())
    }
    fn is_isolated(&self, h: HugeId) -> bool { self.iso.lock().unwrap().contains_key(&h.0) }
    fn used_map(&self, frame: FrameId) -> u64 {
        let iso = self.iso.lock().unwrap();
        let mut map = !self.e.free_map(frame);
        if let Some(set) = iso.get(&(frame.0 >> 9)) { for b in 0..64 { if set.contains(&((frame.0 & !63) + b)) { map &= !(1 << b); } } }
        map
    }
    fn frames_in_use(&self, h: HugeId) -> usize { (0..8).map(|r| self.used_map(FrameId(h.0 * 512 + r * 64)).count_ones() as usize).sum() }
}

//! Stacks of a process, in the frames of an LLFree.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{
    AllocError, Base4K, Class, FrameAllocator, FrameId, FreeBlocks, Init, Order, Owned, Request,
    Slot, Unsupported, ZoneConfig, forward,
};
use woodlot_llfree::LLFree;
use woodlot_stacks::{
    AddressSpace, Arena, ArenaError, FileSpace, Found, FreeError, NotMapped, Shape, Stack,
    StackError, StillMapped,
};

type Zone = LLFree<'static, Base4K>;

const PAGE: usize = 4096;

/// A space that says no after so many calls, and counts pages.
struct Space<'a> {
    file: &'a FileSpace,
    /// Calls of `map` until one is refused.
    calls: AtomicUsize,
    /// That one maps all frames but the last.
    sticks: AtomicBool,
    pages: AtomicUsize,
    /// Calls of `unmap` are refused.
    keeps: AtomicBool,
}

// SAFETY: the file's space does it.
unsafe impl AddressSpace for &Space<'_> {
    fn map(&self, first: NonNull<u8>, frames: &[FrameId]) -> Result<(), NotMapped> {
        if self.calls.fetch_sub(1, Relaxed) == 0 {
            let Some((_, some)) = frames.split_last().filter(|_| self.sticks.load(Relaxed)) else {
                return Err(NotMapped::Undone);
            };
            self.map(first, some)?;
            return Err(NotMapped::Stuck);
        }
        self.pages.fetch_add(frames.len(), Relaxed);
        self.file.map(first, frames)
    }

    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) -> Result<(), StillMapped> {
        if self.keeps.load(Relaxed) {
            frames.fill(FrameId(0));
            return Err(StillMapped);
        }
        self.pages.fetch_sub(frames.len(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { self.file.unmap(first, frames) }
    }
}

/// What an arena is made of.
struct Parts {
    zone: Owned<Zone>,
    file: FileSpace,
    words: Vec<AtomicU64>,
    shape: Shape,
}

impl Parts {
    fn new(pages: usize, stacks: usize, frames: usize) -> Parts {
        let zone = Owned::new(&ZoneConfig::new(frames, 2), Init::Free).expect("a zone");
        let shape = Shape::new(pages, stacks).expect("a shape");
        let file = FileSpace::new(shape.addresses(), frames).expect("addresses");
        // What was there does not matter.
        let words = (0..shape.words()).map(|_| AtomicU64::new(u64::MAX)).collect();
        Parts { zone, file, words, shape }
    }

    fn space(&self) -> Space<'_> {
        let (calls, pages) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        let [sticks, keeps] = [false; 2].map(AtomicBool::new);
        Space { file: &self.file, calls, sticks, pages, keeps }
    }

    fn arena<'a>(&'a self, space: &'a Space<'a>) -> Arena<'a, Zone, &'a Space<'a>> {
        let base = self.file.start();
        // SAFETY: the addresses are the file's, and the frames are its pages.
        unsafe { Arena::new(&*self.zone, space, base, self.shape, &self.words) }.expect("an arena")
    }

    fn free_frames(&self) -> usize {
        self.zone.stats().free_frames
    }
}

fn free<S: AddressSpace>(arena: &Arena<'_, Zone, S>, stack: Stack) {
    // SAFETY: no test uses a stack that it has freed.
    unsafe { arena.free(stack.bottom, Slot(0)) }.expect("it is in use");
}

/// Writes all of a stack.
fn fill(stack: Stack, value: u64) {
    for at in (0..stack.bytes).step_by(8) {
        // SAFETY: the stack is the caller's.
        unsafe { stack.bottom.add(at).cast::<u64>().write_volatile(value + at as u64) };
    }
}

fn check(stack: Stack, value: u64) {
    for at in (0..stack.bytes).step_by(8) {
        // SAFETY: as above.
        let found = unsafe { stack.bottom.add(at).cast::<u64>().read_volatile() };
        assert_eq!(found, value + at as u64, "byte {at} of a stack is its owner's alone");
    }
}

#[test]
fn stacks_leave_no_holes() {
    for pages in [1, 3, 4, 5, 16, 32] {
        let parts = Parts::new(pages, 1000, 64 << 10);
        let space = parts.space();
        let arena = parts.arena(&space);
        let stacks: Vec<Stack> =
            (0..1000).map(|_| arena.alloc(Slot(0)).expect("a stack")).collect();
        for (number, &stack) in stacks.iter().enumerate() {
            assert_eq!(arena.find(stack.bottom.as_ptr()), Some(Found::Stack(number)));
            fill(stack, (number << 32) as u64);
        }
        stacks.iter().enumerate().for_each(|(number, &stack)| check(stack, (number << 32) as u64));
        let huge = (1000 * pages).div_ceil(512);
        assert_eq!((arena.huge_frames(), arena.alone()), (huge, 0));
        assert_eq!(parts.free_frames(), (64 << 10) - huge * 512);
        let holes = FreeBlocks::of(&*parts.zone);
        assert!((0..9).all(|order| holes.count(Order(order)) == 0), "{pages} pages: {holes:?}");
        assert_eq!(arena.alloc(Slot(0)), Err(StackError::AllInUse));
        stacks.into_iter().for_each(|stack| free(&arena, stack));
        assert_eq!((arena.in_use(), arena.trim(Slot(0))), (0, huge));
        assert_eq!((space.pages.load(Relaxed), parts.free_frames()), (0, 64 << 10));
    }
}

#[test]
fn a_huge_frame_stays_while_one_stack_is_in_use() {
    // A stack of three pages lies in two huge frames now and then.
    for pages in [4, 3] {
        let parts = Parts::new(pages, 600, 16 << 10);
        let space = parts.space();
        let arena = parts.arena(&space);
        let mut stacks: Vec<Stack> = (0..600).map(|_| arena.alloc(Slot(0)).expect("one")).collect();
        let kept = 512 / pages;
        let stack = stacks.remove(kept);
        fill(stack, 7);
        stacks.into_iter().for_each(|stack| free(&arena, stack));
        let has = if pages == 4 { 1 } else { 2 };
        arena.trim(Slot(0));
        assert_eq!(arena.huge_frames(), has, "those of the stack in use");
        check(stack, 7);
        // What was trimmed can be had again, and is mapped again.
        let again: Vec<Stack> = (0..599).map(|_| arena.alloc(Slot(1)).expect("one")).collect();
        again.iter().for_each(|&stack| fill(stack, 1 << 40));
        check(stack, 7);
        again.into_iter().for_each(|stack| free(&arena, stack));
        free(&arena, stack);
        arena.trim(Slot(0));
        assert_eq!((space.pages.load(Relaxed), parts.free_frames()), (0, 16 << 10));
    }
}

#[test]
fn without_huge_frames_a_stack_gets_single_ones() {
    let parts = Parts::new(4, 100, 1024);
    let space = parts.space();
    let arena = parts.arena(&space);
    // One frame of each huge frame is in use.
    let held = [0, 512].map(|frame| {
        let request = Request::immovable(Order(0), Slot(0)).at(FrameId(frame));
        parts.zone.alloc(request).expect("it is free")
    });
    let stacks: Vec<Stack> = (0..100).map(|_| arena.alloc(Slot(0)).expect("one")).collect();
    assert_eq!((arena.huge_frames(), arena.alone()), (0, 100));
    stacks.iter().enumerate().for_each(|(number, &stack)| fill(stack, (number << 32) as u64));
    stacks.iter().enumerate().for_each(|(number, &stack)| check(stack, (number << 32) as u64));
    parts.zone.free(held[0], Order(0), Slot(0)).expect("it is allocated");
    stacks.into_iter().for_each(|stack| free(&arena, stack));
    assert_eq!((arena.alone(), parts.free_frames()), (0, 1023), "single frames go back at once");
    let stack = arena.alloc(Slot(0)).expect("one");
    assert_eq!((arena.huge_frames(), arena.alone()), (1, 0), "in a huge frame, as there is one");
    free(&arena, stack);
    assert_eq!(arena.trim(Slot(0)), 1);
    let all = Request::new(Order(0), Class::IMMOVABLE, Slot(0));
    while parts.zone.alloc(all).is_ok() {}
    assert_eq!(arena.alloc(Slot(0)), Err(StackError::Frames(AllocError::OutOfMemory)));
    assert_eq!(arena.in_use(), 0);
}

#[test]
fn what_is_refused_leaves_nothing() {
    let parts = Parts::new(4, 100, 1024);
    let space = parts.space();
    let arena = parts.arena(&space);
    space.calls.store(0, Relaxed);
    assert_eq!(arena.alloc(Slot(0)), Err(StackError::NotMapped));
    assert_eq!((arena.in_use(), arena.huge_frames(), arena.trim(Slot(0))), (0, 1, 1));
    // The same with single frames.
    for frame in [0, 512] {
        let request = Request::immovable(Order(0), Slot(0)).at(FrameId(frame));
        parts.zone.alloc(request).expect("it is free");
    }
    space.calls.store(0, Relaxed);
    assert_eq!(arena.alloc(Slot(0)), Err(StackError::NotMapped));
    assert_eq!((arena.in_use(), parts.free_frames()), (0, 1022), "single frames went back");
    assert_eq!(space.pages.load(Relaxed), 0);
}

/// A space that does not end a mapping: the frames stay the arena's, and whoever is given the stack next has them.
#[test]
fn what_stays_mapped_keeps_its_frames() {
    // Sixteen stacks of a slab, and one of single frames, as no other huge frame is free.
    let parts = Parts::new(32, 17, 512 + 300);
    let space = parts.space();
    let arena = parts.arena(&space);
    let all = parts.free_frames();
    let stacks = [(); 17].map(|()| arena.alloc(Slot(0)).expect("there are frames"));
    assert_eq!((arena.huge_frames(), arena.alone()), (1, 1));
    let has = |frames| assert_eq!((parts.free_frames(), space.pages.load(Relaxed)), frames);
    has((all - 512 - 32, 512 + 32));
    space.keeps.store(true, Relaxed);
    let [.., alone] = stacks;
    fill(alone, 7);
    stacks.into_iter().for_each(|stack| free(&arena, stack));
    assert_eq!((arena.trim(Slot(0)), arena.in_use(), arena.huge_frames()), (0, 0, 1));
    has((all - 512 - 32, 512 + 32));
    let again = [(); 17].map(|()| arena.alloc(Slot(0)).expect("they are mapped"));
    assert_eq!((again, arena.alone()), (stacks, 1));
    check(alone, 7);
    space.keeps.store(false, Relaxed);
    stacks.into_iter().for_each(|stack| free(&arena, stack));
    has((all - 512, 512));
    assert_eq!((arena.trim(Slot(0)), arena.alone()), (1, 0));
    has((all, 0));
}

/// A space that maps a part of the frames and cannot undo it: the stack and its frames are nobody's.
#[test]
fn what_was_mapped_in_part_keeps_its_frames() {
    let parts = Parts::new(32, 17, 512 + 300);
    let space = parts.space();
    let arena = parts.arena(&space);
    let all = parts.free_frames();
    space.sticks.store(true, Relaxed);
    space.calls.store(0, Relaxed);
    assert_eq!(arena.alloc(Slot(0)), Err(StackError::Stuck));
    assert_eq!((arena.in_use(), arena.huge_frames()), (1, 1));
    let stacks = [(); 15].map(|()| arena.alloc(Slot(0)).expect("the others of the slab"));
    // Sixteen stacks of a slab, and one of single frames, as no other huge frame is free.
    space.calls.store(0, Relaxed);
    assert_eq!(arena.alloc(Slot(0)), Err(StackError::Stuck));
    assert_eq!(arena.alloc(Slot(0)), Err(StackError::AllInUse));
    stacks.into_iter().for_each(|stack| free(&arena, stack));
    assert_eq!((arena.trim(Slot(0)), arena.in_use(), arena.huge_frames()), (0, 2, 1));
    assert_eq!(parts.free_frames(), all - 512 - 32, "what is mapped is nobody's to allocate");
    assert_eq!(space.pages.load(Relaxed), 512 - 1 + 32 - 1);
}

/// Has the system refuse these calls to this thread: as calls and, of `mmap`, without a file.
fn refuse(calls: &[libc::c_long]) {
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let load = |offset| op((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, offset);
    let skip = |k, jt, jf| op((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt, jf, k);
    let end = |k| op((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, k);
    // The low halves of the call's number and of its fifth argument, the file of `mmap`.
    let (number, file) = (0, 16 + 4 * 8);
    let no = libc::SECCOMP_RET_ERRNO | libc::ENOMEM as u32;
    let mut filter = Vec::new();
    for &call in calls {
        filter.extend([
            load(number),
            skip(call as u32, 0, if call == libc::SYS_mmap { 3 } else { 1 }),
        ]);
        if call == libc::SYS_mmap {
            filter.extend([load(file), skip(u32::MAX, 0, 1)]);
        }
        filter.push(end(no));
    }
    filter.push(end(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is there during the call, which binds this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let filter = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program), 0);
    }
}

/// A call of the system fails in the middle of a mapping, and those that would undo it do too.
#[test]
fn the_system_refuses() {
    let map = |calls: &'static [libc::c_long]| {
        thread::spawn(move || {
            let space = FileSpace::new(2 * PAGE, 2).expect("addresses");
            refuse(calls);
            let mapped = space.map(space.start(), &[FrameId(1), FrameId(0)]);
            (mapped, space)
        })
    };
    let (undone, _) = map(&[libc::SYS_madvise]).join().expect("it ends");
    assert_eq!(undone, Err(NotMapped::Undone));
    let (barred, _) = map(&[libc::SYS_madvise, libc::SYS_mmap]).join().expect("it ends");
    assert_eq!(barred, Err(NotMapped::Undone), "nobody reaches the frame any more");
    let calls = &[libc::SYS_madvise, libc::SYS_mmap, libc::SYS_mprotect];
    let (stuck, space) = map(calls).join().expect("it ends");
    assert_eq!(stuck, Err(NotMapped::Stuck));
    // SAFETY: the first run of frames is mapped there.
    unsafe { space.start().cast::<u64>().write_volatile(7) };
}

#[test]
fn wrong_calls() {
    let parts = Parts::new(4, 100, 1024);
    let space = parts.space();
    let arena = parts.arena(&space);
    let stack = arena.alloc(Slot(0)).expect("one");
    let at = |offset: isize| {
        let bottom =
            NonNull::new(stack.bottom.as_ptr().wrapping_offset(offset)).expect("an address");
        // SAFETY: the free is refused, or the stack is not used any more.
        unsafe { arena.free(bottom, Slot(0)) }
    };
    for offset in
        [-1, -(PAGE as isize), 1, 8, PAGE as isize, stack.bytes as isize, 1 << 30, -(1 << 30)]
    {
        assert_eq!(at(offset), Err(FreeError::NotAStack), "{offset}");
    }
    assert_eq!(at(5 * PAGE as isize), Err(FreeError::NotInUse), "the next one");
    let bad = Slot(parts.zone.zone().slots);
    // SAFETY: the free is refused.
    assert_eq!(unsafe { arena.free(stack.bottom, bad) }, Err(FreeError::BadSlot(bad)));
    assert_eq!((at(0), at(0)), (Ok(()), Err(FreeError::NotInUse)));
    assert_eq!((arena.trim(bad), arena.huge_frames(), arena.in_use()), (0, 1, 0));
    let make = |base: NonNull<u8>, words: &[AtomicU64]| {
        // SAFETY: no arena is made.
        unsafe { Arena::new(&*parts.zone, &space, base, parts.shape, words) }.err()
    };
    let start = parts.file.start();
    let inside = NonNull::new(start.as_ptr().wrapping_add(PAGE)).expect("an address");
    assert_eq!(make(inside, &parts.words), Some(ArenaError::Misaligned));
    assert_eq!(make(start, &parts.words[1..]), Some(ArenaError::TooFewWords));
}

/// Threads take stacks, write all of them, and give them back, while one trims.
#[test]
fn threads_share_no_stack() {
    let parts = Parts::new(3, 200, 4 << 10);
    let space = parts.space();
    let arena = parts.arena(&space);
    let (left, trimmed) = (AtomicUsize::new(2), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..2_usize {
            let (arena, left) = (&arena, &left);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread as u64);
                let mut mine: Vec<(Stack, u64)> = Vec::new();
                for round in 0..4000_u64 {
                    // Few at first and at last, so that huge frames come and go.
                    let most = if round / 500 % 2 == 0 { 60 } else { 3 };
                    if mine.len() < random.usize(1..=most) {
                        match arena.alloc(Slot(thread)) {
                            Ok(stack) => {
                                let value = (round << 8 | thread as u64) << 32;
                                fill(stack, value);
                                mine.push((stack, value));
                            }
                            // A trim has them for a moment.
                            Err(error) => assert_eq!(error, StackError::AllInUse),
                        }
                    } else {
                        let (stack, value) = mine.swap_remove(random.usize(..mine.len()));
                        check(stack, value);
                        free(arena, stack);
                    }
                }
                for (stack, value) in mine {
                    check(stack, value);
                    free(arena, stack);
                }
                left.fetch_sub(1, Relaxed);
            });
        }
        while left.load(Relaxed) > 0 {
            trimmed.fetch_add(arena.trim(Slot(1)), Relaxed);
            thread::yield_now();
        }
    });
    assert_eq!((arena.in_use(), arena.alone()), (0, 0));
    arena.trim(Slot(0));
    assert_eq!((space.pages.load(Relaxed), parts.free_frames()), (0, 4 << 10));
}

/// A zone that waits at its first allocation until another thread has taken a stack.
struct Slow<'a> {
    zone: &'a Zone,
    is_first: AtomicBool,
    meet: &'a Barrier,
}

impl FrameAllocator for Slow<'_> {
    type Geometry = Base4K;
    const NAME: &'static str = "slow";
    const UNSUPPORTED: Unsupported = Zone::UNSUPPORTED;

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        if self.is_first.swap(false, Relaxed) {
            self.meet.wait();
            self.meet.wait();
        }
        self.zone.alloc(request)
    }

    forward!(zone: zone, free, can_free, drain, offline, online);
    forward!(zone: isolate, unisolate, claim_isolated, is_isolated, frames_in_use, used_map);
    forward!(zone: is_available, free_frames, stats, is_free, free_map, free_in_huge);
}

#[test]
fn two_bring_one_huge_frame() {
    let (parts, meet) = (Parts::new(4, 100, 1024), Barrier::new(2));
    let space = parts.space();
    let slow = Slow { zone: &parts.zone, is_first: AtomicBool::new(true), meet: &meet };
    let base = parts.file.start();
    // SAFETY: the addresses are the file's, and the frames are its pages.
    let arena = unsafe { Arena::new(&slow, &space, base, parts.shape, &parts.words) };
    let arena = arena.expect("an arena");
    let (one, other) = thread::scope(|scope| {
        let later = scope.spawn(|| arena.alloc(Slot(0)));
        meet.wait();
        let quicker = arena.alloc(Slot(1));
        meet.wait();
        (quicker.expect("a stack"), later.join().expect("no panic").expect("a stack"))
    });
    fill(one, 1 << 32);
    fill(other, 2 << 32);
    check(one, 1 << 32);
    assert_eq!(arena.huge_frames(), 1);
    assert_eq!(parts.free_frames(), 512, "the later one gives its own back");
}

/// A process for each guard that is touched.
#[test]
fn a_hit_guard_is_a_fault() {
    const TOUCHED: &str = "WOODLOT_STACKS_TOUCH";
    let parts = Parts::new(4, 3, 1024);
    let space = parts.space();
    let arena = parts.arena(&space);
    let stacks = [(); 3].map(|()| arena.alloc(Slot(0)).expect("a stack"));
    let mut places = BTreeSet::new();
    for stack in stacks {
        fill(stack, 1);
        places.extend([-1, stack.bytes as isize].map(|at| (stack.bottom.as_ptr().addr(), at)));
    }
    // Behind a stack that is freed and trimmed nothing is either; one that is just freed stays mapped.
    let offsets = places.iter().map(|&(bottom, at)| bottom.wrapping_add_signed(at));
    let offsets: Vec<usize> =
        offsets.map(|address| address - parts.file.start().as_ptr().addr()).collect();
    if let Ok(touched) = env::var(TOUCHED) {
        let touched: usize = touched.parse().expect("a number");
        // SAFETY: it is the test that this is a fault.
        unsafe { parts.file.start().add(touched).write_volatile(1) };
        return;
    }
    let run = |offset: usize| {
        let mut child = Command::new(env::current_exe().expect("this program"));
        child.args(["--exact", "a_hit_guard_is_a_fault", "--nocapture"]);
        child.env(TOUCHED, offset.to_string()).output().expect("a process").status
    };
    for offset in offsets {
        assert_eq!(run(offset).signal(), Some(11), "byte {offset} is in a guard");
    }
    assert!(run(PAGE).success(), "the lowest byte of the first stack");
}

//! The per-CPU layer: two lists of free blocks for each size on each CPU.
//!
//! ```text
//!   CPU 0   size 0: │ main │ aux │   size 1: │ main │ aux │   …        a list is one word
//!   CPU 1   size 0: │ main │ aux │   …
//! ```
//!
//! 1. Blocks are allocated from *main* and freed to *main*, which has at most `target` blocks; *aux* is empty or has
//!    what *main* had when it was full, or less, if its CPU was left or interrupted just then.
//! 2. A CPU changes its own words only, by one store, and is kept to itself meanwhile: by interrupts that are off
//!    ([`Guarded`]), or by a sequence that the system restarts. So there is no atomic instruction and no lock.
//! 3. Lists are taken and put whole. Between two such steps the caller may find itself on another CPU.
//!
//! Section 3.3.1 and figure 2 of the paper.

use core::ptr::NonNull;

use crate::counted::CpuCounts;
use crate::list::List;
use crate::protected::Protected;
use crate::size::{MAX_SIZES, SIZE_IDS, SizeId};

/// Which list of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// What blocks are allocated from and freed to.
    Main,
    /// The full list beside it.
    Aux,
}

impl Which {
    /// As an index.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The caches of all CPUs.
///
/// # Safety
/// * Each list belongs to one caller or to the cache of one CPU at a time: what a call returns, the cache has no more.
/// * Whoever has a [`guard`](Self::guard) is alone on its CPU: no interrupt handler, signal handler or other thread that
///   runs there before the guard is dropped calls this allocator, or waits for a lock that the caller has.
pub unsafe trait PerCpu: Sync {
    /// What keeps others away while it lives.
    type Guard<'a>
    where
        Self: 'a;

    /// Takes a block off *main*.
    fn pop(&self, size: SizeId) -> Option<NonNull<u8>>;

    /// Puts a block on *main*. False, and nothing has changed, if *main* has `target` blocks.
    ///
    /// # Safety
    /// The block is one of this size, and the caller's, who gives it away.
    unsafe fn push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool;

    /// As [`pop`](Self::pop), by the fast way alone: caches that have another way too say `None` where they would take that.
    #[inline(always)]
    fn try_pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        self.pop(size)
    }

    /// As [`push`](Self::push), by the fast way alone.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    #[inline(always)]
    unsafe fn try_push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.push(size, block, target) }
    }

    /// Puts a list where another one is, or none, and takes that. Where nothing can be put, the list comes back.
    ///
    /// # Safety
    /// The list has blocks of this size, and is the caller's, who gives it away.
    unsafe fn exchange(&self, which: Which, size: SizeId, list: List) -> List;

    /// Takes a list, and leaves an empty one.
    fn take(&self, which: Which, size: SizeId) -> List {
        // SAFETY: there are no blocks.
        unsafe { self.exchange(which, size, List::EMPTY) }
    }

    /// Puts a list where an empty one is; gives it back where there is none.
    ///
    /// # Safety
    /// The list has blocks of this size, and is the caller's, who gives it away.
    unsafe fn put(&self, which: Which, size: SizeId, list: List) -> Result<(), List>;

    /// Keeps others away from this CPU, before a lock is taken.
    fn guard(&self) -> Self::Guard<'_>;

    /// The CPU that the caller runs on: a hint.
    fn current(&self) -> usize;

    /// How many CPUs have caches.
    fn cpus(&self) -> usize;

    /// Takes both lists of some CPU. `None`, if that CPU cannot be reached now.
    fn steal(&self, cpu: usize, size: SizeId) -> Option<[List; 2]>;

    /// Takes both lists of each of these sizes, which are all that there are, from the first on; and gives them to the
    /// caller. False, if the CPU could not be reached for one of them. Where that interrupts the CPU, it does so once.
    fn steal_each(
        &self,
        cpu: usize,
        sizes: impl Iterator<Item = SizeId>,
        mut give: impl FnMut(SizeId, [List; 2]),
    ) -> bool {
        sizes.fold(true, |reached, size| match self.steal(cpu, size) {
            Some(lists) => {
                give(size, lists);
                reached
            }
            None => false,
        })
    }

    /// A sign of what both lists of some CPU are: 0 if they are empty; mostly another one, when they were used meanwhile.
    /// `None`, if that cannot be seen without interrupting the CPU.
    fn sign(&self, cpu: usize, size: SizeId) -> Option<u64> {
        let _ = (cpu, size);
        None
    }

    /// What the caches of this size were asked for, on all CPUs; `None`, if they do not count.
    fn counted(&self, size: SizeId) -> Option<CpuCounts> {
        let _ = size;
        None
    }

    /// The caller waits for a lock, for the `tries`-th time in a row.
    fn wait(&self, tries: usize) {
        let _ = tries;
        core::hint::spin_loop();
    }
}

/// A sign of two lists, as [`PerCpu::sign`] has it.
#[inline]
pub fn sign([main, aux]: [List; 2]) -> u64 {
    main.word() ^ aux.word().rotate_left(u64::BITS / 2)
}

/// What a kernel provides: two functions, and a third if it can send a call to another CPU.
///
/// # Safety
/// Between `enter` and `leave` the caller stays on the CPU whose number `enter` returned, and nothing else on that CPU
/// calls the allocator: interrupts are off; or preemption is, where no interrupt handler allocates. If `call` returns true, what it was
/// given has been run as it says.
pub unsafe trait Cpus: Sync {
    /// What `leave` needs: whether interrupts were on, say.
    type State;

    /// Keeps the CPU to the caller. Returns its number.
    fn enter(&self) -> (usize, Self::State);

    /// Ends that. Calls are nested properly.
    fn leave(&self, state: Self::State);

    /// Has `call` run on another CPU, between `enter` and `leave` there, and waits until it has. It may have become the
    /// caller's own, which is not kept to the caller. False, if that is not possible. What is run may come in the middle of a call of
    /// the allocator there that waits for a lock: so it must neither wait for anything nor call the allocator.
    fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        let _ = (cpu, call);
        false
    }

    /// The caller waits for a lock, for the `tries`-th time in a row, and its CPU is kept to it.
    fn wait(&self, tries: usize) {
        let _ = tries;
        core::hint::spin_loop();
    }
}

// SAFETY: as those of what is referred to.
unsafe impl<C: Cpus> Cpus for &C {
    type State = C::State;

    #[inline]
    fn enter(&self) -> (usize, C::State) {
        C::enter(self)
    }

    #[inline]
    fn leave(&self, state: C::State) {
        C::leave(self, state);
    }

    fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        C::call(self, cpu, call)
    }

    fn wait(&self, tries: usize) {
        C::wait(self, tries);
    }
}

/// The same, with its address in one register from here on. Where a word was just stored, an Intel processor loads it without a delay
/// if both name it by the same register alone, and five cycles later if one of them adds an index: a pair with a cookie took
/// 3.4 ns so, and takes 2.2 (Sapphire Rapids).
#[inline(always)]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written there")
)]
fn in_one_register<T>(at: &T) -> &T {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: there is no instruction, so that the address is the same.
    unsafe {
        let mut at = core::ptr::from_ref(at);
        core::arch::asm!(
            "/* {at} */",
            at = inout(reg) at,
            options(pure, nomem, nostack, preserves_flags),
        );
        core::hint::assert_unchecked(!at.is_null());
        &*at
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    at
}

/// Places of a cache: as many as there are numbers of sizes, a power of two, so that a shift finds the cache of a CPU. A checker
/// has a state of each.
const PLACES: usize =
    if cfg!(any(woodlot_loom, woodlot_explore, woodlot_shuttle)) { MAX_SIZES } else { SIZE_IDS };

/// The caches of one CPU, on cache lines of their own.
#[repr(align(128))]
struct Cache([Protected<[List; 2]>; PLACES]);

impl Cache {
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    const fn new() -> Cache {
        Cache([const { Protected::new([List::EMPTY; 2]) }; PLACES])
    }

    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    fn new() -> Cache {
        Cache(core::array::from_fn(|_| Protected::new([List::EMPTY; 2])))
    }
}

/// Caches of up to `N` CPUs, each of which is kept to the caller by [`Cpus`].
pub struct Guarded<C, const N: usize> {
    cpus: C,
    caches: [Cache; N],
}

// SAFETY: the lists of a CPU are accessed between `enter` and `leave` there.
unsafe impl<C: Cpus, const N: usize> Sync for Guarded<C, N> {}

impl<C: Cpus, const N: usize> Guarded<C, N> {
    /// Empty caches.
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    pub const fn new(cpus: C) -> Guarded<C, N> {
        Guarded { cpus, caches: [const { Cache::new() }; N] }
    }

    /// The same for the cells of a checker.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    pub fn new(cpus: C) -> Guarded<C, N> {
        Guarded { cpus, caches: core::array::from_fn(|_| Cache::new()) }
    }

    /// Calls with the lists of this CPU. A CPU whose number is too large has none.
    #[inline(always)]
    fn here<R>(&self, size: SizeId, call: impl FnOnce(Option<&mut [List; 2]>) -> R) -> R {
        let (cpu, state) = self.cpus.enter();
        let result = {
            // SAFETY: the lists are this CPU's, and nothing else on it is between `enter` and `leave`.
            let mut lists = self.lists(cpu, size).map(|lists| unsafe { lists.enter() });
            call(lists.as_deref_mut())
        };
        self.cpus.leave(state);
        result
    }

    #[inline(always)]
    fn lists(&self, cpu: usize, size: SizeId) -> Option<&Protected<[List; 2]>> {
        Some(in_one_register(&self.caches.get(cpu)?.0[size.index()]))
    }

    /// The lists of a CPU that the caller is on, between `enter` and `leave`.
    fn take_all(&self, cpu: usize) -> Option<[[List; 2]; PLACES]> {
        let Cache(lists) = self.caches.get(cpu)?;
        // SAFETY: the lists are this CPU's.
        Some(lists.each_ref().map(|lists| core::mem::take(&mut *unsafe { lists.enter() })))
    }

    /// Has something done on a CPU, between `enter` and `leave` there. False, if it cannot be reached.
    fn on(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        let (here, state) = self.cpus.enter();
        if here == cpu {
            call();
        }
        self.cpus.leave(state);
        here == cpu || self.cpus.call(cpu, call)
    }
}

/// A CPU that is kept to the holder until this is dropped.
pub struct Entered<'a, C: Cpus> {
    cpus: &'a C,
    state: Option<C::State>,
}

impl<C: Cpus> Drop for Entered<'_, C> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.cpus.leave(state);
        }
    }
}

// SAFETY: lists change hands between `enter` and `leave` only, by one replacement; a guard is that very pair.
unsafe impl<C: Cpus, const N: usize> PerCpu for Guarded<C, N> {
    type Guard<'a>
        = Entered<'a, C>
    where
        Self: 'a;

    #[inline]
    fn pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        self.here(size, |lists| {
            let main = &mut lists?[Which::Main.index()];
            // SAFETY: the list is this CPU's.
            let (block, rest) = unsafe { main.pop() }?;
            *main = rest;
            Some(block)
        })
    }

    #[inline]
    unsafe fn push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        self.here(size, |lists| {
            let Some([main, _]) = lists else { return false };
            let has_room = main.len() < target;
            if has_room {
                // SAFETY: the block is the caller's, who gives it away.
                *main = unsafe { main.push(block) };
            }
            has_room
        })
    }

    unsafe fn exchange(&self, which: Which, size: SizeId, list: List) -> List {
        self.here(size, |lists| {
            lists.map_or(list, |lists| core::mem::replace(&mut lists[which.index()], list))
        })
    }

    unsafe fn put(&self, which: Which, size: SizeId, list: List) -> Result<(), List> {
        self.here(size, |lists| match lists {
            Some(lists) if lists[which.index()].is_empty() => {
                lists[which.index()] = list;
                Ok(())
            }
            _ => Err(list),
        })
    }

    fn guard(&self) -> Entered<'_, C> {
        Entered { cpus: &self.cpus, state: Some(self.cpus.enter().1) }
    }

    fn current(&self) -> usize {
        let (cpu, state) = self.cpus.enter();
        self.cpus.leave(state);
        cpu
    }

    fn cpus(&self) -> usize {
        N
    }

    fn steal(&self, cpu: usize, size: SizeId) -> Option<[List; 2]> {
        let mut stolen = None;
        // SAFETY: this runs on the CPU whose lists these are, between `enter` and `leave` there.
        let take =
            || self.lists(cpu, size).map(|lists| core::mem::take(&mut *unsafe { lists.enter() }));
        self.on(cpu, &mut || stolen = take());
        stolen
    }

    fn steal_each(
        &self,
        cpu: usize,
        sizes: impl Iterator<Item = SizeId>,
        mut give: impl FnMut(SizeId, [List; 2]),
    ) -> bool {
        let mut stolen = None;
        self.on(cpu, &mut || stolen = self.take_all(cpu));
        let reached = stolen.is_some();
        for (size, lists) in sizes.zip(stolen.into_iter().flatten()) {
            give(size, lists);
        }
        reached
    }

    fn sign(&self, cpu: usize, size: SizeId) -> Option<u64> {
        let (here, state) = self.cpus.enter();
        let lists = self.lists(cpu, size).filter(|_| here == cpu);
        // SAFETY: the lists are this CPU's, between `enter` and `leave`.
        let sign = lists.map(|lists| sign(*unsafe { lists.enter() }));
        self.cpus.leave(state);
        sign
    }

    fn wait(&self, tries: usize) {
        self.cpus.wait(tries);
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// One CPU of two, which cannot reach the other one.
    struct First;

    // SAFETY: one thread uses it.
    unsafe impl Cpus for First {
        type State = ();

        fn enter(&self) -> (usize, ()) {
            (0, ())
        }

        fn leave(&self, (): ()) {}
    }

    const SIZE: SizeId = SizeId::from_byte(3);

    #[test]
    fn a_list_is_in_one_place() {
        let caches = Guarded::<_, 2>::new(First);
        let mut memory = [[0u64; 2]; 4];
        let [one, two, three, four] = memory.each_mut().map(|at| NonNull::from(at).cast::<u8>());
        // SAFETY: each block is pushed once, and each list used once.
        unsafe {
            assert!(caches.push(SIZE, one, 2) && caches.push(SIZE, two, 2));
            assert!(!caches.push(SIZE, three, 2), "a list is too long");
            let main = caches.take(Which::Main, SIZE);
            assert_eq!((main.len(), caches.pop(SIZE)), (2, None), "a list was taken, and is there");
            assert_eq!(caches.put(Which::Aux, SIZE, main), Ok(()));
            let other = List::EMPTY.push(three);
            assert_eq!(caches.exchange(Which::Aux, SIZE, other), main);
            assert_eq!(caches.exchange(Which::Aux, SIZE, main), other, "what was put is there");
            let refused = caches.put(Which::Aux, SIZE, other);
            assert_eq!(refused, Err(other), "one list covers another");
            assert!(caches.push(SIZE, four, 2));
        }
        assert_eq!(caches.steal(1, SIZE), None, "nobody can reach it");
        let stolen = caches.steal(0, SIZE).expect("it is this CPU");
        assert_eq!(stolen.map(List::len), [1, 2]);
        assert_eq!(
            caches.steal(0, SIZE),
            Some([List::EMPTY; 2]),
            "lists were stolen, and are there"
        );
    }

    /// Two CPUs: the caller is on the one that is said, and each reaches the other.
    #[derive(Default)]
    struct Both {
        here: AtomicUsize,
        waits: AtomicUsize,
    }

    // SAFETY: one thread uses it.
    unsafe impl Cpus for Both {
        type State = ();

        fn enter(&self) -> (usize, ()) {
            (self.here.load(Ordering::Relaxed), ())
        }

        fn leave(&self, (): ()) {}

        fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
            let here = self.here.swap(cpu, Ordering::Relaxed);
            call();
            self.here.store(here, Ordering::Relaxed);
            true
        }

        fn wait(&self, tries: usize) {
            self.waits.fetch_add(tries, Ordering::Relaxed);
        }
    }

    /// A reference to CPUs is these CPUs, in what they may leave out as well.
    #[test]
    fn cpus_by_reference_reach_each_other_and_wait() {
        let both = Both::default();
        let caches = Guarded::<_, 2>::new(&both);
        let mut memory = [[0u64; 2]; 2];
        let [one, two] = memory.each_mut().map(|at| NonNull::from(at).cast::<u8>());
        // SAFETY: each block is pushed once.
        assert!(unsafe { caches.push(SIZE, one, 2) && caches.push(SIZE, two, 2) });
        both.here.store(1, Ordering::Relaxed);
        assert_eq!((caches.current(), caches.pop(SIZE)), (1, None));
        assert_eq!(caches.steal(0, SIZE).map(|lists| lists.map(List::len)), Some([2, 0]));
        caches.wait(3);
        assert_eq!(both.waits.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn all_lists_of_a_cpu_are_stolen_or_none() {
        let caches = Guarded::<_, 2>::new(First);
        let mut block = [0u64; 2];
        // SAFETY: the block is pushed once.
        assert!(unsafe { caches.push(SIZE, NonNull::from(&mut block).cast(), 2) });
        let stolen = |cpu| {
            let (mut blocks, sizes) = ([0; 5], (0..5).map(SizeId::from_byte));
            let give = |size: SizeId, lists: [List; 2]| {
                blocks[size.index()] += lists.map(List::len).iter().sum::<usize>();
            };
            (caches.steal_each(cpu, sizes, give), blocks)
        };
        assert_eq!(stolen(1), (false, [0; 5]), "nobody can reach it");
        assert_eq!(stolen(2), (false, [0; 5]), "it has no caches");
        assert_eq!(stolen(0), (true, [0, 0, 0, 1, 0]));
        assert_eq!(stolen(0), (true, [0; 5]), "it is there still");
    }
}

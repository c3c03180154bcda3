//! Caches of CPUs that a thread changes by restartable sequences: no atomic instruction, no lock, no fence.
//!
//! ```text
//!   CPU 0   │ main of size 0 │ main of size 1 │ … ┊ aux of size 0 │ aux of size 1 │ …      1 KiB for each CPU
//!
//!   a word   63                    16 15        0
//!            │ address of the first  │ blocks    │      0: empty
//!            │ 0                     │ 0xffff    │      closed: empty to whoever takes, full to whoever puts
//! ```
//!
//! 1. A CPU changes its words by a sequence that commits by one store, on that CPU.
//! 2. A closed word is not changed by a sequence. Another CPU closes it, and has the system abort the sequences of that CPU
//!    (`membarrier`): see `thief`.
//! 3. Only the holder of `thief` closes and opens words.
//!
//! *Progress*: a sequence begins again when the system preempts or migrates its thread. A thief goes on when the other CPU
//! did.

#[cfg(target_arch = "aarch64")]
mod aarch64;
pub mod area;
#[cfg(test)]
mod tests;
pub(crate) mod thief;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use core::mem::offset_of;
use core::ptr::NonNull;

pub use area::offset as sequence_area;
use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_kmem::{List, Lock, PerCpu, SizeId, Which, sign};

use crate::hot::{CPUS, Cache, FOUND, HOT, LISTS, NONE, STARTING, UNKNOWN, Word};
use crate::system;
#[cfg(target_arch = "aarch64")]
use aarch64 as sequence;
use thief::CLOSED;
#[cfg(target_arch = "x86_64")]
use x86_64 as sequence;

/// Sequences that were aborted.
pub static ABORTS: AtomicU64 = AtomicU64::new(0);

/// How many sequences were aborted: by preemption, migration, a signal or a thief.
pub fn aborts() -> u64 {
    ABORTS.load(Ordering::Relaxed)
}

/// Which word of a cache a list is.
#[inline(always)]
const fn index(which: Which, size: SizeId) -> usize {
    which.index() * LISTS + size.index()
}

/// The caches of all CPUs, reached by restartable sequences where the C library has registered them; other caches where
/// it has not: on old systems, below valgrind, with musl.
pub(crate) struct Rseq<F> {
    /// Held by whoever closes and opens words.
    thief: Lock<()>,
    other: F,
}

/// Where caches of CPUs lie, and what is in use: for whoever reads them from outside.
impl<F> Rseq<F> {
    /// Bytes from the cache of a CPU to that of the next one.
    pub(crate) const STRIDE: usize = size_of::<Cache>();
    /// How many CPUs have caches.
    pub(crate) const CPUS: usize = CPUS;
    /// Bytes from *main* of a size to *aux*.
    pub(crate) const AUX: usize = LISTS * size_of::<Word>();
    /// The caches that are used where there are no restartable sequences, in bytes from the begin.
    pub(crate) const OTHER: usize = offset_of!(Rseq<F>, other);
}

impl<F> Rseq<F> {
    /// Empty caches. `other` is used where there are no restartable sequences.
    pub(crate) const fn new(other: F) -> Rseq<F> {
        Rseq { thief: Lock::new(()), other }
    }

    /// Are restartable sequences in use? They are looked for by the first call that allocates.
    pub(crate) fn is_restartable(&self) -> bool {
        self.state() == FOUND
    }

    #[inline(always)]
    fn state(&self) -> u64 {
        HOT.words.state.load(Ordering::Relaxed)
    }

    /// The caches that are used where there are no restartable sequences. `None` until that is known: what is put
    /// there now would be left there.
    fn other(&self) -> Option<&F> {
        (self.state() == NONE).then_some(&self.other)
    }

    /// Looks for areas, if nobody has.
    fn start(&self) {
        let (state, relaxed) = (&HOT.words.state, Ordering::Relaxed);
        if state.compare_exchange(UNKNOWN, STARTING, relaxed, relaxed).is_err() {
            return;
        }
        // From here on nobody asks whether a CPU has a cache.
        let all_have = || system::has_room_for_all_cpus(&mut [0; CPUS / u64::BITS as usize]);
        match area::offset().filter(|_| all_have()) {
            Some(area) => {
                // Without it a CPU's cache is reached from that CPU only.
                let _ = system::register_abort();
                area::set(area);
            }
            None => state.store(NONE, relaxed),
        }
    }

    /// In the child of a fork: a thread that was looking for areas is not there.
    pub(crate) fn forked(&self) {
        if self.state() == STARTING {
            HOT.words.state.store(UNKNOWN, Ordering::Relaxed);
        }
    }

    /// What is used where there are no restartable sequences.
    pub(crate) fn fallback(&self) -> &F {
        &self.other
    }

    /// Where CPU 0 has a list: in the caches of all CPUs, one behind the other, with those of no CPU in front.
    #[inline(always)]
    fn first(&self, which: Which, size: SizeId) -> *const Word {
        sequence::caches().wrapping_add(index(which, size))
    }

    fn lists(&self, cpu: usize, size: SizeId) -> Option<[&Word; 2]> {
        let cache = HOT.caches.get(cpu)?;
        let [main, aux] = [Which::Main, Which::Aux].map(|which| index(which, size));
        Some([cache.0.get(main)?, cache.0.get(aux)?])
    }

    /// Keeps thieves away: before a process forks, so that its child finds no closed words.
    pub(crate) fn lock(&self) {
        core::mem::forget(self.thief.take(system::wait));
    }

    /// Lets thieves in again, in the parent and in the child.
    ///
    /// # Safety
    /// This thread, or its copy in the parent, has called [`lock`](Self::lock).
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: as the caller says.
        unsafe { self.thief.let_go() };
    }

    #[cold]
    #[inline(never)]
    fn pop_otherwise(&self, size: SizeId) -> Option<NonNull<u8>>
    where
        F: PerCpu,
    {
        self.start();
        self.other()?.pop(size)
    }

    /// # Safety
    /// As for [`PerCpu::push`].
    #[cold]
    #[inline(never)]
    unsafe fn push_otherwise(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool
    where
        F: PerCpu,
    {
        // SAFETY: as the caller says.
        self.other().is_some_and(|other| unsafe { other.push(size, block, target) })
    }
}

// SAFETY: a list leaves its word by a sequence on its CPU, which nothing else there interrupts without an abort, or by a
// thief when no sequence is under way (invariant 2).
unsafe impl<F: PerCpu> PerCpu for Rseq<F> {
    type Guard<'a>
        = F::Guard<'a>
    where
        F: 'a;

    #[inline(always)]
    fn pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        match self.try_pop(size) {
            None if !self.is_restartable() => self.pop_otherwise(size),
            block => block,
        }
    }

    #[inline(always)]
    unsafe fn push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        // SAFETY: as the caller says; a block that was not pushed is the caller's still.
        unsafe {
            self.try_push(size, block, target)
                || !self.is_restartable() && self.push_otherwise(size, block, target)
        }
    }

    #[inline(always)]
    fn try_pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        // SAFETY: the area is the thread's, and the word is that of a size.
        unsafe { sequence::pop(area::no_area(), self.first(Which::Main, size)) }
    }

    #[inline(always)]
    unsafe fn try_push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        // SAFETY: as in `try_pop`, and the block is the caller's.
        unsafe { sequence::push(area::no_area(), self.first(Which::Main, size), block, target) }
    }

    unsafe fn exchange(&self, which: Which, size: SizeId, list: List) -> List {
        // SAFETY: as in `try_pop`, and the list is the caller's.
        unsafe {
            if self.is_restartable() {
                let first = self.first(which, size);
                List::from_word(sequence::exchange(area::no_area(), first, list.word()))
            } else {
                self.other().map_or(list, |other| other.exchange(which, size, list))
            }
        }
    }

    unsafe fn put(&self, which: Which, size: SizeId, list: List) -> Result<(), List> {
        // SAFETY: as in `try_pop`, and the list is the caller's.
        unsafe {
            if self.is_restartable() {
                let first = self.first(which, size);
                let put = sequence::put(area::no_area(), first, list.word());
                if put { Ok(()) } else { Err(list) }
            } else {
                self.other().map_or(Err(list), |other| other.put(which, size, list))
            }
        }
    }

    fn guard(&self) -> F::Guard<'_> {
        self.other.guard()
    }

    fn current(&self) -> usize {
        match self.is_restartable() {
            // SAFETY: as in `try_pop`.
            true => unsafe { sequence::cpu(area::no_area()) as usize },
            false => self.other.current(),
        }
    }

    fn cpus(&self) -> usize {
        if self.is_restartable() { CPUS } else { self.other.cpus() }
    }

    fn steal(&self, cpu: usize, size: SizeId) -> Option<[List; 2]> {
        if !self.is_restartable() {
            return self.other.steal(cpu, size);
        }
        let words = self.lists(cpu, size)?;
        if words.iter().all(|word| word.load(Ordering::Relaxed) == 0) {
            return Some([List::EMPTY; 2]);
        }
        if system::can_abort() {
            let _thief = self.thief.take(system::wait);
            if let Some(stolen) = thief::steal(words, || system::abort_sequences(cpu)) {
                return Some(stolen.map(List::from_word));
            }
        }
        (cpu == self.current())
            .then(|| [Which::Main, Which::Aux].map(|which| self.take(which, size)))
    }

    fn sign(&self, cpu: usize, size: SizeId) -> Option<u64> {
        if !self.is_restartable() {
            return self.other.sign(cpu, size);
        }
        let lists =
            |words: [&Word; 2]| words.map(|word| List::from_word(word.load(Ordering::Relaxed)));
        self.lists(cpu, size).map(|words| sign(lists(words)))
    }

    fn wait(&self, tries: usize) {
        system::wait(tries);
    }
}

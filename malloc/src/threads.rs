//! Caches of threads, for systems without restartable sequences.
//!
//! ```text
//!   thread ─► Local   busy │ size 0: │ main │ aux │   size 1: │ main │ aux │ …
//!   free   ─► Local ─► Local ─► …                      of threads that have ended
//! ```
//!
//! 1. A thread alone uses its lists. *busy* says that it does: a signal handler that comes in between finds no caches, and
//!    goes to the layers below.
//! 2. A thread that ends gives its blocks to the layers below, and its lists to the next thread. It gets no others: what it
//!    and its signal handlers allocate and free then goes past the caches.
//! 3. Nobody reaches the lists of another thread.
//!
//! Signals wait while a thread gets its lists or gives them away, so a handler finds it with them or without.
//!
//! *Progress*: a thread waits only when it allocates for the first time, and when it ends.

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::{self, NonNull};

use woodlot_frame::atomics::{AtomicU64, Ordering, compiler_fence};
use woodlot_kmem::{List, Lock, MAX_SIZES, PerCpu, SizeId, Which, sign};

use crate::signals::Blocked;
use crate::system;

/// glibc keeps the values of so many keys in the thread itself: to set another one, it allocates.
const PLAIN_KEYS: u32 = 32;
/// Bytes of lists that are asked for at a time.
const BATCH: usize = 64 << 10;
/// So many threads have lists there.
const IN_BATCH: usize = BATCH / size_of::<Local>();

/// The lists of a thread.
struct Local {
    busy: Cell<bool>,
    lists: UnsafeCell<[[List; 2]; MAX_SIZES]>,
    number: usize,
    threads: *const Threads,
    next: *mut Local,
    /// Of the first lists of a batch: the first ones of the batch before.
    older: *mut Local,
}

/// Lists that no thread has.
struct Free {
    first: *mut Local,
    count: usize,
    /// The first lists of the last batch: so whoever looks from outside finds all.
    batch: *mut Local,
}

// SAFETY: lists that no thread has belong to whoever has the lock around this.
unsafe impl Send for Free {}

/// The caches of all threads.
pub(crate) struct Threads {
    /// 0: not made; 1: being made; 2: there is none; key + 3.
    key: AtomicU64,
    free: Lock<Free>,
    /// Gives the blocks of this thread's lists to the layers below.
    flush: fn(),
}

const NOT_MADE: u64 = 0;
const BEING_MADE: u64 = 1;
const NONE: u64 = 2;
const FIRST_KEY: u64 = 3;

/// A thread that ends has an address in the caches themselves in the place of that of its lists, which is a multiple of this: the
/// distance says how often the system has looked at the thread's keys. It stops after four times, where it does not go on until
/// none has a value.
const ROUNDS: usize = align_of::<Threads>();
const _: () = assert!(ROUNDS > 4 && align_of::<Local>().is_multiple_of(ROUNDS));

/// How often the system has looked at the keys of the thread that has this value: 0, if it does not end.
fn round(value: *mut c_void) -> usize {
    value.addr() % ROUNDS
}

/// Where the lists of threads lie: for whoever reads them from outside.
impl Threads {
    /// The address of the first lists of the last batch, in bytes from the begin.
    pub(crate) const BATCHES: usize =
        offset_of!(Threads, free) + Lock::<Free>::INSIDE + offset_of!(Free, batch);
    /// The address of those of the batch before, in bytes from the first lists of a batch.
    pub(crate) const OLDER: usize = offset_of!(Local, older);
    /// How many threads have lists in a batch, and how many bytes lie between two of them.
    pub(crate) const IN_BATCH: usize = IN_BATCH;
    pub(crate) const STRIDE: usize = size_of::<Local>();
    /// *main* of size 0, in bytes from the begin of a thread's lists; *aux* follows, and then the next size.
    pub(crate) const LISTS: usize = offset_of!(Local, lists);
}

impl Threads {
    /// No caches yet. `flush` is called by a thread that ends: it flushes CPU 0, and frees what signal handlers have left.
    pub(crate) const fn new(flush: fn()) -> Threads {
        let (first, batch) = (ptr::null_mut(), ptr::null_mut());
        let free = Lock::new(Free { first, count: 0, batch });
        Threads { key: AtomicU64::new(NOT_MADE), free, flush }
    }

    fn key(&self) -> Option<libc::pthread_key_t> {
        match self.key.load(Ordering::Acquire) {
            NOT_MADE => self.make_key(),
            key => key.checked_sub(FIRST_KEY).map(|key| key as libc::pthread_key_t),
        }
    }

    #[cold]
    fn make_key(&self) -> Option<libc::pthread_key_t> {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        self.key.compare_exchange(NOT_MADE, BEING_MADE, acquire, relaxed).ok()?;
        let mut key = 0;
        // SAFETY: `ends` takes what threads set.
        let made = unsafe { libc::pthread_key_create(&mut key, Some(ends)) } == 0;
        let is_plain = made && key < PLAIN_KEYS as libc::pthread_key_t;
        self.key.store(if is_plain { FIRST_KEY + u64::from(key) } else { NONE }, Ordering::Release);
        is_plain.then_some(key)
    }

    /// The lists of this thread, which it gets now if it has none. `None`: there is no memory, or the thread ends.
    fn local(&self) -> Option<&Local> {
        let key = self.key()?;
        // SAFETY: the key was made.
        let value = unsafe { libc::pthread_getspecific(key) };
        if round(value) > 0 {
            return None;
        }
        // SAFETY: the value is what `new_local` has set.
        unsafe { value.cast::<Local>().as_ref() }.or_else(|| self.new_local(key))
    }

    #[cold]
    fn new_local(&self, key: libc::pthread_key_t) -> Option<&Local> {
        // A handler that comes here must not wait for the lock that this thread has, nor get other lists.
        let _none = Blocked::all();
        // SAFETY: the key was made. One that has just come may have got the thread its lists.
        let local = NonNull::new(unsafe { libc::pthread_getspecific(key) }.cast::<Local>());
        let local = local.or_else(|| self.free.take(system::wait).pop(self))?;
        // SAFETY: `local` is this thread's alone.
        unsafe {
            libc::pthread_setspecific(key, local.as_ptr().cast::<c_void>());
            Some(local.as_ref())
        }
    }

    /// Calls with this thread's lists of a size, unless it is interrupted there.
    #[inline]
    fn here<R>(&self, size: SizeId, call: impl FnOnce(&mut [List; 2]) -> R) -> Option<R> {
        let local = self.local()?;
        if local.busy.replace(true) {
            return None;
        }
        compiler_fence();
        // SAFETY: the lists are this thread's, and nothing else on it uses them while it is busy.
        let result = unsafe { (*local.lists.get()).get_mut(size.index()).map(call) };
        compiler_fence();
        local.busy.set(false);
        result
    }

    /// In the child of a fork: a thread that was making the key is not there.
    pub(crate) fn forked(&self) {
        let relaxed = Ordering::Relaxed;
        let _ = self.key.compare_exchange(BEING_MADE, NOT_MADE, relaxed, relaxed);
    }

    /// As if a thread were making the key, if it is not made yet. `forked` ends that.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn be_making_the_key(&self) {
        let relaxed = Ordering::Relaxed;
        let _ = self.key.compare_exchange(NOT_MADE, BEING_MADE, relaxed, relaxed);
    }

    /// Keeps threads from beginning and ending: before a process forks.
    pub(crate) fn lock(&self) {
        core::mem::forget(self.free.take(system::wait));
    }

    /// Lets them again, in the parent and in the child.
    ///
    /// # Safety
    /// This thread, or its copy in the parent, has called [`lock`](Self::lock).
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: as the caller says.
        unsafe { self.free.let_go() };
    }
}

impl Free {
    fn pop(&mut self, threads: *const Threads) -> Option<NonNull<Local>> {
        if self.first.is_null() {
            self.fill(threads);
        }
        let local = NonNull::new(self.first)?;
        // SAFETY: lists that no thread has are ours.
        self.first = unsafe { local.as_ref() }.next;
        Some(local)
    }

    fn push(&mut self, mut local: NonNull<Local>) {
        // SAFETY: the caller gives the lists away.
        unsafe { local.as_mut() }.next = self.first;
        self.first = local.as_ptr();
    }

    /// Gets lists from the system.
    fn fill(&mut self, threads: *const Threads) {
        let Some(memory) = system::memory(BATCH) else { return };
        for at in 0..IN_BATCH {
            let lists = UnsafeCell::new([[List::EMPTY; 2]; MAX_SIZES]);
            let (number, next, older) = (self.count, ptr::null_mut(), self.batch);
            let local = Local { busy: Cell::new(false), lists, number, threads, next, older };
            self.count += 1;
            // SAFETY: the memory is new, and has room for so many.
            unsafe {
                let place = memory.cast::<Local>().add(at);
                place.write(local);
                self.push(place);
            }
        }
        self.batch = memory.cast().as_ptr();
    }
}

/// A thread ends: the system calls this with what the thread has set, and again if it has set something here. It looks at all keys
/// a few times, for what others set, and takes the value away each time.
extern "C" fn ends(value: *mut c_void) {
    let round = round(value);
    let place = NonNull::new(value.cast::<Local>()).filter(|_| round == 0);
    // SAFETY: the thread's lists and the caches that they belong to stay where they are.
    unsafe {
        let threads = match place {
            Some(place) => place.as_ref().threads,
            None => value.byte_sub(round).cast(),
        };
        (*threads).end(place, round);
    }
}

impl Threads {
    /// Gives away the lists that the thread had, if it had any; and those that a handler has got since the system had taken the
    /// value. The thread gets no others.
    ///
    /// # Safety
    /// The lists are this thread's.
    unsafe fn end(&self, place: Option<NonNull<Local>>, rounds: usize) {
        let Some(key) = self.key() else { return };
        // No handler comes between what a thread flushes and what it gives away, or waits for the lock that it has.
        let _none = Blocked::all();
        // SAFETY: the key was made.
        let set = |value: *const c_void| unsafe { libc::pthread_setspecific(key, value) };
        let ended = match rounds + 1 {
            ROUNDS.. => ptr::null(),
            rounds => ptr::from_ref(self).wrapping_byte_add(rounds).cast(),
        };
        // SAFETY: as above.
        let late = unsafe { libc::pthread_getspecific(key) };
        let late = NonNull::new(late.cast::<Local>()).filter(|_| round(late) == 0);
        set(ended);
        for lists in [late, place].into_iter().flatten() {
            // The lists are the thread's for as long as it flushes them. Then they may be the next thread's.
            set(lists.as_ptr().cast());
            (self.flush)();
            // SAFETY: the lists are the thread's.
            unsafe { lists.as_ref().busy.set(false) };
            set(ended);
            self.free.take(system::wait).push(lists);
        }
    }
}

// SAFETY: lists are a thread's own, and `busy` keeps its signal handlers away.
unsafe impl PerCpu for Threads {
    type Guard<'a> = ();

    fn pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        self.here(size, |lists| {
            let main = &mut lists[Which::Main.index()];
            // SAFETY: the list is this thread's.
            let (block, rest) = unsafe { main.pop() }?;
            *main = rest;
            Some(block)
        })?
    }

    unsafe fn push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        let pushed = self.here(size, |lists| {
            let main = &mut lists[Which::Main.index()];
            let has_room = main.len() < target;
            if has_room {
                // SAFETY: the block is the caller's, who gives it away.
                *main = unsafe { main.push(block) };
            }
            has_room
        });
        pushed.unwrap_or(false)
    }

    unsafe fn exchange(&self, which: Which, size: SizeId, list: List) -> List {
        let old = |lists: &mut [List; 2]| core::mem::replace(&mut lists[which.index()], list);
        self.here(size, old).unwrap_or(list)
    }

    unsafe fn put(&self, which: Which, size: SizeId, list: List) -> Result<(), List> {
        let put = self.here(size, |lists| match &mut lists[which.index()] {
            old if old.is_empty() => {
                *old = list;
                Ok(())
            }
            _ => Err(list),
        });
        put.unwrap_or(Err(list))
    }

    fn guard(&self) {}

    /// The number of the thread's lists.
    fn current(&self) -> usize {
        self.local().map_or(0, |local| local.number)
    }

    fn cpus(&self) -> usize {
        1
    }

    /// Takes the lists of this thread, whatever the number.
    fn steal(&self, _: usize, size: SizeId) -> Option<[List; 2]> {
        self.here(size, core::mem::take)
    }

    /// Of the lists of this thread, whatever the number.
    fn sign(&self, _: usize, size: SizeId) -> Option<u64> {
        self.here(size, |lists| sign(*lists))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::alloc::{Layout, alloc_zeroed};
    use std::boxed::Box;
    use std::iter;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Mutex, OnceLock};
    use std::thread;
    use std::vec::Vec;

    use woodlot_frame::{Base4K, FrameAllocator, Init, Owned, ZoneConfig};
    use woodlot_kmem::{Descriptor, Direct, Kmem, PAGE, Sizes, Wide};
    use woodlot_llfree::LLFree;

    use super::*;

    const SIZE: SizeId = Wide::TABLE.by_grains()[4];

    /// The memory of a block that a signal handler frees, which cannot ask a heap for it.
    #[repr(align(16))]
    struct Block(UnsafeCell<[u64; 2]>);

    // SAFETY: who has the block alone writes to it.
    unsafe impl Sync for Block {}

    impl Block {
        const fn new() -> Block {
            Block(UnsafeCell::new([0; 2]))
        }

        fn block(&'static self) -> NonNull<u8> {
            NonNull::from(&self.0).cast()
        }
    }

    type Zone = LLFree<'static, Base4K>;
    type Small = Kmem<Threads, Direct<'static, Zone>, Wide>;

    /// Frames of a zone, which is never freed, and the allocator over them.
    fn small(frames: usize, flush: fn()) -> (&'static Zone, Small) {
        let layout = Layout::from_size_align(frames * PAGE, 4 << 20).expect("a size");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        let zone = Owned::<Zone>::new(&ZoneConfig::new(frames, 1), Init::Free).expect("a zone");
        let zone: &'static Zone = Box::leak(Box::new(zone));
        let descriptors: Vec<_> = (0..frames).map(|_| Descriptor::default()).collect();
        // SAFETY: the memory has as many frames as the zone, which nobody else uses.
        let pages = unsafe { Direct::new(zone, base, descriptors.leak()) };
        (zone, Kmem::new(Threads::new(flush), pages.expect("descriptors for all"), ()))
    }

    /// A block on its way to another thread: its address, its bytes, and what was written at both ends.
    struct Sent(NonNull<u8>, usize, u8);

    // SAFETY: a block belongs to whoever has it.
    unsafe impl Send for Sent {}

    /// Threads allocate, free what others have allocated, and end: others get their lists, and in the end all is free.
    #[test]
    fn blocks_go_from_thread_to_thread_and_come_back() {
        static SMALL: OnceLock<(&Zone, Small)> = OnceLock::new();
        static SENT: Mutex<Vec<Sent>> = Mutex::new(Vec::new());
        const FRAMES: usize = 256;
        const ROUNDS: usize = if cfg!(miri) { 2 } else { 64 };
        const CALLS: usize = if cfg!(miri) { 24 } else { 1024 };
        /// Blocks that are in use for a while.
        const STAY: usize = CALLS / 8;
        let flush = || {
            if let Some((_, small)) = SMALL.get() {
                small.flush_cpu(0);
            }
        };
        let (zone, small) = SMALL.get_or_init(|| small(FRAMES, flush));
        let free = move |Sent(block, bytes, mark): Sent| {
            // SAFETY: the block is this thread's now, and has so many bytes.
            let ends = unsafe { [block.read(), block.add(bytes - 1).read()] };
            assert_eq!(ends, [mark; 2], "a block was somebody else's too");
            // SAFETY: as above.
            unsafe { small.free(block, bytes) };
        };
        let work = move |thread: usize| {
            for call in 0..CALLS {
                let (bytes, mark) = ([16, 48, 256, 1000, 4096][call % 5], (call + thread) as u8);
                let block = small.alloc(bytes).expect("there is memory");
                // SAFETY: the block is new, and has so many bytes.
                unsafe {
                    block.write(mark);
                    block.add(bytes - 1).write(mark);
                }
                let mut sent = SENT.lock().expect("nobody panics");
                sent.push(Sent(block, bytes, mark));
                let others = if sent.len() > STAY { Some(sent.remove(0)) } else { None };
                drop(sent);
                others.into_iter().for_each(free);
            }
        };
        for _ in 0..ROUNDS {
            let both = [0, 1].map(|thread| thread::spawn(move || work(thread)));
            // Whoever has joined a thread comes after what it does as it ends.
            both.into_iter().for_each(|thread| thread.join().expect("it ends"));
        }
        SENT.lock().expect("nobody panics").drain(..).for_each(free);
        small.flush_cpu(0);
        small.flush();
        assert_eq!(zone.stats().free_frames, FRAMES, "blocks are lost with the lists of threads");
    }

    /// Once the system has taken the lists from the thread, a handler comes that frees, and gets others.
    #[test]
    fn lists_that_a_handler_gets_late_are_given_away_too() {
        static FLUSHED: AtomicUsize = AtomicUsize::new(0);
        static THREADS: Threads = Threads::new(|| {
            let lists = THREADS.steal(0, SIZE).unwrap_or_default();
            FLUSHED.fetch_add(lists.iter().map(|list| list.len()).sum(), SeqCst);
        });
        static BLOCKS: [Block; 2] = [Block::new(), Block::new()];
        let frees = || {
            // SAFETY: the block is nobody's.
            assert!(unsafe { THREADS.push(SIZE, BLOCKS[0].block(), 9) });
            let key = THREADS.key().expect("it was made");
            // SAFETY: as the system does before it calls `ends`.
            let lists = unsafe {
                let lists = libc::pthread_getspecific(key);
                libc::pthread_setspecific(key, ptr::null());
                lists
            };
            // SAFETY: as above.
            assert!(unsafe { THREADS.push(SIZE, BLOCKS[1].block(), 9) });
            ends(lists);
        };
        thread::spawn(frees).join().expect("it ends");
        assert_eq!(FLUSHED.load(SeqCst), 2, "blocks of a handler are lost");
        let free = || {
            iter::successors(Some(THREADS.free.take(system::wait).first), |&local| {
                // SAFETY: no thread has these lists.
                Some(unsafe { local.as_ref() }?.next)
            })
        };
        assert_eq!(free().count() - 1, IN_BATCH, "lists are lost");
    }

    /// A thread that has ended gets no lists, which nobody would flush.
    #[test]
    fn a_thread_that_has_ended_has_no_lists() {
        static REFUSED: AtomicUsize = AtomicUsize::new(0);
        static BLOCKS: [Block; 2] = [Block::new(), Block::new()];
        static THREADS: Threads = Threads::new(|| {
            THREADS.steal(0, SIZE);
        });
        extern "C" fn later(_: *mut c_void) {
            // SAFETY: the block is nobody's.
            REFUSED.fetch_add(
                usize::from(!unsafe { THREADS.push(SIZE, BLOCKS[1].block(), 9) }),
                SeqCst,
            );
        }
        let ends = || {
            // SAFETY: as above.
            assert!(unsafe { THREADS.push(SIZE, BLOCKS[0].block(), 9) });
            let mut key = 0;
            // SAFETY: a key that is made later is destroyed later.
            unsafe {
                assert_eq!(libc::pthread_key_create(&mut key, Some(later)), 0);
                assert_eq!(libc::pthread_setspecific(key, ptr::without_provenance(1)), 0);
            }
        };
        thread::spawn(ends).join().expect("it ends");
        assert_eq!(REFUSED.load(SeqCst), 1, "a thread has lists that nobody flushes");
    }

    /// Keys of others are looked at again and again while a thread ends, and ours between them.
    #[test]
    fn a_thread_that_ends_for_long_has_no_lists() {
        static TIMES: AtomicUsize = AtomicUsize::new(0);
        static REFUSED: AtomicUsize = AtomicUsize::new(0);
        static BLOCKS: [Block; 2] = [Block::new(), Block::new()];
        static THREADS: Threads = Threads::new(|| {
            THREADS.steal(0, SIZE);
        });
        extern "C" fn again(key: *mut c_void) {
            // SAFETY: the block is nobody's.
            let is_refused = !unsafe { THREADS.push(SIZE, BLOCKS[1].block(), 9) };
            REFUSED.fetch_add(usize::from(is_refused), SeqCst);
            if TIMES.fetch_add(1, SeqCst) < 3 {
                // SAFETY: the key was made.
                unsafe { libc::pthread_setspecific(key.addr() as libc::pthread_key_t, key) };
            }
        }
        let ends = || {
            // SAFETY: as above.
            assert!(unsafe { THREADS.push(SIZE, BLOCKS[0].block(), 9) });
            let mut key = 0;
            // SAFETY: a key that is made later is destroyed later. It is not 0, which is that of `THREADS` or of others before.
            unsafe {
                assert_eq!(libc::pthread_key_create(&mut key, Some(again)), 0);
                let value = ptr::without_provenance(key as usize);
                assert_eq!(libc::pthread_setspecific(key, value), 0);
            }
        };
        thread::spawn(ends).join().expect("it ends");
        let times = TIMES.load(SeqCst);
        assert!(times > 1, "keys are looked at once");
        assert_eq!(REFUSED.load(SeqCst), times, "a thread has lists that nobody flushes");
    }

    /// Signals, which an interpreter has not.
    #[cfg(not(miri))]
    mod interrupted {
        use std::os::unix::thread::JoinHandleExt;
        use std::sync::atomic::AtomicBool;
        use std::time::Duration;

        use super::*;

        /// The handler of a signal that a test sends.
        fn handles(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
            // SAFETY: the handlers of these tests make calls of the heap only, and write to atomics.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }

        /// A signal comes when the lists have just been flushed, to a thread that is about to give them away.
        #[test]
        fn lists_of_a_thread_that_ends_are_empty() {
            static FLUSHED: AtomicUsize = AtomicUsize::new(0);
            static REFUSED: AtomicUsize = AtomicUsize::new(0);
            static THREADS: Threads = Threads::new(|| {
                let lists = THREADS.steal(0, SIZE).unwrap_or_default();
                FLUSHED.fetch_add(lists.iter().map(|list| list.len()).sum(), SeqCst);
                // SAFETY: its handler is below.
                unsafe { libc::raise(libc::SIGUSR1) };
            });
            extern "C" fn handle(_: libc::c_int) {
                static BLOCK: Block = Block::new();
                // SAFETY: the block is nobody's.
                REFUSED.fetch_add(
                    usize::from(!unsafe { THREADS.push(SIZE, BLOCK.block(), 9) }),
                    SeqCst,
                );
            }
            handles(libc::SIGUSR1, handle);
            static FIRST: Block = Block::new();
            // SAFETY: the block is nobody's.
            let first = || assert!(unsafe { THREADS.push(SIZE, FIRST.block(), 9) });
            thread::spawn(first).join().expect("it frees");
            assert_eq!((FLUSHED.load(SeqCst), REFUSED.load(SeqCst)), (1, 1), "it comes in between");
        }

        /// A handler that frees comes while its thread waits for its first lists.
        #[test]
        fn a_thread_gets_its_lists_once() {
            static FLUSHED: AtomicUsize = AtomicUsize::new(0);
            static BEGINS: AtomicBool = AtomicBool::new(false);
            static THREADS: Threads = Threads::new(|| {
                let lists = THREADS.steal(0, SIZE).unwrap_or_default();
                FLUSHED.fetch_add(lists.iter().map(|list| list.len()).sum(), SeqCst);
            });
            extern "C" fn handle(_: libc::c_int) {
                // SAFETY: the block is nobody's.
                assert!(unsafe { THREADS.push(SIZE, BLOCKS[0].block(), 9) });
            }
            static BLOCKS: [Block; 2] = [Block::new(), Block::new()];
            handles(libc::SIGUSR2, handle);
            THREADS.key().expect("it is made");
            THREADS.lock();
            let first = thread::spawn(|| {
                BEGINS.store(true, SeqCst);
                // SAFETY: the block is new.
                assert!(unsafe { THREADS.push(SIZE, BLOCKS[1].block(), 9) });
            });
            while !BEGINS.load(SeqCst) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(20));
            // SAFETY: the thread waits for the lock, and so is there.
            unsafe { libc::pthread_kill(first.as_pthread_t(), libc::SIGUSR2) };
            thread::sleep(Duration::from_millis(20));
            // SAFETY: it was locked above.
            unsafe { THREADS.unlock() };
            first.join().expect("it ends");
            assert_eq!(
                FLUSHED.load(SeqCst),
                2,
                "a block is lost with lists that its thread had first"
            );
        }
    }
}

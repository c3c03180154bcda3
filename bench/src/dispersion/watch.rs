//! Memory whose every access is seen.
//!
//! ```text
//!   load of a line ──► page is closed ──► SIGSEGV: note the line, open the page, single-step
//!   the load itself ─► trap            ──► SIGTRAP: close the page again, go on
//! ```
//!
//! All pages are closed to begin with, and one is open for a single instruction only: an access to
//! any line of it is therefore seen, each as the line of its first byte. That is exact for what an
//! allocator does to its metadata, which are accesses to aligned words.
//!
//! Processors with a trap flag only (x86-64), on Linux. Elsewhere nothing is counted, and that is
//! said.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use woodlot_frame::{MetadataSize, RawMetadata};

use crate::Failure;

/// What memory is protected by.
const PAGE: usize = 4096;

/// Metadata on pages that nothing else lies on.
pub(super) struct Memory {
    start: *mut u8,
    layout: Layout,
    size: MetadataSize,
}

impl Memory {
    /// Zeroed memory for metadata of this size.
    pub(super) fn new(size: MetadataSize) -> Result<Memory, Failure> {
        let no_memory = || Failure::Failed("no memory for metadata".into());
        let bytes = size.durable.next_multiple_of(PAGE) + size.volatile.next_multiple_of(PAGE);
        let layout = Layout::from_size_align(bytes.max(PAGE), PAGE).map_err(|_| no_memory())?;
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(no_memory());
        }
        Ok(Memory { start, layout, size })
    }

    /// Both parts.
    pub(super) fn raw(&self) -> RawMetadata {
        let second = self.start.wrapping_add(self.size.durable.next_multiple_of(PAGE));
        RawMetadata {
            durable: (self.start, self.size.durable),
            volatile: (second, self.size.volatile),
        }
    }

    /// Does the work, which must stay on this thread, and returns how many distinct lines of this
    /// memory it touched.
    ///
    /// # Errors
    /// Where accesses cannot be seen.
    pub(super) fn count(&self, work: impl FnOnce()) -> Result<usize, Failure> {
        // SAFETY: the memory is this one's, whole pages that nothing else lies on.
        let seen = unsafe { watch(self.start, self.layout.size(), work) }?;
        Ok(seen.iter().filter(|&&line| line != 0).count())
    }
}

/// A line was touched.
pub(crate) const TOUCHED: u8 = 1;
/// A line was written to.
pub(crate) const WRITTEN: u8 = 2;

/// Does the work, which must stay on this thread, and returns for each line of `length` bytes from `start` on what was
/// done to it: nothing, or [`TOUCHED`] and [`WRITTEN`].
///
/// # Errors
/// Where accesses cannot be seen.
///
/// # Safety
/// They are whole pages of readable and writable memory, in which nothing lies that anybody but the work uses meanwhile.
pub(crate) unsafe fn watch(
    start: *mut u8,
    length: usize,
    work: impl FnOnce(),
) -> Result<Vec<u8>, Failure> {
    // SAFETY: as the caller says.
    unsafe { imp::watch(start, length, work) }
}

/// An access to memory that is followed: which line of it, and whether it was written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// The number of the line.
    pub(crate) line: usize,
    /// A write, or an instruction that reads and writes.
    pub(crate) written: bool,
}

/// What was accessed.
pub(crate) struct Trail(imp::Trail);

impl Trail {
    /// All accesses since this was asked last, in their order.
    ///
    /// # Errors
    /// There were more than [`MOST_ACCESSES`].
    pub(crate) fn take(&mut self, accesses: &mut Vec<Access>) -> Result<(), Failure> {
        self.0.take(accesses)
    }
}

/// How many accesses are kept until somebody asks.
pub(crate) const MOST_ACCESSES: usize = 1 << 20;

/// As [`watch`], but the work is told of each access, in order.
///
/// # Errors
/// Where accesses cannot be seen.
///
/// # Safety
/// As for [`watch`].
pub(crate) unsafe fn follow<T>(
    start: *mut u8,
    length: usize,
    work: impl FnOnce(&mut Trail) -> T,
) -> Result<T, Failure> {
    let mut found = None;
    // SAFETY: as the caller says.
    unsafe {
        imp::watch(start, length, || {
            // It begins and ends while nobody else follows anything.
            let mut trail = Trail(imp::Trail::begin());
            found = Some(work(&mut trail));
        })
    }?;
    found.ok_or_else(|| Failure::Failed("nothing was followed".into()))
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc_zeroed` with this layout, and is released once.
        unsafe { dealloc(self.start, self.layout) };
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod imp {
    use crate::Failure;

    pub(super) struct Trail;

    impl Trail {
        pub(super) fn begin() -> Trail {
            Trail
        }

        pub(super) fn take(&mut self, _: &mut Vec<super::Access>) -> Result<(), Failure> {
            Ok(())
        }
    }

    /// # Safety
    /// None: it does nothing.
    pub(super) unsafe fn watch(_: *mut u8, _: usize, _: impl FnOnce()) -> Result<Vec<u8>, Failure> {
        Err(Failure::Failed("accesses can be counted on x86-64 Linux only".into()))
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod imp {
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;
    use std::sync::Mutex;

    use woodlot_frame::atomics::{AtomicU8, AtomicU64, Ordering::Relaxed};

    use super::{Access, MOST_ACCESSES, PAGE, TOUCHED, WRITTEN};
    use crate::Failure;
    use crate::dispersion::LINE;

    /// One at a time: signal handlers belong to the whole process.
    static ONE: Mutex<()> = Mutex::new(());
    /// What is watched, for the handlers; nothing where `LENGTH` is zero.
    static START: AtomicU64 = AtomicU64::new(0);
    static LENGTH: AtomicU64 = AtomicU64::new(0);
    /// Where the byte for each line lies.
    static SEEN: AtomicU64 = AtomicU64::new(0);
    /// Where the accesses go in their order, if somebody follows them: the line, shifted by one, and whether it
    /// was written to.
    static TRAIL: AtomicU64 = AtomicU64::new(0);
    /// How many there are.
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    /// The pages that the present instruction has opened; zero where there is none. An instruction
    /// has two operands in memory at most, and each lies on two pages at most.
    static OPEN: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

    /// The trap flag of the processor.
    const TRAP: i64 = 1 << 8;
    /// In the code of a page fault: the access was a write.
    const WRITE: i64 = 1 << 1;

    /// The accesses, while it lives.
    pub(super) struct Trail(Vec<AtomicU64>);

    impl Trail {
        /// From now on accesses are kept.
        pub(super) fn begin() -> Trail {
            let trail = Trail((0..MOST_ACCESSES).map(|_| AtomicU64::new(0)).collect());
            TAKEN.store(0, Relaxed);
            TRAIL.store(trail.0.as_ptr().expose_provenance() as u64, Relaxed);
            trail
        }

        pub(super) fn take(&mut self, accesses: &mut Vec<Access>) -> Result<(), Failure> {
            let taken = TAKEN.swap(0, Relaxed) as usize;
            let Some(all) = self.0.get(..taken) else {
                let most = "more accesses in a call than can be followed";
                return Err(Failure::Failed(most.into()));
            };
            accesses.clear();
            accesses.extend(all.iter().map(|entry| {
                let entry = entry.load(Relaxed);
                Access { line: (entry >> 1) as usize, written: entry & 1 != 0 }
            }));
            Ok(())
        }
    }

    impl Drop for Trail {
        fn drop(&mut self) {
            TRAIL.store(0, Relaxed);
        }
    }

    /// # Safety
    /// As for [`super::watch`].
    pub(super) unsafe fn watch(
        start: *mut u8,
        length: usize,
        work: impl FnOnce(),
    ) -> Result<Vec<u8>, Failure> {
        // The lock guards no data, so what happened to its last holder does not matter.
        let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let seen: Vec<AtomicU8> = (0..length / LINE).map(|_| AtomicU8::new(0)).collect();
        SEEN.store(seen.as_ptr().expose_provenance() as u64, Relaxed);
        START.store(start.expose_provenance() as u64, Relaxed);
        LENGTH.store(length as u64, Relaxed);
        let handlers =
            [Handler::install(libc::SIGSEGV, opened), Handler::install(libc::SIGTRAP, closed)];
        // SAFETY: the pages are the caller's, and nothing else lies on them.
        let protected = unsafe { libc::mprotect(start.cast(), length, libc::PROT_NONE) } == 0;
        let closed = Closed { start, length };
        if protected {
            work();
        }
        drop(closed);
        drop(handlers);
        match protected {
            true => Ok(seen.iter().map(|line| line.load(Relaxed)).collect()),
            false => Err(Failure::Failed("pages cannot be protected here".into())),
        }
    }

    /// Memory whose pages are closed; also work that panics leaves them open.
    struct Closed {
        start: *mut u8,
        length: usize,
    }

    impl Drop for Closed {
        fn drop(&mut self) {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the pages are the caller's of `watch`, and nothing else lies on them; the memory is as it was.
            unsafe { libc::mprotect(self.start.cast(), self.length, access) };
            LENGTH.store(0, Relaxed);
        }
    }

    type Handle = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

    /// A signal handler, and what was in its place.
    struct Handler {
        signal: libc::c_int,
        before: libc::sigaction,
    }

    impl Handler {
        fn install(signal: libc::c_int, handle: Handle) -> Handler {
            let mut before = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: all bits zero is a valid `sigaction`: no flags, an empty mask.
            let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
            action.sa_sigaction = handle as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // SAFETY: both point to a `sigaction`, and the handlers do only what a handler may.
            unsafe { libc::sigaction(signal, &action, before.as_mut_ptr()) };
            // SAFETY: it was zeroed, and written to if the call succeeded.
            Handler { signal, before: unsafe { before.assume_init() } }
        }
    }

    impl Drop for Handler {
        fn drop(&mut self) {
            // SAFETY: this is what the system had given for this signal.
            unsafe { libc::sigaction(self.signal, &self.before, null_mut()) };
        }
    }

    /// Turns the trap flag of the interrupted code on or off.
    ///
    /// # Safety
    /// `context` is what the system gave to a signal handler.
    unsafe fn single_step(context: *mut libc::c_void, on: bool) {
        // SAFETY: the caller's promise.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        let flags = &mut context.uc_mcontext.gregs[libc::REG_EFL as usize];
        *flags = if on { *flags | TRAP } else { *flags & !TRAP };
    }

    /// A closed page was touched.
    extern "C" fn opened(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the system gives the signal's information, and this signal has an address.
        let address = unsafe { (*info).si_addr() }.addr();
        let offset = address.wrapping_sub(START.load(Relaxed) as usize);
        let entry = OPEN.iter().find(|page| page.load(Relaxed) == 0);
        let (true, Some(entry)) = (offset < LENGTH.load(Relaxed) as usize, entry) else {
            // Not ours: as if there were no handler, when the instruction is tried again.
            // SAFETY: this is the default of a signal that has one.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            return;
        };
        // SAFETY: the context is the system's.
        let code = unsafe { &*context.cast::<libc::ucontext_t>() }.uc_mcontext.gregs
            [libc::REG_ERR as usize];
        let done = if code & WRITE == 0 { TOUCHED } else { TOUCHED | WRITTEN };
        let seen = std::ptr::with_exposed_provenance::<AtomicU8>(SEEN.load(Relaxed) as usize);
        // SAFETY: there is a byte for each line of the memory, which lives while it is watched.
        unsafe { &*seen.add(offset / LINE) }.fetch_or(done, Relaxed);
        let trail = std::ptr::with_exposed_provenance::<AtomicU64>(TRAIL.load(Relaxed) as usize);
        if !trail.is_null() {
            let taken = TAKEN.fetch_add(1, Relaxed) as usize;
            let entry = (offset / LINE) << 1 | usize::from(done & WRITTEN != 0);
            if taken < MOST_ACCESSES {
                // SAFETY: there is room for so many entries, as long as the trail lives.
                unsafe { &*trail.add(taken) }.store(entry as u64, Relaxed);
            }
        }
        let page = address / PAGE * PAGE;
        entry.store(page as u64, Relaxed);
        protect(page, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the context is the system's.
        unsafe { single_step(context, true) };
    }

    /// The instruction that touched it is done.
    extern "C" fn closed(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        for entry in &OPEN {
            let page = entry.swap(0, Relaxed) as usize;
            if page != 0 {
                protect(page, libc::PROT_NONE);
            }
        }
        // SAFETY: the context is the system's.
        unsafe { single_step(context, false) };
    }

    fn protect(page: usize, access: libc::c_int) {
        let page = std::ptr::with_exposed_provenance_mut(page);
        // SAFETY: a page of the memory that is watched.
        unsafe { libc::mprotect(page, PAGE, access) };
    }
}

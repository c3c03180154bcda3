//! Files that somebody truncates while they are mapped.
//!
//! ```text
//!   watch ──▶ a place of the table: addresses ── a read or write behind the end of the file: SIGBUS ──▶ handler
//!   was_hit ◀── flag ── from there to the end of the mapping: zero bytes, which are no file's ◀────────┘
//! ```
//!
//! What reads there goes on with zero bytes, and so comes to an end. Whoever watches then asks the flag, and takes the file
//! for truncated. The handler stores and maps, no more: both may be done in a handler.

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A mapping, in the table that the handler reads.
struct Place {
    taken: AtomicBool,
    start: AtomicUsize,
    /// The address behind the last; 0: nothing is watched here.
    end: AtomicUsize,
    hit: AtomicBool,
}

/// Far more than a command maps.
static PLACES: [Place; 64] = [const {
    Place {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        hit: AtomicBool::new(false),
    }
}; 64];

/// Is the signal handled?
static HANDLED: OnceLock<bool> = OnceLock::new();

/// How the signal was handled before, and the bytes of a page.
static BEFORE: OnceLock<(libc::sigaction, usize)> = OnceLock::new();

/// A mapping of a file that is watched, until this is dropped.
pub struct Watched(&'static Place);

impl Watched {
    /// Watches the addresses of a mapping, which stays there until the watch [ends](Self::end) or is dropped.
    ///
    /// # Errors
    /// Too many are watched, or the signal cannot be handled.
    pub fn new(addresses: Range<usize>) -> io::Result<Watched> {
        if !*HANDLED.get_or_init(handle) {
            return Err(io::Error::other("SIGBUS cannot be handled"));
        }
        let free = |place: &&Place| !place.taken.swap(true, Ordering::Acquire);
        let place = PLACES.iter().find(free);
        let place = place.ok_or_else(|| io::Error::other("too many files are mapped"))?;
        place.hit.store(false, Ordering::Relaxed);
        place.start.store(addresses.start, Ordering::Relaxed);
        place.end.store(addresses.end, Ordering::Release);
        Ok(Watched(place))
    }

    /// Watches no more: the mapping is about to go.
    pub fn end(&self) {
        self.0.end.store(0, Ordering::Release);
    }

    /// Was something read or written that the file has lost?
    pub fn was_hit(&self) -> bool {
        self.0.hit.load(Ordering::Acquire)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.end();
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Handles the signal from now on. False: it cannot be handled.
fn handle() -> bool {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
    // SAFETY: all bits zero are an action: the default one, with no signal masked.
    let [mut action, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: an action is only read, into memory for it.
    let read = unsafe { libc::sigaction(libc::SIGBUS, null(), &mut before) };
    // SAFETY: it is only asked for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let _ = BEFORE.set((before, usize::try_from(page).unwrap_or(4096)));
    // SAFETY: the handler does only what may be done in one.
    let set = unsafe { libc::sigaction(libc::SIGBUS, &action, null_mut()) };
    read == 0 && set == 0
}

extern "C" fn on_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the system gives the handler what it asked for; errno is this thread's.
    let (at, errno) = unsafe { ((*info).si_addr() as usize, *libc::__errno_location()) };
    let Some((before, page)) = BEFORE.get() else { return };
    let known = |place: &&Place| {
        let end = place.end.load(Ordering::Acquire);
        (place.start.load(Ordering::Relaxed)..end).contains(&at)
    };
    let filled = PLACES.iter().find(known).is_some_and(|place| {
        place.hit.store(true, Ordering::Release);
        let from = at & !(page - 1);
        let len = place.end.load(Ordering::Relaxed) - from;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: these addresses are of a mapping that is watched, and of nothing else.
        unsafe { libc::mmap(from as *mut c_void, len, both, flags, -1, 0) != libc::MAP_FAILED }
    });
    // SAFETY: it was the action before; then the access is tried again. errno is this thread's.
    unsafe {
        if !filled {
            libc::sigaction(libc::SIGBUS, before, null_mut());
        }
        *libc::__errno_location() = errno;
    }
}

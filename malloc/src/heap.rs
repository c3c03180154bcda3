//! The heap of the process: what becomes of a request.
//!
//! ```text
//!   up to 32 KiB   a block of one of 41 sizes, from the CPU's cache        kmem, rseq
//!   up to 4 MiB    pages of a segment                                      kmem, segments
//!   above          a mapping of its own                                    large
//! ```
//!
//! All of it is static, and nothing is set up before the first call: the caches are empty then, so that the first call
//! comes to the layers below, which open the first segment.

use core::ptr::NonNull;

use woodlot_kmem::{Kmem, Misuse, PAGE, PerCpu, SizeStats, Sizes, Wide};

use crate::busy::Busy;
use crate::counted::{Caches, counted, inside};
use crate::hot::Hot;
use crate::large::{LARGEST, Large};
use crate::marks::CHECKED;
use crate::misuse::{Told, tell};
use crate::parked;
use crate::rseq::Rseq;
use crate::segments::Segments;
use crate::threads::Threads;
use crate::upkeep;

/// What every block is aligned to.
pub const MIN_ALIGN: usize = 16;

/// The allocator of blocks up to [`LARGEST`].
pub(crate) type Small = Kmem<Caches, Segments, Wide, Told>;

pub(crate) static KMEM: Small =
    Kmem::new(counted(Rseq::new(Threads::new(flush_thread))), Segments::new(), Told);
pub(crate) static LARGE: Large = Large::new();

/// The caches without what counts their calls.
pub(crate) fn caches() -> &'static Rseq<Threads> {
    inside(KMEM.caches())
}

/// Gives what a thread's caches have to the layers below.
fn flush_thread() {
    slowly(|| KMEM.flush_cpu(0));
}

/// So many bytes at a multiple of 16, if this CPU's cache has a block for them. `None` says nothing of the memory that
/// there is: [`alloc`] does, which a caller that wants a short fast path calls then.
#[inline(always)]
pub fn alloc_cached(bytes: usize) -> Option<NonNull<u8>> {
    KMEM.alloc_cached(bytes)
}

/// Frees a block, if this CPU's cache has room for it. False: [`free`] is to do it. Any address may be asked for that no
/// page of this heap has; of null, it is false.
///
/// # Safety
/// As for [`free`], if this heap has the page.
#[inline(always)]
pub unsafe fn free_cached(block: *mut u8) -> bool {
    // SAFETY: as the caller says.
    NonNull::new(block).is_some_and(|block| unsafe { KMEM.free_cached(block) })
}

/// Allocates so many bytes at a multiple of 16. `None`: there is no memory.
#[inline]
pub fn alloc(bytes: usize) -> Option<NonNull<u8>> {
    match alloc_cached(bytes) {
        None => alloc_slowly(bytes),
        block => block,
    }
}

/// Does what takes locks, and frees what handlers have left meanwhile. `None`: nothing was done, because this is called by
/// a signal handler that has interrupted such a call.
fn slowly<T>(work: impl FnOnce() -> T) -> Option<T> {
    let Some(busy) = Busy::enter() else { return while_forking(work) };
    let result = work();
    upkeep::tend();
    drop(busy);
    free_parked();
    Some(result)
}

/// The same for a thread that forks, and so has all locks: somebody's handler of `pthread_atfork` that was registered before
/// ours runs then. It finds the heap as whole as it was, and leaves it so.
#[cold]
fn while_forking<T>(work: impl FnOnce() -> T) -> Option<T> {
    // SAFETY: what has all locks has locked.
    if !unsafe { unlock() } {
        return None;
    }
    let result = slowly(work);
    lock();
    result
}

/// Frees what handlers have parked, also those that come meanwhile.
fn free_parked() {
    while parked::is_any() {
        let Some(_busy) = Busy::enter() else { return };
        // SAFETY: who has parked a block has given it away.
        parked::take_all(|block| unsafe { free_at_last(block) });
    }
}

#[cold]
#[inline(never)]
fn alloc_slowly(bytes: usize) -> Option<NonNull<u8>> {
    slowly(|| if bytes > LARGEST { LARGE.alloc(bytes, PAGE) } else { KMEM.alloc(bytes) })?
}

#[cold]
#[inline(never)]
fn alloc_aligned_slowly(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    slowly(|| match bytes.max(align) > LARGEST {
        true => LARGE.alloc(bytes, align),
        false => KMEM.alloc_aligned(bytes, align),
    })?
}

/// The same at a multiple of `align`, a power of two.
#[inline]
pub fn alloc_aligned(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    if align <= MIN_ALIGN { alloc(bytes) } else { alloc_aligned_slowly(bytes, align) }
}

/// The same, zero.
#[inline]
pub fn alloc_zeroed(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    let block = alloc_aligned(bytes, align)?;
    // A mapping that is new is zero. Of blocks that caches keep it is known of pages only.
    let may_be_known = bytes > Wide::MOST || bytes > Hot::MOST && bytes <= PAGE;
    let is_zero = bytes.max(align) > LARGEST || may_be_known && KMEM.is_zero(block);
    if !is_zero {
        // SAFETY: the block has so many bytes.
        unsafe { block.write_bytes(0, bytes) };
    }
    Some(block)
}

/// Frees a block.
///
/// # Safety
/// The block was allocated here, and the caller uses it no more.
#[inline]
pub unsafe fn free(block: NonNull<u8>) {
    // SAFETY: as the caller says.
    unsafe {
        if !KMEM.free_cached(block) {
            free_slowly(block);
        }
    }
}

/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_slowly(block: NonNull<u8>) {
    // SAFETY: as the caller says.
    unsafe {
        if slowly(|| free_at_last(block)).is_none() && !parked::park(block) {
            tell(Misuse::DoubleFree(block.as_ptr()));
        }
    }
}

/// # Safety
/// As for [`free`]; the thread is busy.
unsafe fn free_at_last(block: NonNull<u8>) {
    // SAFETY: as the caller says.
    unsafe {
        if !KMEM.free_if_here(block) && !LARGE.free(block) {
            tell(wrong(block));
        }
    }
}

/// Frees a block that was allocated for so many bytes, at a multiple of 16.
///
/// # Safety
/// It was, and the caller uses it no more.
#[inline]
pub unsafe fn free_sized(block: NonNull<u8>, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe {
        if !KMEM.free_cached_sized(block, bytes) {
            free_sized_slowly(block, bytes);
        }
    }
}

/// # Safety
/// As for [`free_sized`].
#[cold]
#[inline(never)]
unsafe fn free_sized_slowly(block: NonNull<u8>, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe { free_if_right(block, bytes, MIN_ALIGN) };
}

/// Frees a block that was allocated for so many bytes, at a multiple of `align`.
///
/// # Safety
/// It was, and the caller uses it no more.
#[inline]
pub unsafe fn free_aligned(block: NonNull<u8>, bytes: usize, align: usize) {
    // SAFETY: as the caller says.
    unsafe {
        if align <= MIN_ALIGN {
            free_sized(block, bytes);
        } else if CHECKED {
            free_if_right(block, bytes, align);
        } else {
            free(block);
        }
    }
}

/// Frees a block unless it is seen to be of another size.
///
/// # Safety
/// As for [`free_aligned`].
unsafe fn free_if_right(block: NonNull<u8>, bytes: usize, align: usize) {
    if CHECKED
        && let Some(Ok(old)) = look(block)
        && !fits(old, bytes, align)
    {
        return tell(Misuse::WrongSize(block.as_ptr()));
    }
    // SAFETY: as the caller says.
    unsafe { free_slowly(block) };
}

/// Bytes that may be used of a block; 0 of none, if [`on_misuse`](crate::on_misuse) returns, and of a large one, if a signal handler
/// asks that has interrupted a call of the heap.
pub fn usable(block: NonNull<u8>) -> usize {
    known(block).unwrap_or(0)
}

/// The same; `None` where there is no block, or it cannot be known now.
fn known(block: NonNull<u8>) -> Option<usize> {
    look(block)?.map_err(tell).ok()
}

/// Bytes that may be used of a block, or why there is none; `None` where it cannot be known now.
fn look(block: NonNull<u8>) -> Option<Result<usize, Misuse>> {
    match KMEM.usable(block) {
        Some(bytes) => Some(Ok(bytes)),
        None => slowly(|| LARGE.usable(block).ok_or_else(|| wrong(block))),
    }
}

/// What is wrong with an address at which no block in use begins.
#[cold]
fn wrong(block: NonNull<u8>) -> Misuse {
    match KMEM.wrong(block) {
        Misuse::Foreign(at) if LARGE.is_inside(block) => Misuse::Interior(at),
        wrong => wrong,
    }
}

/// Has a block so many bytes that was allocated for so many at a multiple of `align`?
fn fits(old: usize, bytes: usize, align: usize) -> bool {
    match Wide::aligned(bytes, align).filter(|_| align <= PAGE) {
        Some(size) => Wide::size(size).bytes == old,
        None => bytes.max(1).checked_next_multiple_of(PAGE) == Some(old),
    }
}

/// Does a block stay where it is when it is to have so many bytes? [`free_sized`] must find it by the new number.
fn stays(old: usize, bytes: usize) -> bool {
    old <= LARGEST && fits(old, bytes, MIN_ALIGN)
}

/// Makes a block longer or shorter, which may move it. `None`: there is no memory, or no block, and nothing has changed.
///
/// # Safety
/// The block was allocated here for a multiple of `align`, and the caller uses it no more at its old place if this
/// succeeds.
pub unsafe fn resize(block: NonNull<u8>, bytes: usize, align: usize) -> Option<NonNull<u8>> {
    let old = known(block)?;
    if stays(old, bytes) {
        return Some(block);
    }
    if old > LARGEST && bytes > LARGEST && align <= PAGE {
        // SAFETY: as the caller says; a block of more than LARGEST is a large one.
        return slowly(|| unsafe { LARGE.resize(block, bytes) })?;
    }
    let new = alloc_aligned(bytes, align)?;
    // SAFETY: both blocks have so many bytes, and are two.
    unsafe {
        new.copy_from_nonoverlapping(block, old.min(bytes));
        free(block);
    }
    Some(new)
}

/// Gives the caches' blocks back to their pages, as far as caches can be reached: other sizes can have them then.
pub fn flush() {
    slowly(|| KMEM.flush());
}

/// Gives all free memory back: the caches' blocks to their pages, and pages to the system, but for so many bytes. Returns
/// how many bytes the system was given.
pub fn trim(keep: usize) -> usize {
    let given = slowly(|| {
        KMEM.flush();
        KMEM.pages().give_back(keep, KMEM.caches().current())
    });
    given.unwrap_or(0)
}

/// What a size has and what its layers have done, by the size's number, from 0; `None` behind the last one.
pub fn stats(size: usize) -> Option<SizeStats> {
    slowly(|| KMEM.stats(size))?
}

/// Are restartable sequences in use? The first allocation looks for them.
pub fn is_restartable() -> bool {
    caches().is_restartable()
}

/// Takes all locks: before the process forks. None of them, if a signal handler forks that has interrupted a call of the
/// heap: that one may have some.
pub(crate) fn lock() {
    let Some(busy) = Busy::enter() else { return };
    upkeep::lock();
    caches().lock();
    caches().fallback().lock();
    KMEM.lock_all();
    KMEM.pages().lock();
    LARGE.lock();
    busy.fork();
}

/// Lets go of them, in the parent and in the child. False: this thread does not have them.
///
/// # Safety
/// If it has, by a call of [`lock`], in the parent if this is the child.
pub(crate) unsafe fn unlock() -> bool {
    let Some(busy) = Busy::forked() else { return false };
    // SAFETY: as the caller says.
    unsafe {
        LARGE.unlock();
        KMEM.pages().unlock();
        KMEM.unlock_all();
        caches().fallback().unlock();
        caches().unlock();
        upkeep::unlock();
    }
    drop(busy);
    free_parked();
    true
}

/// In the child of a fork, before it goes on.
pub(crate) fn forked() {
    caches().forked();
    caches().fallback().forked();
    parked::forked();
    free_parked();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when a process forks while another thread takes what is parked.
    #[test]
    fn a_child_frees_what_a_thread_of_its_parent_was_about_to() {
        let large = alloc(5 << 20).expect("memory");
        assert!(parked::park(large));
        parked::be_looked_at();
        // SAFETY: the child makes calls of the heap only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the process ends.
            unsafe { libc::_exit(i32::from(parked::is_parked())) };
        }
        let mut status = -1;
        // SAFETY: the child is this process's, and the status is written.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        parked::forked();
        flush();
        assert_eq!(status, 0, "it is parked for ever");
    }
}

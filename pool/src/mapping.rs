//! The memory of a pool: one range of addresses, and what the system has behind it.

use std::ffi::c_void;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};

use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use woodlot_frame::{Base4K, Geometry};

use crate::error::BuildError;
use crate::options::{Backing, HugePage, Options};

/// Every block is aligned to its size in memory as it is in frames: the largest has 4 MiB.
pub(crate) const ALIGN: usize = 4 << 20;
/// The bytes of a frame.
pub(crate) const FRAME: usize = 1 << Base4K::BASE_SHIFT;
/// The frames of a huge frame.
pub(crate) const HUGE: usize = Base4K::HUGE_FRAMES;

/// A range of mapped memory, all of it readable and writable.
pub(crate) struct Mapping {
    /// The first byte of the frames.
    base: NonNull<u8>,
    /// The bytes of the frames.
    len: usize,
    /// Bytes before the frames, in the file and in memory: what several processes share beside them.
    before: usize,
    file: Option<File>,
    /// The file has a path: its disk can be full, and somebody else can make it shorter.
    on_disk: bool,
    /// The file was empty, or not there.
    was_empty: bool,
    /// The file is memory itself: what is mapped of it for reading can be written without a second fault.
    in_memory: bool,
    /// The system is asked for huge pages, as it makes none of the file by itself.
    collapse: bool,
    populate: bool,
}

// SAFETY: the mapping is a range of addresses of the process; no thread has a special part in it.
unsafe impl Send for Mapping {}
// SAFETY: all methods only hand the range to the system, which orders such calls.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(options: &Options, cap: usize) -> Result<Mapping, BuildError> {
        let node = checked_node(options)?;
        let (file, was_empty) = match &options.backing {
            Backing::MemoryFile => (Some(memory_file(options.size)?), true),
            Backing::File(path) | Backing::Dax(path) => {
                let (file, was_empty) = open(path, options.size, cap)?;
                (Some(file), was_empty)
            }
            _ => (None, false),
        };
        let base = map(options, file.as_ref(), 0).inspect_err(|_| {
            if let (Some(file), true, true) = (&file, options.backing.has_path(), was_empty) {
                empty(file);
            }
        })?;
        let mapping = Mapping::of(options, base, 0, (file, was_empty));
        mapping.advise_all(options, node).inspect_err(|_| mapping.undo())?;
        Ok(mapping)
    }

    /// A file that processes share, whose frames lie behind `before` bytes, a multiple of [`ALIGN`].
    pub(crate) fn shared(
        options: &Options,
        file: File,
        before: usize,
    ) -> Result<Mapping, BuildError> {
        let node = checked_node(options)?;
        let base = map(options, Some(&file), before)?;
        let mapping = Mapping::of(options, base, before, (Some(file), false));
        mapping.advise_all(options, node)?;
        Ok(mapping)
    }

    /// What is mapped, of a file that was empty or not.
    fn of(
        options: &Options,
        base: NonNull<u8>,
        before: usize,
        (file, was_empty): (Option<File>, bool),
    ) -> Mapping {
        let in_memory = file.as_ref().is_some_and(is_memory);
        Mapping {
            base,
            len: options.size,
            before,
            file,
            on_disk: options.backing.has_path(),
            was_empty,
            in_memory,
            collapse: options.huge && in_memory,
            populate: options.populate,
        }
    }

    /// Tells the system what memory the pool is to have.
    fn advise_all(&self, options: &Options, node: Option<usize>) -> Result<(), BuildError> {
        if options.huge && options.backing == Backing::Anonymous {
            let advised = self.advise(0..options.size, Advice::LinuxHugepage);
            advised.map_err(|cause| BuildError::Map { bytes: options.size, cause })?;
        }
        let Some(node) = node else { return Ok(()) };
        self.bind(node).map_err(|cause| BuildError::Bind { node, cause })
    }

    /// Leaves the file as it was, for a pool that is not made after all.
    pub(crate) fn undo(&self) {
        if let (Some(file), true, true) = (&self.file, self.on_disk, self.was_empty) {
            empty(file);
        }
    }

    /// The first byte.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first byte of all, which is before the frames if processes share something there.
    pub(crate) fn start(&self) -> *mut u8 {
        // SAFETY: the mapping has so many bytes before the frames.
        unsafe { self.base.as_ptr().sub(self.before) }
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(File::as_fd)
    }

    /// Does memory stay mapped once it is there? A disk may take that of a file.
    pub(crate) fn keeps(&self) -> bool {
        self.file.is_none() || self.in_memory
    }

    /// Does [`provide`](Self::provide) bring each page?
    pub(crate) fn populates(&self) -> bool {
        self.populate
    }

    /// Sees to it that there is memory for these bytes.
    pub(crate) fn provide(&self, bytes: Range<usize>) -> io::Result<()> {
        if self.collapse {
            self.collapse(&bytes);
        }
        if let Some(file) = self.checked_file()? {
            allocate(file, &(self.before + bytes.start..self.before + bytes.end))?;
        }
        if self.populate { self.populate(bytes) } else { Ok(()) }
    }

    /// Brings the memory of these bytes, as if each page were touched. Of a file in memory, where a page that is mapped for
    /// reading can be written, it is as if each were read: pages that are there already are mapped many at a time.
    pub(crate) fn populate(&self, bytes: Range<usize>) -> io::Result<()> {
        let read = Advice::LinuxPopulateRead;
        self.advise(bytes, if self.in_memory { read } else { Advice::LinuxPopulateWrite })
    }

    /// Asks for huge pages behind whole huge frames, which are the caller's. Small ones do as well, so nobody is told.
    fn collapse(&self, bytes: &Range<usize>) {
        for start in bytes.clone().step_by(HUGE * FRAME) {
            // Where nothing is, the system finds nothing to make a huge page of.
            if self.populate(start..start + FRAME).is_err() {
                return;
            }
        }
        // SAFETY: the range lies in the mapping, and what is in it stays.
        unsafe {
            let start = self.base.as_ptr().add(bytes.start);
            libc::madvise(start.cast(), bytes.len(), libc::MADV_COLLAPSE);
        }
    }

    /// Gives the memory of these bytes to the system. They are zero when they are next touched.
    pub(crate) fn discard(&self, bytes: Range<usize>) -> io::Result<()> {
        self.checked_file()?;
        let shared = self.file.is_some();
        self.advise(bytes, if shared { Advice::LinuxRemove } else { Advice::LinuxDontNeed })
    }

    /// The file on a disk, if there is one. It has all its bytes.
    fn checked_file(&self) -> io::Result<Option<&File>> {
        let Some(file) = self.file.as_ref().filter(|_| self.on_disk) else { return Ok(None) };
        let (bytes, len) = (file.metadata()?.len(), self.before + self.len);
        if bytes >= len as u64 {
            return Ok(Some(file));
        }
        Err(io::Error::other(format!(
            "somebody has made the file shorter: {bytes} bytes, of {len}"
        )))
    }

    fn advise(&self, bytes: Range<usize>, advice: Advice) -> io::Result<()> {
        debug_assert!(bytes.start <= bytes.end && bytes.end <= self.len);
        // SAFETY: the range lies in the mapping. What discards the contents comes from `discard` alone, whose
        // caller owns the frames.
        let advised = unsafe {
            let start = self.base.as_ptr().add(bytes.start);
            rustix::mm::madvise(start.cast(), bytes.len(), advice)
        };
        advised.map_err(io::Error::from)
    }

    fn bind(&self, node: usize) -> io::Result<()> {
        let mut nodes = vec![0usize; node / usize::BITS as usize + 1];
        nodes[node / usize::BITS as usize] = 1 << (node % usize::BITS as usize);
        // The system takes one bit less than it is told.
        let bits = nodes.len() * usize::BITS as usize + 1;
        // SAFETY: the range is the mapping, and `nodes` has `bits` - 1 bits.
        let bound = unsafe {
            let (start, mask) = (self.base.as_ptr(), nodes.as_ptr());
            libc::syscall(libc::SYS_mbind, start, self.len, libc::MPOL_BIND, mask, bits, 0)
        };
        if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.start(), self.before + self.len);
    }
}

/// Maps the memory, aligned, with `before` bytes before it. Returns where the memory of the frames begins.
fn map(options: &Options, file: Option<&File>, before: usize) -> Result<NonNull<u8>, BuildError> {
    let size = before.saturating_add(options.size);
    let failed = |cause: Errno| BuildError::Map { bytes: size, cause: cause.into() };
    let align = match options.backing {
        Backing::Reserved(page) => ALIGN.max(page.bytes()),
        _ => ALIGN,
    };
    let room = size.checked_add(align).ok_or_else(|| failed(Errno::NOMEM))?;
    // SAFETY: the system chooses addresses that nobody has.
    let start = unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        rustix::mm::mmap_anonymous(null_mut(), room, ProtFlags::empty(), flags)
    };
    let start = start.map_err(failed)?.cast::<u8>();
    let skip = start.align_offset(align);
    // SAFETY: `room` has `align` bytes more than `size`.
    let (base, end) = unsafe { (start.add(skip), start.add(skip + size)) };
    unmap(start, skip);
    unmap(end, align - skip);
    // SAFETY: the addresses were just reserved, and nobody else knows them.
    let mapped = unsafe { map_at(base.cast(), size, &options.backing, file) };
    match mapped {
        // SAFETY: the frames lie behind so many bytes of the mapping.
        Ok(()) => Ok(NonNull::new(unsafe { base.add(before) }).expect("not at address zero")),
        Err(errno) => {
            unmap(base, size);
            Err(match &options.backing {
                Backing::Reserved(page) => too_few(*page, size, failed(errno)),
                Backing::Dax(path) if errno == Errno::OPNOTSUPP => BuildError::NotDax(path.clone()),
                _ => failed(errno),
            })
        }
    }
}

/// Maps the memory over a reservation.
///
/// # Safety
/// The reservation at `base` is the caller's and has `size` bytes.
unsafe fn map_at(
    base: *mut c_void,
    size: usize,
    backing: &Backing,
    file: Option<&File>,
) -> rustix::io::Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let private = MapFlags::FIXED | MapFlags::PRIVATE;
    let flags = match backing {
        // The cap says how much memory there is to be, not the size.
        Backing::Anonymous => private | MapFlags::NORESERVE,
        Backing::Reserved(HugePage::Mib2) => private | MapFlags::HUGETLB | MapFlags::HUGE_2MB,
        Backing::Reserved(HugePage::Gib1) => private | MapFlags::HUGETLB | MapFlags::HUGE_1GB,
        Backing::MemoryFile | Backing::File(_) | Backing::Shared(_) => {
            MapFlags::FIXED | MapFlags::SHARED
        }
        Backing::Dax(_) => MapFlags::FIXED | MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
    };
    // SAFETY: as the caller promises.
    unsafe {
        match file {
            Some(file) => rustix::mm::mmap(base, size, protection, flags, file, 0)?,
            None => rustix::mm::mmap_anonymous(base, size, protection, flags)?,
        }
    };
    Ok(())
}

fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the range is a part of a mapping of this module that nobody uses any more.
        let unmapped = unsafe { rustix::mm::munmap(start.cast(), len) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}

/// Says how many huge pages there are, if too few are why they were not mapped.
fn too_few(page: HugePage, size: usize, otherwise: BuildError) -> BuildError {
    let count = |file| {
        let text = fs::read_to_string(page.counts().join(file)).ok()?;
        text.trim().parse::<usize>().ok()
    };
    let free = count("free_hugepages");
    let free = free.map(|free| free.saturating_sub(count("resv_hugepages").unwrap_or(0)));
    let needed = size / page.bytes();
    if free.is_some_and(|free| free >= needed) {
        return otherwise;
    }
    BuildError::HugePages { page, needed, free }
}

fn memory_file(size: usize) -> Result<File, BuildError> {
    let failed = |doing| {
        move |cause: Errno| BuildError::File { path: "memfd".into(), doing, cause: cause.into() }
    };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("woodlot-pool", flags).map_err(failed("make it"))?;
    rustix::fs::ftruncate(&file, size as u64).map_err(failed("set its length"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(failed("seal its length"))?;
    Ok(file.into())
}

/// Opens the file, locks it, and reserves its first `cap` bytes on the disk. Was it empty, or not there?
fn open(path: &Path, size: usize, cap: usize) -> Result<(File, bool), BuildError> {
    let failed = |doing| {
        move |cause: io::Error| BuildError::File { path: PathBuf::from(path), doing, cause }
    };
    let mut how = OpenOptions::new();
    let file = how.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(failed("open it"))?;
    let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    locked.map_err(|errno| match errno {
        Errno::WOULDBLOCK => BuildError::FileInUse(path.into()),
        errno => failed("lock it")(errno.into()),
    })?;
    let bytes = file.metadata().map_err(failed("read its length"))?.len();
    if bytes != 0 && bytes != size as u64 {
        return Err(BuildError::FileLength { path: path.into(), bytes, size });
    }
    let reserved = has_room(&file, cap)
        .and_then(|()| file.set_len(size as u64))
        .and_then(|()| allocate(&file, &(0..cap)));
    reserved.map_err(|cause| {
        if bytes == 0 {
            // What the disk had no room for is not left behind.
            empty(&file);
        }
        failed("reserve disk space for the cap")(cause)
    })?;
    Ok((file, bytes == 0))
}

/// Empties a file that was empty before. Why this is done is reported already, whatever becomes of it.
pub(crate) fn empty(file: &File) {
    let _ = file.set_len(0);
}

/// Is there disk space to make the file as large as `cap`? A disk would be full for a moment without this look.
fn has_room(file: &File, cap: usize) -> io::Result<()> {
    let disk = rustix::fs::fstatvfs(file)?;
    let room = disk.f_bavail.saturating_add(file.metadata()?.blocks() * 512 / disk.f_frsize.max(1));
    let enough = cap as u64 / disk.f_frsize.max(1) <= room;
    if enough { Ok(()) } else { Err(Errno::NOSPC.into()) }
}

/// Is a file memory itself: one of `memfd_create` or of a `tmpfs`?
fn is_memory(file: &File) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type as u64 == TMPFS)
}

pub(crate) fn allocate(file: &File, bytes: &Range<usize>) -> io::Result<()> {
    let (offset, len) = (bytes.start as u64, bytes.len() as u64);
    rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len).map_err(io::Error::from)
}

/// Does the machine have so much memory and swap?
pub(crate) fn check_memory(cap: usize) -> Result<(), BuildError> {
    let info = rustix::system::sysinfo();
    let memory = (info.totalram + info.totalswap) * u64::from(info.mem_unit);
    if cap as u64 <= memory { Ok(()) } else { Err(BuildError::CapAboveMemory { cap, memory }) }
}

/// The node of the options, if they name one and the system has it.
fn checked_node(options: &Options) -> Result<Option<usize>, BuildError> {
    options.node.map(|node| check_node(node).map(|()| node)).transpose()
}

/// Is the node one that has memory? The list is like `0-1,4`.
fn check_node(node: usize) -> Result<(), BuildError> {
    let list = fs::read_to_string("/sys/devices/system/node/has_memory");
    let nodes = list.map_or_else(|_| "no nodes".to_owned(), |list| list.trim().to_owned());
    let found = nodes.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = (first.parse::<usize>(), last.parse::<usize>());
        matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&node))
    });
    if found { Ok(()) } else { Err(BuildError::NoNode { node, nodes }) }
}

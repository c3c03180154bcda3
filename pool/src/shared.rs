//! A pool that several processes have: what lies in its file beside the frames, and how one joins.
//!
//! ```text
//!   0                                                         a multiple of 4 MiB
//!   │ zone │ owner table      │ pool page                     │ frames
//!   │      │ members and tags │ what it is, which is resident │
//! ```
//!
//! 1. All of it is set up if the pool page has its magic number, which is written last; while it is being made, the
//!    page has a mark.
//! 2. Whoever makes the pool, joins it or frees what the dead had, has the lock *opening* ([`locks`](crate::locks)).
//! 3. A member whose lock *alive* nobody has is dead, or just joining, with the lock *opening*.
//! 4. Where nobody is alive, nobody has a frame. Who comes then recovers the zone, and begins with all frames free
//!    and none resident.
//!
//! *Crash*: a death at any point of an opening leaves a file that the next one opens, or makes anew.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, SealFlags};
use rustix::io::Errno;
use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Base4K, FrameAllocator, FreeError, HugeId, Init, Order, Slot};
use woodlot_llfree::LLFree;
use woodlot_zone::{Check, Member, Memory, Owners, PAGE, Shared, Tagged, ZoneError, erase};

use crate::error::{BuildError, SharedError};
use crate::locks::{Held, Locks, Part};
use crate::mapping::{self, FRAME, Mapping};
use crate::options::Options;
use crate::plan::{ENTRIES, HEAD, MAGIC, MARK, MEMBERS, Plan};
use crate::resident::Resident;
use crate::source::Source;

/// Is a huge frame taken out of use?
pub(crate) fn is_offline(zone: &impl FrameAllocator, huge: HugeId) -> bool {
    let refused = zone.can_free(huge.first::<Base4K>(), Order::huge::<Base4K>(), Slot(0));
    matches!(refused, Err(FreeError::Offline(_)))
}

/// The engine of a zone that several processes have.
type Zone = LLFree<'static, Base4K>;

/// What a process has of a shared pool beside its frames.
pub(crate) struct Common {
    zone: woodlot_zone::Zone<'static, Base4K, Shared>,
    owners: Owners<'static>,
    me: Member,
    locks: Arc<Locks>,
    /// Of the threads of this process, one opens or reaps at a time.
    opening: Mutex<()>,
}

impl Common {
    /// The zone as this process uses it.
    #[inline]
    pub(crate) fn tagged(&self) -> Tagged<'_, 'static, Zone> {
        Tagged::new(self.zone(), self.owners, self.me).expect("it is the table of this zone")
    }

    /// Calls with the zone as this process uses it.
    #[cold]
    pub(crate) fn with<R>(&self, call: impl FnOnce(Tagged<'_, 'static, Zone>) -> R) -> R {
        call(self.tagged())
    }

    #[inline]
    pub(crate) fn zone(&self) -> &Zone {
        &self.zone
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Frees what dead members had; returns how many frames. They go by way of `slot`.
    pub(crate) fn reap(&self, slot: Slot) -> usize {
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let opening = self.locks.take(Part::Opening);
        self.reap_all(&opening, slot)
    }

    fn reap_all(&self, _opening: &Held<'_>, slot: Slot) -> usize {
        let (tagged, mut freed) = (self.tagged(), 0);
        let is_dead = |member: &Member| *member != self.me && !is_alive(&self.locks, member);
        // Whom a dead member was releasing can be released after it.
        while let Some(dead) = self.owners.members().find(is_dead) {
            match tagged.release_owner(dead, slot) {
                Ok(frames) => freed += frames,
                Err(_) => break,
            }
        }
        freed
    }

    /// Claims up to so many slots; if there is none, the process shares one with others.
    fn claim(&self, wanted: usize) -> Vec<Slot> {
        let claim = |_| self.owners.claim_free_slot(self.me).ok();
        let slots: Vec<Slot> = (0..wanted).map_while(claim).collect();
        let shared = Slot(usize::from(self.me.id()) % self.zone.zone().slots);
        if slots.is_empty() { vec![shared] } else { slots }
    }
}

/// Has somebody the lock of this member?
fn is_alive(locks: &Locks, member: &Member) -> bool {
    locks.is_taken(Part::Alive(member.id()))
}

/// A shared pool that this process has joined.
pub(crate) struct Opened {
    pub(crate) common: Common,
    pub(crate) mapping: Mapping,
    pub(crate) resident: Resident,
    pub(crate) slots: Vec<Slot>,
}

/// What the file is at an opening.
#[derive(PartialEq, Eq)]
enum Found {
    /// Nothing, or what somebody began to make.
    New,
    /// A pool that nobody has.
    Left,
    /// A pool that others have.
    Used,
}

/// Joins the pool of a file, or makes it.
pub(crate) fn open(
    options: &Options,
    source: &Source,
    cap: usize,
    slots: usize,
) -> Result<Opened, BuildError> {
    let path = source.path();
    let path = &path;
    let wrong = |cause: SharedError| BuildError::Shared { path: path.clone(), cause };
    let failed =
        |doing| move |cause: io::Error| BuildError::File { path: path.clone(), doing, cause };
    let plan = Plan::of(options.size, cap).map_err(wrong)?;
    let file = source.open().map_err(failed("open it"))?;
    let locks = Arc::new(Locks::of(&file).map_err(failed("open it"))?);
    // Who opens a zone alone, or makes a pool of one process in the file, asks for this lock.
    let locked = rustix::fs::flock(locks.file(), FlockOperation::NonBlockingLockShared);
    locked.map_err(|errno| match errno {
        Errno::WOULDBLOCK => BuildError::FileInUse(path.clone()),
        errno => failed("lock it")(errno.into()),
    })?;
    let opening = locks.wait(Part::Opening).map_err(failed("lock it"))?;
    let found = look(&file, &plan, &locks).map_err(failed("read it"))?;
    let bytes = file.metadata().map_err(failed("read its length"))?.len();
    let other_length = BuildError::FileLength { path: path.clone(), bytes, size: plan.len() };
    if found == Found::New {
        begin(&file, &plan).map_err(failed("reserve space for what describes the pool"))?;
    } else if bytes < PAGE as u64 {
        return Err(other_length);
    }
    let mapping = Mapping::shared(options, file, plan.frames)?;
    let memory = |bytes: usize| {
        // SAFETY: the file has so many bytes. The caller of the option vouches that only such pools use it, and the
        // mapping lives as long as what is made from this here, which is dropped before it.
        let memory = unsafe { Memory::new(mapping.start(), bytes) };
        memory.map_err(|cause| wrong(cause.into()))
    };
    if found != Found::New {
        plan.check_zone(memory(PAGE)?).map_err(wrong)?;
        if bytes != plan.len() as u64 {
            return Err(other_length);
        }
    }
    let (memory, head) = (memory(plan.page)?, page(&mapping, &plan));
    if found != Found::New {
        plan.check(&std::array::from_fn(|at| head[at].load(Ordering::Acquire))).map_err(wrong)?;
    }
    if let Some(file) = mapping.descriptor() {
        seal(file);
    }
    let (zone, owners) = set_up(&found, memory, &plan).map_err(wrong)?;
    let resident = Resident::Shared(&head[HEAD..]);
    if found != Found::Used {
        mapping.discard(0..plan.size).map_err(failed("give its memory to the system"))?;
        resident.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        fit(&zone, &plan);
    }
    let words = plan.head();
    if found == Found::New {
        words.iter().zip(head).skip(1).for_each(|(&word, at)| at.store(word, Ordering::Relaxed));
        head[0].store(MAGIC, Ordering::Release);
    }
    if owners.members().filter(|member| is_alive(&locks, member)).count() >= MEMBERS {
        return Err(wrong(SharedError::Full { members: MEMBERS }));
    }
    let join = || owners.join(u64::from(std::process::id()));
    let joined = join()
        .or_else(|full| if let_one_leave(&zone, owners, &locks) { join() } else { Err(full) });
    let me = joined.map_err(SharedError::from).map_err(wrong)?;
    let alive = locks.try_take(Part::Alive(me.id()));
    // From now on it is held until the description is closed.
    alive.map(std::mem::forget).ok_or_else(|| failed("lock it")(Errno::NOLCK.into()))?;
    let common = Common { zone, owners, me, locks: Arc::clone(&locks), opening: Mutex::new(()) };
    common.reap_all(&opening, Slot(0));
    let slots = common.claim(slots);
    Ok(Opened { common, mapping, resident, slots })
}

/// Where the table is full of those who died before they had reaped, one of the dead leaves as itself: who is no member
/// yet cannot release it. False: none is dead.
fn let_one_leave(zone: &Zone, owners: Owners<'_>, locks: &Locks) -> bool {
    owners
        .members()
        .filter(|member| !is_alive(locks, member))
        .any(|dead| Tagged::new(zone, owners, dead).is_ok_and(|dead| dead.leave(Slot(0)).is_ok()))
}

/// What is there? Nothing is changed.
fn look(file: &File, plan: &Plan, locks: &Locks) -> io::Result<Found> {
    let mut first = [0; 8];
    let is_marked = match file.read_exact_at(&mut first, plan.page as u64) {
        Ok(()) => u64::from_le_bytes(first) == MARK,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(error),
    };
    Ok(match () {
        // Also if somebody has emptied the file meanwhile: what is made in it would be the others' too.
        () if locks.is_anybody_alive() => Found::Used,
        () if is_marked || file.metadata()?.len() == 0 => Found::New,
        () => Found::Left,
    })
}

/// Says that a pool is being made, and reserves what is not frames: no touch of it can fail.
fn begin(file: &File, plan: &Plan) -> io::Result<()> {
    file.write_all_at(&MARK.to_le_bytes(), plan.page as u64)?;
    file.set_len(plan.len() as u64)?;
    mapping::allocate(file, &(0..plan.frames)).inspect_err(|_| mapping::empty(file))
}

/// A memory file keeps its length. Other files have no seals, and one that was sealed may refuse more.
fn seal(file: impl AsFd) {
    let _ = rustix::fs::fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW);
}

/// The pool page of a file that has its length.
fn page(mapping: &Mapping, plan: &Plan) -> &'static [AtomicU64] {
    // SAFETY: the page lies before the frames in the mapping, which lives as long as the pool; atomics may have any value,
    // and whoever shares the file accesses the page by atomics only. The file is as long as the plan says.
    unsafe {
        let start = mapping.start().add(plan.page).cast();
        std::slice::from_raw_parts(start, plan.words())
    }
}

/// The zone and the owner table, as they are found.
fn set_up(
    found: &Found,
    memory: Memory<'static>,
    plan: &Plan,
) -> Result<(woodlot_zone::Zone<'static, Base4K, Shared>, Owners<'static>), SharedError> {
    let (table, config) = (memory.behind(plan.owners)?, &plan.config);
    // SAFETY: this process has the lock for openings, so that nobody else does the same. Where the pool is new or left,
    // nobody uses it; where it is used, it is used by such zones and tables, and who has made or recovered it last
    // did so in this memory.
    unsafe {
        match found {
            Found::New => {
                for part in [memory, table] {
                    erase(part, &Shared).map_err(ZoneError::from)?;
                }
                let zone = woodlot_zone::Zone::format(memory, config, Init::Free, Shared)?;
                Ok((zone, Owners::format::<Base4K>(table, config, ENTRIES)?))
            }
            Found::Left => {
                let owners = Owners::open::<Base4K>(table, config)?;
                let (zone, _) =
                    woodlot_zone::Zone::open(memory, Some(config), Check::Recover, Shared)?;
                // Whoever had the right to sweep had the lock as well, and is dead.
                owners.sweeper(NonZeroU64::MIN, |_| true)?.sweep(&zone, |_| false)?;
                Ok((zone, owners))
            }
            Found::Used => {
                let owners = Owners::open::<Base4K>(table, config)?;
                Ok((woodlot_zone::Zone::attach(memory, Some(config), Shared)?, owners))
            }
        }
    }
}

/// Takes those units offline that are above the cap, and puts all others online. All are free.
fn fit(zone: &Zone, plan: &Plan) {
    let units = |bytes: usize| bytes / FRAME / mapping::HUGE;
    for huge in (0..units(plan.size)).map(HugeId) {
        let changed = match (is_offline(zone, huge), huge.0 >= units(plan.cap)) {
            (false, true) => zone.offline(huge, 1),
            (true, false) => zone.online(huge, 1),
            _ => Ok(()),
        };
        debug_assert!(changed.is_ok(), "{changed:?}: nobody has any frame");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_full_of_the_dead_has_room() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        // SAFETY: only such pools use the file.
        let options = unsafe { Options::new(16 << 20).shared(file.path()) };
        let open = || open(&options, &Source::Path(file.path().into()), 16 << 20, 1);
        let one = open().expect("a pool");
        while one.common.owners.join(7).is_ok() {}
        let other = open().expect("nobody has the locks of the others");
        assert_eq!(
            other.common.owners.members().collect::<Vec<_>>(),
            [one.common.me, other.common.me]
        );
    }
}

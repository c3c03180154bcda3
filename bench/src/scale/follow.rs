//! How the accesses of an allocator are seen.
//!
//! ```text
//!   plain build               pages are closed: each access is a fault and a trap   all accesses
//!   --cfg woodlot_observe     the atomics tell of each access (`woodlot_frame`)     atomic accesses
//! ```
//!
//! Atomics that tell are a thousand times faster. What they do not see are the fields of the allocator's own struct that are no
//! atomics. Nobody writes to these, and no line of them moves. Mutable state of every engine that keeps the contract is reached
//! through the atomics of `woodlot_frame`; a test of a build with that cfg compares both ways, access by access. What pages do not see
//! is that a line is fetched to be written: to them it comes by a read, and once more by the write.

use crate::Failure;
use crate::dispersion::watch::{self, Access};

/// Accesses that were seen.
pub(super) trait Trail {
    /// All since this was asked last, in their order.
    ///
    /// # Errors
    /// There were more than can be kept.
    fn take(&mut self, accesses: &mut Vec<Access>) -> Result<(), Failure>;
}

impl Trail for watch::Trail {
    fn take(&mut self, accesses: &mut Vec<Access>) -> Result<(), Failure> {
        self.take(accesses)
    }
}

/// Who sees the accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    /// Pages that are closed.
    Pages,
    /// Atomics that tell.
    Atomics,
}

impl Sight {
    /// Who sees them in this build.
    pub(super) const HERE: Sight =
        if cfg!(woodlot_observe) { Sight::Atomics } else { Sight::Pages };

    /// Does the work, which must stay on this thread, and is shown its accesses to memory.
    ///
    /// # Errors
    /// Where accesses cannot be seen.
    ///
    /// # Safety
    /// They are whole pages of readable and writable memory, in which nothing lies that anybody but the work uses meanwhile.
    pub(super) unsafe fn follow<T>(
        self,
        start: *mut u8,
        length: usize,
        work: impl FnOnce(&mut dyn Trail) -> T,
    ) -> Result<T, Failure> {
        match self {
            // SAFETY: as the caller says.
            Sight::Pages => unsafe { watch::follow(start, length, |trail| work(trail)) },
            Sight::Atomics => told::follow(start, length, true, work),
        }
    }
}

#[cfg(not(woodlot_observe))]
mod told {
    use super::Trail;
    use crate::Failure;

    pub(super) fn follow<T>(
        _: *mut u8,
        _: usize,
        _: bool,
        _: impl FnOnce(&mut dyn Trail) -> T,
    ) -> Result<T, Failure> {
        Err(Failure::Failed("the atomics of this build do not tell of accesses".into()))
    }
}

#[cfg(woodlot_observe)]
mod told {
    use std::cell::RefCell;
    use std::ops::Range;

    use woodlot_frame::atomics::{self, Observer, observe};

    use super::{Access, Trail};
    use crate::Failure;
    use crate::dispersion::LINE;

    static OBSERVER: Observer = Observer { before: || (), after: told, fetched };

    /// What this thread follows, and what it has seen.
    struct Seen {
        addresses: Range<usize>,
        /// Are lines that are fetched to be written among the accesses?
        fetches: bool,
        accesses: Vec<Access>,
    }

    thread_local! {
        static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
    }

    fn told(&atomics::Access { address, writes, .. }: &atomics::Access) {
        touched(address, writes, |_| true);
    }

    /// A line that is fetched to be written is taken from all who have it, as by a write.
    fn fetched(address: usize) {
        touched(address, true, |seen| seen.fetches);
    }

    fn touched(address: usize, written: bool, counts: impl Fn(&Seen) -> bool) {
        SEEN.with_borrow_mut(|seen| {
            if let Some(seen) = seen
                && seen.addresses.contains(&address)
                && counts(seen)
            {
                let line = (address - seen.addresses.start) / LINE;
                seen.accesses.push(Access { line, written });
            }
        });
    }

    /// Accesses of this thread are kept while it lives.
    struct Told;

    impl Drop for Told {
        fn drop(&mut self) {
            SEEN.set(None);
        }
    }

    impl Trail for Told {
        fn take(&mut self, accesses: &mut Vec<Access>) -> Result<(), Failure> {
            accesses.clear();
            SEEN.with_borrow_mut(|seen| {
                seen.iter_mut().for_each(|seen| accesses.append(&mut seen.accesses));
            });
            Ok(())
        }
    }

    pub(super) fn follow<T>(
        start: *mut u8,
        length: usize,
        fetches: bool,
        work: impl FnOnce(&mut dyn Trail) -> T,
    ) -> Result<T, Failure> {
        if !observe(&OBSERVER) {
            return Err(Failure::Failed("somebody else observes the atomics".into()));
        }
        let addresses = start.addr()..start.addr() + length;
        SEEN.set(Some(Seen { addresses, fetches, accesses: Vec::new() }));
        Ok(work(&mut Told))
    }
}

#[cfg(all(test, woodlot_observe, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use std::collections::BTreeMap;

    use woodlot_frame::{Base4K, Construct, FrameAllocator, Order, ZoneConfig};

    use super::super::caches::{Caches, Way};
    use super::super::load::Cpus;
    use super::super::setup::{Load, Setup};
    use super::super::zone::{ITSELF, Zone};

    use super::*;
    use crate::contender::Contender;
    use crate::engine::{Engine, Visit};

    /// Calls of an engine that are seen both ways.
    struct Both<'a> {
        setup: &'a Setup,
        cpus: usize,
    }

    /// What pages see, if the atomics tell of all of it but for reads of the allocator's own fields. The compiler makes a read
    /// and a compare-exchange of a read-modify-write whose result somebody takes, as the observer does: they are one access.
    fn matched(seen: &[Access], told: &[Access], is_own: impl Fn(usize) -> bool) -> Vec<Access> {
        let mut matched = Vec::new();
        let (mut seen, mut told) = (seen.iter().peekable(), told.iter().peekable());
        while let Some(&access) = seen.next() {
            let next = told.peek().copied().copied();
            let read = Access { written: false, ..access };
            if next == Some(access) {
                told.next();
            } else if next == Some(Access { written: true, ..access })
                && access == read
                && seen.peek().copied() == next.as_ref()
            {
                matched.extend(next);
                seen.next();
                told.next();
                continue;
            } else {
                assert!(is_own(access.line) && access == read, "{access:?} is not told of");
            }
            matched.push(access);
        }
        assert_eq!(told.next(), None, "an access that no page sees");
        matched
    }

    impl Visit for Both<'_> {
        /// Transfers of each line that was accessed, as pages see them and as the atomics tell.
        type Output = [BTreeMap<usize, usize>; 2];

        fn contract<A>(self) -> Self::Output
        where
            A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
        {
            let Both { setup, cpus: count } = self;
            let frames = (1 << 15) * 4;
            let zone = Zone::<A>::new(&ZoneConfig::new(frames, count)).unwrap();
            let mut cpus = Cpus::new(setup, count, frames, zone.allocator()).unwrap();
            for turn in 0..setup.warm * count {
                cpus.turn(zone.allocator(), turn % count).unwrap();
            }
            let mut models = [(); 2].map(|()| Caches::new(zone.lines(), count, setup.costs));
            let mut transfers = [BTreeMap::new(), BTreeMap::new()];
            let (start, length) = zone.pages();
            let mut call = |cpu: usize, seen: &mut dyn Trail, told: &mut dyn Trail| {
                cpus.turn(zone.allocator(), cpu).unwrap();
                let mut all = [Vec::new(), Vec::new()];
                seen.take(&mut all[0]).unwrap();
                told.take(&mut all[1]).unwrap();
                all[0] = matched(&all[0], &all[1], |line| zone.name(line) == ITSELF);
                let each = models.iter_mut().zip(&all).zip(&mut transfers);
                each.for_each(|((model, accesses), transfers)| {
                    for &Access { line, written } in accesses {
                        let moved = model.access(cpu, line, written) == Way::Transfer;
                        *transfers.entry(line).or_default() += usize::from(moved);
                    }
                });
            };
            // SAFETY: the pages are the zone's, and its allocator alone uses them, on this thread.
            let followed = unsafe {
                Sight::Pages.follow(start, length, |seen| {
                    told::follow(start, length, false, |told| {
                        (0..setup.calls).for_each(|turn| call(turn % count, seen, told));
                    })
                })
            };
            followed.unwrap().unwrap();
            transfers
        }

        fn foreign<C: Contender + 'static>(self) -> Self::Output {
            unreachable!("it keeps no contract");
        }
    }

    fn both_ways(engine: Engine, load: Load, order: Order, cpus: usize) {
        let setup = Setup { order, calls: 48 * cpus, ..Setup::short(load) };
        let what = format!("{engine}, {load:?}, {order}, {cpus} CPUs");
        let [seen, told] = engine.visit(order, Both { setup: &setup, cpus }).unwrap();
        let (same, own): (BTreeMap<_, _>, BTreeMap<_, _>) =
            seen.into_iter().partition(|(line, _)| told.contains_key(line));
        assert_eq!(same, told, "{what}");
        // Lines of fields that are no atomics: who reads one first has it, and each other CPU gets it once.
        assert!(own.values().all(|&moved| moved < cpus), "{what}: {own:?}");
        if load == Load::Ring {
            assert!(told.values().sum::<usize>() > 0, "{what}: no line moves");
        }
    }

    #[test]
    fn pages_see_what_the_atomics_tell() {
        for engine in [Engine::Llfree, Engine::Onewrite] {
            for (order, load) in [
                (0, Load::Bulk),
                (0, Load::Churn),
                (0, Load::Ring),
                (0, Load::Remote),
                (3, Load::Churn),
                (9, Load::Ring),
            ] {
                both_ways(engine, load, Order(order), 2);
                both_ways(engine, load, Order(order), 4);
            }
        }
    }

    #[test]
    fn nothing_that_an_engine_writes_to_is_missed_by_the_atomics() {
        for &engine in Engine::ALL.iter().filter(|engine| engine.keeps_contract()) {
            for load in [Load::Churn, Load::Ring] {
                both_ways(engine, load, Order(0), 2);
            }
        }
    }
}

//! What is shown: the last look, what changed since the one before, and how it was before.

use std::collections::VecDeque;
use std::time::Instant;

use woodlot_frame::{Class, ClassStats, Stats};
use woodlot_pool::Process;

use super::look::Look;

/// How many looks are remembered: more than a terminal is wide.
const HISTORY: usize = 512;

/// A row of a table.
#[derive(Clone, Debug)]
pub struct ClassRow {
    pub name: String,
    pub stats: ClassStats,
    /// Free frames that it gained, a second.
    pub rate: Option<f64>,
}

/// The same of a slot.
#[derive(Clone, Debug)]
pub struct SlotRow {
    pub slot: usize,
    /// Frames allocated less frames freed.
    pub balance: i64,
    /// Free frames that it holds for itself.
    pub held: usize,
    /// Frames allocated less frames freed, a second.
    pub rate: Option<f64>,
}

/// The same of a process that has a shared pool.
#[derive(Clone, Debug)]
pub struct ProcessRow {
    pub process: Process,
    /// Bytes that it has gained, a second.
    pub rate: Option<f64>,
}

/// What is known.
pub struct Figures {
    pub name: String,
    pub look: Look,
    at: Instant,
    before: Option<(Look, Instant)>,
    /// Free frames and free huge frames, the latest first.
    history: VecDeque<(u64, u64)>,
}

impl Figures {
    pub fn new(name: String, look: Look, at: Instant) -> Figures {
        let mut figures = Figures { name, look, at, before: None, history: VecDeque::new() };
        figures.remember();
        figures
    }

    pub fn add(&mut self, look: Look, at: Instant) {
        let before = std::mem::replace(&mut self.look, look);
        self.before = Some((before, std::mem::replace(&mut self.at, at)));
        self.remember();
    }

    fn remember(&mut self) {
        let Stats { free_frames, free_huge, .. } = self.look.stats;
        self.history.push_front((free_frames as u64, free_huge as u64));
        self.history.truncate(HISTORY);
    }

    /// Free frames, the latest first.
    pub fn free_frames(&self) -> Vec<u64> {
        self.history.iter().map(|&(frames, _)| frames).collect()
    }

    /// Free huge frames, the latest first.
    pub fn free_huge(&self) -> Vec<u64> {
        self.history.iter().map(|&(_, huge)| huge).collect()
    }

    /// What a count has changed by each second.
    fn rate(&self, count: impl Fn(&Look) -> i64) -> Option<f64> {
        let (before, at) = self.before.as_ref()?;
        // A zone that was opened anew counts anew.
        if before.info.generation != self.look.info.generation {
            return None;
        }
        let seconds = self.at.duration_since(*at).as_secs_f64().max(1e-3);
        Some(count(&self.look).wrapping_sub(count(before)) as f64 / seconds)
    }

    pub fn classes(&self) -> Vec<ClassRow> {
        let classes = 0..self.look.info.config.classes.count();
        let row = |class: usize| ClassRow {
            name: Class(class as u8).to_string(),
            stats: self.look.stats.classes[class],
            rate: self.rate(|look| look.stats.classes[class].free_frames as i64),
        };
        classes.map(row).collect()
    }

    /// The processes of a shared pool.
    pub fn processes(&self) -> Vec<ProcessRow> {
        let of = |look: &Look, same: &Process| {
            let mut all = look.pool.iter().flat_map(|pool| &pool.seen.processes);
            let found = all.find(|other| (other.member, other.id) == (same.member, same.id));
            found.map_or(0, |process| process.bytes as i64)
        };
        let row = |process: &Process| ProcessRow {
            process: process.clone(),
            rate: self.rate(|look| of(look, process)),
        };
        self.look.pool.iter().flat_map(|pool| &pool.seen.processes).map(row).collect()
    }

    /// The slots that were used.
    pub fn slots(&self) -> Vec<SlotRow> {
        let row = |(slot, now): (usize, &woodlot_zone::SlotView)| SlotRow {
            slot,
            balance: now.balance,
            held: now.held.iter().sum(),
            rate: self.rate(|look| look.slots.get(slot).map_or(0, |slot| slot.balance)),
        };
        let used = |row: &SlotRow| {
            row.balance != 0 || row.held != 0 || row.rate.is_some_and(|rate| rate != 0.0)
        };
        self.look.slots.iter().enumerate().map(row).filter(used).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::time::Duration;
    use woodlot_frame::{
        Base4K, FrameAllocator, Geometry, HugeId, Init, Order, Request, Slot, ZoneConfig,
    };
    use woodlot_pool::Options;
    use woodlot_zone::{Shared, Zone};

    use crate::top::look::ZoneFile;
    use crate::zone::file::{Access, Mapped};

    /// A zone of 1 GiB of which so many frames are allocated in each slot, as it is seen from its file; each pair is seen
    /// a second after the one before.
    pub fn seen(each: &[[usize; 2]]) -> Figures {
        seen_isolated(each, 0)
    }

    /// The same, with so many huge frames isolated.
    pub fn seen_isolated(each: &[[usize; 2]], isolated: usize) -> Figures {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zone");
        let config = ZoneConfig::new(16 * Base4K::TREE_FRAMES, 2);
        let len = woodlot_zone::Layout::of::<Base4K>(&config).unwrap().len;
        Mapped::create(&path, len).unwrap().1.keep();
        let mapped = Mapped::open(&path, Access::Join).unwrap();
        // SAFETY: the file is new, and nobody else knows it.
        let zone = unsafe {
            Zone::<Base4K, _>::format(mapped.memory(&path).unwrap(), &config, Init::Free, Shared)
        };
        let zone = zone.unwrap();
        if isolated > 0 {
            zone.isolate(HugeId(100), isolated).unwrap();
        }
        let file = ZoneFile::open(&path).unwrap();
        let (begun, mut figures) = (Instant::now(), None::<Figures>);
        for (second, counts) in each.iter().enumerate() {
            for (slot, &count) in counts.iter().enumerate() {
                for _ in 0..count {
                    zone.alloc(Request::movable(Order::BASE, Slot(slot))).unwrap();
                }
            }
            let (look, at) =
                (file.look().unwrap().unwrap(), begun + Duration::from_secs(second as u64));
            match &mut figures {
                Some(figures) => figures.add(look, at),
                None => figures = Some(Figures::new("a.zone".into(), look, at)),
            }
        }
        figures.unwrap()
    }

    /// A shared pool of 64 MiB, as it is seen when its only process has so many blocks of 2 MiB, and a second later.
    pub fn seen_pool(first: usize, then: usize) -> Figures {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        // SAFETY: only such pools use the file, and what reads it.
        let pool = unsafe { Options::new(64 << 20).cap(16 << 20).shared(&path) }.build().unwrap();
        let file = ZoneFile::open(&path).unwrap();
        let (mut blocks, begun) = (pool.alloc_batch(Order(9), first).unwrap(), Instant::now());
        let mut figures = Figures::new("a.pool".into(), file.first().unwrap(), begun);
        blocks.extend(pool.alloc_batch(Order(9), then - first).unwrap());
        figures.add(file.first().unwrap(), begun + Duration::from_secs(1));
        figures
    }

    #[test]
    fn a_process_has_what_it_has_allocated() {
        let figures = seen_pool(2, 5);
        let pool = figures.look.pool.as_ref().unwrap();
        assert_eq!((pool.cap, pool.seen.resident), (16 << 20, 10 << 20));
        let [ProcessRow { process, rate }] = &figures.processes()[..] else { panic!("one") };
        assert_eq!((process.id, process.is_alive), (std::process::id().into(), true));
        assert_eq!((process.bytes, *rate), (10 << 20, Some(f64::from(6 << 20))));
        assert!(seen(&[[1, 0]]).look.pool.is_none(), "a zone alone is no pool");
    }

    #[test]
    fn counts_and_rates_are_those_of_the_zone() {
        let figures = seen(&[[100, 0], [50, 7]]);
        let free = 16 * Base4K::TREE_FRAMES as u64;
        assert_eq!(figures.free_frames(), [free - 157, free - 100], "the latest first");
        let slots: Vec<_> =
            figures.slots().iter().map(|row| (row.slot, row.balance, row.rate)).collect();
        assert_eq!(slots, [(0, 150, Some(50.0)), (1, 7, Some(7.0))]);
        let classes = figures.classes();
        assert_eq!((classes.len(), classes[0].name.as_str()), (4, "movable"));
        assert_eq!(classes[0].rate, Some(-57.0));
        let held: usize = figures.slots().iter().map(|row| row.held).sum();
        assert!(held > 0, "each slot holds a huge frame");
    }

    #[test]
    fn a_first_look_has_no_rates() {
        let figures = seen(&[[3, 0]]);
        assert!(figures.slots()[0].rate.is_none() && figures.classes()[0].rate.is_none());
        assert_eq!(figures.slots().len(), 1, "the other slot was not used");
    }
}

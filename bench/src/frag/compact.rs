//! What compaction makes of the fragmented zone: LLFree section 5.6, done instead of computed.

use woodlot_compact::{
    Block, Candidate, Compaction, Lookup, Manner, Refusal, Relocate, Report, Setup,
};
use woodlot_frame::{Base4K, Class, Construct, FrameAllocator, FrameId, Order, Slot};

use super::{FragSetup, Load, State};
use crate::Failure;
use crate::contender::Contender;
use crate::engine::{Engine, Visit};

/// A zone before and after compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compacted {
    /// How the huge frames were chosen.
    pub manner: Manner,
    /// Before, after so many iterations.
    pub before: State,
    /// After.
    pub after: State,
    /// What it did.
    pub report: Report,
}

impl Compacted {
    /// Moves done, as a multiple of the fewest; 1 where none were needed.
    pub fn over_fewest(&self) -> f64 {
        match self.report.fewest {
            0 => 1.0,
            fewest => self.report.moves as f64 / fewest as f64,
        }
    }
}

/// Fragments a zone, `iterations` times more, and compacts it: all frames can be moved.
///
/// # Errors
/// When the engine cannot do this, or refuses what it must not refuse.
pub fn compact(
    engine: Engine,
    setup: &FragSetup,
    iterations: usize,
    manner: Manner,
) -> Result<Compacted, Failure> {
    let done = engine.visit(Order::BASE, Compact { engine, setup, iterations, manner });
    done.unwrap_or_else(|| Err(Failure::Failed(format!("{engine}: does not serve order 0"))))
}

struct Compact<'a> {
    engine: Engine,
    setup: &'a FragSetup,
    iterations: usize,
    manner: Manner,
}

impl Visit for Compact<'_> {
    type Output = Result<Compacted, Failure>;

    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        if A::UNSUPPORTED.isolation {
            return Err(Failure::Failed(format!("{}: cannot isolate huge frames", self.engine)));
        }
        let mut load = Load::<A>::new(self.setup)?;
        for _ in 0..self.iterations {
            load.churn()?;
        }
        let before = load.state(self.iterations);
        let huge = load.zone.zone().huge_range::<Base4K>();
        let mut memory = vec![Candidate::EMPTY; huge.end.0 - huge.start.0];
        let setup = Setup { manner: self.manner, ..Setup::huge(usize::MAX, Slot(0)) };
        let mut frames = Frames::new(&load);
        let regions = std::iter::once(huge);
        let work = Compaction::plan(setup, &mut memory, &*load.zone, &mut frames, regions);
        let mut work = work.map_err(|error| Failure::Failed(format!("{}: {error}", A::NAME)))?;
        work.run(usize::MAX, &*load.zone, &mut frames);
        let report = work.report::<Base4K>();
        frames.check(&load)?;
        load.owned = frames.owned;
        load.drain();
        Ok(Compacted { manner: self.manner, before, after: load.state(self.iterations), report })
    }

    fn foreign<C: Contender + 'static>(self) -> Self::Output {
        Err(Failure::Failed(format!("{}: cannot isolate huge frames", self.engine)))
    }
}

/// The frames that are owned, and where each is found: all of them can be moved.
struct Frames {
    owned: Vec<FrameId>,
    /// For each frame, its place among those that are owned.
    places: Vec<u32>,
}

/// Nobody's.
const NONE: u32 = u32::MAX;

impl Frames {
    fn new<A: Construct + FrameAllocator<Geometry = Base4K>>(load: &Load<A>) -> Frames {
        let mut places = vec![NONE; load.zone.zone().frames];
        for (place, frame) in load.owned.iter().enumerate() {
            places[frame.0] = place as u32;
        }
        Frames { owned: load.owned.clone(), places }
    }

    /// The allocator must know the same frames to be in use.
    fn check<A: Construct + FrameAllocator<Geometry = Base4K>>(
        &self,
        load: &Load<A>,
    ) -> Result<(), Failure> {
        let differs = |frame: &usize| {
            load.zone.is_free(FrameId(*frame), Order::BASE) != (self.places[*frame] == NONE)
        };
        match (0..self.places.len()).find(differs) {
            None => Ok(()),
            Some(frame) => {
                Err(Failure::Failed(format!("{}: frame {frame:#x} was lost or doubled", A::NAME)))
            }
        }
    }
}

impl Relocate for Frames {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        match self.places[frame.0] {
            NONE => Lookup::Pinned,
            _ => Lookup::Movable(Block { first: frame, order: Order::BASE, class: Class::MOVABLE }),
        }
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        let place = std::mem::replace(&mut self.places[block.first.0], NONE);
        if std::mem::replace(&mut self.places[to.0], place) != NONE {
            return Err(Refusal::Failed);
        }
        self.owned[place as usize] = to;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_possible_huge_frame_is_won_with_few_moves() {
        let memory = "256MiB".parse().unwrap();
        let setup = FragSetup { memory, ..FragSetup::default() };
        for (manner, most) in [(Manner::Matching, 1.05), (Manner::Fingers, 2.0)] {
            let compacted = compact(Engine::Llfree, &setup, 0, manner).unwrap();
            let Compacted { before, after, report, .. } = compacted;
            assert!(before.free_huge < before.possible_huge / 4, "{before:?}");
            assert_eq!(after.free_frames, before.free_frames);
            assert!(after.percent() >= 99.0 - 100.0 / before.possible_huge as f64, "{after:?}");
            assert_eq!(before.free_huge + report.won, after.free_huge);
            assert!(report.moves > 0 && compacted.over_fewest() <= most, "{report:?}");
        }
        assert!(compact(Engine::Linux, &setup, 0, Manner::Matching).is_err());
    }
}

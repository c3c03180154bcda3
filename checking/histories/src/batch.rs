//! A batch: one plan under many schedules. Its seed replays it.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use shuttle::{MaxSteps, thread};
use woodlot_frame::{FrameAllocator, Geometry, Init, Order};
use woodlot_nbbs::{FourLevels, OneLevel};
use woodlot_suite::Model;

use crate::defects::{Defect, Seeded};
use crate::engine::{Family, OfLLFree, OfNbbs, OfOneWrite, Tiny};
use crate::executions::{config, execute as execute_all};
use crate::exhaustion;
use crate::history::{Books, Figures, Zone};
use crate::ledger::{Judged, Ledger};
use crate::plan::Plan;
use crate::reclaim::Called;
use crate::schedules::Schedules;

/// How many schedules a batch has.
pub const SCHEDULES: usize = 64;

/// An engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Engine {
    /// LLFree
    Llfree,
    /// NBBS, one node a byte
    Nbbs,
    /// NBBS, four levels a word
    Nbbs4,
    /// The one-write engine
    Onewrite,
}

/// What replays a batch: an engine and a seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchId {
    /// The engine.
    pub engine: Engine,
    /// The seed.
    pub seed: u64,
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = self.engine.to_possible_value().expect("no engine is hidden");
        write!(f, "{}:{}", engine.get_name(), self.seed)
    }
}

impl FromStr for BatchId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':');
        let (engine, seed) = parts.ok_or("it is not ENGINE:SEED, such as llfree:17")?;
        let seed = seed.parse().map_err(|error| format!("seed {seed:?}: {error}"))?;
        Ok(Self { engine: Engine::from_str(engine, false)?, seed })
    }
}

impl BatchId {
    /// Runs it, on the engine as it is or with a defect.
    ///
    /// # Errors
    /// What went wrong.
    pub fn run(self, defect: Option<Defect>) -> Judged<Figures> {
        match self.engine {
            Engine::Llfree => shaped::<OfLLFree>(self.seed, defect),
            Engine::Nbbs => shaped::<OfNbbs<OneLevel>>(self.seed, defect),
            Engine::Nbbs4 => shaped::<OfNbbs<FourLevels>>(self.seed, defect),
            Engine::Onewrite => shaped::<OfOneWrite>(self.seed, defect),
        }
    }
}

/// Small zones mostly; some of which a huge frame has one row, and some where it has four, so that
/// there are blocks of two rows.
fn shaped<F: Family>(seed: u64, defect: Option<Defect>) -> Judged<Figures> {
    match seed % 8 {
        0 => planned::<F, Tiny<8, 2>>(seed, defect),
        1 => planned::<F, Tiny<6, 4>>(seed, defect),
        _ => planned::<F, Tiny<3, 2>>(seed, defect),
    }
}

fn planned<F: Family, G: Geometry>(seed: u64, defect: Option<Defect>) -> Judged<Figures> {
    let unsupported = <F::Zone<'static, G> as FrameAllocator>::UNSUPPORTED;
    let plan = Plan::new::<G>(seed, unsupported, F::RECLAIMS);
    let books = Books::default();
    let threads = plan.threads.len();
    let scheduler = Schedules::new(seed, SCHEDULES, threads, books.clone());
    let shown = plan.clone();
    let kept = books.clone();
    let execution = move || {
        let words = F::words::<G>(&plan.config);
        let zone = F::zone::<G>(&words, &plan.config, plan.init, plan.reserve_after_frees);
        match defect {
            Some(defect) => execute::<F, _>(&Seeded::new(zone, defect), &plan, seed, &books),
            None => execute::<F, _>(&zone, &plan, seed, &books),
        }
    };
    let ended = execute_all(scheduler, config(MaxSteps::None), execution);
    let mut state = kept.open();
    if let Err(said) = ended {
        state.failure.get_or_insert(format!("panicked: {said}"));
    }
    match state.failure.take() {
        Some(why) => Err(format!("{why}\n  in schedule {} of {shown:?}", state.figures.schedules)),
        None => Ok(state.figures),
    }
}

/// One execution: the threads, and what must be true when they have ended.
fn execute<F: Family, A: Called>(engine: &A, plan: &Plan, seed: u64, books: &Books) {
    books.open().ledger = Ledger::new(&plan.config, plan.threads.len() + 1);
    let huge = Order::huge::<A::Geometry>();
    let fresh = Model::new(&plan.config, Init::Free, huge, A::UNSUPPORTED);
    let zone = Zone { engine, books, fresh: &fresh };
    let whole = || -> Judged {
        zone.prepare(plan, seed)?;
        thread::scope(|scope| {
            for (number, steps) in plan.threads.iter().enumerate() {
                let zone = &zone;
                scope.spawn(move || zone.work(number + 1, steps));
            }
        });
        let refusals = {
            let calls = std::mem::take(&mut books.open().ledger.calls);
            books.open().figures.calls += calls.len();
            exhaustion::judge(&plan.config, A::Geometry::HUGE_FRAMES, F::HIDES, &calls)?
        };
        books.open().figures.refusals += refusals;
        zone.settle(plan)
    };
    match whole() {
        Ok(()) => books.open().figures.schedules += 1,
        Err(why) => books.fail(why),
    }
}

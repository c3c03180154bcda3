//! Repetitions: contenders and floor by turns, case after case.

use serde::{Deserialize, Serialize};

use super::case::{Case, Metric, Reading, Setup, What};
use super::contender::Contenders;
use super::floor::sequence_pairs;
use crate::Failure;
use crate::clock::Tally;
use crate::floor::{Floor, Loop};
use crate::patterns::on_one_thread;
use crate::statistics::Summary;

/// What a contender gave for a metric of a case, a number for each repetition.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Who.
    pub contender: String,
    /// Which case; its bytes are those of the figure.
    pub case: Case,
    /// What the figures are of.
    pub metric: Metric,
    /// ns of CPU time for each operation, or ratios.
    pub values: Vec<f64>,
    /// ns on the wall, as one thread sees them.
    pub wall: Vec<f64>,
}

/// What a run gave.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// A compare-and-swap on one word, in ns of CPU time.
    pub hot_cas: Vec<f64>,
    /// A pop and a push by restartable sequences, where the system has them.
    pub sequence_pair: Vec<f64>,
    /// Every figure, contenders of a case one after another.
    pub lines: Vec<Line>,
    /// Who could not be measured, and why.
    pub failures: Vec<String>,
}

/// Pairs of the floor.
const FLOOR_PAIRS: usize = 1 << 20;

impl Kept {
    fn floor(&mut self, floor: &mut Floor) {
        let (swaps, pairs) = on_one_thread(|| {
            let mut pairs = Tally::default();
            pairs.time(|| sequence_pairs(FLOOR_PAIRS).unwrap_or(0));
            (floor.sample(), pairs)
        });
        let swap = Loop::ALL.iter().zip(swaps).find(|(which, _)| **which == Loop::HotCas);
        self.hot_cas.extend(swap.map(|(_, tally)| tally.cpu()));
        self.sequence_pair.extend((pairs.operations > 0).then(|| pairs.cpu()));
    }

    /// The time of a compare-and-swap, the unit of other figures.
    pub fn c(&self) -> Option<Summary> {
        Summary::of(&self.hot_cas)
    }

    fn add(&mut self, contender: &str, case: Case, reading: Reading) {
        let case = Case { bytes: reading.bytes.or(case.bytes), ..case };
        let known = self.lines.iter().position(|line| {
            (&*line.contender, line.metric) == (contender, reading.metric) && line.case == case
        });
        let at = known.unwrap_or_else(|| {
            let (contender, metric) = (contender.to_string(), reading.metric);
            self.lines.push(Line { contender, case, metric, values: vec![], wall: vec![] });
            self.lines.len() - 1
        });
        self.lines[at].values.push(reading.value);
        self.lines[at].wall.extend(reading.wall);
    }
}

/// Measures; `progress` is told after each of `(repetitions + 1) × cases × contenders` steps. A contender that fails is
/// left out from then on, and named.
///
/// # Errors
/// Nobody could be measured.
pub fn measure(
    what: What,
    contenders: &Contenders,
    (setup, repetitions): (&Setup, usize),
    progress: &dyn Fn(),
) -> Result<Kept, Failure> {
    let mut kept = Kept::default();
    let mut floor = Floor::new(setup.seed, 1);
    let mut left = contenders.0.clone();
    for repetition in 0..=repetitions {
        if repetition > 0 {
            kept.floor(&mut floor);
        }
        for case in setup.cases(what) {
            left.retain(|contender| match contender.sample(what, case, setup) {
                Ok(readings) => {
                    for reading in readings {
                        // Resident memory tells most while nobody has kept anything; times do not count yet.
                        if (repetition == 0) == (reading.metric == Metric::Peak) {
                            kept.add(contender.name(), case, reading);
                        }
                    }
                    progress();
                    true
                }
                Err(why) => {
                    kept.failures.push(why.to_string());
                    false
                }
            });
        }
    }
    match kept.lines.is_empty() {
        true => Err(Failure::Failed(format!("nothing was measured: {}", kept.failures.join("; ")))),
        false => Ok(kept),
    }
}

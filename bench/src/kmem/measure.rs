//! Repetitions: contenders and floor by turns, case after case.

use serde::{Deserialize, Serialize};

use super::case::{Case, Metric, Reading, Setup, What};
use super::contender::Contenders;
use super::floor;
use crate::Failure;
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
    /// A cache line that goes to another CPU and comes back, where there is one. Files of before do not say.
    #[serde(default)]
    pub line_there_and_back: Vec<f64>,
    /// A pop and a push by restartable sequences, where the system has them.
    pub sequence_pair: Vec<f64>,
    /// The same beside each case of *pair*: as many pairs, on as many threads at once, each with lists of its own. Files of before do not say.
    #[serde(default)]
    pub sequence_pairs: Vec<Line>,
    /// Every figure, contenders of a case one after another.
    pub lines: Vec<Line>,
    /// Who could not be measured, and why.
    pub failures: Vec<String>,
}

/// Whose pairs the floor's are.
pub(super) const SEQUENCES: &str = "rseq pop and push";
/// Pairs of the floor.
const FLOOR_PAIRS: usize = 1 << 20;

impl Kept {
    fn floor(&mut self, floor: &mut Floor) {
        let pairs = floor::sample(1, FLOOR_PAIRS);
        for (which, tally) in Loop::ALL.into_iter().zip(on_one_thread(|| floor.sample())) {
            match which {
                Loop::HotCas => self.hot_cas.push(tally.cpu()),
                Loop::LineThereAndBack if tally.operations > 0 => {
                    self.line_there_and_back.push(tally.cpu());
                }
                _ => {}
            }
        }
        self.sequence_pair.extend(pairs.map(|pairs| pairs.cpu()));
    }

    /// The floor of a case.
    fn floor_of(&mut self, case: Case, pairs: usize) {
        if let Some(all) = floor::sample(case.threads, pairs) {
            let reading = Reading::of(Metric::Pair, None, all);
            add(&mut self.sequence_pairs, SEQUENCES, case, reading);
        }
    }

    /// A pair of the floor of *pair* on so many threads at once: beside all cases.
    pub fn floor_on(&self, threads: usize) -> Option<Summary> {
        let beside = self.sequence_pairs.iter().filter(|line| line.case.threads == threads);
        Summary::of(&beside.flat_map(|line| line.values.clone()).collect::<Vec<f64>>())
    }

    /// The time of a compare-and-swap, the unit of other figures.
    pub fn c(&self) -> Option<Summary> {
        Summary::of(&self.hot_cas)
    }
}

/// Adds a figure to its line.
fn add(lines: &mut Vec<Line>, contender: &str, case: Case, reading: Reading) {
    let case = Case { bytes: reading.bytes.or(case.bytes), ..case };
    let known = lines.iter().position(|line| {
        (&*line.contender, line.metric) == (contender, reading.metric) && line.case == case
    });
    let at = known.unwrap_or_else(|| {
        let (contender, metric) = (contender.to_string(), reading.metric);
        lines.push(Line { contender, case, metric, values: vec![], wall: vec![] });
        lines.len() - 1
    });
    lines[at].values.push(reading.value);
    lines[at].wall.extend(reading.wall);
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
            if repetition > 0 && what == What::Pair {
                kept.floor_of(case, setup.operations);
            }
            left.retain(|contender| match contender.sample(what, case, setup) {
                Ok(readings) => {
                    for reading in readings {
                        // Resident memory tells most while nobody has kept anything; times do not count yet.
                        if (repetition == 0) == (reading.metric == Metric::Peak) {
                            add(&mut kept.lines, contender.name(), case, reading);
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

//! Curves of *memory*: a process for each heap, one after another.

use serde::{Deserialize, Serialize};

use super::case::Setup;
use super::child::Child;
use super::contender::{Contender, Contenders};
use super::libraries::Libraries;
use super::memory::Moment;
use crate::statistics::Summary;

/// What one heap took over time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// Who.
    pub contender: String,
    /// Every step; the last two after everything was freed, and after what it kept was asked back.
    pub moments: Vec<Moment>,
}

impl Curve {
    /// The most that was taken, over the most that was in use.
    pub fn peak(&self) -> Option<f64> {
        let most = |of: fn(&Moment) -> usize| self.moments.iter().map(of).max();
        Some(most(|m| m.taken)? as f64 / most(|m| m.payload)?.max(1) as f64)
    }

    /// Of the steps with something in use: what was taken over what was in use.
    pub fn ratios(&self) -> Option<Summary> {
        let used = self.moments.iter().filter(|moment| moment.payload > 0);
        let ratios: Vec<f64> =
            used.map(|moment| moment.taken as f64 / moment.payload as f64).collect();
        Summary::of(&ratios)
    }

    /// Bytes that are still taken when everything is free, and when what the heap keeps was asked back.
    pub fn kept(&self) -> Option<[usize; 2]> {
        let [.., freed, flushed] = &self.moments[..] else { return None };
        Some([freed.taken, flushed.taken])
    }
}

/// A process for each contender, and for each preloaded library but the C library, which is `system` already.
pub fn alone(contenders: &Contenders, libraries: &Libraries) -> Vec<Child> {
    let own = contenders.0.iter().map(|contender| Child {
        name: contender.name(),
        about: contender.about(),
        engine: contender.name(),
        library: None,
    });
    let others = libraries.found.iter().filter(|child| child.library.is_some());
    // A name of the command line lives as long as the program.
    let named = |child: &Child| Child {
        name: format!("{} (preloaded)", child.name).leak(),
        ..child.clone()
    };
    own.chain(others.map(named)).collect()
}

/// The curve of each, and why some have none.
pub fn curves(
    contenders: &Contenders,
    libraries: &Libraries,
    setup: &Setup,
    progress: &dyn Fn(),
) -> (Vec<Curve>, Vec<String>) {
    let (mut curves, mut failures) = (Vec::new(), Vec::new());
    for child in alone(contenders, libraries) {
        match child.moments(setup) {
            Ok(moments) => curves.push(Curve { contender: child.name.into(), moments }),
            Err(why) => failures.push(why.to_string()),
        }
        progress();
    }
    (curves, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_a_peak_and_an_end() {
        let moments = [(100, 150), (50, 140), (0, 40), (0, 10)];
        let moments = moments.map(|(payload, taken)| Moment { payload, taken }).to_vec();
        let curve = Curve { contender: "x".into(), moments };
        assert_eq!((curve.peak(), curve.kept()), (Some(1.5), Some([40, 10])));
        assert_eq!(curve.ratios().map(|ratios| ratios.max), Some(2.8));
    }
}

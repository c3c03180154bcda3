//! An exploration from its setup to its report.

use crate::Failure;
use crate::model::{MAX_THREADS, Model, Options, Report};
use crate::runtime::Session;
use crate::search::Search;

impl Options {
    /// Explores every interleaving of the model that `setup` makes; `setup` is called once.
    ///
    /// # Errors
    /// The first failure found.
    ///
    /// # Panics
    /// Without 1 to [`MAX_THREADS`] threads, within another exploration, or if `WOODLOT_SCHEDULE`
    /// is no schedule.
    pub fn try_explore<'m>(
        mut self,
        setup: impl FnOnce(&mut Model<'m>),
    ) -> Result<Report, Failure> {
        if self.schedule.is_none() {
            self.schedule = std::env::var("WOODLOT_SCHEDULE").ok().map(|text| parse(&text));
        }
        let _session = Session::start();
        let mut model = Model::default();
        setup(&mut model);
        let threads = model.bodies.len();
        assert!((1..=MAX_THREADS).contains(&threads), "{threads} threads; 1 to 4 can be explored");
        Search::new(self, model)?.run()
    }

    /// As [`Self::try_explore`], with a panic that prints the schedule.
    ///
    /// # Panics
    /// If there is a failure.
    #[track_caller]
    pub fn explore<'m>(self, setup: impl FnOnce(&mut Model<'m>)) -> Report {
        match self.try_explore(setup) {
            Ok(report) => report,
            Err(failure) => panic!("{failure}"),
        }
    }
}

/// [`Options::explore`] with the default options.
///
/// # Panics
/// If there is a failure.
#[track_caller]
pub fn explore<'m>(setup: impl FnOnce(&mut Model<'m>)) -> Report {
    Options::new().explore(setup)
}

fn parse(text: &str) -> Vec<usize> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let thread = |entry: &str| match entry.parse() {
        Ok(thread) if thread < MAX_THREADS => thread,
        _ => panic!("WOODLOT_SCHEDULE: {entry:?} is not a thread, 0 to {}", MAX_THREADS - 1),
    };
    entries.map(thread).collect()
}

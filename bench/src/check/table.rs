//! The table of targets, as it grows.

use std::process::ExitCode;

use super::verdict::{Verdict, header};
use crate::Failure;
use crate::output::Screen;

/// Targets that were judged, counted.
pub(crate) struct Table<'a> {
    screen: &'a mut Screen,
    met: usize,
    short: usize,
}

impl<'a> Table<'a> {
    /// Prints the head.
    ///
    /// # Errors
    /// It cannot be printed.
    pub(crate) fn begin(screen: &'a mut Screen) -> Result<Table<'a>, Failure> {
        screen.print(&format!("\n{}", header()))?;
        Ok(Table { screen, met: 0, short: 0 })
    }

    /// Prints lines, of targets by their names.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn add<'v>(
        &mut self,
        judged: impl Iterator<Item = (&'v str, &'v Verdict)>,
    ) -> Result<(), Failure> {
        let mut lines = String::new();
        for (name, verdict) in judged {
            lines += &verdict.line(name);
            *(if verdict.met { &mut self.met } else { &mut self.short }) += 1;
        }
        self.screen.print(&lines)
    }

    /// Prints how many are met. Exit code 1 where one is short.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn end(self) -> Result<ExitCode, Failure> {
        let Table { screen, met, short } = self;
        screen.print(&format!("{met} met, {short} short\n"))?;
        Ok(if short == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

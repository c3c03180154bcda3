//! How a checker ends, and what a run of several says at its end.

/// How a checker ended that did not fail.
pub enum Outcome {
    /// It ran; the figure is its last line.
    Ran(String),
}

impl Outcome {
    /// For steps that say nothing of their own.
    pub fn done() -> Outcome {
        Outcome::Ran(String::new())
    }

    /// Prints the last line.
    pub fn say(&self, name: &str) {
        match self {
            Outcome::Ran(figure) if figure.is_empty() => {}
            Outcome::Ran(figure) => println!("{name}: {figure}"),
        }
    }
}

/// A step of a run: its name and what it does.
pub type Step = (&'static str, fn() -> Result<Outcome, String>);

/// Runs the steps in order up to the first that fails, and says how many there were.
pub fn run_all(steps: &[Step]) -> Result<Outcome, String> {
    for (name, step) in steps {
        step().map_err(|why| format!("{name}: {why}"))?.say(name);
    }
    Ok(Outcome::Ran(format!("{} passed", steps.len())))
}

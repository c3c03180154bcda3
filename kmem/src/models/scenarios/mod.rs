//! The scenarios.

mod cpus;
mod lock;
mod nodes;
mod objects;
mod vmblk;

use super::{On, Op, Script};

/// A thread on a CPU.
const fn cpu(cpu: usize, owns: &'static [usize], ops: &'static [Op]) -> Script {
    Script { on: On::Cpu(cpu), owns, ops }
}

/// A test of each scenario, of threads that share a world of this type.
macro_rules! scenarios {
    ($world:ty; $($(#[$doc:meta])* $name:ident: $pages:literal pages, $setup:expr, $threads:expr;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            const SCENARIO: crate::models::Scenario = crate::models::Scenario {
                name: stringify!($name),
                pages: $pages,
                setup: &$setup,
                threads: &$threads,
            };
            crate::models::driver::check::<$world>(&SCENARIO);
        }
    )*};
}
use scenarios;

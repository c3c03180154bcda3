//! What an x86-64 processor has for it.

mod apic;
mod entry;
mod interrupts;
mod table;

pub use apic::Apic;
pub use entry::Entry;
pub use interrupts::Interrupts;
pub use table::Table;

//! The entry of an interrupt, on stable Rust.

/// An interrupt, and where the processor goes with it: [`interrupt!`](crate::interrupt) makes one.
#[derive(Clone, Copy)]
pub struct Entry {
    vector: u8,
    entry: extern "C" fn(),
}

impl Entry {
    /// # Safety
    /// The processor may go there with an interrupt, on any CPU: the function saves all that it changes, and returns by
    /// `iretq`.
    pub const unsafe fn new(vector: u8, entry: extern "C" fn()) -> Entry {
        Entry { vector, entry }
    }

    /// The number of the interrupt.
    pub const fn vector(self) -> u8 {
        self.vector
    }

    /// Where the processor goes.
    pub fn address(self) -> u64 {
        self.entry as usize as u64
    }
}

/// Defines an [`Entry`] for a vector: it does what the block says, with interrupts off, and goes back to what was
/// interrupted. The crate `x86_64` has functions with an ABI of their own for that, which take a nightly compiler.
///
/// It is for interrupts without an error code, of code that uses no vector registers: as the target
/// `x86_64-unknown-none` is compiled.
///
/// ```
/// use core::sync::atomic::{AtomicUsize, Ordering};
///
/// static TICKS: AtomicUsize = AtomicUsize::new(0);
/// woodlot_kernel::interrupt!(TICK = 0x20 => { TICKS.fetch_add(1, Ordering::Relaxed); });
/// # assert_ne!(TICK.address(), 0);
/// ```
#[macro_export]
macro_rules! interrupt {
    ($entry:ident = $vector:literal => $body:block) => {
        const $entry: $crate::Entry = {
            const VECTOR: u8 = $vector;

            extern "C" fn handler() $body

            #[unsafe(naked)]
            extern "C" fn entry() {
                ::core::arch::naked_asm!(
                    "push rax; push rcx; push rdx; push rsi; push rdi",
                    "push r8; push r9; push r10; push r11",
                    // Five words of the processor and nine of these: the stack is aligned to 16 bytes.
                    "cld; call {}",
                    "pop r11; pop r10; pop r9; pop r8",
                    "pop rdi; pop rsi; pop rdx; pop rcx; pop rax",
                    "iretq",
                    sym handler
                )
            }
            // SAFETY: it saves what a function may change, and returns by `iretq`.
            unsafe { $crate::Entry::new(VECTOR, entry) }
        };
    };
}

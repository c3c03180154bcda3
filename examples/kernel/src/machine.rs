//! The machine: QEMU's, and what an x86 processor wants before Rust.

use core::{fmt, ops::Range, ptr::slice_from_raw_parts};
pub use core::{fmt::Write, ptr::with_exposed_provenance_mut as at};
pub use qemu_exit::{QEMUExit, X86};
pub use x86_64::instructions::{hlt, interrupts, port::Port};

core::arch::global_asm!(include_str!("start.s"), options(att_syntax));

unsafe extern "C" {
    /// Where the other CPUs begin.
    pub static trampoline: [u8; 64];
    /// The end of the kernel.
    pub static _end: u8;
}

/// The usable memory. Of the start info, word 5 is the address of the map, and word 6 how many entries it has: first
/// address, bytes, kind. QEMU keeps the map out of usable memory.
pub fn usable(info: &[u64; 7]) -> impl Iterator<Item = Range<u64>> + Clone {
    let map = slice_from_raw_parts(at::<[u64; 3]>(info[5] as usize), info[6] as u32 as usize);
    // SAFETY: the boot loader says that the map is there.
    unsafe { &*map }.iter().filter(|of| of[2] as u32 == 1).map(|of| of[0]..of[0] + of[1])
}

/// The serial port.
pub struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: this port sends a byte.
        text.bytes().for_each(|byte| unsafe { Port::new(0x3f8).write(byte) });
        Ok(())
    }
}

// SAFETY: this port ends QEMU: with status 33 for success, 1 for failure.
pub const QEMU: X86 = unsafe { X86::new(0xf4, 33) };

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    writeln!(Serial, "{info}").ok();
    QEMU.exit_failure()
}

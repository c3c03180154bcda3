//! The interrupt controller that each CPU has: the local APIC, by its registers in memory (xAPIC).
//!
//! ```text
//!   0x020  id             0x0b0  done          0x0f0  on, spurious
//!   0x300  what to send   0x310  whom to       0x320  clock   0x380  from which count   0x3e0  divided by
//!   0x350  what the older controller, the 8259, sends
//! ```
//!
//! Intel's Software Developer's Manual, volume 3, the chapter on the APIC.

use core::hint::spin_loop;
use core::ptr::with_exposed_provenance_mut;

/// The local APICs of all CPUs, which lie at one address: each CPU reaches its own.
pub struct Apic(usize);

const ID: usize = 0x20;
const DONE: usize = 0xb0;
const SPURIOUS: usize = 0xf0;
const SEND: usize = 0x300;
const WHOM: usize = 0x310;
const CLOCK: usize = 0x320;
const OLDER: usize = 0x350;
const COUNT: usize = 0x380;
const DIVIDE: usize = 0x3e0;

/// Of SPURIOUS: the APIC is on.
const ON: u32 = 1 << 8;
/// Of SEND: all CPUs but this one; the levels of messages; and the two that start a CPU.
const OTHERS: u32 = 3 << 18;
const ASSERT: u32 = 1 << 14;
const INIT: u32 = 5 << 8;
const START: u32 = 6 << 8;
/// Of SEND: the one before has not been taken.
const PENDING: u32 = 1 << 12;
/// Of OLDER: not to be taken.
const MASKED: u32 = 1 << 16;
/// Of CLOCK: again and again.
const PERIODIC: u32 = 1 << 17;
/// Of DIVIDE: by 1.
const BY_ONE: u32 = 0b1011;

impl Apic {
    /// The APICs at this address: 0xfee00000, if nobody has moved them.
    ///
    /// # Safety
    /// The registers are mapped there, as device memory, wherever this is used.
    pub const unsafe fn at(address: usize) -> Apic {
        Apic(address)
    }

    fn register(&self, register: usize) -> *mut u32 {
        with_exposed_provenance_mut(self.0 + register)
    }

    fn read(&self, register: usize) -> u32 {
        // SAFETY: it is there, and to be read.
        unsafe { self.register(register).read_volatile() }
    }

    fn write(&self, register: usize, value: u32) {
        // SAFETY: it is there, and to be written.
        unsafe { self.register(register).write_volatile(value) };
    }

    /// The number of this CPU: up to 255, and not always one after another.
    #[inline]
    pub fn id(&self) -> usize {
        (self.read(ID) >> 24) as usize
    }

    /// Turns on this CPU's APIC. `spurious` is the vector of interrupts that are none. What the older controller sends,
    /// the clock of the firmware above all, does not come any more.
    pub fn enable(&self, spurious: u8) {
        self.write(OLDER, MASKED);
        self.write(SPURIOUS, ON | u32::from(spurious));
    }

    /// Has this CPU interrupted again and again, each time that its APIC has counted so far; 0 ends that.
    pub fn clock(&self, vector: u8, count: u32) {
        self.write(DIVIDE, BY_ONE);
        self.write(CLOCK, PERIODIC | u32::from(vector));
        self.write(COUNT, count);
    }

    /// Interrupts the CPU with this number.
    ///
    /// Interrupts are off, or no handler sends one: two registers are written one after the other.
    pub fn send(&self, id: usize, vector: u8) {
        while self.read(SEND) & PENDING != 0 {
            spin_loop();
        }
        self.write(WHOM, (id as u32) << 24);
        self.write(SEND, ASSERT | u32::from(vector));
    }

    /// Starts all other CPUs, in 16 bits, at the page with this number. They have been given time to reset.
    pub fn start_others(&self, page: u8) {
        for message in [INIT, START | u32::from(page)] {
            self.write(SEND, OTHERS | ASSERT | message);
            (0..1_000_000).for_each(|_| spin_loop());
        }
    }

    /// This CPU has handled an interrupt: others may come.
    pub fn done(&self) {
        self.write(DONE, 0);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;

    #[test]
    fn messages_are_what_the_manual_says() {
        let memory = Box::new([0u32; 1024]);
        let memory = Box::into_raw(memory).cast::<u32>();
        // SAFETY: the memory is as large as the registers, and this test's.
        let (apic, at) = unsafe {
            memory.add(ID / 4).write(7 << 24);
            (Apic::at(memory.expose_provenance()), |at: usize| memory.add(at / 4).read_volatile())
        };
        assert_eq!(apic.id(), 7);
        apic.enable(0xff);
        assert_eq!((at(0xf0), at(0x350)), (0x1ff, 0x1_0000));
        apic.send(3, 0x21);
        assert_eq!((at(0x310), at(0x300)), (3 << 24, 0x4021));
        apic.start_others(9);
        assert_eq!(at(0x300), 0xc_4609);
        apic.clock(0x20, 1000);
        assert_eq!((at(0x3e0), at(0x320), at(0x380)), (11, 0x2_0020, 1000));
        // SAFETY: it came from a box.
        drop(unsafe { Box::from_raw(memory.cast::<[u32; 1024]>()) });
    }
}

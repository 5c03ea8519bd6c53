//! The tile registers of AMX, used by inline assembly.

use std::arch::asm;
use std::marker::PhantomData;

use crate::num::engine::amx;
use crate::rbm::engine::layers::{GROUP, Line};
use crate::rbm::engine::tile::{DEPTH, DIGITS, DigitSums, ROWS, Tile};

/// Proof that the tile registers of this thread are set up, as eight tiles of 16 lines of 64 bytes. The pointer makes
/// it neither `Send` nor `Sync`.
#[derive(Debug)]
pub(crate) struct TileRegisters(PhantomData<*const ()>);

/// Compiles only while `TileRegisters` is neither `Send` nor `Sync`: otherwise `method` would be ambiguous.
const _: fn() = || {
    trait Either<Marker> {
        fn method() {}
    }
    struct IsSend;
    struct IsSync;
    impl<T> Either<()> for T {}
    impl<T: Send> Either<IsSend> for T {}
    impl<T: Sync> Either<IsSync> for T {}
    <TileRegisters as Either<_>>::method();
};

#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    line_bytes: [u16; 16],
    lines: [u8; 16],
}

#[allow(unsafe_code)]
impl TileRegisters {
    /// Sets the registers up; returns `None` where this process may not use them.
    pub(crate) fn configure() -> Option<Self> {
        if !amx::are_available() {
            return None;
        }
        let of_eight = |index, value| if index < 8 { value } else { 0 };
        let configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            line_bytes: std::array::from_fn(|i| of_eight(i, DEPTH as u16)),
            lines: std::array::from_fn(|i| of_eight(i, ROWS as u16) as u8),
        };
        // SAFETY: the processor has tiles and the kernel has permitted them; the operand is 64
        // bytes in the format of palette 1. The compiler uses no tile register.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, readonly));
        }
        Some(Self(PhantomData))
    }

    /// Computes the sums of [`GROUP`] chains for 16 outputs.
    pub(crate) fn multiply(&self, units: &[Line], weights: &[Tile], sums: &mut [DigitSums; 2]) {
        let steps = weights.len() / DIGITS;
        assert!(steps > 0 && weights.len() == steps * DIGITS && units.len() == GROUP * steps);
        // SAFETY: the tiles are configured (`self`). The loop runs `steps` times; each time it
        // reads a line of each chain, `stride` bytes apart, and 3 tiles of weights: as the
        // assertion says, `units` holds 32 chains of `steps` lines and `weights` 3 tiles a step.
        // It writes 6 tiles of 1,024 bytes, the size of `sums`.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2",
                "tilezero tmm3", "tilezero tmm4", "tilezero tmm5",
                "2:",
                "tileloadd tmm6, [{first} + {stride}]",
                "tileloaddt1 tmm7, [{weights} + {line}]",
                "tdpbusd tmm0, tmm6, tmm7",
                "tileloadd tmm6, [{second} + {stride}]",
                "tdpbusd tmm3, tmm6, tmm7",
                "tileloaddt1 tmm7, [{weights} + {line} + 1024]",
                "tdpbusd tmm4, tmm6, tmm7",
                "tileloadd tmm6, [{first} + {stride}]",
                "tdpbusd tmm1, tmm6, tmm7",
                "tileloaddt1 tmm7, [{weights} + {line} + 2048]",
                "tdpbusd tmm2, tmm6, tmm7",
                "tileloadd tmm6, [{second} + {stride}]",
                "tdpbusd tmm5, tmm6, tmm7",
                "add {first}, 64",
                "add {second}, 64",
                "add {weights}, 3072",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{sums} + {line}], tmm0",
                "tilestored [{sums} + {line} + 1024], tmm1",
                "tilestored [{sums} + {line} + 2048], tmm2",
                "tilestored [{sums} + {line} + 3072], tmm3",
                "tilestored [{sums} + {line} + 4096], tmm4",
                "tilestored [{sums} + {line} + 5120], tmm5",
                first = inout(reg) units.as_ptr() => _,
                second = inout(reg) units[ROWS * steps..].as_ptr() => _,
                weights = inout(reg) weights.as_ptr() => _,
                steps = inout(reg) steps => _,
                sums = in(reg) sums.as_mut_ptr(),
                stride = in(reg) steps * DEPTH,
                line = in(reg) DEPTH,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

#[allow(unsafe_code)]
impl Drop for TileRegisters {
    /// Releases the registers, so that thread switches are cheap again.
    fn drop(&mut self) {
        // SAFETY: as `ldtilecfg` above.
        unsafe { asm!("tilerelease", options(nomem, nostack)) };
    }
}

//! Detection of the matrix tiles of AMX.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

/// Whether the processor has tiles of 8-bit integers, and the kernel permits this process to use
/// them.
pub(crate) fn are_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| processor_has_tiles() && permitted())
}

fn processor_has_tiles() -> bool {
    const AMX_TILE: u32 = 1 << 24;
    const AMX_INT8: u32 = 1 << 25;
    let wanted = AMX_TILE | AMX_INT8;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & wanted == wanted
}

/// Asks the kernel for permission (`arch_prctl` with `ARCH_REQ_XCOMP_PERM`, Linux 5.16). It is
/// granted to the whole process. A refusal leaves everything as it was.
#[allow(unsafe_code)]
fn permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: the system call touches no memory of ours; the registers that it overwrites are
    // declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

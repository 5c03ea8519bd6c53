//! The set of instructions that inner loops use, chosen at run time.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use crate::{Error, Result};

/// The set of instructions that the inner loops of an RBM use, by default the best of the machine.
///
/// All engines draw from the same distributions, but round differently. An engine gives the same bits for a seed
/// on any number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum SimdLevel {
    /// The instructions of the compilation target: SSE2 on x86-64, NEON on AArch64. This is the
    /// reference for the others.
    Portable,
    /// AVX2 (x86-64).
    Avx2,
    /// AVX-512 F, BW, DQ and VL (x86-64).
    Avx512,
    /// AVX-512 and the matrix tiles of AMX (x86-64, Linux, feature `amx`).
    ///
    /// Weights in single precision are rounded to three 8-bit digits, with an error of at most 6e-8 of the largest
    /// weight of the unit. In double precision it is the engine of AVX-512.
    Amx,
}

impl SimdLevel {
    /// All engines, from the slowest to the fastest.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Amx];

    /// The best engine that this machine has.
    pub fn best() -> Self {
        let mut available = Self::ALL.into_iter().rev().filter(|e| e.is_available());
        available.next().unwrap_or(Self::Portable)
    }

    /// Whether this machine and this build of the crate have this engine.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            Self::Amx => Self::Avx512.is_available() && amx::are_available(),
            #[allow(unreachable_patterns, reason = "x86-64 has them all")]
            _ => false,
        }
    }

    /// This engine as one that is available.
    ///
    /// # Errors
    /// Where this machine or this build of the crate does not have it.
    pub(crate) fn available(self) -> Result<Simd> {
        let reason = if self == Self::Amx && cfg!(not(feature = "amx")) {
            "because this was built without the feature `amx`"
        } else {
            "which is what this machine has"
        };
        let expected = format!("at best {}, {reason}", Self::best());
        Error::check(self.is_available(), "engine", self, expected)?;
        Ok(Simd(self))
    }
}

/// An engine that this machine was seen to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Simd(SimdLevel);

impl Simd {
    /// The best engine that this machine has.
    pub(crate) fn best() -> Self {
        Self(SimdLevel::best())
    }

    /// This engine, or the next best where this one multiplies by tiles.
    pub(crate) fn without_tiles(self) -> Self {
        Self(self.0.min(SimdLevel::Avx512))
    }

    pub(crate) fn get(self) -> SimdLevel {
        self.0
    }

    /// Runs `work`, compiled for this engine's instructions as far as it is inlined. See the macro
    /// `vectorized`.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self.0 {
            // SAFETY: the machine was seen to have these instructions.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => unsafe { run_avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 | SimdLevel::Amx => unsafe { run_avx512(work) },
            _ => work(),
        }
    }
}

/// Runs loops over vectors, compiled for the machine's widest registers as far as `work` is inlined. Nothing is
/// contracted to `mul_add`, so that the bits are the same on every machine.
#[inline(always)]
pub(crate) fn over_vectors<R>(work: impl FnOnce() -> R) -> R {
    static WIDEST: LazyLock<Simd> = LazyLock::new(|| {
        let mut wide = [SimdLevel::Avx512, SimdLevel::Avx2].into_iter();
        Simd(
            wide.find(|e| e.is_available())
                .unwrap_or(SimdLevel::Portable),
        )
    });
    WIDEST.run(work)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Evaluates an expression that is compiled for each engine's instructions.
///
/// Functions that the expression calls must be marked `#[inline(always)]`, or they are compiled for the baseline. The
/// constant with the given name says whether `mul_add` is an instruction.
macro_rules! vectorized {
    ($engine:expr, $fused:ident, $work:expr) => {
        if $engine.get() == $crate::num::SimdLevel::Portable {
            #[allow(dead_code, reason = "not all work multiplies and adds")]
            const $fused: bool = false;
            $work
        } else {
            $engine.run(
                #[inline(always)]
                || {
                    #[allow(dead_code, reason = "not all work multiplies and adds")]
                    const $fused: bool = true;
                    $work
                },
            )
        }
    };
}
pub(crate) use vectorized;

impl fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
        })
    }
}

/// Reads the name that [`Display`](fmt::Display) writes, in upper or lower case.
impl FromStr for SimdLevel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL
            .into_iter()
            .find(|e| e.to_string().eq_ignore_ascii_case(name));
        found.ok_or_else(|| Error::invalid("engine", name, "portable, avx2, avx512 or amx"))
    }
}

/// Detection of the matrix tiles of AMX.
#[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
pub(crate) mod amx {
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
}

/// A stand-in for the detection of AMX, on targets and in builds that do not have it.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", feature = "amx")))]
pub(crate) mod amx {
    pub(crate) fn are_available() -> bool {
        false
    }
}

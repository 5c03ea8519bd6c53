//! The instruction set of the inner loops, chosen at run time.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use crate::{Error, Result};

/// The instruction set of the inner loops of an RBM, by default the best level of the machine.
///
/// All levels draw from the same distributions. All but the portable level fuse multiplication and addition, and give
/// the same bits. The portable level rounds differently. The number of threads does not change the bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum SimdLevel {
    /// The compilation target's instructions (SSE2 on x86-64) without fused products: the reference for other levels.
    Portable,
    /// NEON (AArch64).
    Neon,
    /// AVX2 (x86-64).
    Avx2,
    /// AVX-512 F, BW, DQ and VL (x86-64).
    Avx512,
}

impl SimdLevel {
    /// All levels, from the slowest to the fastest.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Neon, Self::Avx2, Self::Avx512];

    /// Returns the best level of this machine.
    pub fn best() -> Self {
        let mut available = Self::ALL.into_iter().rev().filter(|e| e.is_available());
        available.next().unwrap_or(Self::Portable)
    }

    /// Returns whether this machine and this build of the crate have this level.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Neon => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                // `run_avx512` enables AVX2 and FMA too.
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[allow(unreachable_patterns, reason = "x86-64 has them all")]
            _ => false,
        }
    }

    /// Returns the name of this level's arithmetic, on which the bits depend.
    pub(crate) fn arithmetic(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            _ => "fused",
        }
    }

    /// Returns this level as a checked [`Simd`].
    ///
    /// # Errors
    /// If the machine or this build of the crate does not have this level.
    pub(crate) fn available(self) -> Result<Simd> {
        let expected = format!("at best {}, which is what this machine has", Self::best());
        Error::check(self.is_available(), "engine", self, expected)?;
        Ok(Simd(self))
    }
}

/// A level that the machine is known to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Simd(SimdLevel);

impl Simd {
    pub(crate) fn best() -> Self {
        Self(SimdLevel::best())
    }

    pub(crate) fn get(self) -> SimdLevel {
        self.0
    }

    /// Runs `work`, compiled for this level as far as it is inlined. See the macro `vectorized`.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self.0 {
            // SAFETY: the machine was seen to have these instructions.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => unsafe { run_avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => unsafe { run_avx512(work) },
            _ => work(),
        }
    }
}

/// Runs loops over vectors, compiled for the widest registers as far as `work` is inlined. Nothing is contracted to
/// `mul_add`, so the bits are the same on every machine.
#[inline(always)]
pub(crate) fn over_vectors<R>(work: impl FnOnce() -> R) -> R {
    static WIDEST: LazyLock<Simd> = LazyLock::new(Simd::best);
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

/// Evaluates an expression, compiled for each level's instructions. Functions that the expression calls must be
/// `#[inline(always)]`, or they use baseline code. The constant `$fused` is true if `mul_add` is an instruction.
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
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
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
        found.ok_or_else(|| Error::invalid("engine", name, "portable, neon, avx2 or avx512"))
    }
}

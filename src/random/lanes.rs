//! Random bits for many units at once, from generators side by side.

use rand::Rng;

use crate::num::{Simd, SimdLevel};
#[cfg(feature = "serde")]
use crate::{Error, Result};

/// Number of units that elementwise code handles together, and number of generators side by side.
pub(crate) const LANES: usize = 16;

/// Sixteen generators xoshiro128++ (Blackman and Vigna 2021), which vector instructions step together.
#[derive(Debug, Clone)]
pub struct Lanes {
    state: [[u32; LANES]; 4],
}

impl Lanes {
    /// Draws the 2,048 bits of state from `rng`.
    pub(crate) fn from_rng<R: Rng + ?Sized>(rng: &mut R) -> Self {
        let mut state = [[0; LANES]; 4];
        for word in state.iter_mut().flatten() {
            *word = rng.next_u32();
        }
        for lane in 0..LANES {
            if is_stuck(&state, lane) {
                state[0][lane] = 1;
            }
        }
        Self { state }
    }

    #[cfg(feature = "serde")]
    fn from_state(state: [[u32; LANES]; 4]) -> Result<Self> {
        let stuck = (0..LANES).find(|&lane| is_stuck(&state, lane));
        let expected = "generators whose bits are not all 0";
        match stuck {
            None => Ok(Self { state }),
            Some(lane) => Err(Error::invalid("lane of random bits", lane, expected)),
        }
    }

    #[allow(unsafe_code)]
    pub(crate) fn fill(&mut self, engine: Simd, words: &mut [[u32; LANES]]) {
        match engine.get() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an engine in use is available.
            SimdLevel::Avx512 => unsafe { fill_avx512(&mut self.state, words) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            SimdLevel::Avx2 => unsafe { fill_avx2(&mut self.state, words, LANES) },
            _ => fill(&mut self.state, words, LANES),
        }
    }
}

/// Returns whether a generator is in the state of all zeros, which it never leaves.
fn is_stuck(state: &[[u32; LANES]; 4], lane: usize) -> bool {
    state.iter().all(|words| words[lane] == 0)
}

crate::num::serialize_as! { Lanes as lanes (lanes.state) }
crate::num::deserialize_checked! { Lanes as (state: [[u32; LANES]; 4]) => Self::from_state(state) }

/// Steps the generators by portable code. It is not inlined, because if `lanes` were a constant, the compiler would
/// use scalar registers.
#[inline(never)]
fn fill(state: &mut [[u32; LANES]; 4], words: &mut [[u32; LANES]], lanes: usize) {
    fill_inlined(state, words, lanes);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
fn fill_avx2(state: &mut [[u32; LANES]; 4], words: &mut [[u32; LANES]], lanes: usize) {
    fill_inlined(state, words, lanes);
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[target_feature(enable = "avx512f")]
fn fill_avx512(state: &mut [[u32; LANES]; 4], words: &mut [[u32; LANES]]) {
    use std::arch::x86_64::*;
    // SAFETY: a register is 16 numbers of 32 bits, and loads and stores need no alignment.
    let load = |lanes: &[u32; LANES]| unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) };
    let store = |lanes: &mut [u32; LANES], register| unsafe {
        _mm512_storeu_si512(lanes.as_mut_ptr().cast(), register);
    };
    let [mut s0, mut s1, mut s2, mut s3] = [0, 1, 2, 3].map(|i| load(&state[i]));
    for words in words {
        let sum = _mm512_rol_epi32::<7>(_mm512_add_epi32(s0, s3));
        store(words, _mm512_add_epi32(sum, s0));
        let t = _mm512_slli_epi32::<9>(s1);
        s2 = _mm512_xor_si512(s2, s0);
        s3 = _mm512_xor_si512(s3, s1);
        s1 = _mm512_xor_si512(s1, s2);
        s0 = _mm512_xor_si512(s0, s3);
        s2 = _mm512_xor_si512(s2, t);
        s3 = _mm512_rol_epi32::<11>(s3);
    }
    for (lanes, register) in state.iter_mut().zip([s0, s1, s2, s3]) {
        store(lanes, register);
    }
}

#[inline(always)]
fn fill_inlined(state: &mut [[u32; LANES]; 4], words: &mut [[u32; LANES]], lanes: usize) {
    let [s0, s1, s2, s3] = state;
    for words in words {
        let state = (s0[..lanes].iter_mut().zip(&mut s1[..lanes]))
            .zip(s2[..lanes].iter_mut().zip(&mut s3[..lanes]));
        for (((s0, s1), (s2, s3)), word) in state.zip(&mut words[..lanes]) {
            *word = s0.wrapping_add(*s3).rotate_left(7).wrapping_add(*s0);
            let t = *s1 << 9;
            *s2 ^= *s0;
            *s3 ^= *s1;
            *s1 ^= *s2;
            *s0 ^= *s3;
            *s2 ^= t;
            *s3 = s3.rotate_left(11);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::{Xoshiro128PlusPlus, Xoshiro256PlusPlus};

    #[test]
    fn each_lane_is_xoshiro128_plus_plus() {
        let mut lanes = Lanes::from_rng(&mut Xoshiro256PlusPlus::seed_from_u64(3));
        let reference = |lane: usize| {
            let mut seed = [0; 16];
            for (word, bytes) in seed.chunks_exact_mut(4).enumerate() {
                bytes.copy_from_slice(&lanes.state[word][lane].to_le_bytes());
            }
            Xoshiro128PlusPlus::from_seed(seed)
        };
        let mut references: Vec<_> = (0..LANES).map(reference).collect();
        for engine in SimdLevel::ALL
            .into_iter()
            .filter_map(|e| e.available().ok())
        {
            let mut words = [[0; LANES]; 100];
            lanes.fill(engine, &mut words);
            for words in words {
                let expected: Vec<u32> = references.iter_mut().map(|r| r.next_u32()).collect();
                assert_eq!(words.to_vec(), expected, "{engine:?}");
            }
        }
    }
}

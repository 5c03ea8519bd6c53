//! Random bits for many units at once.

use rand::Rng;

/// Units handled together by the elementwise code.
pub(crate) const LANES: usize = 16;

/// Sixteen generators side by side, each xoshiro128++ (Blackman and Vigna 2021), so that the
/// compiler can step them with vector instructions.
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
        // The all-zero state is the one that the generator never leaves.
        for lane in 0..LANES {
            if state.iter().all(|words| words[lane] == 0) {
                state[0][lane] = 1;
            }
        }
        Self { state }
    }

    /// The next 32 bits of each lane.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> [u32; LANES] {
        let mut result = [0; LANES];
        step(&mut self.state, &mut result);
        result
    }
}

/// Takes slices, whose length the compiler does not know, and is not inlined: with the length
/// known it unrolls the loop and keeps every lane in a scalar register.
#[inline(never)]
fn step(state: &mut [[u32; LANES]; 4], result: &mut [u32]) {
    let [s0, s1, s2, s3] = state;
    let words = s0.iter_mut().zip(s1).zip(s2).zip(s3);
    for ((((s0, s1), s2), s3), result) in words.zip(result) {
        *result = s0.wrapping_add(*s3).rotate_left(7).wrapping_add(*s0);
        let t = *s1 << 9;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(11);
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
        let seeds: Vec<[u8; 16]> = (0..LANES)
            .map(|l| {
                let mut seed = [0; 16];
                for (word, bytes) in seed.chunks_exact_mut(4).enumerate() {
                    bytes.copy_from_slice(&lanes.state[word][l].to_le_bytes());
                }
                seed
            })
            .collect();
        let mut references: Vec<_> = seeds
            .into_iter()
            .map(Xoshiro128PlusPlus::from_seed)
            .collect();
        for _ in 0..100 {
            let expected: Vec<u32> = references.iter_mut().map(|r| r.next_u32()).collect();
            assert_eq!(lanes.next().to_vec(), expected);
        }
    }
}

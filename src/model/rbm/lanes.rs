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
        let [s0, s1, s2, s3] = &mut self.state;
        std::array::from_fn(|l| {
            let result = s0[l].wrapping_add(s3[l]).rotate_left(7).wrapping_add(s0[l]);
            let t = s1[l] << 9;
            s2[l] ^= s0[l];
            s3[l] ^= s1[l];
            s1[l] ^= s2[l];
            s0[l] ^= s3[l];
            s2[l] ^= t;
            s3[l] = s3[l].rotate_left(11);
            result
        })
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

//! The two number types that an RBM's parameters may have.

use num_traits::{AsPrimitive, Float, FloatConst, NumAssign, NumCast};

/// The type of an RBM's parameters: `f32` or `f64`. Sealed.
///
/// Log densities and log weights are `f64` for both types. [`AsPrimitive::as_`] converts a parameter to `f64`.
pub trait Scalar:
    sealed::Elementwise + FloatConst + NumAssign + AsPrimitive<f64> + nalgebra::Scalar + Send + Sync
{
    /// Returns the nearest value of this type; infinite if `x` is beyond the type's range.
    #[inline(always)]
    fn nearest(x: f64) -> Self {
        // Every number has a nearest value, so that the NaN is never taken.
        NumCast::from(x).unwrap_or_else(Self::nan)
    }
}

impl Scalar for f32 {}

impl Scalar for f64 {}

pub(crate) mod sealed {
    use super::Float;

    /// Constants and functions that functions of single units need in addition to num-traits.
    pub trait Elementwise: Float + Default + From<u8> + From<i16> + From<f32> + 'static {
        /// `1.5 * 2^(mantissa bits)`. Its sum with a number rounds the number to an integer, stored in the low bits.
        const ROUND: Self;
        /// Coefficients of `exp` on `|x| <= ln 2 / 2`, highest power first. For `f32` they minimise the relative
        /// error (4e-9); for `f64` they are `1/k!`.
        const EXP: &'static [Self];
        /// `2/(2k + 1)`, highest k first: the series of `2 artanh(z) / z` in `z^2`.
        const ARTANH: &'static [Self];
        /// Largest step `|d|` at which five terms of a softplus increment reach the type's precision. The next term
        /// is at most `d^5 / 720` relative to `d`.
        const INCREMENT_RADIUS: Self;
        /// Whether an [`RbmPath`](crate::rbm::RbmPath) may have weights on a grid.
        const HAS_GRID: bool;

        /// Number of words of random bits that make a uniform.
        const WORDS: usize;

        /// Returns a uniform on (0, 1), with fine resolution near 0, from its first and last word of random bits.
        fn uniform<const FUSED: bool>(high: u32, low: u32) -> Self;

        /// Lowest argument of `2^z` with a normal result, rounded up.
        const EXP2_LOWEST: Self;
        /// Coefficients of `2^x` on `|x| <= 1/2`, highest power first: [`EXP`](Self::EXP) times powers of ln 2.
        const EXP2: &'static [Self];

        /// Returns `self * 2^n`, given `shifted = n + ROUND`, for `self` from 1/2 to 2.
        fn times_exp2_rounded(self, shifted: Self) -> Self;

        /// Returns `1 / (1 + e)` for `e` in [0, 1].
        #[inline(always)]
        fn likely<const FUSED: bool>(e: Self) -> Self {
            Self::one() / (Self::one() + e)
        }

        /// Returns `self * factor + term`. If `FUSED`, it rounds once; the caller must then be compiled for `mul_add`.
        #[inline(always)]
        fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self {
            if FUSED {
                self.mul_add(factor, term)
            } else {
                self * factor + term
            }
        }
    }

    /// Multiplies each coefficient, highest power first, by the same power of ln 2.
    macro_rules! in_base_2 {
        ($coefficients:expr) => {{
            let mut scaled = [0.0; $coefficients.len()];
            let (mut k, mut power) = (scaled.len(), 1.0);
            while k > 0 {
                k -= 1;
                scaled[k] = ($coefficients[k] as f64 * power) as Self;
                power *= std::f64::consts::LN_2;
            }
            scaled
        }};
    }

    macro_rules! artanh {
        ($terms:literal) => {{
            let mut terms = [2.0; $terms];
            let mut k = 1;
            while k < $terms {
                terms[$terms - 1 - k] = 2.0 / (2 * k + 1) as Self;
                k += 1;
            }
            terms
        }};
    }

    impl Elementwise for f32 {
        const ROUND: Self = 12_582_912.0;
        const EXP: &'static [Self] = &[
            1.381_454e-3,
            8.368_745e-3,
            4.166_839e-2,
            0.166_665_2,
            0.499_999_94,
            1.0,
            1.0,
        ];
        const ARTANH: &'static [Self] = &artanh!(8);
        const INCREMENT_RADIUS: Self = 0.125;
        const HAS_GRID: bool = true;
        const WORDS: usize = 1;

        /// Avoids the division, which is four times slower, if `FUSED`. A polynomial has errors of up to 5.1e-5. One
        /// step of Newton's method squares them.
        #[inline(always)]
        fn likely<const FUSED: bool>(e: Self) -> Self {
            if !FUSED {
                return 1.0 / (1.0 + e);
            }
            let square = e * e;
            let near = (-0.104_484_46_f32).mul_add(e, 0.417_937_86);
            let near = near.mul_add(square, (-0.770_572_9_f32).mul_add(e, 0.953_420_74));
            let near = near.mul_add(square, (-0.996_275_7_f32).mul_add(e, 0.999_949));
            let residual = (-e).mul_add(near, 1.0 - near);
            near.mul_add(residual, near)
        }

        const EXP2_LOWEST: Self = -125.0;
        const EXP2: &'static [Self] = &in_base_2!(Self::EXP);

        #[inline(always)]
        fn times_exp2_rounded(self, shifted: Self) -> Self {
            f32::from_bits(self.to_bits().wrapping_add(shifted.to_bits() << 23))
        }

        #[inline(always)]
        fn uniform<const FUSED: bool>(high: u32, _: u32) -> Self {
            // 31 bits, because every target vectorizes the signed conversion.
            const UNIT: f32 = 0.5 / (1_u32 << 30) as f32;
            ((high >> 1) as i32 as f32).multiply_add::<FUSED>(UNIT, 0.5 * UNIT)
        }
    }

    impl Elementwise for f64 {
        const ROUND: Self = 6_755_399_441_055_744.0;
        const EXP: &'static [Self] = &{
            let mut terms = [1.0; 14];
            let mut k = 1;
            let mut factorial = 1.0;
            while k < terms.len() {
                factorial *= k as Self;
                terms[terms.len() - 1 - k] = 1.0 / factorial;
                k += 1;
            }
            terms
        };
        const ARTANH: &'static [Self] = &artanh!(17);
        const INCREMENT_RADIUS: Self = 1e-3;
        const HAS_GRID: bool = false;
        const WORDS: usize = 2;

        const EXP2_LOWEST: Self = -1_021.0;
        const EXP2: &'static [Self] = &in_base_2!(Self::EXP);

        #[inline(always)]
        fn times_exp2_rounded(self, shifted: Self) -> Self {
            f64::from_bits(self.to_bits().wrapping_add(shifted.to_bits() << 52))
        }

        #[inline(always)]
        fn uniform<const FUSED: bool>(high: u32, low: u32) -> Self {
            const HIGH: f64 = 0.5 / (1_u32 << 30) as f64;
            let low = ((low >> 1) as i32 as f64 + 0.5) * HIGH;
            ((high >> 1) as i32 as f64 + low) * HIGH
        }
    }
}

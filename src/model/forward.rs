//! Forwarding of model traits to the model inside a wrapper.

/// Implements model traits for a wrapper if the model inside it has them. A call names the generics, the wrapper, the
/// inner type, the inner model's place and the traits:
/// `forward_model! { [M] Wrapper<M> as M, self => self.inner; UnnormalizedModel Sampleable }`
macro_rules! forward_model {
    ($generics:tt $wrapper:ty as $inner:ty, $this:ident => $place:expr; $($name:ident)+) => {
        $($crate::model::forward_model! {
            @impl $name $generics $wrapper as $inner, $this => $place
        })+
    };
    (@impl $name:ident [$($generics:tt)*] $wrapper:ty as $inner:ty, $this:ident => $place:expr) => {
        impl<$($generics)*> $crate::model::$name for $wrapper
        where
            $inner: $crate::model::$name,
        {
            $crate::model::forward_model! { @$name $inner, $this => $place }
        }
    };
    (@UnnormalizedModel $inner:ty, $this:ident => $place:expr) => {
        type State = <$inner as $crate::model::UnnormalizedModel>::State;

        #[inline]
        fn log_density(&$this, state: &Self::State) -> f64 {
            $crate::model::UnnormalizedModel::log_density(&$place, state)
        }

        fn state_dimension(&$this) -> Option<usize> {
            $crate::model::UnnormalizedModel::state_dimension(&$place)
        }

        fn evaluates_batches(&$this) -> bool {
            $crate::model::UnnormalizedModel::evaluates_batches(&$place)
        }

        fn log_densities(&$this, states: &[Self::State], log_densities: &mut [f64]) {
            $crate::model::UnnormalizedModel::log_densities(&$place, states, log_densities)
        }

        fn epsilon(&$this) -> f64 {
            $crate::model::UnnormalizedModel::epsilon(&$place)
        }

        fn failure(&$this) -> Option<$crate::error::Failure> {
            $crate::model::UnnormalizedModel::failure(&$place)
        }
    };
    (@Sampleable $inner:ty, $this:ident => $place:expr) => {
        fn sample<R: rand::Rng + ?Sized>(&$this, rng: &mut R) -> Self::State {
            $crate::model::Sampleable::sample(&$place, rng)
        }

        fn sample_chain<R: rand::Rng + ?Sized>(&$this, chain: usize, rng: &mut R) -> Self::State {
            $crate::model::Sampleable::sample_chain(&$place, chain, rng)
        }
    };
    (@NormalizedModel $inner:ty, $this:ident => $place:expr) => {
        fn log_normalizer(&$this) -> f64 {
            $crate::model::NormalizedModel::log_normalizer(&$place)
        }

        fn has_certain_normalizer(&$this) -> bool {
            $crate::model::NormalizedModel::has_certain_normalizer(&$place)
        }
    };
    (@Differentiable $inner:ty, $this:ident => $place:expr) => {
        #[inline]
        fn accumulate_gradient(
            &$this,
            state: &Self::State,
            scale: f64,
            gradient: &mut nalgebra::DVector<f64>,
        ) -> f64 {
            $crate::model::Differentiable::accumulate_gradient(&$place, state, scale, gradient)
        }

        fn accumulate_gradients(
            &$this,
            states: nalgebra::DMatrixView<'_, f64>,
            scale: f64,
            gradients: nalgebra::DMatrixViewMut<'_, f64>,
            log_densities: &mut [f64],
        ) {
            $crate::model::Differentiable::accumulate_gradients(
                &$place,
                states,
                scale,
                gradients,
                log_densities,
            )
        }

        fn end_weights(&$this) -> Option<[f64; 2]> {
            $crate::model::Differentiable::end_weights(&$place)
        }

        fn with_end(
            &$this,
            end: usize,
            work: &mut dyn FnMut(
                &dyn $crate::model::Differentiable<State = nalgebra::DVector<f64>>,
            ),
        ) {
            $crate::model::Differentiable::with_end(&$place, end, work)
        }
    };
    (@FullConditionals $inner:ty, $this:ident => $place:expr) => {
        fn coordinates(&$this) -> usize {
            $crate::model::FullConditionals::coordinates(&$place)
        }

        fn sample_coordinate<R: rand::Rng + ?Sized>(
            &$this,
            state: &mut Self::State,
            index: usize,
            rng: &mut R,
        ) {
            $crate::model::FullConditionals::sample_coordinate(&$place, state, index, rng)
        }
    };
}
pub(crate) use forward_model;

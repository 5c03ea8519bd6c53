//! Robbins-Monro recursions that drive the acceptance of a kernel to a target.

/// Change of the log step size for each unit of excess acceptance: about the inverse slope of the acceptance at its
/// target, by theory in many dimensions 2.1 for random walks (.3), 2.6 for `Hmc` (.8), .9 for `Mala` (.574).
pub(super) const STEP_GAIN: f64 = 2.0;

/// The gain of a Robbins-Monro recursion for the log step size; it falls at each crossing of the target (Kesten 1958).
#[derive(Default)]
pub(super) struct Gain {
    crossings: u32,
    last_excess: f64,
}

impl Gain {
    /// Returns the change of the log step size if the acceptance exceeds the target by `excess`.
    pub(super) fn increment(&mut self, excess: f64) -> f64 {
        self.crossings += u32::from(excess * self.last_excess < 0.0);
        self.last_excess = excess;
        STEP_GAIN * excess / f64::from(1 + self.crossings)
    }
}

/// A Robbins-Monro recursion that adjusts the log step size until the acceptance meets the target.
pub(crate) struct RobbinsMonro {
    target: f64,
    steps: usize,
    done: usize,
    log_size: f64,
    gain: Gain,
    mean_log_size: f64,
}

impl RobbinsMonro {
    pub(crate) fn new(target: f64, steps: usize, log_size: f64) -> Self {
        Self {
            target,
            steps,
            done: 0,
            log_size,
            gain: Gain::default(),
            mean_log_size: 0.0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done == self.steps
    }

    pub(crate) fn log_size(&self) -> f64 {
        self.log_size
    }

    pub(crate) fn update(&mut self, acceptance: f64) {
        // Earlier sizes still depend on the start. The mean of the later sizes has less noise than the last size.
        if self.done >= self.steps / 2 {
            let tail = (self.steps - self.steps / 2) as f64;
            self.mean_log_size += self.log_size / tail;
        }
        self.log_size += self.gain.increment(acceptance - self.target);
        self.done += 1;
    }

    /// Returns the mean log step size over the last half of the steps.
    pub(crate) fn mean_log_size(&self) -> f64 {
        self.mean_log_size
    }
}

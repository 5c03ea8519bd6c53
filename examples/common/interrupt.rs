//! Ctrl-C and SIGTERM: the first asks a run to stop, the second ends the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag::{register, register_conditional_shutdown};

/// Listens to the signals that ask a program to stop.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on.
    pub fn listen() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for &signal in TERM_SIGNALS {
            register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
            register(signal, Arc::clone(&asked))?;
        }
        Ok(Self(asked))
    }

    /// Whether the program has been asked to stop.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

//! Ctrl-C and SIGTERM: the first signal asks a run to stop, the second ends the program.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag::{register, register_conditional_shutdown, register_usize};

/// Listener to the signals that ask a program to stop.
#[derive(Clone, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Starts to listen for the signals.
    pub fn listen(&self) -> io::Result<()> {
        for &signal in TERM_SIGNALS {
            register_conditional_shutdown(signal, 128 + signal, Arc::clone(&self.asked))?;
            register_usize(signal, Arc::clone(&self.signal), signal as usize)?;
            register(signal, Arc::clone(&self.asked))?;
        }
        Ok(())
    }

    /// Returns true if a signal has asked the program to stop.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the exit code that shells expect after a signal, 128 plus its number, or `otherwise` if there was no
    /// signal.
    pub fn exit_code_or(&self, otherwise: ExitCode) -> ExitCode {
        match self.signal.load(Ordering::Relaxed) {
            0 => otherwise,
            signal => ExitCode::from(128 + signal as u8),
        }
    }
}

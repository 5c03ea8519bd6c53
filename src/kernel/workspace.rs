//! The workspace of a block of chains, without the type of its kernel.

use std::any::Any;

/// The workspace of the kernel that moves a block; empty before the first move.
#[derive(Debug, Default)]
pub(crate) struct AnyWorkspace(Option<Box<dyn Any + Send>>);

impl AnyWorkspace {
    /// Returns the kept workspace if its type is `W`; otherwise replaces it by a new one and returns this.
    pub(crate) fn of<W: Default + Send + 'static>(&mut self) -> &mut W {
        if !self.0.as_ref().is_some_and(|kept| kept.is::<W>()) {
            self.0 = Some(Box::new(W::default()));
        }
        let kept = self.0.as_mut();
        kept.and_then(|kept| kept.downcast_mut())
            .expect("the workspace was made here")
    }
}

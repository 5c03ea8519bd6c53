//! The units of one layer, for many chains at once.

/// Number of units in a line.
pub(crate) const LINE: usize = 64;
/// Number of outputs in a panel, which a product computes together.
pub(crate) const WIDTH: usize = 32;
/// The number of chains is padded to a multiple of this, which is what a product by tiles takes.
pub(crate) const GROUP: usize = 32;

/// 64 units of a chain, each a byte that is 0 or 1. They fill a line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; LINE]);

/// The units of one layer for a number of chains, chain by chain in whole lines.
///
/// The units that pad the last line of a chain may be 0 or 1. Draws write to them, and products
/// pass them over.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    units: usize,
    chains: usize,
    lines: Vec<Line>,
}

impl Layer {
    pub(crate) fn zeros(units: usize, chains: usize) -> Self {
        let mut layer = Self {
            units,
            chains: 0,
            lines: Vec::new(),
        };
        layer.set_chains(chains);
        layer
    }

    /// Takes a layer turned round: its chains are the units here, and its units the chains.
    pub(crate) fn set_transposed(&mut self, layer: &Self) {
        assert_eq!((self.units, self.chains), (layer.chains, layer.units));
        let width = self.width();
        for (unit, lines) in layer
            .lines
            .chunks_exact(layer.width())
            .take(self.units)
            .enumerate()
        {
            let states = lines.iter().flat_map(|line| &line.0);
            for (lines, &state) in self
                .lines
                .chunks_exact_mut(width)
                .zip(states)
                .take(layer.units)
            {
                lines[unit / LINE].0[unit % LINE] = state;
            }
        }
    }

    /// Changes the number of chains.
    pub(crate) fn set_chains(&mut self, chains: usize) {
        let lines = self.width() * chains.next_multiple_of(GROUP);
        self.lines.resize(lines, Line([0; LINE]));
        self.chains = chains;
    }

    /// Number of units, without padding.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Number of chains, without padding.
    pub(crate) fn chains(&self) -> usize {
        self.chains
    }

    /// Number of lines of a chain.
    pub(crate) fn width(&self) -> usize {
        self.units.div_ceil(LINE)
    }

    /// The lines of all chains, with those that pad the number of chains.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The units of one chain, with padding.
    #[inline(always)]
    pub(crate) fn chain(&self, chain: usize) -> &[Line] {
        &self.lines[chain * self.width()..][..self.width()]
    }

    /// Sets the units of a chain.
    #[inline(always)]
    pub(crate) fn load(&mut self, chain: usize, state: &[bool]) {
        assert_eq!(state.len(), self.units, "length of the state");
        let width = self.width();
        let lines = &mut self.lines[chain * width..][..width];
        for (line, state) in lines.iter_mut().zip(state.chunks(LINE)) {
            for (unit, &on) in line.0.iter_mut().zip(state) {
                *unit = u8::from(on);
            }
        }
    }

    /// Writes the units of a chain.
    #[inline(always)]
    pub(crate) fn store(&self, chain: usize, state: &mut [bool]) {
        for (line, state) in self.chain(chain).iter().zip(state.chunks_mut(LINE)) {
            for (on, &unit) in state.iter_mut().zip(&line.0) {
                *on = unit != 0;
            }
        }
    }

    /// The units of one panel, chain by chain.
    #[inline(always)]
    pub(crate) fn panel_mut(&mut self, panel: usize) -> impl Iterator<Item = &mut [u8; WIDTH]> {
        let (line, half, width) = (panel / 2, panel % 2, self.width());
        let chains = self.lines.chunks_exact_mut(width).take(self.chains);
        chains.map(move |lines| &mut lines[line].0.as_chunks_mut().0[half])
    }
}

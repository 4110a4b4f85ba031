//! Deterministic random numbers: SplitMix64.

/// A stream of choices.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
    /// Whether this request may still get a value that does not fit: with two, PostgreSQL would be free which one to
    /// complain about.
    may_misfit: bool,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed, may_misfit: true }
    }

    /// To be called before each request.
    pub(crate) fn begin(&mut self) {
        self.may_misfit = true;
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `limit` - 1; 0 when there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).expect("it is below a usize")
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of the items, of which there are some.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// True once in `times`, and only once in a request.
    pub(crate) fn misfit(&mut self, times: usize) -> bool {
        let misfits = self.may_misfit && self.once_in(times);
        self.may_misfit &= !misfits;
        misfits
    }

    /// Between `least` and `most` different items, as far as there are so many.
    pub(crate) fn some<T: Clone>(&mut self, items: &[T], least: usize, most: usize) -> Vec<T> {
        let mut left = items.to_vec();
        let count = (least + self.below(most - least + 1)).min(left.len());
        (0..count).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }
}

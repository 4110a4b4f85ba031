//! argon2's working memory, which a thread keeps between hashes: allocating 19 MiB again costs a third of a hash.

use argon2::Block;

/// Minimum capacity in blocks. From 32 MiB on glibc maps memory directly and returns it to the system when freed; smaller
/// allocations may stay in its heap. Untouched pages use no memory.
const RETURNED_BLOCKS: usize = 33 * 1024;

/// argon2's working memory.
#[derive(Default)]
pub(super) struct Memory(Vec<Block>);

impl Memory {
    /// At least `count` blocks with arbitrary content: argon2 overwrites them before reading.
    pub(super) fn blocks(&mut self, count: usize) -> &mut [Block] {
        if self.0.len() < count {
            // Reallocated rather than grown, which would copy the old content.
            self.0 = Vec::new();
            self.0 = Vec::with_capacity(count.max(RETURNED_BLOCKS));
            self.0.resize(count, Block::new());
        }
        &mut self.0
    }

    /// Frees the memory if it is larger than `most` blocks, as after an imported hash with larger parameters.
    pub(super) fn keep(&mut self, most: usize) {
        if self.0.len() > most {
            self.0 = Vec::new();
        }
    }
}

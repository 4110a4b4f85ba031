//! argon2 alone: the upper bound of sign-ins on this machine.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use argon2::{Algorithm, Argon2, Block, Params, Version};

use crate::process;

/// The server's defaults: `auth.password_argon2_memory`, `_iterations`, `_parallelism`.
const MEMORY_KIB: u32 = 19_456;
const ITERATIONS: u32 = 2;
const LANES: u32 = 1;

/// What hashes cost.
pub(super) struct Hashes {
    /// Per second.
    pub(super) rate: f64,
    /// Processor time of one.
    pub(super) cpu_ms: f64,
}

/// One thread per core, each reusing its memory: the maximum rate.
pub(super) fn measure(time: Duration) -> Result<Hashes> {
    let cpu = || process::cpu(std::process::id()).itself;
    let before = cpu();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let start = Instant::now();
    let end = start + time;
    let counts: Vec<Result<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(move || hash_until(end))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|count| count.unwrap_or_else(|_panic| Err(anyhow!("a hash panicked")))).collect()
    });
    let elapsed = start.elapsed();
    let total = f64::from(counts.into_iter().sum::<Result<u32>>()?);
    Ok(Hashes { rate: total / elapsed.as_secs_f64(), cpu_ms: (cpu() - before) * 1000.0 / total })
}

fn hash_until(end: Instant) -> Result<u32> {
    let params = Params::new(MEMORY_KIB, ITERATIONS, LANES, Some(32)).map_err(|error| anyhow!("{error}"))?;
    let mut blocks = vec![Block::new(); params.block_count()];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let (mut out, mut count) = ([0_u8; 32], 0);
    while Instant::now() < end {
        argon2
            .hash_password_into_with_memory(
                b"correct horse 7",
                b"sixteen bytes of",
                &mut out,
                &mut blocks[..],
            )
            .map_err(|error| anyhow!("{error}"))?;
        count += 1;
    }
    Ok(count)
}

//! argon2 alone: what the machine could do if a sign-in were nothing but its hash.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use argon2::{Algorithm, Argon2, Block, Params, Version};

/// The server's defaults: `auth.password_argon2_memory`, `_iterations`, `_parallelism`.
const MEMORY_KIB: u32 = 19_456;
const ITERATIONS: u32 = 2;
const LANES: u32 = 1;

/// Hashes per second with one thread on each core, each with memory that it keeps: the most there is.
pub(super) fn rate(time: Duration) -> Result<f64> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let start = Instant::now();
    let end = start + time;
    let counts: Vec<Result<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(move || hash_until(end))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|count| count.unwrap_or_else(|_panic| Err(anyhow!("a hash panicked")))).collect()
    });
    let elapsed = start.elapsed();
    let total: u32 = counts.into_iter().sum::<Result<u32>>()?;
    Ok(f64::from(total) / elapsed.as_secs_f64())
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

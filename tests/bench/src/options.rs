//! Common command line options.

use std::path::PathBuf;

use clap::Args;

/// Which server is measured, and how often.
#[derive(Debug, Args)]
pub(crate) struct UnderTest {
    /// The number of rounds; medians are reported.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(crate) rounds: u16,
    /// The server under test.
    #[arg(long, default_value = "target/release/basalt")]
    pub(crate) server: PathBuf,
}

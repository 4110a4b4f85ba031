//! The binary `basalt`. Everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    basalt::cli::run()
}

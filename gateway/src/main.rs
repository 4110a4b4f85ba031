//! The binary `basalt`; see the library of the same crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    basalt::cli::run()
}

//! The engine's entry point: `FUZZ_TARGET` selects the target. `cargo xtask fuzz` builds and starts it.
#![no_main]

use std::sync::OnceLock;

use basalt_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&Target> = OnceLock::new();

fn chosen() -> &'static Target {
    #[expect(
        clippy::disallowed_methods,
        reason = "the engine owns the command line, and gateway is not here"
    )]
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    #[expect(clippy::expect_used, reason = "there is nothing to do without a target")]
    basalt_fuzz::target(&name).expect("FUZZ_TARGET names a target")
}

fuzz_target!(init: { TARGET.get_or_init(chosen); }, |input: &[u8]| {
    (TARGET.get_or_init(chosen).run)(input);
});

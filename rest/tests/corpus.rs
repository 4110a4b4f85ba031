//! Replays the inputs retained from fuzzing: each one reached new code or was a finding.

use basalt_fuzz::{TARGETS, corpus};

#[test]
fn corpus_inputs_satisfy_properties() {
    for target in TARGETS {
        let file = corpus::path(target.name);
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let inputs = corpus::parse(&text).unwrap();
        assert!(!inputs.is_empty(), "{} has no inputs", target.name);
        for (line, input) in inputs.iter().enumerate() {
            // Printed so that a failure shows its input.
            println!("{}:{}: {}", file.display(), line + 1, input.escape_ascii());
            (target.run)(input);
        }
    }
}

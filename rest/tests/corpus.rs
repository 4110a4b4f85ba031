//! The inputs that fuzzing kept, replayed: each was new to a parser once, or was a finding.

use basalt_fuzz::{TARGETS, corpus};

#[test]
fn every_input_keeps_its_promises() {
    for target in TARGETS {
        let file = corpus::path(target.name);
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let inputs = corpus::parse(&text).unwrap();
        assert!(!inputs.is_empty(), "{} has no inputs", target.name);
        for (line, input) in inputs.iter().enumerate() {
            // The line tells where the input of a failure stands.
            println!("{}:{}: {}", file.display(), line + 1, input.escape_ascii());
            (target.run)(input);
        }
    }
}

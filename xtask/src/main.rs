//! Placeholder until the first verb lands.
fn main() {}

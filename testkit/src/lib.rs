//! Starts whole Basalt servers for tests.

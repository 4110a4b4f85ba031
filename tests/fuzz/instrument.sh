#!/bin/sh
# RUSTC_WORKSPACE_WRAPPER of `cargo xtask fuzz`: compiles our own crates with the counters that libFuzzer reads.
# All of these are stable options of rustc.
exec "$@" \
  -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares

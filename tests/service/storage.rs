//! `/storage/v1`, and what is below it.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "helpers fail a test as the tests do")]

mod blobs;

//! The embedded PostgreSQL: found, initialised once, started, supervised, stopped last (DESIGN section 1).

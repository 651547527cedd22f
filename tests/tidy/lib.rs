//! Rules of sources and documents that no compiler checks: tests alone.

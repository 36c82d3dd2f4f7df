//! The table of locks: who gets what, and who waits.

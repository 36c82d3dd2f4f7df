//! Process identity.

use serde::{Deserialize, Serialize};

/// A process, distinguished from all others that had or will have its process id.
///
/// Process ids are reused within a boot, and start times repeat across boots; the combination of
/// all three fields is unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, as in `/proc`.
    pub start: u64,
    /// The id of the boot.
    pub boot: String,
}

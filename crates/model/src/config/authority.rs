//! The keys of `[authority]`.

use crate::authority::PaneAuthority;
use crate::config::Config;
use crate::config::key::{Access, Key, set_word};

/// Limits on what panes may do to sessions (`[authority]`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthorityConfig {
    /// The sessions that a pane may act on.
    pub panes: PaneAuthority,
}

pub(super) const PANES: Key<Config> = Key {
    name: "authority.panes",
    meaning: "Sessions that programs in a pane may read and change through ccmux: \"session\" \
              limits them to the session of their pane; \"all\" gives them every session. They \
              can always list sessions and panes, and never change the daemon or its \
              configuration.",
    takes: "\"session\" or \"all\"",
    access: Access::Text {
        get: |config| Some(config.authority.panes.to_string()),
        set: |config, text| {
            let known = PaneAuthority::ALL.map(PaneAuthority::as_str);
            set_word(&mut config.authority.panes, text, &known)
        },
    },
};

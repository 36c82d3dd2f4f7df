//! The shell: any program that is not a known agent.
//!
//! Its panes are isolated like all others, because people start agents from a shell.

use super::traces::Traces;
use super::{Agent, Conversations, Logins, UserDir};

pub(super) const NAME: &str = "shell";

pub(super) fn agent() -> Agent {
    Agent {
        name: NAME.to_owned(),
        command: Vec::new(),
        variables: Vec::new(),
        in_every_pane: false,
        temp_variable: None,
        inherits: &[],
        scrubs: Vec::new(),
        directories: &[],
        user_dir: UserDir::default(),
        links: Vec::new(),
        settings: None,
        copies: Vec::new(),
        consults: Vec::new(),
        made: None,
        logins: Logins::default(),
        conversations: Conversations::default(),
        traces: Traces::default(),
        hooks: None,
        prompting: None,
    }
}

//! User-defined agents.

use super::traces::Traces;
use super::{Agent, Conversations, Copied, Link, Logins, Origin, UserDir};
use crate::agent::arguments::Grammar;
use crate::config::AgentConfig;

/// Makes the agent described by `[agents.NAME]`.
#[must_use]
pub fn agent(name: &str, config: &AgentConfig) -> Agent {
    let variables = config.config_variables.iter();
    let links =
        config.share.iter().map(|(at, to)| Link { at: at.clone(), to: origin(to), share: None });
    let copies = config.seed.iter().map(|(at, from)| Copied {
        at: at.clone(),
        from: origin(from),
        share: None,
    });
    Agent {
        name: name.to_owned(),
        command: config.command.clone(),
        variables: variables.map(|(name, path)| (name.clone(), path.clone())).collect(),
        // Their effect on other programs is unknown.
        in_every_pane: false,
        temp_variable: None,
        inherits: &[],
        scrubs: config.scrub.clone(),
        directories: &[],
        user_dir: UserDir::default(),
        links: links.collect(),
        settings: None,
        copies: copies.collect(),
        consults: Vec::new(),
        made: None,
        logins: Logins::default(),
        conversations: Conversations {
            grammar: Grammar::default(),
            new: config.new_conversation.clone(),
            resume: config.resume.clone(),
            transcript: config.transcript.clone(),
            database: None,
            live: None,
            filed: None,
            identify: None,
        },
        traces: Traces::default(),
        hooks: None,
        prompting: None,
    }
}

fn origin(path: &str) -> Origin {
    match path.strip_prefix("~/") {
        Some(in_home) => Origin::Home(in_home.to_owned()),
        None => Origin::Absolute(path.to_owned()),
    }
}

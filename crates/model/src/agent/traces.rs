//! The files by which the owner of an agent's directory is recognised.

use super::{Agent, Database, Live, UserDir};
use crate::conversation::ConversationId;

/// The files by which the owner of an agent's directory is recognised.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// The file in its directory that names the pane it was created for.
    pub state: Option<StateFile>,
    /// The location of its conversations without isolation, if not in the configuration directory.
    pub outside: Option<Outside>,
    /// The file in its directory whose existence indicates a login there. Never opened.
    pub own_login: Option<&'static str>,
}

/// A file in an agent's directory that names the pane it was created for.
#[derive(Clone, Copy, Debug)]
pub struct StateFile {
    /// Its path in the directory.
    pub at: &'static str,
    /// Parses its contents.
    pub read: fn(&[u8]) -> Result<WriteTracker, String>,
}

/// The contents of an agent's state file, as far as they identify the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteTracker {
    /// The pane, if named.
    pub pane: Option<String>,
    /// Working directories of the agent.
    pub directories: Vec<String>,
    /// Conversations of the agent.
    pub conversations: Vec<ConversationId>,
}

/// The location of an agent's conversations without isolation.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The user's directory.
    pub dir: UserDir,
    /// The part of the agent's directory that it corresponds to.
    pub stands_for: &'static str,
}

impl Agent {
    /// Returns the location of its conversations without isolation: the user's directory, and the
    /// agent with all paths relative to that directory.
    #[must_use]
    pub fn outside(&self) -> Option<(UserDir, Self)> {
        let outside = self.traces.outside.clone().unwrap_or_else(|| Outside {
            dir: self.user_dir.clone(),
            stands_for: self.user_dir.under_variable,
        });
        if outside.dir.under_home.is_empty() {
            return None;
        }
        let mut agent = self.clone();
        let conversations = &mut agent.conversations;
        let transcript = conversations.transcript.take();
        conversations.transcript =
            transcript.and_then(|path| Some(within(&path, outside.stands_for)?.to_owned()));
        conversations.database = conversations.database.and_then(|database| {
            Some(Database { path: within(database.path, outside.stands_for)?, ..database })
        });
        conversations.live = conversations
            .live
            .and_then(|live| Some(Live { dir: within(live.dir, outside.stands_for)?, ..live }));
        Some((outside.dir, agent))
    }
}

/// Returns the rest of a path below a directory.
fn within<'a>(path: &'a str, dir: &str) -> Option<&'a str> {
    if dir.is_empty() { Some(path) } else { path.strip_prefix(dir)?.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_locates_conversations_where_the_agent_keeps_them() {
        let seen: Vec<(String, Option<String>)> = Agent::built_in()
            .iter()
            .filter_map(Agent::outside)
            .map(|(dir, agent)| {
                let conversations = agent.conversations;
                let database = conversations.database.map(|database| database.path.to_owned());
                (dir.under_home.to_owned(), conversations.transcript.or(database))
            })
            .collect();

        let expected = [
            (".claude", "projects/*/{id}.jsonl"),
            (".codex", "sessions/*/*/*/rollout-*-{id}.jsonl"),
            (".gemini", "tmp/*/chats/session-*.json*"),
            (".local/share/opencode", "opencode.db"),
        ];
        let expected = expected.map(|(dir, path)| (dir.to_owned(), Some(path.to_owned())));
        assert_eq!(seen, expected);
    }
}

//! What an agent leaves behind, by which it is seen whose it is.

use super::{Agent, Database, Live, UserDir};
use crate::conversation::ConversationId;

/// What an agent leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// The file of its directory that tells which pane it was made for.
    pub state: Option<StateFile>,
    /// Where its conversations are when nothing keeps it apart, if not with the configuration.
    pub outside: Option<Outside>,
    /// The file of its directory by which it is seen that it was logged in there. Never opened.
    pub own_login: Option<&'static str>,
}

/// A file of an agent's directory that tells which pane it was made for.
#[derive(Clone, Copy, Debug)]
pub struct StateFile {
    /// Where in the directory.
    pub at: &'static str,
    /// What its contents say, or why they say nothing.
    pub read: fn(&[u8]) -> Result<Witness, String>,
}

/// What a state file says about whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// The pane, where it names one.
    pub pane: Option<String>,
    /// Directories that its agent works in.
    pub directories: Vec<String>,
    /// Conversations that its agent had.
    pub conversations: Vec<ConversationId>,
}

/// Where an agent keeps its conversations when nothing keeps it apart.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The directory of the user's.
    pub dir: UserDir,
    /// The part of the agent's directory that this stands for.
    pub stands_for: &'static str,
}

impl Agent {
    /// Where its conversations are when nothing keeps it apart: the directory of the user's, and the
    /// agent with all its paths in that directory.
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

/// What is left of a path in a directory.
fn within<'a>(path: &'a str, dir: &str) -> Option<&'a str> {
    if dir.is_empty() { Some(path) } else { path.strip_prefix(dir)?.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_are_looked_for_where_the_agent_itself_would_keep_them() {
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

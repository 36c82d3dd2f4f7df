//! Planning the restart of an ended pane from its launch record.
//!
//! The pane gets the same environment, directory and isolation again; only the arguments about its
//! conversation differ from the first start.

use super::isolation::{IsolationContext, isolate};
use super::{Draft, LaunchContext, LaunchError, LaunchRecord};
use crate::agent::Agent;
use crate::conversation::ConversationStart;

/// The program that a pane is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Its agent, with this conversation.
    Agent(ConversationStart),
    /// The user's shell, because the conversation cannot be resumed.
    Shell,
}

/// Drafts the restart of an ended pane.
pub(super) fn draft(
    ended: &LaunchRecord,
    restart: &Restart,
    context: &LaunchContext<'_>,
) -> Result<Draft, LaunchError> {
    let agent = Agent::named(&ended.agent, context.agents)?;
    let mut record = LaunchRecord { asked: ended.asked().to_vec(), ..ended.clone() };
    let opens = match restart {
        Restart::Agent(ConversationStart::New(id) | ConversationStart::Resume(id)) => {
            Some(id.clone())
        }
        Restart::Agent(ConversationStart::Plain) | Restart::Shell => None,
    };
    if let Some(id) = &opens
        && record.conversation.as_ref() != Some(id)
    {
        record.used = false;
        record.converse(id.clone());
    }
    let isolated = isolate(&IsolationContext {
        root: context.root,
        pane: ended.pane,
        agent: &agent,
        method: ended.isolation.method,
        config: context.isolation,
        client: &ended.env.clone().into(),
        exists: context.exists,
    });
    // Agents that were added since the first start have no directory in this pane.
    let known: Vec<&str> = ended.isolation.paths().collect();
    let mut setups = isolated.setups;
    setups.retain(|setup| known.contains(&setup.dir.as_str()));
    let (start, users_dir) = (restart.clone(), isolated.users_dir);
    Ok(Draft { record, agent, start, setups, users_dir, opens, resumes: None })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, plan_new, request};
    use super::super::{Launch, plan};
    use super::*;
    use crate::conversation::ConversationId;

    fn restart(record: &LaunchRecord, restart: &Restart) -> LaunchRecord {
        plan(Launch::Again(record, restart), &context()).unwrap().record
    }

    #[test]
    fn restart_changes_only_the_arguments_about_the_conversation() {
        let first = plan_new(&request(&["claude", "--model", "opus"])).unwrap().record;
        let id = first.conversation.clone().unwrap();

        let again = restart(&first, &Restart::Agent(ConversationStart::Resume(id.clone())));

        assert_eq!(again.argv, ["claude", "--resume", id.as_str(), "--model", "opus"]);
        assert_eq!(LaunchRecord { argv: first.argv.clone(), ..again }, first);
    }

    #[test]
    fn restart_plans_the_same_directories_as_the_first_start() {
        let first = plan_new(&request(&["claude"])).unwrap();
        let start = Restart::Agent(ConversationStart::Plain);

        let again = plan(Launch::Again(&first.record, &start), &context()).unwrap();

        let dirs = |setups: &[super::super::DirectorySetup]| {
            setups.iter().map(|setup| setup.dir.clone()).collect::<Vec<_>>()
        };
        assert!(!first.setups.is_empty());
        assert_eq!(dirs(&again.setups), dirs(&first.setups));
    }

    #[test]
    fn restart_with_new_conversation_keeps_the_previous_id() {
        let mut first = plan_new(&request(&["claude"])).unwrap().record;
        first.used = true;
        let fresh = ConversationId::from_random([9; 16]);

        let again = restart(&first, &Restart::Agent(ConversationStart::New(fresh.clone())));

        assert_eq!(again.earlier, [first.conversation.unwrap()]);
        assert_eq!((again.conversation, again.used), (Some(fresh), false));
    }

    #[test]
    fn restart_as_shell_keeps_agent_and_requested_command() {
        let first = plan_new(&request(&["claude", "fix it"])).unwrap().record;

        let again = restart(&first, &Restart::Shell);

        assert_eq!(again.argv, ["/bin/zsh"]);
        assert_eq!((again.agent, again.asked), (first.agent, first.asked));
        assert_eq!(again.conversation, first.conversation);
    }

    #[test]
    fn record_of_older_release_without_requested_command_can_be_restarted_twice() {
        let mut first = plan_new(&request(&["claude"])).unwrap().record;
        (first.asked, first.argv) = (Vec::new(), vec!["claude".to_owned()]);
        let resume = Restart::Agent(ConversationStart::Resume(first.conversation.clone().unwrap()));

        let once = restart(&first, &resume);
        let twice = restart(&once, &resume);

        assert_eq!(once.asked, ["claude"]);
        assert_eq!(twice, once);
    }
}

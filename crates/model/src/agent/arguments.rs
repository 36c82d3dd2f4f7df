//! The arguments of an agent, read as far as its conversation depends on them.
//!
//! Nothing is rejected and nothing is corrected here: what the user typed is passed on. It is only
//! read to learn whether it chooses a conversation, and, when that conversation is resumed later,
//! to leave out what would choose again or say the first prompt twice.

use crate::conversation::{Asked, ConversationId};

/// What has to be known of an agent's options to read a command line of it.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    /// First words that are no prompt: with them the agent holds no conversation.
    pub subcommands: &'static [&'static str],
    /// Options without a value. An option that is not listed is taken to have one.
    pub switches: &'static [&'static str],
    /// Options that take every word up to the next option.
    pub variadic: &'static [&'static str],
    /// Options that begin a conversation under an id.
    pub begins: &'static [&'static str],
    /// Options that go on with the conversation of an id, or with one from a menu.
    pub resumes: &'static [&'static str],
    /// The subcommand that does the same.
    pub resume_subcommand: Option<&'static str>,
    /// Options that leave the choice to the agent.
    pub agent_chooses: &'static [&'static str],
    /// Options after which the agent says something and ends.
    pub ends: &'static [&'static str],
    /// A word that stands alone is a prompt, which must not be said again at a restore.
    pub takes_prompt: bool,
    /// Options with which the agent answers one prompt and ends: without it there is nothing to do.
    pub one_shot: &'static [&'static str],
}

/// A word or a group of words of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'a> {
    Option {
        name: &'a str,
        words: &'a [String],
        value: Option<&'a str>,
    },
    Word(&'a String),
    /// `--` and everything after it.
    Rest(&'a [String]),
}

impl Grammar {
    /// What `arguments` say about the conversation.
    #[must_use]
    pub fn asked(&self, arguments: &[String]) -> Asked {
        let parts = self.parts(arguments);
        if let Some(Part::Word(first)) = parts.first() {
            if self.resume_subcommand == Some(first.as_str()) {
                return match parts.get(1) {
                    Some(Part::Word(id)) => chosen(id, Asked::Resume),
                    _ => Asked::AgentChooses,
                };
            }
            if self.subcommands.contains(&first.as_str()) {
                return Asked::None;
            }
        }
        let mut asked = Asked::Nothing;
        for part in &parts {
            let Part::Option { name, value, .. } = part else { continue };
            if self.ends.contains(name) {
                return Asked::None;
            }
            if self.agent_chooses.contains(name) {
                return Asked::AgentChooses;
            }
            if self.begins.contains(name) {
                asked = value.map_or(Asked::AgentChooses, |id| chosen(id, Asked::New));
            }
            if self.resumes.contains(name) {
                asked = value.map_or(Asked::AgentChooses, |id| chosen(id, Asked::Resume));
            }
        }
        asked
    }

    /// `arguments` without what chooses a conversation and without the first prompt.
    #[must_use]
    pub fn without_choice(&self, arguments: &[String]) -> Vec<String> {
        let mut parts = self.parts(arguments);
        if let (Some(Part::Word(first)), Some(subcommand)) = (parts.first(), self.resume_subcommand)
            && *first == subcommand
        {
            let id_follows = matches!(parts.get(1), Some(Part::Word(_)));
            parts.drain(..if id_follows { 2 } else { 1 });
        }
        let chooses = |name: &&str| {
            [self.begins, self.resumes, self.agent_chooses].iter().any(|set| set.contains(name))
        };
        let is_one_shot = parts
            .iter()
            .any(|part| matches!(part, Part::Option { name, .. } if self.one_shot.contains(name)));
        let drops_prompt = self.takes_prompt && !is_one_shot;
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Part::Option { name, .. } if chooses(&name) => {}
                Part::Option { words, .. } => kept.extend_from_slice(words),
                Part::Word(_) | Part::Rest(_) if drops_prompt => {}
                Part::Word(word) => kept.push(word.clone()),
                Part::Rest(words) => kept.extend_from_slice(words),
            }
        }
        kept
    }

    /// Whether the agent only says something, or does something else than to work.
    #[must_use]
    pub fn says_and_ends(&self, arguments: &[String]) -> bool {
        let parts = self.parts(arguments);
        let is_subcommand = matches!(parts.first(), Some(Part::Word(word)) if self.subcommands.contains(&word.as_str()));
        let ends = ["--help", "-h", "--version", "-v"];
        is_subcommand
            || parts
                .iter()
                .any(|part| matches!(part, Part::Option { name, .. } if ends.contains(name)))
    }

    /// `arguments` without every `option`, and the value that it had last; none if it has no value
    /// where it needs one.
    #[must_use]
    pub fn without_option(
        &self,
        arguments: &[String],
        option: &str,
    ) -> Option<(Vec<String>, Option<String>)> {
        let (mut kept, mut last) = (Vec::new(), None);
        for part in self.parts(arguments) {
            match part {
                Part::Option { name, value, .. } if name == option => {
                    last = Some(value?.to_owned());
                }
                Part::Option { words, .. } | Part::Rest(words) => kept.extend_from_slice(words),
                Part::Word(word) => kept.push(word.clone()),
            }
        }
        Some((kept, last))
    }

    fn parts<'a>(&self, arguments: &'a [String]) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            if word == "--" {
                parts.push(Part::Rest(&arguments[at..]));
                break;
            }
            if !word.starts_with('-') || word == "-" {
                parts.push(Part::Word(word));
                at += 1;
                continue;
            }
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            let is_value = |word: &&String| !word.starts_with('-');
            let most = if inline.is_some() || self.switches.contains(&name) {
                0
            } else if self.variadic.contains(&name) {
                usize::MAX
            } else {
                1
            };
            let values = arguments[at + 1..].iter().take_while(is_value).take(most).count();
            let words = &arguments[at..=at + values];
            let value = inline.or_else(|| words.get(1).map(String::as_str));
            parts.push(Part::Option { name, words, value });
            at += words.len();
        }
        parts
    }
}

/// A conversation by its id; a name or a search term is for the agent to understand.
fn chosen(text: &str, make: fn(ConversationId) -> Asked) -> Asked {
    let is_id = text.chars().any(|c| c.is_ascii_digit()) && text.len() >= 8;
    match text.parse() {
        Ok(id) if is_id => make(id),
        _ => Asked::AgentChooses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar = Grammar {
        subcommands: &["mcp"],
        switches: &["-p", "-c", "--fork", "--verbose"],
        variadic: &["--tools"],
        begins: &["--session-id"],
        resumes: &["--resume", "-r"],
        resume_subcommand: None,
        agent_chooses: &["-c", "--fork"],
        ends: &["--version"],
        takes_prompt: true,
        one_shot: &["-p"],
    };

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_the_user_says_about_the_conversation_is_understood() {
        let id: ConversationId = ID.parse().unwrap();
        let cases = [
            ("", Asked::Nothing),
            ("prompt", Asked::Nothing),
            ("-p prompt --model opus", Asked::Nothing),
            ("--session-id {id}", Asked::New(id.clone())),
            ("--session-id={id}", Asked::New(id.clone())),
            ("--verbose -r {id} prompt", Asked::Resume(id.clone())),
            ("--resume", Asked::AgentChooses),
            ("--resume --verbose", Asked::AgentChooses),
            ("--resume login", Asked::AgentChooses),
            ("--resume {id} --fork", Asked::AgentChooses),
            ("-c", Asked::AgentChooses),
            ("--version", Asked::None),
            ("mcp list", Asked::None),
            ("--model mcp", Asked::Nothing),
            ("-- --resume {id}", Asked::Nothing),
        ];
        for (line, asked) in cases {
            assert_eq!(GRAMMAR.asked(&words(&line.replace("{id}", ID))), asked, "{line}");
        }
    }

    #[test]
    fn at_a_restore_nothing_chooses_again_and_no_prompt_is_said_twice() {
        let cases = [
            ("--model opus fix-it", "--model opus"),
            ("--session-id {id} --model opus", "--model opus"),
            ("--tools Bash Edit --verbose fix-it", "--tools Bash Edit --verbose"),
            ("-r {id} --unknown value", "--unknown value"),
            ("-c --verbose -- prompt", "--verbose"),
            ("-p fix-it --session-id {id}", "-p fix-it"),
        ];
        for (line, kept) in cases {
            let kept_words = GRAMMAR.without_choice(&words(&line.replace("{id}", ID)));
            assert_eq!(kept_words, words(kept), "{line}");
        }
    }

    #[test]
    fn a_subcommand_that_resumes_is_read_like_an_option() {
        let grammar =
            Grammar { resume_subcommand: Some("resume"), takes_prompt: true, ..Grammar::default() };
        let id: ConversationId = ID.parse().unwrap();

        let line = words(&format!("resume {ID} --model o3"));

        assert_eq!(grammar.asked(&line), Asked::Resume(id));
        assert_eq!(grammar.asked(&words("resume --last x")), Asked::AgentChooses);
        assert_eq!(grammar.without_choice(&line), words("--model o3"));
    }
}

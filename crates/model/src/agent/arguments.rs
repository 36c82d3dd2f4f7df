//! Parsing of an agent's arguments, as far as they concern its conversation.
//!
//! The arguments are passed on as they are, without validation. They are parsed to find out whether
//! they choose a conversation, and, when it is resumed later, to omit that choice and the first
//! prompt.

use crate::conversation::{ConversationId, ConversationRequest};

/// The syntax of an agent's command line.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    /// Subcommands without a conversation.
    pub subcommands: &'static [&'static str],
    /// Options without a value. All other options are assumed to have one.
    pub switches: &'static [&'static str],
    /// Options that take all words up to the next option.
    pub variadic: &'static [&'static str],
    /// Options that start a conversation with an id.
    pub begins: &'static [&'static str],
    /// Options that resume the conversation with an id, or one from a menu.
    pub resumes: &'static [&'static str],
    /// The subcommand that does the same.
    pub resume_subcommand: Option<&'static str>,
    /// Options that leave the choice to the agent.
    pub agent_chooses: &'static [&'static str],
    /// Options with which the agent prints something and exits.
    pub ends: &'static [&'static str],
    /// Whether a positional argument is a prompt, which must not be repeated on restore.
    pub takes_prompt: bool,
    /// Options with which the agent answers one prompt and exits; the prompt is kept on restore.
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
    /// Returns the choice of a conversation in `arguments`.
    #[must_use]
    pub fn asked(&self, arguments: &[String]) -> ConversationRequest {
        let parts = self.parts(arguments);
        if let Some(Part::Word(first)) = parts.first() {
            if self.resume_subcommand == Some(first.as_str()) {
                return match parts.get(1) {
                    Some(Part::Word(id)) => chosen(id, ConversationRequest::Resume),
                    _ => ConversationRequest::AgentChooses,
                };
            }
            if self.subcommands.contains(&first.as_str()) {
                return ConversationRequest::None;
            }
        }
        let mut asked = ConversationRequest::Nothing;
        for part in &parts {
            let Part::Option { name, value, .. } = part else { continue };
            if self.ends.contains(name) {
                return ConversationRequest::None;
            }
            if self.agent_chooses.contains(name) {
                return ConversationRequest::AgentChooses;
            }
            if self.begins.contains(name) {
                asked = value.map_or(ConversationRequest::AgentChooses, |id| {
                    chosen(id, ConversationRequest::New)
                });
            }
            if self.resumes.contains(name) {
                asked = value.map_or(ConversationRequest::AgentChooses, |id| {
                    chosen(id, ConversationRequest::Resume)
                });
            }
        }
        asked
    }

    /// Returns `arguments` without the choice of a conversation and without the first prompt.
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

    /// Returns true if the agent only prints something, or runs a subcommand without conversation.
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

    /// Returns `arguments` without all occurrences of `option`, and its last value. Returns none if
    /// a value is missing.
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

/// Interprets the value of an option: an id, or a name or search term that the agent understands.
fn chosen(text: &str, make: fn(ConversationId) -> ConversationRequest) -> ConversationRequest {
    let is_id = text.chars().any(|c| c.is_ascii_digit()) && text.len() >= 8;
    match text.parse() {
        Ok(id) if is_id => make(id),
        _ => ConversationRequest::AgentChooses,
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
    fn asked_finds_the_choice_of_a_conversation() {
        let id: ConversationId = ID.parse().unwrap();
        let cases = [
            ("", ConversationRequest::Nothing),
            ("prompt", ConversationRequest::Nothing),
            ("-p prompt --model opus", ConversationRequest::Nothing),
            ("--session-id {id}", ConversationRequest::New(id.clone())),
            ("--session-id={id}", ConversationRequest::New(id.clone())),
            ("--verbose -r {id} prompt", ConversationRequest::Resume(id.clone())),
            ("--resume", ConversationRequest::AgentChooses),
            ("--resume --verbose", ConversationRequest::AgentChooses),
            ("--resume login", ConversationRequest::AgentChooses),
            ("--resume {id} --fork", ConversationRequest::AgentChooses),
            ("-c", ConversationRequest::AgentChooses),
            ("--version", ConversationRequest::None),
            ("mcp list", ConversationRequest::None),
            ("--model mcp", ConversationRequest::Nothing),
            ("-- --resume {id}", ConversationRequest::Nothing),
        ];
        for (line, asked) in cases {
            assert_eq!(GRAMMAR.asked(&words(&line.replace("{id}", ID))), asked, "{line}");
        }
    }

    #[test]
    fn without_choice_removes_the_choice_and_the_prompt() {
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
    fn resume_subcommand_is_parsed_like_an_option() {
        let grammar =
            Grammar { resume_subcommand: Some("resume"), takes_prompt: true, ..Grammar::default() };
        let id: ConversationId = ID.parse().unwrap();

        let line = words(&format!("resume {ID} --model o3"));

        assert_eq!(grammar.asked(&line), ConversationRequest::Resume(id));
        assert_eq!(grammar.asked(&words("resume --last x")), ConversationRequest::AgentChooses);
        assert_eq!(grammar.without_choice(&line), words("--model o3"));
    }
}

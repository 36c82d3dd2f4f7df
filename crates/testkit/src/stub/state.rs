//! The stub's state, and its answers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::answer::Answer;
use super::dialect::Dialect;
use super::login::Logins;
use super::reply::Reply;
use super::request::RecordedRequest;
use super::schema;

/// The answer to auxiliary requests. It must differ from answers to turns, because agents show
/// titles on the screen.
const AUXILIARY: &str = "stub auxiliary";

/// State shared by the server and the test.
#[derive(Debug)]
pub(super) struct State {
    log: Mutex<Log>,
    changed: Condvar,
    // The active holds.
    holds: watch::Sender<Vec<Hold>>,
}

/// A predicate for delayed turns.
type Wanted = dyn Fn(&RecordedRequest) -> bool + Send + Sync;

#[derive(Clone)]
struct Hold {
    id: u64,
    wanted: Arc<Wanted>,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A model that answers the conversations with a certain word.
struct Role {
    word: String,
    plays: Box<dyn FnMut(&RecordedRequest) -> Answer + Send>,
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role").field("word", &self.word).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<RecordedRequest>,
    refused: Vec<String>,
    script: VecDeque<Answer>,
    roles: Vec<Role>,
    /// Number of requests whose bodies are kept (default: all).
    remembers: Option<usize>,
    turns: u64,
    logins: Logins,
}

impl Default for State {
    fn default() -> Self {
        Self { log: Mutex::default(), changed: Condvar::new(), holds: watch::Sender::default() }
    }
}

impl State {
    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.log().requests.clone()
    }

    pub(super) fn refused(&self) -> Vec<String> {
        self.log().refused.clone()
    }

    pub(super) fn refuse(&self, host: &str) {
        self.log().refused.push(host.to_owned());
    }

    pub(super) fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.log().script.extend(answers);
    }

    pub(super) fn login(&self, expires_at: u64) -> Value {
        self.log().logins.stored(expires_at)
    }

    pub(super) fn play(
        &self,
        word: String,
        plays: Box<dyn FnMut(&RecordedRequest) -> Answer + Send>,
    ) {
        self.log().roles.push(Role { word, plays });
    }

    pub(super) fn remember(&self, most: usize) {
        self.log().remembers = Some(most);
    }

    /// Adds a hold and returns its id.
    pub(super) fn hold(&self, wanted: Arc<Wanted>) -> u64 {
        let mut id = 0;
        self.holds.send_modify(|holds| {
            id = holds.last().map_or(1, |last| last.id + 1);
            holds.push(Hold { id, wanted });
        });
        id
    }

    pub(super) fn release(&self, id: u64) {
        self.holds.send_modify(|holds| holds.retain(|hold| hold.id != id));
    }

    pub(super) fn count(&self) -> usize {
        self.log().requests.len()
    }

    /// Returns the first request that is `wanted` after the first `known` ones; when the deadline
    /// expires, all requests.
    pub(super) fn wait_for(
        &self,
        mut known: usize,
        deadline: Duration,
        wanted: impl Fn(&RecordedRequest) -> bool,
    ) -> Result<RecordedRequest, Vec<String>> {
        let started = Instant::now();
        let mut log = self.log();
        loop {
            if let Some(found) = log.requests[known..].iter().find(|seen| wanted(seen)) {
                return Ok(found.clone());
            }
            known = log.requests.len();
            let Some(left) = deadline.checked_sub(started.elapsed()) else {
                return Err(log.requests.iter().map(RecordedRequest::to_string).collect());
            };
            (log, _) = self
                .changed
                .wait_timeout(log, left)
                .expect("no thread panics while it holds the lock");
        }
    }

    /// Records a request and answers it.
    pub(super) async fn answer(&self, seen: RecordedRequest) -> Reply {
        let is_turn = seen.is_turn();
        {
            let mut log = self.log();
            log.requests.push(seen.clone());
            let old = log.remembers.and_then(|most| log.requests.len().checked_sub(most + 1));
            if let Some(old) = old {
                log.requests[old].body = Value::Null;
            }
            self.changed.notify_all();
        }
        if is_turn {
            let mut holds = self.holds.subscribe();
            // The sender is in `self`, so this ends only when no hold applies.
            let is_free = |holds: &Vec<Hold>| !holds.iter().any(|hold| (hold.wanted)(&seen));
            let _released = holds.wait_for(is_free).await;
        }
        self.log().reply(&seen)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no thread panics while it holds the lock")
    }
}

impl Log {
    fn reply(&mut self, seen: &RecordedRequest) -> Reply {
        match (seen.method.as_str(), seen.bare_path(), seen.dialect()) {
            ("HEAD", ..) => Reply::empty(),
            ("GET", path, _) if path.ends_with("/models") => {
                Reply::json(200, &json!({"object": "list", "data": []}))
            }
            ("POST", "/v1/oauth/token", _) => self.logins.renew(&seen.body),
            ("POST", path, _) if path.ends_with("/count_tokens") => {
                Reply::json(200, &json!({"input_tokens": 1}))
            }
            ("POST", path, _) if path.ends_with(":countTokens") => {
                Reply::json(200, &json!({"totalTokens": 1}))
            }
            (_, _, Some(dialect)) => self.say(seen, dialect),
            _ => Reply::not_found(),
        }
    }

    fn say(&mut self, seen: &RecordedRequest, dialect: Dialect) -> Reply {
        if !seen.is_turn() {
            let form = schema::demanded(&seen.body).map(|form| schema::example(form).to_string());
            let said = Answer::Text(form.unwrap_or_else(|| AUXILIARY.to_owned()));
            return dialect.render(seen.bare_path(), &seen.body, 0, &said);
        }
        self.turns += 1;
        let said = seen.user_texts().join("\n");
        if let Some(role) = self.roles.iter_mut().find(|role| said.contains(&role.word)) {
            let answer = (role.plays)(seen);
            return dialect.render(seen.bare_path(), &seen.body, self.turns, &answer);
        }
        let answer = self.script.pop_front().unwrap_or_else(|| {
            Answer::echo(self.turns, seen.user_texts().last().copied().unwrap_or_default())
        });
        dialect.render(seen.bare_path(), &seen.body, self.turns, &answer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn turn(text: &str) -> RecordedRequest {
        let body = json!({
            "messages": [{"role": "user", "content": text}],
            "tools": [{"name": "Bash"}],
        });
        let path = "/v1/messages".to_owned();
        RecordedRequest { method: "POST".to_owned(), path, headers: BTreeMap::new(), body }
    }

    #[test]
    fn script_answers_turns_only() {
        let mut log = Log::default();
        log.script.extend([Answer::text("scripted"), Answer::Failure(429)]);
        let mut auxiliary = turn("a title, please");
        auxiliary.body["tools"] = json!([]);

        let said = [turn("a"), auxiliary, turn("b"), turn("c")].map(|seen| log.reply(&seen));

        assert!(said[0].body.contains("scripted"), "{said:?}");
        assert!(said[1].body.contains(AUXILIARY), "{said:?}");
        assert_eq!(said[2].status, 429);
        assert!(said[3].body.contains("stub answer 3: c"), "{said:?}");
    }

    #[test]
    fn role_answers_only_conversations_with_its_word() {
        let mut log = Log::default();
        let mut count = 0;
        let plays = Box::new(move |_: &RecordedRequest| {
            count += 1;
            Answer::text(format!("part {count}"))
        });
        log.roles.push(Role { word: "task-a".to_owned(), plays });

        let said =
            [turn("task-a now"), turn("task-b"), turn("task-a")].map(|seen| log.reply(&seen));

        assert!(said[0].body.contains("part 1"), "{said:?}");
        assert!(said[1].body.contains("stub answer 2: task-b"), "{said:?}");
        assert!(said[2].body.contains("part 2"), "{said:?}");
    }

    #[test]
    fn unknown_path_is_not_found() {
        let mut elsewhere = turn("x");
        elsewhere.path = "/v2/unknown".to_owned();

        assert_eq!(Log::default().reply(&elsewhere).status, 404);
    }
}

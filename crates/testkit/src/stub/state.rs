//! What the stub remembers, and what it says to a request.

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
use super::schema;
use super::seen::Seen;

/// What an errand gets. It must not look like an answer to a turn: agents show titles on the
/// screen.
const ERRAND: &str = "stub errand";

/// Everything that the server and the test share.
#[derive(Debug)]
pub(super) struct State {
    book: Mutex<Book>,
    news: Condvar,
    // Which answers are held back.
    holds: watch::Sender<Vec<Hold>>,
}

/// Which turns are kept waiting.
type Wanted = dyn Fn(&Seen) -> bool + Send + Sync;

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

/// Who plays the model in some conversations.
struct Role {
    word: String,
    plays: Box<dyn FnMut(&Seen) -> Answer + Send>,
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role").field("word", &self.word).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Book {
    requests: Vec<Seen>,
    refused: Vec<String>,
    script: VecDeque<Answer>,
    roles: Vec<Role>,
    /// How many requests are remembered with their bodies; none: all.
    remembers: Option<usize>,
    turns: u64,
    logins: Logins,
}

impl Default for State {
    fn default() -> Self {
        Self { book: Mutex::default(), news: Condvar::new(), holds: watch::Sender::default() }
    }
}

impl State {
    pub(super) fn requests(&self) -> Vec<Seen> {
        self.book().requests.clone()
    }

    pub(super) fn refused(&self) -> Vec<String> {
        self.book().refused.clone()
    }

    pub(super) fn refuse(&self, host: &str) {
        self.book().refused.push(host.to_owned());
    }

    pub(super) fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.book().script.extend(answers);
    }

    pub(super) fn login(&self, expires_at: u64) -> Value {
        self.book().logins.stored(expires_at)
    }

    pub(super) fn play(&self, word: String, plays: Box<dyn FnMut(&Seen) -> Answer + Send>) {
        self.book().roles.push(Role { word, plays });
    }

    pub(super) fn remember(&self, most: usize) {
        self.book().remembers = Some(most);
    }

    /// Holds back what is `wanted`, and returns by what the hold is known.
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
        self.book().requests.len()
    }

    /// The first request that is `wanted`, without the `known` first ones; or, when the deadline
    /// passes first, what came instead.
    pub(super) fn wait_for(
        &self,
        mut known: usize,
        deadline: Duration,
        wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Seen, Vec<String>> {
        let started = Instant::now();
        let mut book = self.book();
        loop {
            if let Some(found) = book.requests[known..].iter().find(|seen| wanted(seen)) {
                return Ok(found.clone());
            }
            known = book.requests.len();
            let Some(left) = deadline.checked_sub(started.elapsed()) else {
                return Err(book.requests.iter().map(Seen::to_string).collect());
            };
            (book, _) = self.news.wait_timeout(book, left).expect("nobody panics with the book");
        }
    }

    /// Records a request and answers it.
    pub(super) async fn answer(&self, seen: Seen) -> Reply {
        let is_turn = seen.is_turn();
        {
            let mut book = self.book();
            book.requests.push(seen.clone());
            let old = book.remembers.and_then(|most| book.requests.len().checked_sub(most + 1));
            if let Some(old) = old {
                book.requests[old].body = Value::Null;
            }
            self.news.notify_all();
        }
        if is_turn {
            let mut holds = self.holds.subscribe();
            // The sender is in `self`, so this ends only because nothing is held.
            let is_free = |holds: &Vec<Hold>| !holds.iter().any(|hold| (hold.wanted)(&seen));
            let _released = holds.wait_for(is_free).await;
        }
        self.book().reply(&seen)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nobody panics with the book")
    }
}

impl Book {
    fn reply(&mut self, seen: &Seen) -> Reply {
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

    fn say(&mut self, seen: &Seen, dialect: Dialect) -> Reply {
        if !seen.is_turn() {
            let form = schema::demanded(&seen.body).map(|form| schema::example(form).to_string());
            let said = Answer::Text(form.unwrap_or_else(|| ERRAND.to_owned()));
            return dialect.render(seen, 0, &said);
        }
        self.turns += 1;
        let said = seen.user_texts().join("\n");
        if let Some(role) = self.roles.iter_mut().find(|role| said.contains(&role.word)) {
            let answer = (role.plays)(seen);
            return dialect.render(seen, self.turns, &answer);
        }
        let answer = self.script.pop_front().unwrap_or_else(|| {
            Answer::echo(self.turns, seen.user_texts().last().copied().unwrap_or_default())
        });
        dialect.render(seen, self.turns, &answer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn turn(text: &str) -> Seen {
        let body = json!({
            "messages": [{"role": "user", "content": text}],
            "tools": [{"name": "Bash"}],
        });
        let path = "/v1/messages".to_owned();
        Seen { method: "POST".to_owned(), path, headers: BTreeMap::new(), body }
    }

    #[test]
    fn a_script_is_followed_to_its_end_and_only_by_turns() {
        let mut book = Book::default();
        book.script.extend([Answer::text("scripted"), Answer::Failure(429)]);
        let mut errand = turn("a title, please");
        errand.body["tools"] = json!([]);

        let said = [turn("a"), errand, turn("b"), turn("c")].map(|seen| book.reply(&seen));

        assert!(said[0].body.contains("scripted"), "{said:?}");
        assert!(said[1].body.contains(ERRAND), "{said:?}");
        assert_eq!(said[2].status, 429);
        assert!(said[3].body.contains("stub answer 3: c"), "{said:?}");
    }

    #[test]
    fn a_role_is_played_where_its_word_was_said_and_nowhere_else() {
        let mut book = Book::default();
        let mut count = 0;
        let plays = Box::new(move |_: &Seen| {
            count += 1;
            Answer::text(format!("part {count}"))
        });
        book.roles.push(Role { word: "task-a".to_owned(), plays });

        let said =
            [turn("task-a now"), turn("task-b"), turn("task-a")].map(|seen| book.reply(&seen));

        assert!(said[0].body.contains("part 1"), "{said:?}");
        assert!(said[1].body.contains("stub answer 2: task-b"), "{said:?}");
        assert!(said[2].body.contains("part 2"), "{said:?}");
    }

    #[test]
    fn what_nobody_serves_is_not_found() {
        let mut elsewhere = turn("x");
        elsewhere.path = "/v2/unknown".to_owned();

        assert_eq!(Book::default().reply(&elsewhere).status, 404);
    }
}

//! One thing asked of several panes at once.
//!
//! Ending a pane takes up to its grace period. Ten of them should not take ten times as long, so
//! each is asked for on a connection of its own.

use std::fmt;
use std::thread;

use protocol::ErrorBody;

use crate::connect::Link;
use crate::context::Context;
use crate::failure::Failure;

/// How many questions are open at once: a little less than what the daemon listens to, so that
/// others are heard as well.
const AT_ONCE: usize = 240;

/// `stopping 3 panes…`.
#[derive(Debug)]
pub(crate) struct Counted(pub(crate) &'static str, pub(crate) usize);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(doing, count) = self;
        write!(f, "{doing} {count} {}…", if *count == 1 { "pane" } else { "panes" })
    }
}

/// Asks for each id, and gives the answers in the order of the ids.
pub(crate) fn each<T: Send>(
    context: &Context,
    ids: &[String],
    ask: impl Fn(&mut Link<'_>, &str) -> Result<T, ErrorBody> + Sync,
) -> Vec<Result<T, ErrorBody>> {
    let mut link = Link::new(context);
    if let [id] = ids {
        return vec![ask(&mut link, id)];
    }
    // One start of the daemon for all of them, and one error if it cannot be had.
    if let Err(body) = link.connect() {
        return vec![Err(body)];
    }
    drop(link);
    let ask = &ask;
    let batch = |ids: &[String]| -> Vec<Result<T, ErrorBody>> {
        thread::scope(|scope| {
            let asked: Vec<_> = ids
                .iter()
                .map(|id| scope.spawn(move || ask(&mut Link::new(context), id)))
                .collect();
            asked.into_iter().map(|answer| answer.join().expect("asking does not panic")).collect()
        })
    };
    ids.chunks(AT_ONCE).flat_map(batch).collect()
}

impl Context {
    /// Tells of each failure, and gives what was done together with the result of the whole.
    pub(crate) fn sort_out<'a, T>(
        &self,
        ids: &'a [String],
        answers: Vec<Result<T, ErrorBody>>,
    ) -> (Vec<(&'a str, T)>, Result<(), Failure>) {
        let mut done = Vec::new();
        let mut result = Ok(());
        for (id, answer) in ids.iter().zip(answers) {
            match answer {
                Ok(answer) => done.push((id.as_str(), answer)),
                Err(body) => {
                    self.out.error(&body);
                    if result.is_ok() {
                        result = Err(Failure::Told(body.code));
                    }
                }
            }
        }
        (done, result)
    }
}

//! One request for each of several panes, in parallel.
//!
//! Stopping a pane takes up to its grace period. Stopping ten should not take ten times as long, so
//! each request has its own connection.

use std::fmt;
use std::thread;

use protocol::ErrorBody;

use crate::connect::Link;
use crate::context::Context;
use crate::failure::Failure;

/// The number of parallel requests: slightly below the daemon's connection limit, so that other
/// clients are served as well.
const PARALLEL: usize = 240;

/// A progress message such as `stopping 3 panes…`.
#[derive(Debug)]
pub(crate) struct Counted(pub(crate) &'static str, pub(crate) usize);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(doing, count) = self;
        write!(f, "{doing} {count} {}…", if *count == 1 { "pane" } else { "panes" })
    }
}

/// Calls `ask` for each id and returns the results in the order of the ids.
pub(crate) fn each<T: Send>(
    context: &Context,
    ids: &[String],
    ask: impl Fn(&mut Link<'_>, &str) -> Result<T, ErrorBody> + Sync,
) -> Vec<Result<T, ErrorBody>> {
    let mut link = Link::new(context);
    if let [id] = ids {
        return vec![ask(&mut link, id)];
    }
    // Start the daemon once for all requests, and report a failure once.
    if let Err(body) = link.connect() {
        return vec![Err(body)];
    }
    drop(link);
    let ask = &ask;
    let batch = |ids: &[String]| -> Vec<Result<T, ErrorBody>> {
        thread::scope(|scope| {
            let requests: Vec<_> = ids
                .iter()
                .map(|id| scope.spawn(move || ask(&mut Link::new(context), id)))
                .collect();
            requests.into_iter().map(|thread| thread.join().expect("no request panics")).collect()
        })
    };
    ids.chunks(PARALLEL).flat_map(batch).collect()
}

impl Context {
    /// Prints each failure, and returns the successful results and the overall result.
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
                        result = Err(Failure::Reported(body.code));
                    }
                }
            }
        }
        (done, result)
    }
}

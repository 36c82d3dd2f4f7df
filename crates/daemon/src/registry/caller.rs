//! The caller of the current task, which is recorded with every event.
//!
//! A layer runs each operation inside [`as_caller`]. The registry records the caller of the task
//! with the events of each change. Tasks without a caller act as the daemon.

use model::authority::Caller;

tokio::task_local! {
    static CALLER: Caller;
}

/// Runs `work` on behalf of `caller`.
pub(crate) async fn as_caller<T>(caller: Caller, work: impl Future<Output = T>) -> T {
    CALLER.scope(caller, work).await
}

/// Returns the caller of the current task ([`Caller::Daemon`] if it has none).
pub(crate) fn current_caller() -> Caller {
    CALLER.try_get().unwrap_or(Caller::Daemon)
}

/// Wraps a future that is about to be spawned, so that it keeps the caller of the current task.
pub(crate) fn inherit_caller<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    CALLER.scope(current_caller(), work)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests have no task tracker")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn spawned_task_acts_as_daemon_unless_it_inherits_the_caller() {
        let (inherited, own) = as_caller(Caller::LocalUser, async {
            let inherited = tokio::task::spawn(inherit_caller(async { current_caller() }));
            let own = tokio::task::spawn(async { current_caller() });
            (inherited.await.unwrap(), own.await.unwrap())
        })
        .await;

        assert_eq!((inherited, own), (Caller::LocalUser, Caller::Daemon));
    }
}

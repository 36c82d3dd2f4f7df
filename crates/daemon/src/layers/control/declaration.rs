//! Declarations per control request: whether it changes state, the access that it needs, and how
//! it is recorded.
//!
//! The functions match every request without a wildcard, so a new request does not compile before
//! it is declared.

use model::authority::Access;
use model::event::EventBody;
use protocol::control::Request;
use protocol::locks::LockRequest;
use protocol::message::MessageRequest;
use protocol::session::TemplateRequest;
use protocol::workspace::{ShareRequest, TrustRequest};
use tracing::debug;

/// Returns whether a request changes state. Such a request runs to completion even if the client
/// disconnects.
pub(super) fn is_mutation(request: &Request) -> bool {
    match request {
        Request::New(_)
        | Request::Run(_)
        | Request::Trust(_)
        | Request::Share(_)
        | Request::Rename { .. }
        | Request::Stop { .. }
        | Request::Close { .. }
        | Request::Restore { .. }
        | Request::Purge { .. }
        | Request::Gc { dry_run: false, .. }
        | Request::Send { .. }
        | Request::Hook(_)
        | Request::Limit { .. }
        | Request::LimitEvent { .. }
        | Request::Thaw { .. }
        | Request::Resize { .. }
        | Request::Serve(_)
        | Request::Token(_)
        | Request::DaemonStop => true,
        Request::Template(request) => request.is_mutation(),
        Request::Migrate(request) => !request.dry_run,
        Request::Lock(request) => request.is_mutation(),
        Request::Message(request) => request.is_mutation(),
        Request::Up(request) => !request.dry_run,
        Request::List
        | Request::Show { .. }
        | Request::Locate { .. }
        | Request::Read { .. }
        | Request::Wait { .. }
        | Request::Env { .. }
        | Request::Events { .. }
        | Request::Doctor { .. }
        | Request::Gc { dry_run: true, .. }
        | Request::DaemonStatus => false,
    }
}

/// Returns the access that a request needs, to the sessions that it concerns.
pub(super) fn required_access(request: &Request) -> Access {
    match request {
        Request::List | Request::DaemonStatus => Access::List,
        Request::Show { .. }
        | Request::Locate { .. }
        | Request::Read { .. }
        | Request::Wait { .. }
        | Request::Env { .. }
        | Request::Events { .. }
        | Request::Doctor { .. }
        | Request::Gc { dry_run: true, .. }
        | Request::Trust(TrustRequest::List) => Access::Read,
        Request::Share(ShareRequest::List) => Access::List,
        Request::Template(request) if !request.is_mutation() => Access::List,
        Request::Lock(LockRequest::Check { .. } | LockRequest::List { .. }) => Access::List,
        Request::Message(request) if !request.is_mutation() => Access::Read,
        Request::New(_)
        | Request::Run(_)
        | Request::Up(_)
        | Request::Rename { .. }
        | Request::Stop { .. }
        | Request::Close { .. }
        | Request::Restore { .. }
        | Request::Purge { .. }
        | Request::Send { .. }
        | Request::Hook(_)
        | Request::Limit { .. }
        | Request::LimitEvent { .. }
        | Request::Thaw { .. }
        | Request::Resize { .. }
        | Request::Migrate(_)
        | Request::Lock(_)
        | Request::Message(_) => Access::Control,
        Request::Trust(_)
        | Request::Share(_)
        | Request::Template(_)
        | Request::Gc { dry_run: false, .. }
        | Request::Serve(_)
        | Request::Token(_)
        | Request::DaemonStop => Access::Administer,
    }
}

/// Returns whether programs make this request many times per second. Its response does not wait for
/// its event to reach the disk.
pub(super) fn is_frequent(request: &Request) -> bool {
    matches!(request, Request::Lock(_) | Request::Send { .. } | Request::Resize { .. })
}

/// How a request is recorded in the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audit {
    /// It changes nothing.
    Unchanged,
    /// The layer records this event after the request has succeeded.
    Event(EventBody),
    /// Its operation records the change with the change itself.
    ByOperation,
    /// It changes something and leaves no event, for this reason.
    Exempt(&'static str),
}

impl Audit {
    /// Returns the event that the layer records.
    pub(super) fn event(self) -> Option<EventBody> {
        match self {
            Self::Event(event) => Some(event),
            Self::Unchanged | Self::ByOperation => None,
            Self::Exempt(reason) => {
                debug!(reason, "request not recorded");
                None
            }
        }
    }
}

/// Returns how a request is recorded. Every request that changes something leaves an event with its
/// caller, unless it is exempt.
pub(super) fn audit(request: &Request) -> Audit {
    let called = |request: &str, target: Option<String>| {
        Audit::Event(EventBody::ControlCalled { request: request.to_owned(), target })
    };
    match request {
        Request::Send { target, .. } => called("send", Some(target.clone())),
        Request::Resize { target, .. } => called("resize", Some(target.clone())),
        Request::Limit { wishes, .. } if wishes.is_empty() => Audit::Unchanged,
        Request::Limit { target, .. } => called("limit", Some(target.clone())),
        Request::Trust(TrustRequest::Add { dir }) => called("trust", Some(dir.clone())),
        Request::Trust(TrustRequest::Revoke { dir }) => called("trust_revoke", Some(dir.clone())),
        Request::Share(ShareRequest::Add { paths, .. }) => called("share", Some(paths.join(" "))),
        Request::Share(ShareRequest::Remove { names }) => {
            called("share_remove", Some(names.join(" ")))
        }
        Request::Template(TemplateRequest::Add { path, .. }) => {
            called("template_add", Some(path.clone()))
        }
        Request::Template(TemplateRequest::Remove { name }) => {
            called("template_remove", Some(name.clone()))
        }
        Request::Gc { dry_run: false, .. } => called("gc", None),
        Request::Serve(request) => called("serve", request.listen.clone()),
        Request::Token(request) if request.rotate => {
            called("token_rotate", Some(request.scope.to_string()))
        }
        Request::Token(request) => called("token", Some(request.scope.to_string())),
        Request::DaemonStop => called("daemon_stop", None),
        Request::Lock(LockRequest::Acquire(acquire)) => {
            called("lock", Some(acquire.paths.join(" ")))
        }
        Request::Lock(LockRequest::Release { .. } | LockRequest::ReleaseOwner { .. }) => {
            called("lock_release", None)
        }
        Request::Lock(LockRequest::Renew { .. }) => {
            Audit::Exempt("it extends a lease whose acquisition is recorded")
        }
        Request::Hook(_) => Audit::Exempt(
            "agents report every edit and turn; refused edits and delivered messages are recorded, \
             and locks end with the turn",
        ),
        Request::LimitEvent { .. } => {
            Audit::Exempt("the reported limit events are recorded themselves")
        }
        Request::New(_)
        | Request::Run(_)
        | Request::Rename { .. }
        | Request::Stop { .. }
        | Request::Close { .. }
        | Request::Restore { .. }
        | Request::Purge { .. }
        | Request::Thaw { .. }
        | Request::Message(MessageRequest::Send(_)) => Audit::ByOperation,
        Request::Up(request) if !request.dry_run => Audit::ByOperation,
        Request::Migrate(request) if !request.dry_run => Audit::ByOperation,
        Request::List
        | Request::Show { .. }
        | Request::Locate { .. }
        | Request::Read { .. }
        | Request::Wait { .. }
        | Request::Env { .. }
        | Request::Events { .. }
        | Request::Doctor { .. }
        | Request::Up(_)
        | Request::Migrate(_)
        | Request::Gc { dry_run: true, .. }
        | Request::Trust(TrustRequest::List)
        | Request::Share(ShareRequest::List)
        | Request::Template(TemplateRequest::List | TemplateRequest::Show { .. })
        | Request::Lock(LockRequest::Check { .. } | LockRequest::List { .. })
        | Request::Message(
            MessageRequest::Wait { .. } | MessageRequest::List { .. } | MessageRequest::Show { .. },
        )
        | Request::DaemonStatus => Audit::Unchanged,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Requests of every kind.
    fn samples() -> Vec<Value> {
        let id = model::PaneId::from_random([1; 16]);
        let lock = model::LockId::from_random([1; 16]);
        let target = |request: &str| json!({ "do": request, "target": "a" });
        let mut samples =
            ["list", "daemon_status", "daemon_stop"].map(|it| json!({ "do": it })).to_vec();
        samples.extend(["show", "locate", "restore", "env", "thaw"].map(target));
        samples.extend([
            json!({ "do": "new" }),
            json!({ "do": "run" }),
            json!({ "do": "up" }),
            json!({ "do": "up", "dry_run": true }),
            json!({ "do": "rename", "target": "a", "name": "b" }),
            json!({ "do": "stop", "target": "a", "grace_ms": 1 }),
            json!({ "do": "close", "target": "a", "grace_ms": 1 }),
            json!({ "do": "purge", "target": "a", "grace_ms": 1 }),
            json!({ "do": "gc", "dry_run": false }),
            json!({ "do": "gc", "dry_run": true }),
            json!({ "do": "limit", "target": "a", "wishes": [] }),
            json!({ "do": "limit", "target": "a", "wishes": ["files=99"] }),
            json!({ "do": "limit_news", "pane": id }),
            json!({ "do": "send", "target": "a", "typing": { "text": "x", "keys": [], "enter": false },
                    "timeout_ms": 1 }),
            json!({ "do": "read", "target": "a", "view": "screen" }),
            json!({ "do": "wait", "target": "a", "until": "exit", "timeout_ms": 1 }),
            json!({ "do": "events", "after": null, "follow": false }),
            json!({ "do": "doctor", "client_env": {}, "version": "1" }),
            json!({ "do": "hook", "pane": id, "event": "prompt" }),
            json!({ "do": "resize", "target": "a", "size": { "cols": 9, "rows": 9 } }),
            json!({ "do": "serve", "listen": null, "hold": false, "client_env": {} }),
            json!({ "do": "token", "scope": "read", "rotate": false }),
            json!({ "do": "token", "scope": "read", "rotate": true }),
            json!({ "do": "migrate", "target": "a" }),
            json!({ "do": "migrate", "target": "a", "dry_run": true }),
            json!({ "do": "lock", "lock": "acquire", "paths": ["/a"], "mode": "write" }),
            json!({ "do": "lock", "lock": "renew", "id": lock }),
            json!({ "do": "lock", "lock": "release", "id": lock }),
            json!({ "do": "lock", "lock": "release_owner", "pane": "a" }),
            json!({ "do": "lock", "lock": "check", "path": "/a", "token": 1 }),
            json!({ "do": "lock", "lock": "list" }),
            json!({ "do": "message", "message": "send", "to": "a", "text": "x" }),
            json!({ "do": "message", "message": "wait", "ids": [], "until": "delivered" }),
            json!({ "do": "message", "message": "list" }),
            json!({ "do": "message", "message": "show", "id": "a" }),
            json!({ "do": "trust", "trust": "add", "dir": "/a" }),
            json!({ "do": "trust", "trust": "revoke", "dir": "/a" }),
            json!({ "do": "trust", "trust": "list" }),
            json!({ "do": "share", "share": "add", "paths": ["/a"], "templates": false }),
            json!({ "do": "share", "share": "remove", "names": ["a"] }),
            json!({ "do": "share", "share": "list" }),
            json!({ "do": "template", "what": "add", "path": "/a", "name": null }),
            json!({ "do": "template", "what": "remove", "name": "a" }),
            json!({ "do": "template", "what": "show", "name": "a" }),
            json!({ "do": "template", "what": "list" }),
        ]);
        samples
    }

    /// Returns the values that a tag of a request may have, from the error for an unknown one.
    fn known_values(request: &Value) -> Vec<String> {
        let error = serde_json::from_value::<Request>(request.clone()).unwrap_err().to_string();
        let (_, listed) = error.split_once("expected one of").unwrap_or_else(|| panic!("{error}"));
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn samples_cover_every_request() {
        let tags = [
            ("message", "message"),
            ("lock", "lock"),
            ("trust", "trust"),
            ("share", "share"),
            ("template", "what"),
        ];
        let requests = known_values(&json!({ "do": "?" }));
        let has = |tag: &str, value: &str, request: &str| {
            samples().iter().any(|sample| sample["do"] == request && sample[tag] == value)
        };

        for request in &requests {
            assert!(has("do", request, request), "no sample of `{request}`");
        }
        for (request, tag) in tags {
            for value in known_values(&json!({ "do": request, tag: "?" })) {
                assert!(has(tag, &value, request), "no sample of `{request} {value}`");
            }
        }
    }

    #[test]
    fn requests_that_change_something_are_recorded_and_need_control() {
        for sample in samples() {
            let request: Request = serde_json::from_value(sample.clone())
                .unwrap_or_else(|error| panic!("{sample}: {error}"));
            let is_recorded = audit(&request) != Audit::Unchanged;
            let is_read = matches!(required_access(&request), Access::List | Access::Read);
            // A request of these kinds finds out itself whether it changes something.
            let is_plan = sample["dry_run"] == true || sample["wishes"] == json!([]);

            assert!(is_recorded != is_read || is_plan, "{sample}");
            assert!(!is_mutation(&request) || is_recorded || is_plan || is_read, "{sample}");
        }
    }
}

//! Declarations per control request: whether it changes state, the access that it needs, and the
//! event that records it.
//!
//! The functions match every request without a wildcard, so a new request does not compile before
//! it is declared.

use model::authority::Access;
use model::event::EventBody;
use protocol::control::Request;
use protocol::locks::LockRequest;
use protocol::session::TemplateRequest;
use protocol::workspace::{ShareRequest, TrustRequest};

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

/// Returns the event that records a request, or `None` for a request that changes nothing or records
/// its changes itself.
pub(super) fn audit_event(request: &Request) -> Option<EventBody> {
    let (name, target) = match request {
        Request::Send { target, .. } => ("send", Some(target.clone())),
        Request::Resize { target, .. } => ("resize", Some(target.clone())),
        Request::Limit { wishes, .. } if wishes.is_empty() => return None,
        Request::Limit { target, .. } => ("limit", Some(target.clone())),
        Request::Trust(TrustRequest::Add { dir }) => ("trust", Some(dir.clone())),
        Request::Trust(TrustRequest::Revoke { dir }) => ("trust_revoke", Some(dir.clone())),
        Request::Share(ShareRequest::Add { paths, .. }) => ("share", Some(paths.join(" "))),
        Request::Share(ShareRequest::Remove { names }) => ("share_remove", Some(names.join(" "))),
        Request::Template(TemplateRequest::Add { path, .. }) => {
            ("template_add", Some(path.clone()))
        }
        Request::Template(TemplateRequest::Remove { name }) => {
            ("template_remove", Some(name.clone()))
        }
        Request::Gc { dry_run: false, .. } => ("gc", None),
        Request::Serve(request) => ("serve", request.listen.clone()),
        Request::Token(request) if request.rotate => {
            ("token_rotate", Some(request.scope.to_string()))
        }
        Request::Token(request) => ("token", Some(request.scope.to_string())),
        Request::DaemonStop => ("daemon_stop", None),
        Request::Lock(LockRequest::Acquire(acquire)) => ("lock", Some(acquire.paths.join(" "))),
        Request::Lock(LockRequest::Release { .. } | LockRequest::ReleaseOwner { .. }) => {
            ("lock_release", None)
        }
        // Extends a recorded lock.
        Request::Lock(LockRequest::Renew { .. }) => return None,
        // Reports of agents and keepers: their effects are recorded by the services.
        Request::Hook(_) | Request::LimitEvent { .. } => return None,
        // These record what they change.
        Request::New(_)
        | Request::Run(_)
        | Request::Up(_)
        | Request::Rename { .. }
        | Request::Stop { .. }
        | Request::Close { .. }
        | Request::Restore { .. }
        | Request::Purge { .. }
        | Request::Thaw { .. }
        | Request::Migrate(_)
        | Request::Message(_) => return None,
        Request::List
        | Request::Show { .. }
        | Request::Locate { .. }
        | Request::Read { .. }
        | Request::Wait { .. }
        | Request::Env { .. }
        | Request::Events { .. }
        | Request::Doctor { .. }
        | Request::Gc { dry_run: true, .. }
        | Request::Trust(TrustRequest::List)
        | Request::Share(ShareRequest::List)
        | Request::Template(_)
        | Request::Lock(LockRequest::Check { .. } | LockRequest::List { .. })
        | Request::DaemonStatus => return None,
    };
    Some(EventBody::ControlCalled { request: name.to_owned(), target })
}

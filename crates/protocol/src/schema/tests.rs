//! Values of `model` types convert to their mirrors and back without loss.

use std::fmt::Debug;

use model::health::{Checked, Health};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// Parses `json` as the model type `M`, converts its serialised form to the mirror `S` and back,
/// and compares both, ignoring absent, null, false and empty values.
fn assert_mirrors<M: Serialize + DeserializeOwned, S: Serialize + DeserializeOwned>(json: &Value) {
    let model: M = serde_json::from_value(json.clone()).unwrap_or_else(|e| panic!("{json}: {e}"));
    let sent = serde_json::to_value(&model).unwrap();
    let mirror: S = serde_json::from_value(sent.clone()).unwrap_or_else(|e| panic!("{sent}: {e}"));
    assert_eq!(compact(serde_json::to_value(&mirror).unwrap()), compact(sent), "{json}");
}

fn compact(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().map(|(name, value)| (name, compact(value)));
            let is_empty = |value: &Value| {
                matches!(value, Value::Null | Value::Bool(false))
                    || value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
            };
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(compact).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn assert_same_words<M, S>(words: impl IntoIterator<Item = M>)
where
    M: Serialize + DeserializeOwned + Debug,
    S: Serialize + DeserializeOwned,
{
    for word in words {
        assert_mirrors::<M, S>(&serde_json::to_value(&word).unwrap());
    }
}

const ID: &str = "01010101-0101-4101-8101-010101010101";

#[test]
fn words_match_model() {
    assert_same_words::<_, IsolationMethod>(model::isolation::Method::ALL);
    assert_same_words::<_, LockMode>(model::lock::LockMode::ALL);
    assert_same_words::<_, LockScope>(model::lock::LockScope::ALL);
    assert_same_words::<_, MessageState>(model::message::MessageState::ALL);
    assert_same_words::<_, LimitPolicy>(model::limits::Policy::ALL);
    assert_same_words::<_, Resource>(model::limits::Resource::ALL);
    assert_same_words::<_, TokenScope>(model::http::Scope::ALL);
    for mechanism in
        ["group_v1", "group_v2", "process", "process_and_measured", "measured", "priority", "none"]
    {
        assert_mirrors::<model::limits::Enforcement, LimitMechanism>(&json!(mechanism));
    }
    for state in ["starting", "running", "frozen", "stopping", "exited", "lost"] {
        assert_mirrors::<model::PaneState, PaneState>(&json!(state));
    }
    for status in ["starting", "running", "stopped", "missing", "damaged"] {
        assert_mirrors::<model::SessionStatus, SessionStatus>(&json!(status));
    }
    for mode in ["isolated", "legacy"] {
        assert_mirrors::<model::SessionMode, SessionMode>(&json!(mode));
    }
    for kind in ["auto", "worktree", "clone", "copy", "shared", "empty"] {
        assert_mirrors::<model::WorkspaceKind, WorkspaceKind>(&json!(kind));
    }
}

#[test]
fn pane_objects_match_model() {
    for reason in ["exited", "stopped", "not_started", "lost"] {
        let ending = json!({"code": 3, "signal": null, "reason": reason, "at": 5, "detail": "d"});
        assert_mirrors::<model::Ending, Ending>(&ending);
    }
    assert_mirrors::<model::ports::PortBlock, PortBlock>(&json!({"base": 20_000, "count": 10}));
    assert_mirrors::<model::limits::Frozen, Frozen>(&json!({"why": "disk", "at": 5}));
    assert_mirrors::<model::limits::OverLimit, OverLimit>(&json!({"why": "disk", "at": 5}));
    for login in [
        json!({"from": "variable", "name": "KEY"}),
        json!({"from": "store", "variable": "V", "dir": "/d"}),
        json!({"from": "asks", "store": "/d"}),
        json!({"from": "users"}),
    ] {
        assert_mirrors::<model::isolation::Isolation, PaneIsolation>(&json!({
            "method": "home", "home": "/h", "dirs": [{"agent": "claude", "path": "/c"}],
            "temp": "/t", "login": login, "kept_on_close": true
        }));
    }
    assert_mirrors::<model::message::Receipt, MessageReceipt>(
        &json!({"id": ID, "state": "failed", "at": 5, "why": "gone"}),
    );
}

#[test]
fn events_match_model() {
    let ending = json!({"code": 0, "signal": null, "reason": "exited", "at": 5});
    let conflict = |outcome: &str, evidence: &str| {
        json!({"event": "conflict", "path": "/f", "pane": ID, "name": "dev1", "holder": ID,
            "held_by": "dev2", "outcome": outcome, "evidence": evidence})
    };
    let kinds = [
        json!({"event": "daemon_started", "pid": 7, "adopted": 2}),
        json!({"event": "session_created", "session": ID, "name": "web"}),
        json!({"event": "session_closed", "session": ID}),
        json!({"event": "pane_created", "session": ID, "pane": ID, "name": "dev1"}),
        json!({"event": "pane_renamed", "pane": ID, "name": "dev2"}),
        json!({"event": "session_renamed", "session": ID, "name": "api"}),
        json!({"event": "session_migrated", "session": ID, "panes": 3}),
        json!({"event": "pane_restored", "pane": ID, "conversation": ID}),
        json!({"event": "conversation_changed", "pane": ID, "conversation": ID}),
        json!({"event": "resume_failed", "pane": ID, "conversation": ID, "why": "w"}),
        json!({"event": "ports_taken", "pane": ID, "ports": [1, 2]}),
        json!({"event": "retired", "path": "/a", "kept_as": "/b", "why": "w"}),
        json!({"event": "cleanup_failed", "path": "/a", "why": "w"}),
        json!({"event": "pane_exited", "pane": ID, "ending": ending}),
        json!({"event": "pane_lost", "pane": ID, "killed": 2}),
        json!({"event": "limit_near", "pane": ID, "resource": "disk", "used": 1, "limit": 2}),
        json!({"event": "limit_exceeded", "pane": ID, "resource": "cpu", "used": 3, "limit": 2,
            "policy": "freeze"}),
        json!({"event": "limit_kept", "pane": ID, "resource": "files", "limit": 2}),
        json!({"event": "pane_thawed", "pane": ID}),
        json!({"event": "pane_closed", "pane": ID}),
        json!({"event": "control_called", "request": "send", "target": "dev1"}),
        json!({"event": "control_called", "request": "gc"}),
        json!({"event": "api_called", "who": "w", "method": "POST", "path": "/", "status": 201}),
        conflict("refused", "asked"),
        conflict("changed", "kernel"),
        conflict("changed_too", "open_file"),
        conflict("changed", "nothing"),
        json!({"event": "message_queued", "message": ID, "session": ID, "pane": ID, "from": ID}),
        json!({"event": "message_delivered", "message": ID, "pane": ID}),
        json!({"event": "message_answered", "message": ID, "pane": ID}),
        json!({"event": "message_failed", "message": ID, "pane": ID, "why": "w"}),
        json!({"event": "quarantined", "path": "/a", "kept_as": "/b", "why": "w"}),
        json!({"event": "pane_closed", "pane": ID, "caller": {"kind": "local_user"}}),
        json!({"event": "pane_closed", "pane": ID,
            "caller": {"kind": "pane", "pane": ID, "session": ID}}),
        json!({"event": "pane_closed", "pane": ID,
            "caller": {"kind": "http_token", "scope": "control"}}),
    ];
    for mut event in kinds {
        let fields = event.as_object_mut().unwrap();
        fields.insert("seq".to_owned(), json!(9));
        fields.insert("at".to_owned(), json!(5));
        assert_mirrors::<model::event::Event, Event>(&event);
    }
}

#[test]
fn health_report_matches_model() {
    let checked = serde_json::to_value(Checked::default()).unwrap();
    for severity in ["error", "warning", "info"] {
        assert_mirrors::<Health, HealthReport>(&json!({
            "ok": true, "checked": checked,
            "findings": [{"severity": severity, "subject": "s", "what": "w", "evidence": "e",
                "remedy": "r"}],
        }));
    }
}

#[test]
fn team_matches_model() {
    assert_mirrors::<model::team::Team, Team>(&json!({
        "session": "web", "template": "t", "mode": "legacy", "env": {"A": "1"},
        "pane": [{
            "name": "dev", "role": "dev", "agent": "claude", "unit": "u", "workspace": "worktree",
            "carry": true, "isolation": "home", "cwd": "/w", "env": {"B": "2"}, "command": ["c"], "args": ["a"],
            "prompt": "p", "after": ["db"], "count": 3, "limits": ["disk=1G"],
            "ready": {"text": "ok", "port": true, "idle": true, "timeout": 5},
        }],
    }));
}

//! A machine that was restarted.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{Home, put};

/// Kills all processes and changes the boot id in the records, as a reboot does.
pub(crate) fn reboot(home: &Home) {
    home.kill_everything();
    for path in keeper_records(&home.state_root().join("sessions")) {
        let text = fs::read_to_string(&path).unwrap();
        let mut envelope: Value = serde_json::from_str(&text).unwrap();
        for process in ["keeper", "child"] {
            envelope["record"][process]["boot"] = "another".into();
        }
        // In the format of the record: compact, fields in order.
        let keeper: protocol::pane::KeeperRecord =
            serde_json::from_value(envelope["record"].take()).unwrap();
        let inner = serde_json::to_string(&keeper).unwrap();
        let checksum = blake3::hash(inner.as_bytes()).to_hex().to_string();
        let text = format!(r#"{{"format":1,"checksum":"{checksum}","record":{inner}}}"#);
        put(&path, &text);
    }
}

fn keeper_records(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => dirs.push(entry.path()),
                false if entry.file_name() == "keeper.json" => found.push(entry.path()),
                false => {}
            }
        }
    }
    found
}

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;
use crate::file::{Durability, write_atomic};

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_atomic(path, text.as_bytes(), Durability::ProcessCrash).unwrap();
}

fn root() -> (tempfile::TempDir, StateRoot) {
    let dir = tempfile::tempdir().unwrap();
    let root = StateRoot::open(&dir.path().join("home")).unwrap();
    (dir, root)
}

/// R26: originals stay unchanged, copies are separate writable files.
#[test]
fn copy_is_writable_and_template_is_not() {
    let (dir, root) = root();
    let from = dir.path().join("squad");
    put(&from.join("template.toml"), "description = \"three of them\"");
    put(&from.join("unit/a/brief.md"), "do it");
    put(&from.join("files/run"), "#!/bin/sh\n");
    fs::set_permissions(from.join("files/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("a/brief.md", from.join("unit/link")).unwrap();
    let to = dir.path().join("session");
    fs::create_dir(&to).unwrap();

    let added = add(&root, &from, None).unwrap();
    copy_into(&added, &to).unwrap();
    sync(&to).unwrap();

    assert_eq!((added.name.as_str(), added.description.as_str()), ("squad", "three of them"));
    let original = added.path.unwrap().join("unit/a/brief.md");
    let copy = to.join("unit/a/brief.md");
    let (was, is) = (fs::metadata(&original).unwrap(), fs::metadata(&copy).unwrap());
    assert_ne!(was.ino(), is.ino());
    assert_eq!((was.mode() & 0o777, is.mode() & 0o777), (0o400, 0o600));
    assert_eq!(fs::metadata(to.join("files/run")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(to.join("unit/a")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read_to_string(to.join("unit/link")).unwrap(), "do it");
    put(&copy, "changed");
    assert_eq!(fs::read_to_string(&original).unwrap(), "do it");
    // Only the parts are copied, and a second copy changes nothing.
    copy_into(&find(&root, "squad").unwrap(), &to).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(&to).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["files", "unit"]);
    assert_eq!(fs::read_to_string(&copy).unwrap(), "changed");
}

#[test]
fn shipped_template_is_hidden_by_user_template_of_same_name() {
    let (dir, root) = root();
    let from = dir.path().join("mine");
    put(&from.join("workflows/w.md"), "mine");

    let shipped = find(&root, SHIPPED).unwrap();
    let refused = remove(&root, SHIPPED).unwrap_err();
    let own = add(&root, &from, Some(SHIPPED.parse().unwrap())).unwrap();
    let listed = list(&root);

    assert!(shipped.path.is_none() && !shipped.files.is_empty() && own.path.is_some());
    assert!(matches!(refused, TemplateError::Shipped(_)), "{refused}");
    assert_eq!(listed.len(), 1);
    remove(&root, SHIPPED).unwrap();
    assert_eq!(find(&root, SHIPPED).unwrap(), shipped);
    assert!(matches!(remove(&root, "nope"), Err(TemplateError::NotFound(_))));
    let to = dir.path().join("session");
    fs::create_dir(&to).unwrap();
    copy_into(&shipped, &to).unwrap();
    for (name, _) in &shipped.files {
        assert!(to.join(name).is_file(), "{name}");
    }
}

#[test]
fn invalid_templates_are_rejected_without_traces() {
    let (dir, root) = root();
    let from = dir.path().join("bad");
    put(&from.join("unit/a"), "a");
    symlink("/etc", from.join("unit/etc")).unwrap();

    let leads_out = add(&root, &from, None).unwrap_err().to_string();
    fs::remove_file(from.join("unit/etc")).unwrap();
    put(&from.join("template.toml"), "nme = 1");
    let misspelt = add(&root, &from, None).unwrap_err().to_string();
    let nothing = add(&root, &dir.path().join("home"), None).unwrap_err().to_string();

    assert!(leads_out.contains("unit/etc") && leads_out.contains("/etc"), "{leads_out}");
    assert!(misspelt.contains("nme"), "{misspelt}");
    assert!(nothing.contains("unit, workflows, files"), "{nothing}");
    assert!(matches!(find(&root, "bad"), Err(TemplateError::NotFound(_))));
    assert!(matches!(find(&root, "../.."), Err(TemplateError::NotFound(_))));
}

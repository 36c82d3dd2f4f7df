//! Rules about the structure of the code: module dependencies, the size of types, and the names in
//! ARCHITECTURE.md and SECURITY.md.

#![expect(clippy::wildcard_enum_match_arm, reason = "syn's enums grow with the language")]

mod graph;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use crate::source::{CRATES, Module, workspace};

/// More fields than this mean that a type has several responsibilities.
const MAX_FIELDS: usize = 12;

/// More methods than this, over all impl blocks, mean the same.
const MAX_METHODS: usize = 40;

#[test]
fn top_level_modules_have_no_dependency_cycles() {
    let mut failures = String::new();
    for name in CRATES {
        let modules = source::modules(name);
        let graph = graph::siblings(&modules, &[]);
        for cycle in graph::cycles(&graph) {
            writeln!(failures, "{name}: {}", cycle.join(", ")).unwrap();
            for member in &cycle {
                let within = graph[member].iter().filter(|to| cycle.contains(to));
                let within: Vec<&str> = within.map(String::as_str).collect();
                writeln!(failures, "    {member} -> {}", within.join(", ")).unwrap();
            }
        }
    }

    assert!(failures.is_empty(), "modules that depend on each other:\n{failures}");
}

#[test]
fn nested_modules_have_no_dependency_cycles() {
    let mut failures = String::new();
    for name in CRATES {
        let modules = source::modules(name);
        for parent in graph::parents(&modules).into_iter().filter(|parent| !parent.is_empty()) {
            for cycle in graph::cycles(&graph::siblings(&modules, &parent)) {
                let (parent, members) = (parent.join("::"), cycle.join(", "));
                writeln!(failures, "{name}::{parent}: {members}").unwrap();
            }
        }
    }

    assert!(failures.is_empty(), "modules that depend on each other:\n{failures}");
}

#[test]
fn daemon_types_have_at_most_12_fields() {
    let counts = source::modules("daemon").iter().flat_map(Module::fields).collect::<Vec<_>>();

    let too_large: Vec<String> = counts
        .iter()
        .filter(|found| found.count > MAX_FIELDS)
        .map(|found| format!("{}::{}: {}", found.module.join("::"), found.name, found.count))
        .collect();
    assert!(too_large.is_empty(), "more than {MAX_FIELDS} fields: {too_large:#?}");
}

#[test]
fn daemon_types_have_at_most_40_methods() {
    let modules = source::modules("daemon");
    // Two types may share a name: a block belongs to the one declared nearest to it.
    let mut declared: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for module in &modules {
        for name in module.types() {
            declared.entry(name).or_default().push(module.path.clone());
        }
    }
    let mut methods: BTreeMap<(Vec<String>, String), usize> = BTreeMap::new();
    for block in modules.iter().flat_map(Module::methods) {
        let Some(candidates) = declared.get(&block.name) else { continue };
        let shared = |path: &&Vec<String>| {
            path.iter().zip(&block.module).take_while(|(a, b)| a == b).count()
        };
        let owner = candidates.iter().max_by_key(shared).expect("it was declared somewhere");
        *methods.entry((owner.clone(), block.name)).or_default() += block.count;
    }

    let too_large: Vec<String> = methods
        .iter()
        .filter(|(_, count)| **count > MAX_METHODS)
        .map(|((module, name), count)| format!("{}::{name}: {count}", module.join("::")))
        .collect();
    assert!(too_large.is_empty(), "more than {MAX_METHODS} methods: {too_large:#?}");
}

#[test]
fn source_files_all_belong_to_a_module() {
    for name in CRATES {
        let modules = source::modules(name);
        let paths: BTreeSet<&Vec<String>> = modules.iter().map(|module| &module.path).collect();
        for module in &modules {
            let Some((_, parent)) = module.path.split_last() else { continue };
            assert!(paths.contains(&parent.to_vec()), "no parent of {}", module.file.display());
        }
    }
}

#[test]
fn architecture_md_names_only_existing_files() {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();

    let mut missing = Vec::new();
    let mut dir = String::new();
    for line in text.lines() {
        // Every second piece between backticks is code.
        for code in line.split('`').skip(1).step_by(2) {
            if code.starts_with("crates/") {
                dir = code.to_owned();
            }
            if !names_a_file(code) {
                continue;
            }
            // A bare file name is relative to the directory before it in the same line.
            let candidates =
                [code.to_owned(), format!("{dir}/{code}"), format!("{dir}/src/{code}")];
            if !candidates.iter().any(|path| workspace().join(path).exists()) {
                missing.push(code.to_owned());
            }
        }
    }

    assert!(missing.is_empty(), "ARCHITECTURE.md names missing files: {missing:?}");
}

#[test]
fn security_md_names_only_existing_tests() {
    let text = fs::read_to_string(workspace().join("SECURITY.md")).unwrap();
    let codes = text.split('`').skip(1).step_by(2);
    let mut named = 0;

    let mut missing = Vec::new();
    for (file, test) in codes.filter_map(|code| code.split_once("::")) {
        let path = workspace().join("crates/cli/tests").join(file).with_extension("rs");
        // Other names with two parts are modules, whose unit tests are meant.
        let Ok(source) = fs::read_to_string(path) else { continue };
        named += 1;
        if !source.contains(&format!("fn {test}(")) {
            missing.push(format!("{file}::{test}"));
        }
    }

    assert!(missing.is_empty(), "SECURITY.md names missing tests: {missing:?}");
    assert!(named > 30, "only {named} tests are named");
}

/// Whether a piece of code in the text is a path: `crates/...` or `NAME.rs`, without placeholders
/// such as `VERB.rs`.
fn names_a_file(code: &str) -> bool {
    let is_path = code.starts_with("crates/") || code.ends_with(".rs");
    let is_placeholder = code.split('/').any(|part| {
        let stem = part.strip_suffix(".rs").unwrap_or(part);
        !stem.is_empty() && stem.chars().all(|letter| letter.is_ascii_uppercase())
    });
    is_path && !is_placeholder
}

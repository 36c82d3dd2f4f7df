//! R29: the API with clients that nobody here wrote: schemathesis, which calls everything that the
//! description allows and does not allow, and curl, as the documents say.
//!
//! `CCMUX_SOAK_CASES` says how many calls schemathesis makes up for each operation, besides those at
//! the edges of what the description allows; `make soak` says hundreds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::soak::how_often;
use testkit::{Home, put};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// What is on the way to the answer is up to strangers.
const LONG: Duration = Duration::from_secs(3600);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// R29: nothing that the description allows is refused without a documented reason, nothing that it
/// forbids is taken, and nothing at all makes the daemon fail.
#[test]
fn heavy_schemathesis_finds_nothing_that_the_description_does_not_say() {
    let cases = how_often("CCMUX_SOAK_CASES", 5);
    let st = workspace().join("target/venv/bin/st");
    assert!(st.exists(), "schemathesis is not installed: run scripts/install-schemathesis");
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = home.start_pane("stays", &["cat"]);
    let session = home.ccmux(&["show", "--json", &pane.id]).json()["session"]["id"].take();
    let cases = cases.to_string();
    let rules = workspace().join("tests/schemathesis");
    // Reports and caches of its own go where it is run.
    for file in ["schemathesis.toml", "hooks.py"] {
        fs::copy(rules.join(file), home.work().join(file)).unwrap();
    }
    let token = http.token().unwrap();
    let description = format!("{}/v1/openapi.json", http.url);
    let words = ["run", &description, "--max-examples", &cases];

    let run = home
        .program(&st, &words)
        .env("CCMUX_URL", &http.url)
        .env("CCMUX_TOKEN", token)
        .env("CCMUX_TEST_DIR", home.work())
        .env("CCMUX_TEST_PANE", &pane.id)
        .env("CCMUX_TEST_SESSION", session.as_str().unwrap())
        .patience(LONG)
        .run();

    assert!(run.status.success(), "{}\n{}", run.stdout, run.stderr);
    // The daemon and the pane that all of them met are still there.
    assert_eq!(home.show(&pane.id)["state"], "running", "{}", run.stdout);
    println!("{}", run.stdout);
}

/// R29: what the documents show is what happens.
#[test]
fn the_calls_in_the_documents_work_as_they_are_written() {
    let home = Home::new(CCMUX);
    let http = home.serve();
    let text = fs::read_to_string(workspace().join("docs/api.md")).unwrap();
    let blocks: Vec<&str> = text
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block))
        .collect();
    assert!(blocks.len() > 3, "only {} blocks to run", blocks.len());
    let script = home.dir().join("documents.sh");
    put(&script, &blocks.join("\n\necho\n"));

    let run = home
        .program("sh", &["-eux", script.to_str().unwrap()])
        .env("CCMUX_URL", &http.url)
        .env("CCMUX_TOKEN", http.token().unwrap())
        .env("PATH", path_with_ccmux())
        .patience(LONG)
        .run();

    assert!(run.status.success(), "{}\n{}", run.stdout, run.stderr);
}

/// The documents also say `ccmux`.
fn path_with_ccmux() -> String {
    let dir = Path::new(CCMUX).parent().unwrap();
    format!("{}:/usr/local/bin:/usr/bin:/bin", dir.display())
}

//! R29: the API with third-party clients: schemathesis, which generates valid and invalid requests
//! from the OpenAPI description, and curl, with the commands in the documentation.
//!
//! `CCMUX_SOAK_CASES` sets the number of generated requests per operation, besides edge cases;
//! `make soak` uses hundreds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::soak::repetitions;
use testkit::{Home, put};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Deadline for schemathesis and curl.
const LONG: Duration = Duration::from_secs(3600);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// R29: no valid request is refused without a documented reason, no invalid one is accepted, and
/// none makes the daemon fail.
#[test]
fn heavy_schemathesis_finds_no_undocumented_behaviour() {
    let cases = repetitions("CCMUX_SOAK_CASES", 5);
    let st = testkit::capability::schemathesis();
    assert!(st.exists(), "schemathesis is not installed: run scripts/install-schemathesis");
    testkit::require!(Schemathesis);
    let home = Home::new(CCMUX);
    let http = home.serve();
    let pane = home.start_pane("stays", &["cat"]);
    let session = home.ccmux(&["show", "--json", &pane.id]).json()["session"]["id"].take();
    let cases = cases.to_string();
    let rules = workspace().join("tests/schemathesis");
    // It writes reports and caches into its working directory.
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
        .timeout(LONG)
        .run();

    assert!(run.status.success(), "{}\n{}", run.stdout, run.stderr);
    // The daemon and the pane that all of them met are still there.
    assert_eq!(home.show(&pane.id)["state"], "running", "{}", run.stdout);
    println!("{}", run.stdout);
}

/// R29: the documented commands work.
#[test]
fn documented_curl_commands_work() {
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
    put(&script, blocks.join("\n\necho\n"));

    let run = home
        .program("sh", &["-eux", script.to_str().unwrap()])
        .env("CCMUX_URL", &http.url)
        .env("CCMUX_TOKEN", http.token().unwrap())
        .env("PATH", path_with_ccmux())
        .timeout(LONG)
        .run();

    assert!(run.status.success(), "{}\n{}", run.stdout, run.stderr);
}

/// The documents also say `ccmux`.
fn path_with_ccmux() -> String {
    let dir = Path::new(CCMUX).parent().unwrap();
    format!("{}:/usr/local/bin:/usr/bin:/bin", dir.display())
}

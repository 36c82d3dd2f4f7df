//! The benchmark runs; its results are not asserted.

use testkit::Home;

#[test]
fn quick_run_prints_table_and_writes_samples() {
    let home = Home::new("no-ccmux");
    let file = home.dir().join("results/bench.json");
    let args = ["--quick", "--rounds", "2", "--only", "log,ink-20,echo", "--json"];

    // Without a `PATH` there is no tmux, only the bare terminal.
    let table = home
        .program(env!("CARGO_BIN_EXE_bench"), &args)
        .arg(&file)
        .env("PATH", "/nonexistent")
        .ok();

    assert!(table.contains("4 MB log lines, detached"), "{table}");
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let rows = written["rows"].as_array().unwrap();
    let samples = |row: &serde_json::Value| row["samples"]["bare"].as_array().map(Vec::len);
    let log = rows.iter().find(|row| row["measure"] == "log").unwrap();
    assert_eq!(samples(log), Some(2), "{log}");
    assert!(log["values"]["bare"].as_f64().unwrap() > 0.0);
    assert_eq!(written["failures"], serde_json::json!([]));
    home.no_processes_left();
}

//! The most likely mistakes, and what ccmux says: what failed, why, and the next step.

use std::fmt::Write as _;

use testkit::Home;

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// Command lines as people type them, after `ccmux`.
const MISTAKES: [&str; 42] = [
    // Words of other programs.
    "status",
    "list",
    "ps",
    "run make",
    "logs dev1",
    "rm dev1",
    "detach",
    "resume dev1",
    "restart dev1",
    "version",
    "init",
    "exec dev1",
    "inspect dev1",
    // Commands of tmux.
    "capture-pane -p -t dev1",
    "new-session -d -s web",
    "split-window",
    "kill-session -t web",
    "kill-server",
    "send-keys -t dev1 ls Enter",
    // Similar to commands that remove something.
    "purg",
    "clsoe dev1",
    "gcc",
    // Misspelled.
    "attahc dev1",
    "shwo dev1",
    "cluade",
    // Names that do not exist.
    "attach",
    "show nowhere",
    "read nowhere",
    "send nowhere hello",
    "close nowhere",
    "stop nowhere",
    "restore nowhere",
    "wait nowhere --for exit",
    "lock ls --pane nowhere",
    // Missing or wrong arguments.
    "send",
    "wait dev1 --for idle",
    "send dev1 --key ctrl-alt-entf",
    "new --workspace branch",
    "new --size big -d",
    "new -d -- no-such-program",
    "up",
    "up --preset eight",
];

#[test]
fn mistakes_are_answered_with_what_why_and_the_next_step() {
    let home = Home::new(CCMUX);
    home.start_pane("dev1", &["cat"]);
    let mut answers = String::new();

    for line in MISTAKES {
        let words: Vec<&str> = line.split(' ').collect();
        let done = home.ccmux(&words).run();
        let code = done.status.code().unwrap();
        let text = format!("{}{}", done.stdout, done.stderr);
        let text = text.replace(home.dir().to_str().unwrap(), "DIR");
        assert!(code != 0, "ccmux {line}: {text}");
        let has_next_step =
            ["hint: ", "tip: ", "For more information"].iter().any(|s| text.contains(s));
        assert!(has_next_step, "ccmux {line}: {text}");
        writeln!(answers, "$ ccmux {line}  (exit {code})\n{}\n", text.trim_end()).unwrap();
    }

    insta::with_settings!({ filters => vec![(r"\([0-9a-f]{8}\)", "(ID)")] }, {
        insta::assert_snapshot!(answers);
    });
}

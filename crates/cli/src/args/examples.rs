//! The examples under the help of each verb.

pub(super) const TOP: &str = "\
Examples:
  ccmux                              look at the last pane, or start a shell in a new one
  ccmux new -n dev1 -- claude        start an agent and look at it; ctrl-b d leaves it running
  ccmux new -d -n tests -- make test start something in the background
  ccmux ls                           see what runs
  ccmux send dev1 'fix it' --enter   talk to an agent

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict or refused, 5 timed out,
6 daemon unreachable";

pub(super) const NEW: &str = "\
Examples:
  ccmux new                                a shell, in a tree of its own
  ccmux new --workspace shared             a shell, right here
  ccmux new -n dev1 -- claude              an agent, attached
  ccmux new --agent claude -- --model opus an agent by name, and arguments for it
  ccmux new --isolation none -- claude     with your own configuration, unprotected
  ccmux new -d --session web -- npm start  in the background, in the session web
  ccmux new -d --session web --role qa --session-env STAGE=test
  ccmux new -d --env PORT=80 --env DEBUG --size 120x40 --json -- ./serve";

pub(super) const LS: &str = "\
Examples:
  ccmux ls
  ccmux ls --json | jq '.sessions[].panes[] | select(.state == \"running\") | .name'";

pub(super) const SHOW: &str = "\
Examples:
  ccmux show dev1
  ccmux show web/dev1
  ccmux show 1a2b3c4d --json";

pub(super) const ATTACH: &str = "\
Keys:
  ctrl-b d   detach; the pane runs on

Examples:
  ccmux attach
  ccmux attach dev1
  ccmux attach dev1 --read-only";

pub(super) const RENAME: &str = "\
Examples:
  ccmux rename dev1 frontend";

pub(super) const SEND: &str = "\
Examples:
  ccmux send dev1 'run the tests' --enter
  ccmux send dev1 --key ctrl-c
  ccmux send dev1 --key up --key up --enter
  ccmux send dev1 - --enter < prompt.txt
  ccmux send dev1 -- --text-that-begins-with-a-dash";

pub(super) const READ: &str = "\
Examples:
  ccmux read dev1                    what is on its screen
  ccmux read dev1 --lines 200        with history
  ccmux read dev1 --log > dev1.log   every byte that is kept
  ccmux read dev1 --log --from 4096 --json
  ccmux read dev1 --log --follow";

pub(super) const WAIT: &str = "\
Examples:
  ccmux wait tests --for exit --timeout 600
  ccmux wait server --for 'text=listening on port \\d+'";

pub(super) const STOP: &str = "\
Examples:
  ccmux stop dev1
  ccmux stop dev1 dev2 --grace 0.5
  ccmux stop web                     every pane of the session web";

pub(super) const RESTORE: &str = "\
A restored pane is started with exactly what it was started with at first: program, arguments,
environment, directory and size. Its agent goes on with the conversation that it had last.

Examples:
  ccmux restore dev1
  ccmux restore web                  every pane of the session web that has ended";

pub(super) const CLOSE: &str = "\
Examples:
  ccmux close dev1
  ccmux close dev1 --discard 2117b4f3a1aa    lose exactly the work that was named
  ccmux close web/dev1 web/dev2 --grace 1";

pub(super) const PURGE: &str = "\
The processes end as with `ccmux stop`. Then the session's directory and every directory of its
panes are deleted, those that `cleanup_on_close = false` keeps included: nothing can be got back.

Examples:
  ccmux purge web
  ccmux purge web api --yes --json";

pub(super) const GC: &str = "\
The daemon does the same by itself, as often as `cleanup.every` in ccmux.toml says. What belongs to
a pane, is younger than `cleanup.orphan_age`, or was not made by ccmux is never touched.

Examples:
  ccmux gc --dry-run
  ccmux gc --dry-run --json | jq '[.items[].bytes] | add'
  ccmux gc --empty-trash";

pub(super) const ENV: &str = "\
Later sources win: inherited from the client that asked for the pane, shared ([env] in ccmux.toml),
role, session, ports, pane (--env), ccmux, isolation. Values that look like secrets are not shown.

Examples:
  ccmux env dev1
  ccmux env dev1 --why
  ccmux env dev1 --json | jq -r '.variables[] | select(.source == \"role\") | .name'";

pub(super) const EVENTS: &str = "\
Examples:
  ccmux events
  ccmux events --after 120 --follow --json   one object per line";

pub(super) const CONFIG: &str = "\
The file is config/ccmux.toml in the state root. Without one, everything is at its default.

Examples:
  ccmux config
  ccmux config --json | jq '.values[] | select(.origin != \"default\")'
  ccmux config --check
  ccmux config --defaults > ~/.ccmux/config/ccmux.toml";

pub(super) const DOCTOR: &str = "\
Looks at every pane, its directories, its process and its conversation, at the state root, and at
your own directories for what should be in a pane's. Changes nothing. Exit code 4 means that an
error or a warning was found.

Examples:
  ccmux doctor
  ccmux doctor --json | jq '.findings[] | select(.severity == \"error\")'";

pub(super) const DAEMON: &str = "\
Panes do not depend on the daemon: it can be stopped, killed or replaced while they run.
Every other verb starts it when it is needed.

Examples:
  ccmux daemon status --json
  ccmux daemon stop";

pub(super) const COMPLETIONS: &str = "\
Examples:
  ccmux completions bash > ~/.local/share/bash-completion/completions/ccmux
  ccmux completions zsh > ~/.zfunc/_ccmux
  ccmux completions fish > ~/.config/fish/completions/ccmux.fish";

//! The text after the help of each command: notes and examples.

use model::attach_keys::PrefixKey;

pub(super) const TOP: &str = "\
Examples:
  ccmux                               attach to the last pane, or start a shell in a new one
  ccmux claude                        start an agent and attach to it (ctrl-b d detaches)
  ccmux new -n dev1 -- claude         the same, in a pane named dev1
  ccmux new -d -n tests -- make test  start a command in the background
  ccmux ls                            list sessions and panes
  ccmux send dev1 'fix it' --enter    type a prompt into a pane

Exit codes: 0 success, 1 failure, 2 usage error, 3 not found, 4 conflict or refused, 5 timeout,
6 daemon unreachable";

pub(super) const NEW: &str = "\
A name that a running pane has is refused. An ended pane with that name is renamed.

Examples:
  ccmux new                                 a shell in its own workspace
  ccmux new --workspace shared              a shell in the current directory
  ccmux new -n dev1 -- claude               an agent, attached
  ccmux new --agent claude -- --model opus  an agent by name, with arguments
  ccmux new --isolation none -- claude      an agent that uses your own configuration
  ccmux new --carry -- claude               with your uncommitted changes
  ccmux new -d --session web -- npm start   in the background, in session web
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

/// Returns the notes on `attach`: the keys, from their table, and the examples.
pub(super) fn attach() -> String {
    let keys = PrefixKey::default().help().into_iter();
    let keys: String = keys.map(|(key, meaning)| format!("  {key:<16} {meaning}\n")).collect();
    format!(
        "Keys:\n{keys}\n`keys.prefix` in ccmux.toml replaces ctrl-b. If the program fails, its last \
         20 lines stay on your screen.\n\n\
         Examples:\n  ccmux attach\n  ccmux attach dev1\n  ccmux attach dev1 --read-only"
    )
}

pub(super) const RENAME: &str = "\
A name that another pane of the session has is refused.

Examples:
  ccmux rename dev1 frontend
  ccmux rename web/dev1 frontend";

pub(super) const SEND: &str = "\
Examples:
  ccmux send dev1 'run the tests' --enter
  ccmux send dev1 --key ctrl-c
  ccmux send dev1 --key up --key up --enter
  ccmux send dev1 - --enter < prompt.txt
  ccmux send dev1 -- --text-that-starts-with-a-dash";

pub(super) const READ: &str = "\
Examples:
  ccmux read dev1                    the visible screen
  ccmux read dev1 --lines 200        the last 200 lines, including scrollback
  ccmux read dev1 --log > dev1.log   the raw output log
  ccmux read dev1 --log --from 4096 --json
  ccmux read dev1 --log --follow";

pub(super) const WAIT: &str = "\
If the pane exits before a line matches, the command fails with exit code 1.

Examples:
  ccmux wait tests --for exit --timeout 600
  ccmux wait server --for 'text=listening on port \\d+'";

pub(super) const STOP: &str = "\
Examples:
  ccmux stop dev1
  ccmux stop dev1 dev2 --grace 0.5
  ccmux stop web                     every pane of session web";

pub(super) const RESTORE: &str = "\
A restored pane gets its original command, arguments, environment, directory and size. Its agent
resumes the last conversation. A pane was interrupted if a crash or a reboot ended it: its program
did not exit by itself, and the pane was not stopped or closed.

Examples:
  ccmux restore                      every pane that was interrupted
  ccmux restore dev1
  ccmux restore web                  every exited pane of session web
  ccmux restore --all                every ended pane";

pub(super) const CLOSE: &str = "\
A pane with unsaved work is neither stopped nor closed. The error lists the work and a token for
--discard.

Examples:
  ccmux close dev1
  ccmux close --ended                        every ended pane without unsaved work
  ccmux close dev1 --discard 2117b4f3a1aa    close it and discard the listed work
  ccmux close web/dev1 web/dev2 --grace 1";

pub(super) const PURGE: &str = "\
Stops the processes as `ccmux stop` does, then moves the session directory and all directories of
its panes to the trash, including those kept by `cleanup_on_close = false`. If a pane has unsaved
work, nothing is stopped or moved.

Examples:
  ccmux purge web
  ccmux purge web api --yes --json";

pub(super) const GC: &str = "\
The daemon also does this periodically (`cleanup.every` in ccmux.toml). Directories that belong to a
pane, are younger than `cleanup.orphan_age`, or were not created by ccmux are never touched.

Examples:
  ccmux gc --dry-run
  ccmux gc --dry-run --json | jq '[.items[].bytes] | add'
  ccmux gc --empty-trash";

pub(super) const ENV: &str = "\
Sources, in increasing order of precedence: inherited (from the client that created the pane),
shared ([env] in ccmux.toml), role, session, ports, pane (--env), ccmux, isolation. Values that look
like secrets are masked.

Examples:
  ccmux env dev1
  ccmux env dev1 --why
  ccmux env dev1 --json | jq -r '.variables[] | select(.source == \"role\") | .name'";

pub(super) const EVENTS: &str = "\
Examples:
  ccmux events
  ccmux events --after 120 --follow --json   one JSON object per line";

pub(super) const CONFIG: &str = "\
The configuration file is config/ccmux.toml in the state root. Keys that are not set have their
default value.

Examples:
  ccmux config
  ccmux config --json | jq '.values[] | select(.origin != \"default\")'
  ccmux config --check
  ccmux config --defaults > ~/.ccmux/config/ccmux.toml";

pub(super) const DOCTOR: &str = "\
Checks the directories, process and conversation of every pane, the state root, and your own
agent directories for files that belong in a pane. Changes nothing. The exit code is 4 if there are
errors or warnings.

Examples:
  ccmux doctor
  ccmux doctor --json | jq '.findings[] | select(.severity == \"error\")'";

pub(super) const DAEMON: &str = "\
Panes do not depend on the daemon: they keep running while it is stopped, killed or replaced. Other
commands start the daemon when they need it.

Examples:
  ccmux daemon status --json
  ccmux daemon stop";

pub(super) const DAEMON_RUN: &str = "\
Examples:
  ccmux daemon run
  ccmux daemon run --home /srv/ccmux";

pub(super) const DAEMON_START: &str = "\
Examples:
  ccmux daemon start
  ccmux daemon start --json | jq .pid";

pub(super) const DAEMON_STOP: &str = "\
Examples:
  ccmux daemon stop
  ccmux daemon stop && ccmux daemon start";

pub(super) const DAEMON_STATUS: &str = "\
Examples:
  ccmux daemon status
  ccmux daemon status --json | jq .version";

pub(super) const DAEMON_INSTALL: &str = "\
Writes ~/.config/systemd/user/ccmux.service and enables it. Not required: other commands start the
daemon when they need it.

Examples:
  ccmux daemon install
  ccmux daemon install --print   the unit, for another service manager";

pub(super) const DAEMON_UNINSTALL: &str = "\
Examples:
  ccmux daemon uninstall";

pub(super) const COMPLETIONS: &str = "\
The script completes commands, options, and the names of panes, sessions, agents, presets, templates
and workspaces.

Examples:
  source <(ccmux completions bash)   in ~/.bashrc
  source <(ccmux completions zsh)    in ~/.zshrc, after compinit
  ccmux completions fish > ~/.config/fish/completions/ccmux.fish";

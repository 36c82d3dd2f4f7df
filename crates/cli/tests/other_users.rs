//! Servers of other users receive nothing: neither a request with the user's environment nor the
//! descriptor of the user's terminal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use model::Size;
use tempfile::TempDir;
use testkit::{DEADLINE, Home, wait_until};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// A user id without an account.
const OTHER: u32 = 54321;

/// The last bytes that a server receives in a test.
const LAST: &str = "the last bytes";

/// Accepts connections one after the other, and records the bytes received on all of them.
const SERVER: &str = r#"
    use Socket;
    my ($path, $log) = @ARGV;
    socket(my $server, PF_UNIX, SOCK_STREAM, 0) or die $!;
    bind($server, sockaddr_un($path)) or die $!;
    chmod(0777, $path);
    listen($server, 5) or die $!;
    open(my $record, '>', $log) or die $!;
    select((select($record), $| = 1)[0]);
    $| = 1;
    print "ready\n";
    while (accept(my $client, $server)) {
        while (sysread($client, my $bytes, 65536)) { print $record $bytes; }
    }
"#;

/// A directory of another user, and a server of that user in it.
struct Stranger {
    dir: TempDir,
    server: Child,
}

impl Stranger {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("cx-other-").tempdir_in("/tmp").unwrap();
        chown(dir.path(), Some(OTHER), Some(OTHER)).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new("perl");
        command.args(["-e", SERVER]).arg(dir.path().join("socket")).arg(dir.path().join("log"));
        command.current_dir("/").uid(OTHER).gid(OTHER).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { dir, server }
    }

    /// Replaces the socket at `path` by that of the server.
    fn replace_socket(&self, path: &Path) {
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
        fs::hard_link(self.dir.path().join("socket"), path).unwrap();
    }

    /// Asserts that nothing but these last bytes arrives at the server.
    #[track_caller]
    fn assert_received_nothing(&self) {
        let socket = self.dir.path().join("socket");
        UnixStream::connect(socket).unwrap().write_all(LAST.as_bytes()).unwrap();
        let received = || fs::read_to_string(self.dir.path().join("log")).unwrap();
        wait_until("the server received the last bytes", DEADLINE, || received().ends_with(LAST));
        assert_eq!(received(), LAST);
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.server.kill();
        let _ended = self.server.wait();
    }
}

fn own_dir(path: PathBuf) -> PathBuf {
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    path
}

#[test]
fn daemon_of_another_user_receives_nothing() {
    testkit::require!(Root, Perl);
    let new = ["new", "-d", "--", "sleep", "1000"];

    // In a directory of the other user.
    let stranger = Stranger::new();
    let run = own_dir(stranger.dir.path().join("root/run"));
    for dir in [run.as_path(), run.parent().unwrap()] {
        chown(dir, Some(OTHER), Some(OTHER)).unwrap();
    }
    stranger.replace_socket(&run.join("control.sock"));
    let home = Home::new(CCMUX).with_state_root(run.parent().unwrap());
    let refused = home.ccmux(&new).env("ANTHROPIC_API_KEY", "secret").fails_with(6);
    assert!(refused.contains("belongs to user 54321"), "{refused}");
    stranger.assert_received_nothing();

    // In our own directory.
    let stranger = Stranger::new();
    let home = Home::new(CCMUX);
    let run = own_dir(home.state_root().join("run"));
    stranger.replace_socket(&run.join("control.sock"));
    let refused = home.ccmux(&new).env("ANTHROPIC_API_KEY", "secret").fails_with(6);
    assert!(refused.contains("runs as user 54321"), "{refused}");
    home.ccmux(&["hook", "report"]).run();
    stranger.assert_received_nothing();
}

#[test]
fn keeper_of_another_user_receives_nothing() {
    testkit::require!(Root, Perl);
    let stranger = Stranger::new();
    let home = Home::new(CCMUX);
    let pane = home.start_pane("a", &["sleep", "1000"]);
    stranger.replace_socket(&pane.dir.join("keeper.sock"));

    home.ccmux(&["send", "a", "secret", "--enter"]).fails_with(1);
    home.ccmux(&["read", "a"]).run();
    let screen = home.ccmux(&["attach", "a"]).screen(Size::new(80, 24).unwrap());

    assert_ne!(screen.wait_exit(), 0);
    stranger.assert_received_nothing();
    home.kill_everything();
}

#[test]
fn state_root_below_a_directory_of_another_user_is_refused() {
    testkit::require!(Root, Perl);
    let stranger = Stranger::new();
    let root = own_dir(stranger.dir.path().join("root"));
    let home = Home::new(CCMUX).with_state_root(&root);

    let foreign = home.ccmux(&["ls"]).run();
    chown(stranger.dir.path(), Some(0), Some(0)).unwrap();
    let writable = home.ccmux(&["ls"]).run();
    fs::set_permissions(stranger.dir.path(), Permissions::from_mode(0o1777)).unwrap();
    home.ccmux(&["ls"]).ok();

    for (refused, why) in [(foreign, "belongs to user 54321"), (writable, "writable by other")] {
        assert!(!refused.status.success() && refused.stderr.contains(why), "{}", refused.stderr);
    }
}

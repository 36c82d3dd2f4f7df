//! A second user of the machine gets nowhere: sockets, files, processes, the HTTP API and planted
//! paths. Programs of that user run here under another uid, so the tests need root.
//!
//! Servers of other users are tested in `other_users.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test writes its files in place")]

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::{Home, put};

const CCMUX: &str = env!("CARGO_BIN_EXE_ccmux");

/// A user id without an account.
const OTHER: u32 = 54321;

/// Connects to a Unix socket, sends a request of a client of ccmux and of HTTP, and prints whether
/// the connection was refused, or the number of bytes received until its end.
const CONNECT: &str = r#"
    use Socket;
    my ($dir, $name, $hello) = @ARGV;
    socket(my $client, PF_UNIX, SOCK_STREAM, 0) or die $!;
    # The whole path may be longer than an address.
    if (!chdir($dir) || !connect($client, sockaddr_un($name))) { print "refused"; exit; }
    $SIG{PIPE} = 'IGNORE';
    syswrite($client, pack('H*', $hello));
    shutdown($client, 1);
    my $received = 0;
    while (my $more = sysread($client, my $bytes, 65536)) { $received += $more; }
    print "received $received";
"#;

/// Opens every path of standard input for reading and for writing, and prints those that it could.
const OPEN: &str = r#"
    use Fcntl;
    while (my $path = <STDIN>) {
        chomp $path;
        print "$path\n" if sysopen(my $a, $path, O_RDONLY | O_NONBLOCK);
        print "$path\n" if sysopen(my $b, $path, O_WRONLY | O_NONBLOCK | O_APPEND);
    }
"#;

/// Signals and traces processes, and prints those that permit it.
const PROCESSES: &str = r#"
    my $ptrace = (`uname -m` =~ /aarch64/) ? 117 : 101;
    for my $pid (@ARGV) {
        print "signal $pid\n" if kill('HUP', $pid);
        print "attach $pid\n" if syscall($ptrace, 16, $pid + 0, 0, 0) == 0;
        for my $file ('mem', 'environ', 'fd/0', 'cwd/.', 'root/.', 'maps') {
            print "$file $pid\n" if open(my $f, '<', "/proc/$pid/$file");
        }
    }
"#;

/// Opens idle connections, says so, and keeps them until killed.
const IDLE: &str = r#"
    use Socket;
    my ($port, $count) = @ARGV;
    my @held;
    for (1..$count) {
        socket(my $s, PF_INET, SOCK_STREAM, 0) or die $!;
        connect($s, sockaddr_in($port, inet_aton('127.0.0.1'))) or last;
        push @held, $s;
    }
    $| = 1;
    print "held\n";
    sleep 1000;
"#;

/// Returns a Perl program that runs as the other user.
fn as_other(script: &str) -> Command {
    let mut command = Command::new("perl");
    command.args(["-e", script]).current_dir("/").uid(OTHER).gid(OTHER);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Runs a Perl program as the other user and returns its output.
fn output_of_other(script: &str, args: &[&str], input: &str) -> String {
    let mut child = as_other(script).args(args).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a greeting of the control socket as hexadecimal digits.
fn greeting() -> String {
    let hello = protocol::greeting::Hello::current();
    let frame = protocol::Frame::json(protocol::Kind::Hello, &hello).encode();
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns a home whose directories above the state root are open to everyone.
fn open_home() -> Home {
    let home = Home::new(CCMUX);
    set_mode(home.dir(), 0o755);
    set_mode(home.state_root().parent().unwrap(), 0o755);
    home
}

/// Returns all paths below a directory.
fn all_paths(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let mut found = vec![dir.to_owned()];
    for entry in entries {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(all_paths(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// Even with the directories open and the modes of the sockets changed, the uid is checked.
#[test]
fn sockets_answer_no_other_user() {
    testkit::require!(Root, Perl);
    let home = open_home();
    let pane = home.start_pane("a", &["sleep", "1000"]);
    let run = home.state_root().join("run");
    let http = run.join("http.sock");
    let listen = format!("unix:{}", http.display());
    home.ccmux(&["serve", "--listen", &listen, "--detach"]).ok();
    let sockets = [run.join("control.sock"), pane.dir.join("keeper.sock"), http];
    let request = "GET /v1/health HTTP/1.0\r\n\r\n";
    let request: String = request.bytes().map(|byte| format!("{byte:02x}")).collect();
    let connect = |socket: &Path, bytes: &str| {
        let (dir, name) = (socket.parent().unwrap(), socket.file_name().unwrap());
        output_of_other(CONNECT, &[dir.to_str().unwrap(), name.to_str().unwrap(), bytes], "")
    };

    for socket in &sockets {
        assert_eq!(connect(socket, &greeting()), "refused", "{}", socket.display());
    }
    for socket in &sockets {
        let open = socket.ancestors().take_while(|dir| dir.starts_with(home.state_root()));
        open.skip(1).for_each(|dir| set_mode(dir, 0o711));
        assert_eq!(connect(socket, &greeting()), "refused", "{}", socket.display());
        set_mode(socket, 0o666);
        for bytes in [greeting(), request.clone()] {
            assert_eq!(connect(socket, &bytes), "received 0", "{}", socket.display());
        }
    }

    assert_eq!(home.show("a")["state"], "running");
}

#[test]
fn no_file_of_a_state_root_opens_for_another_user() {
    testkit::require!(Root, Perl);
    let home = open_home();
    home.start_pane("a", &["sh", "-c", "umask 0; echo x > $OUTPUT_DIR/x; exec sleep 1000"]);
    home.ccmux(&["token"]).ok();
    home.ccmux(&["share", "/etc/hostname"]).ok();
    let root = home.state_root();
    let paths = || -> String {
        let paths = all_paths(root);
        assert!(paths.iter().any(|path| path.ends_with("run/token")), "{paths:?}");
        paths.iter().map(|path| format!("{}\n", path.display())).collect()
    };

    assert_eq!(output_of_other(OPEN, &[], &paths()), "");
    // Nothing depends on the mode of the root alone.
    set_mode(root, 0o711);
    assert_eq!(output_of_other(OPEN, &[], &paths()), "");
}

#[test]
fn processes_are_neither_signalled_nor_traced_by_another_user() {
    testkit::require!(Root, Perl);
    let home = open_home();
    let pane = home.start_pane("a", &["sleep", "1000"]);
    let pids = [home.daemon_pid(), pane.keeper().pid, pane.head.pid].map(|pid| pid.to_string());
    let pids: Vec<&str> = pids.iter().map(String::as_str).collect();

    assert_eq!(output_of_other(PROCESSES, &pids, ""), "");

    assert_eq!(home.daemon_pid().to_string(), pids[0]);
    assert_eq!(home.show("a")["state"], "running");
}

#[test]
fn http_port_gives_another_user_nothing() {
    testkit::require!(Root, Perl);
    let home = open_home();
    let http = home.serve();
    let id = home.start_pane("a", &["sleep", "1000"]).id;
    let port = http.url.rsplit(':').next().unwrap().to_owned();
    let stranger = http.with_token(None);

    for (method, path) in [
        ("GET", "/v1/sessions".to_owned()),
        ("GET", format!("/v1/panes/{id}/screen")),
        ("GET", "/v1/events".to_owned()),
        ("POST", format!("/v1/panes/{id}/input")),
        ("DELETE", format!("/v1/panes/{id}")),
    ] {
        let body = json!({});
        let answer = stranger.ask(method, &path, (method == "POST").then_some(&body));
        assert_eq!(answer.status, 401, "{method} {path}");
    }
    let token = home.state_root().join("run/token");
    let token = token.to_str().unwrap().to_owned() + "\n";
    assert_eq!(output_of_other(OPEN, &[], &token), "");

    let idle = Idle::start(&port, "256");
    for _ in 0..20 {
        assert_eq!(http.get("/v1/sessions").status, 200);
    }
    drop(idle);
}

/// Idle connections of the other user.
struct Idle(Child);

impl Idle {
    fn start(port: &str, count: &str) -> Self {
        let mut child = as_other(IDLE).args([port, count]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// What another user can plant at the path of a state root before the first start.
type Plant = fn(root: &Path, theirs: &Path);

/// Plants, and the reason for which the path is refused.
const PLANTS: [(&str, Plant, &str); 7] = [
    (
        "a link to a directory of theirs",
        |root, theirs| give(root, |at| symlink(theirs, at)),
        "symbolic link",
    ),
    (
        "a link to nothing",
        |root, theirs| give(root, |at| symlink(theirs.join("new"), at)),
        "symbolic link",
    ),
    ("a directory", |root, _| give(root, |at| fs::create_dir(at)), "belongs to user 54321"),
    (
        "an open directory with a link in it",
        |root, theirs| {
            give(root, |at| fs::create_dir(at));
            set_mode(root, 0o777);
            give(&root.join("run"), |at| symlink(theirs, at));
        },
        "belongs to user 54321",
    ),
    ("a file", |root, _| give(root, |at| fs::write(at, "theirs")), "not a directory"),
    (
        "a hard link to a file of theirs",
        |root, theirs| give(root, |at| fs::hard_link(theirs.join("file"), at)),
        "not a directory",
    ),
    (
        "a directory that their group can write to",
        |root, _| {
            fs::create_dir(root).unwrap();
            chown(root, None, Some(OTHER)).unwrap();
            set_mode(root, 0o770);
        },
        "writable by other users",
    ),
];

/// Makes something and gives it to the other user.
fn give(at: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) {
    make(at).unwrap();
    std::os::unix::fs::lchown(at, Some(OTHER), Some(OTHER)).unwrap();
}

#[test]
fn planted_state_roots_in_a_sticky_directory_are_refused() {
    testkit::require!(Root);

    for (what, plant, why) in PLANTS {
        let sticky = tempfile::Builder::new().prefix("cx-sticky-").tempdir_in("/tmp").unwrap();
        set_mode(sticky.path(), 0o1777);
        let theirs = sticky.path().join("theirs");
        give(&theirs, |at| fs::create_dir(at));
        give(&theirs.join("file"), |at| fs::write(at, "theirs"));
        let root = sticky.path().join("root");
        plant(&root, &theirs);
        let home = Home::new(CCMUX).with_state_root(&root);
        let before = testkit::tree(sticky.path());

        let new = home.ccmux(&["new", "-d", "--", "sleep", "1000"]);
        let refused = new.env("ANTHROPIC_API_KEY", "secret").run();

        assert!(!refused.status.success(), "{what}");
        assert!(refused.stderr.contains(why), "{what}: {}", refused.stderr);
        assert_eq!(testkit::tree(sticky.path()), before, "{what}");
    }
}

#[test]
fn socket_of_another_user_is_not_listened_on_or_replaced() {
    testkit::require!(Root, Perl);
    let home = Home::new(CCMUX);
    let sticky = tempfile::Builder::new().prefix("cx-sticky-").tempdir_in("/tmp").unwrap();
    set_mode(sticky.path(), 0o1777);
    let path = sticky.path().join("http.sock");
    let bind = "use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un($ARGV[0])) \
                or die; listen(S, 5); $| = 1; print \"bound\\n\"; sleep 1000;";
    let mut squatter = as_other(bind).arg(&path).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(squatter.stdout.take().unwrap()).read_line(&mut line).unwrap();

    let listen = format!("unix:{}", path.display());
    let refused = home.ccmux(&["serve", "--listen", &listen, "--detach"]).run();

    squatter.kill().unwrap();
    squatter.wait().unwrap();
    assert!(!refused.status.success(), "{}", refused.stdout);
    assert!(refused.stderr.contains("http.sock"), "{}", refused.stderr);
    put(&home.work().join("alive"), "");
    home.ccmux(&["ls"]).ok();
}

//! The user account that this process runs as.

use std::collections::BTreeMap;
use std::path::Path;

use nix::unistd::{Uid, User};
use rustix::process::geteuid;

/// Default search path for programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The fields of a user database entry that a login shell exports.
#[derive(Debug)]
struct Account {
    name: String,
    home: String,
    shell: String,
}

/// Returns the environment that a login of the current user would start with.
///
/// The values come from the user database (through NSS, so LDAP and sssd accounts are found) and
/// not from the environment of this process. An account without an entry gets the parent directory
/// of `root` as its home. Blocks if the name service does.
#[must_use]
pub fn login_environment(root: &Path) -> BTreeMap<String, String> {
    let fallback_home = root.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    environment(account(geteuid().as_raw()), &fallback_home)
}

/// Looks up a user id; a failing name service counts as a missing entry.
fn account(uid: u32) -> Option<Account> {
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Some(Account { home: text(&user.dir), shell: text(&user.shell), name: user.name })
}

fn environment(account: Option<Account>, fallback_home: &str) -> BTreeMap<String, String> {
    let account = account.unwrap_or_else(|| Account {
        name: String::new(),
        home: fallback_home.to_owned(),
        shell: String::new(),
    });
    let shell = if account.shell.starts_with('/') { account.shell } else { "/bin/sh".to_owned() };
    let variables = [
        ("HOME", account.home),
        ("LANG", "C.UTF-8".to_owned()),
        ("LOGNAME", account.name.clone()),
        ("PATH", PATH.to_owned()),
        ("SHELL", shell),
        ("USER", account.name),
    ];
    let set = variables.into_iter().filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_environment_known_account_uses_database_entry() {
        let account = Account {
            name: "me".to_owned(),
            home: "/home/me".to_owned(),
            shell: "/bin/zsh".to_owned(),
        };

        let me = environment(Some(account), "/srv");

        assert_eq!(me["HOME"], "/home/me");
        assert_eq!((me["SHELL"].as_str(), me["USER"].as_str()), ("/bin/zsh", "me"));
        assert_eq!(me["LOGNAME"], "me");
    }

    #[test]
    fn login_environment_missing_account_falls_back_to_defaults() {
        let unknown = environment(None, "/srv");

        assert_eq!((unknown["HOME"].as_str(), unknown.get("USER")), ("/srv", None));
        assert_eq!(unknown["SHELL"], "/bin/sh");
    }

    #[test]
    fn account_root_is_found_through_the_name_service() {
        let root = account(0).expect("every system has an account with user id 0");

        assert!(root.home.starts_with('/'), "{root:?}");
        assert!(account(u32::MAX - 7).is_none());
    }
}

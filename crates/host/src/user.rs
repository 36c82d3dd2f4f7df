//! The user that we run as, as the system describes him.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::geteuid;

/// Where programs are looked for when nobody says.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// What a login of our user would start with, whoever started us: from the user database, and from
/// nothing of our own environment. Without an entry there, the home is the directory that holds
/// `root`.
#[must_use]
pub fn login_environment(root: &Path) -> BTreeMap<String, String> {
    let database = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let beside = root.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    of_entry(&database, geteuid().as_raw(), &beside)
}

fn of_entry(database: &str, user: u32, beside: &str) -> BTreeMap<String, String> {
    let entry = database.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, _, _, home, shell] = fields[..] else { return None };
        (id.parse() == Ok(user)).then_some((name, home, shell))
    });
    let (name, home, shell) = entry.unwrap_or(("", beside, ""));
    let given = [
        ("HOME", home),
        ("LANG", "C.UTF-8"),
        ("LOGNAME", name),
        ("PATH", PATH),
        ("SHELL", if shell.starts_with('/') { shell } else { "/bin/sh" }),
        ("USER", name),
    ];
    let known = given.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_described_by_the_user_database_and_by_nothing_else() {
        let database = "root:x:0:0:root:/root:/bin/bash\nme:x:1000:1000:,,,:/home/me:/bin/zsh\n";

        let me = of_entry(database, 1000, "/srv");
        let stranger = of_entry(database, 7, "/srv");

        assert_eq!(me["HOME"], "/home/me");
        assert_eq!((me["SHELL"].as_str(), me["USER"].as_str()), ("/bin/zsh", "me"));
        assert_eq!((stranger["HOME"].as_str(), stranger.get("USER")), ("/srv", None));
    }
}

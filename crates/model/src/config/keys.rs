//! The keys of `ccmux.toml`, in the order in which they are explained.
//!
//! This table is the one place that knows them: the file is read by it, printed by it and described
//! by it.

use std::time::Duration;

use crate::config::agent::AGENT_KEYS;
use crate::config::key::{Access, Fault, Key, Part, listed_twice, read_word, set_list, set_word};
use crate::config::path::{check_home_item, overlaps};
use crate::config::role::ROLE_KEYS;
use crate::config::value::Value;
use crate::config::{Config, ResumeFallback, Share, WhenAway, duration, http, ports, role};
use crate::isolation::Method;
use crate::limits::{LimitWishes, Limits, Wish};
use crate::lock::LockScope;
use crate::workspace::WorkspaceKind;

/// The table under which the user's own agents are.
pub const AGENTS: &str = "agents";

/// A key of `[limits]`: each is read and written as on the command line.
macro_rules! limit_key {
    ($name:literal, $short:literal, $meaning:expr, $takes:expr, $wish:expr) => {
        Key {
            name: $name,
            meaning: $meaning,
            takes: $takes,
            access: Access::Text {
                get: |config| {
                    let wish: fn(&Limits) -> Wish = $wish;
                    Some(wish(&config.limits).value())
                },
                set: |config, text| {
                    let wish = Wish::new($short, text).map_err(Fault::whole)?;
                    config.limits = config.limits.with(&LimitWishes(vec![wish]));
                    Ok(())
                },
            },
        }
    };
}

/// The table under which roles are.
pub const ROLES: &str = "roles";

/// Every key but those of agents and roles, for which see [`AGENT_KEYS`] and [`ROLE_KEYS`].
pub static KEYS: &[Key<Config>] = &[
    Key {
        name: "restore_on_start",
        meaning: "Start those panes again, when the daemon starts, that were running when the \
                  machine went down. Panes that had ended stay as they are.",
        takes: "true or false",
        access: Access::Flag {
            get: |config| config.restore_on_start,
            set: |config, flag| config.restore_on_start = flag,
        },
    },
    Key {
        name: "resume_fallback",
        meaning: "What to start where an agent's conversation cannot be continued: nothing, with \
                  an error that says why; the agent with a fresh conversation; or your shell. The \
                  id of the conversation is kept in any case.",
        takes: "\"error\", \"fresh\" or \"shell\"",
        access: Access::Text {
            get: |config| Some(config.resume_fallback.to_string()),
            set: |config, text| {
                let known = ResumeFallback::ALL.map(ResumeFallback::as_str);
                set_word(&mut config.resume_fallback, text, &known)
            },
        },
    },
    Key {
        name: "workspace",
        meaning: "What tree a pane works in: a git work tree or a clone on a branch of its own, a \
                  copy of the directory, the directory itself, or an empty one. \"auto\" takes a \
                  work tree in a git repository and a copy elsewhere; in a legacy session the \
                  directory itself. A pane can ask for another one.",
        takes: "\"auto\", \"worktree\", \"clone\", \"copy\", \"shared\" or \"empty\"",
        access: Access::Text {
            get: |config| Some(config.workspace.to_string()),
            set: |config, text| {
                set_word(
                    &mut config.workspace,
                    text,
                    &WorkspaceKind::ALL.map(WorkspaceKind::as_str),
                )
            },
        },
    },
    role::ENV,
    Key {
        name: "claude.isolation.method",
        meaning: "Where the agent of a pane finds its configuration: in a directory of the pane's \
                  own; in a whole home of the pane's own; or, without isolation, in yours. A \
                  session or a pane can ask for another one.",
        takes: "\"config_dir\", \"home\" or \"none\"",
        access: Access::Text {
            get: |config| Some(config.isolation.method.to_string()),
            set: |config, text| {
                set_word(&mut config.isolation.method, text, &Method::ALL.map(Method::as_str))
            },
        },
    },
    Key {
        name: "claude.isolation.cleanup_on_close",
        meaning: "Move the pane's configuration to the trash when the pane is closed. If not, it \
                  stays until you remove it.",
        takes: "true or false",
        access: Access::Flag {
            get: |config| config.isolation.cleanup_on_close,
            set: |config, flag| config.isolation.cleanup_on_close = flag,
        },
    },
    Key {
        name: "claude.isolation.home_symlinks",
        meaning: "What of your home is linked into a home of the pane's own. Paths count from \
                  your home; what does not exist there is left out, and what exists in the \
                  pane's is never replaced. The agent's own configuration cannot be linked.",
        takes: "a list of paths such as \".ssh\"",
        access: Access::List {
            get: |config| config.isolation.home_symlinks.clone(),
            set: |config, items| set_home_symlinks(&mut config.isolation.home_symlinks, items),
        },
    },
    Key {
        name: "claude.isolation.share",
        meaning: "What of your own configuration of the agent every pane sees: \"settings.json\", \
                  \"CLAUDE.md\", \"commands\", \"agents\", \"skills\", \"plugins\", \
                  \"mcp_servers\". History, projects and state are never shared.",
        takes: "a list of words such as \"commands\"",
        access: Access::List {
            get: |config| config.isolation.share.iter().map(ToString::to_string).collect(),
            set: |config, items| set_share(&mut config.isolation.share, items),
        },
    },
    Key {
        name: "cleanup.retention",
        meaning: "How long what was closed stays in the trash before it is deleted.",
        takes: A_DURATION,
        access: Access::Text {
            get: |config| Some(duration::text(config.cleanup.retention)),
            set: |config, text| set_duration(&mut config.cleanup.retention, text, Duration::ZERO),
        },
    },
    Key {
        name: "cleanup.orphan_age",
        meaning: "How old a directory that belongs to no pane must at least be before it is moved \
                  to the trash.",
        takes: A_DURATION,
        access: Access::Text {
            get: |config| Some(duration::text(config.cleanup.orphan_age)),
            set: |config, text| set_duration(&mut config.cleanup.orphan_age, text, Duration::ZERO),
        },
    },
    Key {
        name: "cleanup.every",
        meaning: "How often the daemon looks for what can be moved or deleted.",
        takes: A_DURATION,
        access: Access::Text {
            get: |config| Some(duration::text(config.cleanup.every)),
            set: |config, text| set_duration(&mut config.cleanup.every, text, SHORTEST_PERIOD),
        },
    },
    Key {
        name: "locks.hooks",
        meaning: "Give agents that can be hooked the hooks that lock a file before they edit it. \
                  Nothing is written to your own settings.",
        takes: "true or false",
        access: Access::Flag {
            get: |config| config.locks.hooks,
            set: |config, flag| config.locks.hooks = flag,
        },
    },
    Key {
        name: "locks.worktrees",
        meaning: "What makes two files the same to these hooks: the path within the repository, \
                  whichever work tree the file is in; or the path on the disk, so that panes in \
                  work trees of their own never wait for each other.",
        takes: "\"repository\" or \"worktree\"",
        access: Access::Text {
            get: |config| Some(config.locks.worktrees.to_string()),
            set: |config, text| {
                set_word(&mut config.locks.worktrees, text, &LockScope::ALL.map(LockScope::as_str))
            },
        },
    },
    Key {
        name: "locks.when_away",
        meaning: "Whether an agent may edit while the lock service cannot be asked.",
        takes: "\"allow\" or \"deny\"",
        access: Access::Text {
            get: |config| Some(config.locks.when_away.to_string()),
            set: |config, text| {
                set_word(&mut config.locks.when_away, text, &WhenAway::ALL.map(WhenAway::as_str))
            },
        },
    },
    Key {
        name: "locks.wait",
        meaning: "How long such a hook waits for a file that another pane has before it tells the \
                  agent to do something else.",
        takes: A_DURATION,
        access: Access::Text {
            get: |config| Some(duration::text(config.locks.wait)),
            set: |config, text| set_duration(&mut config.locks.wait, text, Duration::ZERO),
        },
    },
    limit_key!(
        "limits.disk",
        "disk",
        "How much disk a pane may take with its workspace, temporary files, output and \
         configuration. Nearly full, it is told; over, `limits.policy` says what happens.",
        "an amount such as \"1G\" or \"512M\", or \"none\"",
        |limits| Wish::Disk(limits.disk)
    ),
    limit_key!(
        "limits.memory",
        "memory",
        "How much memory the processes of a pane may take together.",
        "an amount such as \"4G\" or \"512M\", or \"none\"",
        |limits| Wish::Memory(limits.memory)
    ),
    limit_key!(
        "limits.processes",
        "processes",
        "How many processes a pane may have at one time.",
        "a number as a string such as \"500\", or \"none\"",
        |limits| Wish::Processes(limits.processes)
    ),
    limit_key!(
        "limits.cpu",
        "cpu",
        "A pane's share of a busy processor, where a pane without this limit has 100.",
        "a number as a string such as \"50\", or \"none\"",
        |limits| Wish::Cpu(limits.cpu)
    ),
    limit_key!(
        "limits.files",
        "files",
        "How many files each process of a pane may have open.",
        "a number as a string such as \"4096\", or \"none\"",
        |limits| Wish::Files(limits.files)
    ),
    limit_key!(
        "limits.policy",
        "policy",
        "What happens to a pane that takes more than it may, where the system does not refuse it \
         by itself: its processes stand still until `ccmux thaw`; they are ended; or it is only \
         told.",
        "\"freeze\", \"stop\" or \"warn\"",
        |limits| Wish::Policy(limits.policy)
    ),
    limit_key!(
        "limits.groups",
        "groups",
        "Let the system itself keep the limits, by control groups, where we may make some. If \
         not, what a pane takes is measured.",
        "\"on\" or \"off\"",
        |limits| Wish::Groups(limits.groups)
    ),
    ports::BASE,
    ports::END,
    ports::COUNT,
    http::LISTEN,
    http::TLS_CERT,
    http::TLS_KEY,
    http::ALLOWED_HOSTS,
    http::ALLOWED_ORIGINS,
    http::RATE,
];

const A_DURATION: &str = "a duration such as \"7d\", \"12h\", \"30m\" or \"45s\"";

/// A daemon that looks more often does nothing else.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// Every key with its value, agents and roles included, in the order in which they are explained.
#[must_use]
pub fn entries(config: &Config) -> Vec<(String, Value)> {
    let fixed = KEYS.iter().map(|key| (key.name.to_owned(), key.get(config)));
    let of_agents = config.agents.iter().flat_map(|(name, agent)| {
        AGENT_KEYS.iter().map(move |key| (agent_key(name, key.name), key.get(agent)))
    });
    let of_roles = config.roles.iter().flat_map(|(name, role)| {
        let full = move |key: &str| format!("{ROLES}.{name}.{key}");
        ROLE_KEYS.iter().map(move |key| (full(key.name), key.get(role)))
    });
    fixed.chain(of_agents).chain(of_roles).collect()
}

/// The full name of a key of an agent.
#[must_use]
pub fn agent_key(agent: &str, key: &str) -> String {
    format!("{AGENTS}.{agent}.{key}")
}

fn set_home_symlinks(slot: &mut Vec<String>, items: &[String]) -> Vec<Fault> {
    let read = |item: &str| check_home_item(item).map(|()| item.to_owned());
    set_list(slot, items, read, |items| {
        let paths: Vec<&str> = items.iter().map(String::as_str).collect();
        let fault = |(at, why)| Fault::from(why).of(Part::Item(at));
        overlaps(&paths).into_iter().map(fault).collect()
    })
}

fn set_share(slot: &mut Vec<Share>, items: &[String]) -> Vec<Fault> {
    let known = Share::ALL.map(Share::as_str);
    set_list(slot, items, |item| read_word(item, &known), listed_twice)
}

fn set_duration(slot: &mut Duration, text: &str, least: Duration) -> Result<(), Fault> {
    *slot = duration::parse(text, least).map_err(Fault::whole)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &Value) -> (Config, Vec<String>) {
        let mut config = Config::default();
        let key = KEYS.iter().find(|key| key.name == name).unwrap();
        let faults = key.set(&mut config, value);
        let told = faults.into_iter().map(|fault| match fault.suggestion {
            Some(meant) => format!("{:?}: {} ({meant}?)", fault.part, fault.why),
            None => format!("{:?}: {}", fault.part, fault.why),
        });
        (config, told.collect())
    }

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|&item| item.to_owned()).collect())
    }

    #[test]
    fn what_is_set_is_what_is_got() {
        for key in KEYS {
            let mut config = Config::default();
            let value = key.get(&config);

            let faults = key.set(&mut config, &value);

            assert_eq!(faults, [], "{}", key.name);
            assert_eq!(config, Config::default(), "{}", key.name);
        }
    }

    #[test]
    fn every_word_is_named_where_its_key_is_explained() {
        let about = |name: &str| {
            let key = KEYS.iter().find(|key| key.name == name).unwrap();
            format!("{} {}", key.takes, key.meaning)
        };
        let words = (ResumeFallback::ALL.iter().map(|word| ("resume_fallback", word.as_str())))
            .chain(Method::ALL.iter().map(|word| ("claude.isolation.method", word.as_str())))
            .chain(Share::ALL.iter().map(|word| ("claude.isolation.share", word.as_str())))
            .chain(LockScope::ALL.iter().map(|word| ("locks.worktrees", word.as_str())))
            .chain(WhenAway::ALL.iter().map(|word| ("locks.when_away", word.as_str())));
        for (name, word) in words {
            assert!(about(name).contains(&format!("{word:?}")), "{name}: {word}");
        }
    }

    #[test]
    fn every_fault_of_a_value_is_told() {
        let cases = [
            (
                "claude.isolation.method",
                Value::Text("hom".to_owned()),
                vec![
                    "Whole: a method of isolation is config_dir, home or none, not \"hom\" (home?)",
                ],
            ),
            (
                "claude.isolation.method",
                list(&["home"]),
                vec!["Whole: takes \"config_dir\", \"home\" or \"none\", not a list"],
            ),
            (
                "restore_on_start",
                Value::Text("yes".to_owned()),
                vec!["Whole: takes true or false, not a string"],
            ),
            (
                "claude.isolation.home_symlinks",
                list(&[".ssh", "../x", "~/.npmrc", ".claude"]),
                vec![
                    "Item(1): \"../x\" contains `..`",
                    "Item(2): \"~/.npmrc\" is not a relative path (.npmrc?)",
                    "Item(3): \".claude\" is the agent's own configuration, which every pane has \
                     for itself",
                ],
            ),
            (
                "claude.isolation.home_symlinks",
                list(&[".config/git", ".config"]),
                vec!["Item(0): \".config/git\" lies inside \".config\", which is listed as well"],
            ),
            (
                "claude.isolation.share",
                list(&["skills", "claude.md"]),
                vec![
                    "Item(1): \"claude.md\" is none of settings.json, CLAUDE.md, commands, agents, \
                     skills, plugins, mcp_servers (CLAUDE.md?)",
                ],
            ),
            (
                "claude.isolation.share",
                list(&["skills", "agents", "skills"]),
                vec!["Item(2): \"skills\" is listed twice"],
            ),
            (
                "cleanup.every",
                Value::Text("0s".to_owned()),
                vec!["Whole: \"0s\" is not between 1s and 3650d"],
            ),
        ];
        for (name, value, expected) in cases {
            assert_eq!(set(name, &value).1, expected, "{name} = {value}");
        }
    }

    #[test]
    fn nothing_may_be_shared_at_all() {
        let (config, faults) = set("claude.isolation.share", &list(&[]));
        assert_eq!((config.isolation.share, faults), (vec![], vec![]));
    }
}

//! The table of all keys of `ccmux.toml`, in the order in which they are documented.
//!
//! Reading, printing and documenting the file all use this table.

use std::time::Duration;

use crate::config::agent::AGENT_KEYS;
use crate::config::key::{Access, Fault, Key, Part, listed_twice, read_word, set_list, set_word};
use crate::config::path::{check_home_item, overlaps};
use crate::config::role::ROLE_KEYS;
use crate::config::value::Value;
use crate::config::{
    Config, ResumeFallback, Share, WhenAway, attach, authority, duration, http, ports, role,
};
use crate::isolation::Method;
use crate::limits::{LimitOverride, LimitOverrides, Limits};
use crate::lock::LockScope;
use crate::workspace::WorkspaceKind;

/// The table that contains the user-defined agents.
pub const AGENTS: &str = "agents";

/// A key of `[limits]`, parsed and formatted as on the command line.
macro_rules! limit_key {
    ($name:literal, $short:literal, $meaning:expr, $takes:expr, $limit:expr) => {
        Key {
            name: $name,
            meaning: $meaning,
            takes: $takes,
            access: Access::Text {
                get: |config| {
                    let limit: fn(&Limits) -> LimitOverride = $limit;
                    Some(limit(&config.limits).value())
                },
                set: |config, text| {
                    let limit = LimitOverride::new($short, text).map_err(Fault::whole)?;
                    config.limits = config.limits.with(&LimitOverrides(vec![limit]));
                    Ok(())
                },
            },
        }
    };
}

/// The table that contains the roles.
pub const ROLES: &str = "roles";

/// All keys except those of agents ([`AGENT_KEYS`]) and roles ([`ROLE_KEYS`]).
pub static KEYS: &[Key<Config>] = &[
    Key {
        name: "restore_on_start",
        meaning: "Restore, when the daemon starts, the panes that were interrupted: those that \
                  were running when the machine went down or when their processes were killed. \
                  Panes that exited, were stopped or were closed are not restarted.",
        takes: "true or false",
        access: Access::Flag {
            get: |config| config.restore_on_start,
            set: |config, flag| config.restore_on_start = flag,
        },
    },
    Key {
        name: "resume_fallback",
        meaning: "What to do if an agent's conversation cannot be resumed: \"error\" fails with \
                  the reason, \"fresh\" starts the agent with a new conversation, \"shell\" starts \
                  your shell. The id of the conversation is kept in any case.",
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
        meaning: "Default workspace of a pane: a git work tree (\"worktree\") or clone (\"clone\") \
                  on its own branch, a copy of the directory (\"copy\"), the directory itself \
                  (\"shared\"), or an empty directory (\"empty\"). \"auto\" chooses a work tree \
                  for an agent in a git repository with a commit, and otherwise the directory \
                  itself.",
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
        meaning: "Default isolation of a pane's agent: \"config_dir\" gives it its own \
                  configuration directory, \"home\" its own home directory, \"none\" uses your \
                  configuration.",
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
        meaning: "Move the pane's configuration to the trash when the pane is closed. If false, \
                  it stays until you remove it.",
        takes: "true or false",
        access: Access::Flag {
            get: |config| config.isolation.cleanup_on_close,
            set: |config, flag| config.isolation.cleanup_on_close = flag,
        },
    },
    Key {
        name: "claude.isolation.home_symlinks",
        meaning: "Files and directories to link from your home directory into that of a pane, \
                  relative to your home directory. Missing ones are skipped, and existing files in \
                  the pane's home are never replaced. The agent's configuration cannot be linked.",
        takes: "a list of paths such as \".ssh\"",
        access: Access::List {
            get: |config| config.isolation.home_symlinks.clone(),
            set: |config, items| set_home_symlinks(&mut config.isolation.home_symlinks, items),
        },
    },
    Key {
        name: "claude.isolation.copy",
        meaning: "Parts of your agent configuration that every pane gets a copy of: \
                  \"settings.json\", \"CLAUDE.md\", \"commands\", \"agents\", \"skills\", \
                  \"plugins\", \"mcp_servers\". Copies follow your files at every start of the \
                  pane; changes made inside a pane stay in that pane.",
        takes: "a list of words such as \"commands\"",
        access: Access::List {
            get: |config| config.isolation.copy.iter().map(ToString::to_string).collect(),
            set: |config, items| set_parts(&mut config.isolation.copy, items),
        },
    },
    Key {
        name: "claude.isolation.share",
        meaning: "Parts of your agent configuration that new panes share with you through links \
                  instead of copies: \"settings.json\", \"CLAUDE.md\", \"commands\", \
                  \"agents\", \"skills\", \"plugins\", \"mcp_servers\" (always a copy). \
                  Changes made inside a pane change your own files. History, projects and state \
                  are never shared.",
        takes: "a list of words such as \"commands\"",
        access: Access::List {
            get: |config| config.isolation.share.iter().map(ToString::to_string).collect(),
            set: |config, items| set_parts(&mut config.isolation.share, items),
        },
    },
    Key {
        name: "cleanup.retention",
        meaning: "How long closed panes and sessions stay in the trash before they are deleted.",
        takes: A_DURATION,
        access: Access::Text {
            get: |config| Some(duration::text(config.cleanup.retention)),
            set: |config, text| set_duration(&mut config.cleanup.retention, text, Duration::ZERO),
        },
    },
    Key {
        name: "cleanup.orphan_age",
        meaning: "Minimum age of a directory that belongs to no pane before it is moved to the \
                  trash.",
        takes: A_DURATION,
        access: Access::Text {
            get: |config| Some(duration::text(config.cleanup.orphan_age)),
            set: |config, text| set_duration(&mut config.cleanup.orphan_age, text, Duration::ZERO),
        },
    },
    Key {
        name: "cleanup.every",
        meaning: "Interval between cleanup runs of the daemon.",
        takes: A_DURATION,
        access: Access::Text {
            get: |config| Some(duration::text(config.cleanup.every)),
            set: |config, text| set_duration(&mut config.cleanup.every, text, SHORTEST_PERIOD),
        },
    },
    Key {
        name: "locks.hooks",
        meaning: "Install hooks, in agents that support them, that lock a file before the agent \
                  edits it. Your own settings are not changed.",
        takes: "true or false",
        access: Access::Flag {
            get: |config| config.locks.hooks,
            set: |config, flag| config.locks.hooks = flag,
        },
    },
    Key {
        name: "locks.worktrees",
        meaning: "How the hooks identify a file: \"repository\" by its path in the repository, so \
                  that one lock covers the file in all work trees; \"worktree\" by its path on \
                  disk, so that panes in separate work trees never wait for each other.",
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
        meaning: "Whether an agent may edit files while the lock service is unavailable.",
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
        meaning: "How long a hook waits for a file that another pane has locked before it denies \
                  the edit.",
        takes: A_DURATION,
        access: Access::Text {
            get: |config| Some(duration::text(config.locks.wait)),
            set: |config, text| set_duration(&mut config.locks.wait, text, Duration::ZERO),
        },
    },
    limit_key!(
        "limits.disk",
        "disk",
        "Maximum disk usage of a pane: its workspace, temporary files, output and configuration. \
         Close to the limit, the pane gets a warning; over it, `limits.policy` applies.",
        "an amount such as \"1G\" or \"512M\", or \"none\"",
        |limits| LimitOverride::Disk(limits.disk)
    ),
    limit_key!(
        "limits.memory",
        "memory",
        "Maximum memory usage of all processes of a pane.",
        "an amount such as \"4G\" or \"512M\", or \"none\"",
        |limits| LimitOverride::Memory(limits.memory)
    ),
    limit_key!(
        "limits.processes",
        "processes",
        "Maximum number of processes of a pane.",
        "a number as a string such as \"500\", or \"none\"",
        |limits| LimitOverride::Processes(limits.processes)
    ),
    limit_key!(
        "limits.cpu",
        "cpu",
        "CPU weight of a pane when the CPU is busy; a pane without this limit has 100.",
        "a number as a string such as \"50\", or \"none\"",
        |limits| LimitOverride::Cpu(limits.cpu)
    ),
    limit_key!(
        "limits.files",
        "files",
        "Maximum number of open files of each process of a pane.",
        "a number as a string such as \"4096\", or \"none\"",
        |limits| LimitOverride::Files(limits.files)
    ),
    limit_key!(
        "limits.policy",
        "policy",
        "What to do with a pane that exceeds a limit which the kernel does not enforce: \"freeze\" \
         suspends its processes until `ccmux thaw`, \"stop\" ends them, \"warn\" only reports it.",
        "\"freeze\", \"stop\" or \"warn\"",
        |limits| LimitOverride::Policy(limits.policy)
    ),
    limit_key!(
        "limits.groups",
        "groups",
        "Let the kernel enforce limits with control groups, if ccmux may create them. Otherwise, \
         usage is measured.",
        "\"on\" or \"off\"",
        |limits| LimitOverride::Groups(limits.groups)
    ),
    limit_key!(
        "limits.count_ignored",
        "count_ignored",
        "Whether directories that git ignores, such as node_modules, count towards the disk limit.",
        "\"on\" or \"off\"",
        |limits| LimitOverride::CountIgnored(limits.count_ignored)
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
    authority::PANES,
    attach::PREFIX,
];

const A_DURATION: &str = "a duration such as \"7d\", \"12h\", \"30m\" or \"45s\"";

/// The minimum interval between cleanup runs.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// Returns all keys with their values, including agents and roles, in documentation order.
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

/// Returns the full name of an agent's key.
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

fn set_parts(slot: &mut Vec<Share>, items: &[String]) -> Vec<Fault> {
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
    use crate::authority::PaneAuthority;

    fn set(name: &str, value: &Value) -> (Config, Vec<String>) {
        let mut config = Config::default();
        let key = KEYS.iter().find(|key| key.name == name).unwrap();
        let faults = key.set(&mut config, value);
        let errors = faults.into_iter().map(|fault| match fault.suggestion {
            Some(meant) => format!("{:?}: {} ({meant}?)", fault.part, fault.why),
            None => format!("{:?}: {}", fault.part, fault.why),
        });
        (config, errors.collect())
    }

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|&item| item.to_owned()).collect())
    }

    #[test]
    fn default_values_round_trip() {
        for key in KEYS {
            let mut config = Config::default();
            let value = key.get(&config);

            let faults = key.set(&mut config, &value);

            assert_eq!(faults, [], "{}", key.name);
            assert_eq!(config, Config::default(), "{}", key.name);
        }
    }

    #[test]
    fn key_documentation_names_every_word() {
        let about = |name: &str| {
            let key = KEYS.iter().find(|key| key.name == name).unwrap();
            format!("{} {}", key.takes, key.meaning)
        };
        let words = (ResumeFallback::ALL.iter().map(|word| ("resume_fallback", word.as_str())))
            .chain(Method::ALL.iter().map(|word| ("claude.isolation.method", word.as_str())))
            .chain(Share::ALL.iter().map(|word| ("claude.isolation.share", word.as_str())))
            .chain(Share::ALL.iter().map(|word| ("claude.isolation.copy", word.as_str())))
            .chain(LockScope::ALL.iter().map(|word| ("locks.worktrees", word.as_str())))
            .chain(WhenAway::ALL.iter().map(|word| ("locks.when_away", word.as_str())))
            .chain(PaneAuthority::ALL.iter().map(|word| ("authority.panes", word.as_str())));
        for (name, word) in words {
            assert!(about(name).contains(&format!("{word:?}")), "{name}: {word}");
        }
    }

    #[test]
    fn set_reports_all_errors_in_a_value() {
        let cases = [
            (
                "claude.isolation.method",
                Value::Text("hom".to_owned()),
                vec![
                    "Whole: unknown isolation method \"hom\"; expected config_dir, home or none (home?)",
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
                    "Item(3): \".claude\" is part of the agent's configuration, which cannot be \
                     shared between panes",
                ],
            ),
            (
                "claude.isolation.home_symlinks",
                list(&[".config/git", ".config"]),
                vec!["Item(0): \".config/git\" is inside \".config\", which is also listed"],
            ),
            (
                "claude.isolation.share",
                list(&["skills", "claude.md"]),
                vec![
                    "Item(1): unknown value \"claude.md\"; expected one of settings.json, CLAUDE.md, \
                     commands, agents, skills, plugins, mcp_servers (CLAUDE.md?)",
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
    fn share_may_be_empty() {
        let (config, faults) = set("claude.isolation.share", &list(&[]));
        assert_eq!((config.isolation.share, faults), (vec![], vec![]));
    }
}

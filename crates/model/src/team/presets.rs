//! Predefined teams.

/// A team that ships with ccmux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    text: &'static str,
}

/// All presets.
pub const PRESETS: [Preset; 2] = [
    Preset {
        name: "seven",
        about: "three developers, two testers, one designer and a product manager",
        text: include_str!("presets/seven.toml"),
    },
    Preset {
        name: "units",
        about: "a manager, and two units with a lead and two workers each",
        text: include_str!("presets/units.toml"),
    },
];

impl Preset {
    /// Returns the preset with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Returns the team file with this agent in every pane. For a shell, the prompts are omitted,
    /// because it would execute them.
    #[must_use]
    pub fn file(&self, agent: &str) -> String {
        let keep = |line: &&str| agent != "shell" || !line.starts_with("prompt = ");
        let mut text = String::new();
        for line in self.text.lines().filter(keep) {
            text.push_str(&line.replace("\"AGENT\"", &format!("{agent:?}")));
            text.push('\n');
        }
        text
    }
}

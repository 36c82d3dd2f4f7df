//! Teams to begin with.

/// A team that comes with ccmux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    text: &'static str,
}

/// All of them.
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
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The team file, with this agent in every pane. A shell is told nothing: it would try to
    /// execute it.
    #[must_use]
    pub fn file(&self, agent: &str) -> String {
        let told = |line: &&str| agent != "shell" || !line.starts_with("prompt = ");
        let mut text = String::new();
        for line in self.text.lines().filter(told) {
            text.push_str(&line.replace("\"AGENT\"", &format!("{agent:?}")));
            text.push('\n');
        }
        text
    }
}

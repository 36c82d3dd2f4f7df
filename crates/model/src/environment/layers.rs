//! Layers of a pane's environment, and the origin of each variable.
//!
//! ```text
//!  inherited < shared < role < session < ports < pane < ccmux < isolation
//! ```
//!
//! A later layer overrides an earlier one. Overridden variables are recorded by name and layer, but
//! without their values, which may be secret.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Environment, InvalidVariable};

/// The origin of a variable, in order of precedence: a later layer overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Inherited from the client that requested the pane.
    Inherited,
    /// `[env]` in `ccmux.toml`.
    Shared,
    /// The role of the pane.
    Role,
    /// The session of the pane.
    Session,
    /// The ports of the pane, and the name of its docker compose project.
    Ports,
    /// The request for the pane.
    Pane,
    /// Information about the pane, set by ccmux.
    Ccmux,
    /// The isolation of the pane.
    Isolation,
}

impl Layer {
    /// All layers, in order of precedence.
    pub const ALL: [Self; 8] = [
        Self::Inherited,
        Self::Shared,
        Self::Role,
        Self::Session,
        Self::Ports,
        Self::Pane,
        Self::Ccmux,
        Self::Isolation,
    ];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inherited => "inherited",
            Self::Shared => "shared",
            Self::Role => "role",
            Self::Session => "session",
            Self::Ports => "ports",
            Self::Pane => "pane",
            Self::Ccmux => "ccmux",
            Self::Isolation => "isolation",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A variable that the pane did not get from a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedVariable {
    /// Its name.
    pub name: String,
    /// The layer that set it.
    pub layer: Layer,
    /// The layer that overrode it; none if it was removed, because it points into the client's pane
    /// or the agent must not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Layer>,
}

/// An environment under construction.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    environment: Environment,
    sources: BTreeMap<String, Layer>,
    unused: Vec<UnusedVariable>,
}

impl Layers {
    /// Starts with the variables that the pane takes over from the client.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        let sources =
            environment.iter().map(|(name, _)| (name.to_owned(), Layer::Inherited)).collect();
        Self { environment, sources, unused: Vec::new() }
    }

    /// Sets a variable. A value from an earlier layer is recorded as unused; the same layer may
    /// replace its own value.
    ///
    /// # Errors
    ///
    /// [`InvalidVariable`]; nothing is changed.
    pub fn set(&mut self, layer: Layer, name: &str, value: &str) -> Result<(), InvalidVariable> {
        self.environment.set(name, value)?;
        let before = self.sources.insert(name.to_owned(), layer);
        if let Some(before) = before.filter(|before| *before != layer) {
            let unused = UnusedVariable { name: name.to_owned(), layer: before, by: Some(layer) };
            self.unused.push(unused);
        }
        Ok(())
    }

    /// Sets several variables.
    ///
    /// # Errors
    ///
    /// [`InvalidVariable`] for the first invalid variable.
    pub fn set_all(
        &mut self,
        layer: Layer,
        variables: &BTreeMap<String, String>,
    ) -> Result<(), InvalidVariable> {
        variables.iter().try_for_each(|(name, value)| self.set(layer, name, value))
    }

    /// Removes a variable. A later layer may set it again.
    pub fn leave_out(&mut self, name: &str) {
        self.environment.remove(name);
        if let Some(layer) = self.sources.remove(name) {
            self.unused.push(UnusedVariable { name: name.to_owned(), layer, by: None });
        }
    }

    /// Returns the variables so far, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment.iter()
    }

    /// Returns the environment, the layer of each variable, and the unused variables.
    #[must_use]
    pub fn into_parts(self) -> (Environment, BTreeMap<String, Layer>, Vec<UnusedVariable>) {
        (self.environment, self.sources, self.unused)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn later_layer_overrides_and_records_the_earlier_one() {
        let mut layers =
            Layers::new(variables(&[("EDITOR", "vi"), ("LANG", "C")]).try_into().unwrap());

        layers.set_all(Layer::Shared, &variables(&[("EDITOR", "nano"), ("A", "1")])).unwrap();
        layers.set_all(Layer::Pane, &variables(&[("A", "2")])).unwrap();
        layers.leave_out("LANG");

        let (environment, sources, unused) = layers.into_parts();
        let seen: Vec<_> = environment.iter().collect();
        assert_eq!(seen, [("A", "2"), ("EDITOR", "nano")]);
        assert_eq!(sources["A"], Layer::Pane);
        let unused: Vec<_> = unused.iter().map(|u| (u.name.as_str(), u.layer, u.by)).collect();
        assert_eq!(
            unused,
            [
                ("EDITOR", Layer::Inherited, Some(Layer::Shared)),
                ("A", Layer::Shared, Some(Layer::Pane)),
                ("LANG", Layer::Inherited, None),
            ]
        );
    }

    #[test]
    fn as_str_matches_json() {
        for layer in Layer::ALL {
            assert_eq!(serde_json::to_value(layer).unwrap(), layer.as_str());
        }
        assert!(Layer::ALL.is_sorted());
    }

    proptest! {
        /// Each variable has the value of the last layer that set it and exactly one source; all
        /// other settings are recorded as unused.
        #[test]
        fn every_setting_is_in_effect_or_recorded_as_unused(
            settings in proptest::collection::vec((1_usize..8, "[A-C]", "[a-z]{1,3}"), 0..40)
        ) {
            let mut settings = settings;
            settings.sort_by_key(|(layer, _, _)| *layer);
            settings.dedup_by_key(|(layer, name, _)| (*layer, name.clone()));
            let mut layers = Layers::default();
            let mut last = BTreeMap::new();
            for (layer, name, value) in &settings {
                layers.set(Layer::ALL[*layer], name, value).unwrap();
                last.insert(name.clone(), (Layer::ALL[*layer], value.clone()));
            }

            let (environment, sources, unused) = layers.into_parts();

            let found: BTreeMap<String, (Layer, String)> = environment
                .iter()
                .map(|(name, value)| (name.to_owned(), (sources[name], value.to_owned())))
                .collect();
            prop_assert_eq!(&found, &last);
            let distinct: std::collections::BTreeSet<(usize, &str)> =
                settings.iter().map(|(layer, name, _)| (*layer, name.as_str())).collect();
            prop_assert_eq!(unused.len() + found.len(), distinct.len());
        }
    }
}

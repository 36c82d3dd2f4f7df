//! Who sets which variable of a pane, in which order, and what came of it.
//!
//! ```text
//!  inherited < shared < role < session < ports < pane < ccmux < isolation
//! ```
//!
//! A later layer wins. What it won over is remembered by name and layer, never by value: a value
//! that nobody uses has no business in a record.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Environment, InvalidVariable};

/// Who sets a variable. In order: a later one wins over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The client that asked for the pane has it, and it is on the list of what is handed down.
    Inherited,
    /// `[env]` in `ccmux.toml`.
    Shared,
    /// The role of the pane.
    Role,
    /// The session of the pane.
    Session,
    /// The ports of the pane.
    Ports,
    /// Whoever asked for the pane.
    Pane,
    /// What ccmux says about the pane.
    Ccmux,
    /// What keeps the pane apart.
    Isolation,
}

impl Layer {
    /// All of them, in order.
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

    /// The word for it.
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

/// A variable that a layer had and the pane did not get from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unused {
    /// Its name.
    pub name: String,
    /// Who wanted to set it.
    pub layer: Layer,
    /// Who won. None: it is not to be passed on at all, because it leads into the pane of the
    /// client, or because the agent must not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Layer>,
}

/// An environment that is being put together.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    environment: Environment,
    sources: BTreeMap<String, Layer>,
    unused: Vec<Unused>,
}

impl Layers {
    /// The first layer: what `client` hands down.
    #[must_use]
    pub fn inherited(client: &BTreeMap<String, String>) -> Self {
        let environment = Environment::inherited(client);
        let sources =
            environment.iter().map(|(name, _)| (name.to_owned(), Layer::Inherited)).collect();
        Self { environment, sources, unused: Vec::new() }
    }

    /// Sets a variable. What an earlier layer said is remembered as not used; the same layer may
    /// change its mind.
    ///
    /// # Errors
    ///
    /// [`InvalidVariable`], and nothing is changed then.
    pub fn set(&mut self, layer: Layer, name: &str, value: &str) -> Result<(), InvalidVariable> {
        self.environment.set(name, value)?;
        let before = self.sources.insert(name.to_owned(), layer);
        if let Some(before) = before.filter(|before| *before != layer) {
            let unused = Unused { name: name.to_owned(), layer: before, by: Some(layer) };
            self.unused.push(unused);
        }
        Ok(())
    }

    /// Sets several variables.
    ///
    /// # Errors
    ///
    /// [`InvalidVariable`] for the first that cannot be set.
    pub fn set_all(
        &mut self,
        layer: Layer,
        variables: &BTreeMap<String, String>,
    ) -> Result<(), InvalidVariable> {
        variables.iter().try_for_each(|(name, value)| self.set(layer, name, value))
    }

    /// Takes a variable out, for good unless a later layer sets it.
    pub fn leave_out(&mut self, name: &str) {
        self.environment.remove(name);
        if let Some(layer) = self.sources.remove(name) {
            self.unused.push(Unused { name: name.to_owned(), layer, by: None });
        }
    }

    /// The variables so far, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment.iter()
    }

    /// The environment, who set each variable of it, and what was not used.
    #[must_use]
    pub fn into_parts(self) -> (Environment, BTreeMap<String, Layer>, Vec<Unused>) {
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
    fn a_later_layer_wins_and_it_is_known_over_whom() {
        let mut layers = Layers::inherited(&variables(&[("EDITOR", "vi"), ("LANG", "C")]));

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
    fn the_words_are_those_of_the_records() {
        for layer in Layer::ALL {
            assert_eq!(serde_json::to_value(layer).unwrap(), layer.as_str());
        }
        assert!(Layer::ALL.is_sorted());
    }

    proptest! {
        /// Whatever is set in whatever layers: every variable has the value of the last layer that
        /// set it, exactly one source, and every other setting is accounted for.
        #[test]
        fn nothing_is_set_without_a_source_and_nothing_is_lost_silently(
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

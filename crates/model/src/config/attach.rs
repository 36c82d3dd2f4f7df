//! The keys of `[keys]`.

use crate::attach_keys::InvalidPrefixKey;
use crate::config::Config;
use crate::config::key::{Access, Fault, Key};

pub(super) const PREFIX: Key<Config> = Key {
    name: "keys.prefix",
    meaning: "The key that precedes a command key in an attached terminal; pressed twice, it is sent \
              to the pane.",
    takes: "a key such as \"ctrl-b\" or \"ctrl-a\"",
    access: Access::Text {
        get: |config| Some(config.prefix.to_string()),
        set: |config, text| {
            let fault = |invalid: InvalidPrefixKey| Fault::whole(invalid.to_string());
            config.prefix = text.parse().map_err(fault)?;
            Ok(())
        },
    },
};

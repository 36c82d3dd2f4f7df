//! The keys of `[http]`.

use crate::config::Config;
use crate::config::key::{Access, Fault, Key, listed_twice, set_list};
use crate::http::{InvalidListen, Listen};

/// Settings of the HTTP API (`[http]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Address to listen on from the start of the daemon; none: only on request.
    pub listen: Option<Listen>,
    /// Path of the PEM file with the certificate chain; enables TLS.
    pub tls_cert: String,
    /// Path of the PEM file with the private key.
    pub tls_key: String,
    /// Host names to accept in addition to the local ones.
    pub allowed_hosts: Vec<String>,
    /// Origins to accept in addition to the server's own.
    pub allowed_origins: Vec<String>,
    /// Maximum calls per second and token; 0 for unlimited.
    pub rate: u32,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: None,
            tls_cert: String::new(),
            tls_key: String::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            rate: 2000,
        }
    }
}

const A_PATH: &str = "an absolute path, or \"\" for none";

pub(super) const LISTEN: Key<Config> = Key {
    name: "http.listen",
    meaning: "Address on which the daemon serves the HTTP API from its start. A non-loopback address \
              requires `http.tls_cert`. `unix:` and a path is a Unix socket that only you can use. If \
              empty, use `ccmux serve`.",
    takes: "an address with a port such as \"127.0.0.1:8765\", \"unix:\" and an absolute path, or \
            \"\" for none",
    access: Access::Text {
        get: |config| Some(config.http.listen.as_ref().map(Listen::to_string).unwrap_or_default()),
        set: |config, text| {
            config.http.listen = match text {
                "" => None,
                text => {
                    let fault = |invalid: InvalidListen| Fault::whole(invalid.to_string());
                    Some(text.parse().map_err(fault)?)
                }
            };
            Ok(())
        },
    },
};

pub(super) const TLS_CERT: Key<Config> = Key {
    name: "http.tls_cert",
    meaning: "PEM file with the certificate chain of the HTTP API. Enables TLS.",
    takes: A_PATH,
    access: Access::Text {
        get: |config| Some(config.http.tls_cert.clone()),
        set: |config, text| set_path(&mut config.http.tls_cert, text),
    },
};

pub(super) const TLS_KEY: Key<Config> = Key {
    name: "http.tls_key",
    meaning: "PEM file with the private key of that certificate; readable only by you.",
    takes: A_PATH,
    access: Access::Text {
        get: |config| Some(config.http.tls_key.clone()),
        set: |config, text| set_path(&mut config.http.tls_key, text),
    },
};

pub(super) const ALLOWED_HOSTS: Key<Config> = Key {
    name: "http.allowed_hosts",
    meaning: "Additional host names that the HTTP API accepts, each with or without a port. Loopback \
              addresses, the listen address and `localhost` are always accepted.",
    takes: "a list of names such as \"build.example\"",
    access: Access::List {
        get: |config| config.http.allowed_hosts.clone(),
        set: |config, items| set_words(&mut config.http.allowed_hosts, items, is_host),
    },
};

pub(super) const ALLOWED_ORIGINS: Key<Config> = Key {
    name: "http.allowed_origins",
    meaning: "Additional origins whose pages may call the HTTP API from a browser, with a token. The \
              API's own origin is always accepted.",
    takes: "a list of origins such as \"https://board.example\"",
    access: Access::List {
        get: |config| config.http.allowed_origins.clone(),
        set: |config, items| set_words(&mut config.http.allowed_origins, items, is_origin),
    },
};

pub(super) const RATE: Key<Config> = Key {
    name: "http.rate",
    meaning: "Maximum sustained calls per second and token (0: unlimited).",
    takes: "a number from 0 to 1000000",
    access: Access::Number {
        get: |config| config.http.rate.into(),
        set: |config, number| {
            let fits = u32::try_from(number).ok().filter(|rate| *rate <= 1_000_000);
            config.http.rate =
                fits.ok_or_else(|| Fault::whole(format!("{number} is not between 0 and 1000000")))?;
            Ok(())
        },
    },
};

fn set_path(slot: &mut String, text: &str) -> Result<(), Fault> {
    if !text.is_empty() && !text.starts_with('/') {
        return Err(Fault::whole(format!("{text:?} is not an absolute path")));
    }
    text.clone_into(slot);
    Ok(())
}

fn set_words(slot: &mut Vec<String>, items: &[String], is: fn(&str) -> bool) -> Vec<Fault> {
    let read = |item: &str| match is(item) {
        true => Ok(item.to_owned()),
        false => Err(Fault::whole(format!("{item:?} is not valid"))),
    };
    set_list(slot, items, read, listed_twice)
}

/// Returns true for a host name with or without a port; wildcards are not supported.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'))
}

fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(is_host)
}

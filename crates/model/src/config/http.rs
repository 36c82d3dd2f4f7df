//! The keys of `[http]`.

use std::net::SocketAddr;

use crate::config::Config;
use crate::config::key::{Access, Fault, Key, listed_twice, set_list};

/// How the HTTP API is served (`[http]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where to listen from the daemon's start on; none: only when asked.
    pub listen: Option<SocketAddr>,
    /// The certificate chain, as a PEM file; with it, callers speak TLS.
    pub tls_cert: String,
    /// The key of the certificate, as a PEM file.
    pub tls_key: String,
    /// Names under which we may be called, beside those of this machine itself.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call us, beside our own.
    pub allowed_origins: Vec<String>,
    /// How many calls a second each token may make; 0 for any number.
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
    meaning: "Serve the HTTP API here from the start of the daemon on. Beyond this machine only \
              with `http.tls_cert`. Without it, `ccmux serve` serves it.",
    takes: "an address with a port such as \"127.0.0.1:8765\", or \"\" for none",
    access: Access::Text {
        get: |config| {
            Some(config.http.listen.map(|address| address.to_string()).unwrap_or_default())
        },
        set: |config, text| {
            config.http.listen = match text {
                "" => None,
                text => Some(text.parse().map_err(|_| {
                    Fault::whole(format!(
                        "{text:?} is no address with a port, such as \"[::1]:8765\""
                    ))
                })?),
            };
            Ok(())
        },
    },
};

pub(super) const TLS_CERT: Key<Config> = Key {
    name: "http.tls_cert",
    meaning: "The certificate of the HTTP API and those above it, as a PEM file. Callers then \
              speak TLS.",
    takes: A_PATH,
    access: Access::Text {
        get: |config| Some(config.http.tls_cert.clone()),
        set: |config, text| set_path(&mut config.http.tls_cert, text),
    },
};

pub(super) const TLS_KEY: Key<Config> = Key {
    name: "http.tls_key",
    meaning: "The private key of that certificate, as a PEM file that nobody else can read.",
    takes: A_PATH,
    access: Access::Text {
        get: |config| Some(config.http.tls_key.clone()),
        set: |config, text| set_path(&mut config.http.tls_key, text),
    },
};

pub(super) const ALLOWED_HOSTS: Key<Config> = Key {
    name: "http.allowed_hosts",
    meaning: "Names under which the HTTP API may be called, each with or without a port. The \
              addresses of this machine itself and `localhost` always work.",
    takes: "a list of names such as \"build.example\"",
    access: Access::List {
        get: |config| config.http.allowed_hosts.clone(),
        set: |config, items| set_words(&mut config.http.allowed_hosts, items, is_host),
    },
};

pub(super) const ALLOWED_ORIGINS: Key<Config> = Key {
    name: "http.allowed_origins",
    meaning: "Origins whose pages may call the HTTP API from a browser, with a token. Its own \
              always may.",
    takes: "a list of origins such as \"https://board.example\"",
    access: Access::List {
        get: |config| config.http.allowed_origins.clone(),
        set: |config, items| set_words(&mut config.http.allowed_origins, items, is_origin),
    },
};

pub(super) const RATE: Key<Config> = Key {
    name: "http.rate",
    meaning: "How many calls a second each token may make, for longer than a moment. 0: any \
              number.",
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
        false => Err(Fault::whole(format!("{item:?} is none"))),
    };
    set_list(slot, items, read, listed_twice)
}

/// A name with or without a port: nothing that a header could not carry, and no wildcard.
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

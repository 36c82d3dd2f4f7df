//! The tokens of the API, and the revocation of those in use.
//!
//! A request holds the [`CancellationToken`] of the token that authenticated it. It is cancelled
//! when the file no longer contains that token, whichever process replaced or removed it, so that
//! streams end with their token.

use std::path::Path;
use std::sync::Arc;

use host::StateRoot;
use host::file::FileError;
use host::token::TokenFile;
use model::http::Scope;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::file_watch::{FileWatch, Subscription, Writers};

/// The token files, one per scope.
pub(super) struct Tokens {
    read: Token,
    control: Token,
}

/// The token of one scope.
struct Token {
    file: TokenFile,
    /// The token of the latest authenticated request. The file is read under this lock, so that a
    /// request is either authenticated before a change, and then revoked by it, or after it.
    current: Mutex<Option<Current>>,
}

struct Current {
    digest: blake3::Hash,
    revoked: CancellationToken,
}

/// A valid token that a client presented.
pub(super) struct Authenticated {
    pub(super) scope: Scope,
    pub(super) digest: blake3::Hash,
    /// Cancelled when the token becomes invalid.
    pub(super) revoked: CancellationToken,
}

impl Tokens {
    pub(super) fn new(root: &StateRoot) -> Self {
        let token = |name: &str| Token {
            file: TokenFile::new(root.run().join(name)),
            current: Mutex::default(),
        };
        Self { read: token("token.read"), control: token("token") }
    }

    fn of(&self, scope: Scope) -> &Token {
        match scope {
            Scope::Read => &self.read,
            Scope::Control => &self.control,
        }
    }

    pub(super) fn path(&self, scope: Scope) -> &Path {
        self.of(scope).file.path()
    }

    /// Returns a token, which is created if it does not exist.
    pub(super) fn get(&self, scope: Scope) -> Result<String, FileError> {
        self.of(scope).file.get()
    }

    /// Replaces a token and ends the streams of the previous one.
    pub(super) fn rotate(&self, scope: Scope) -> Result<String, FileError> {
        let token = self.of(scope);
        let replaced = token.file.replace();
        token.revoke_if_changed();
        replaced
    }

    /// Returns the scope of a presented token, or `None` if it is invalid.
    pub(super) fn authenticate(&self, offered: &str) -> Result<Option<Authenticated>, FileError> {
        for scope in Scope::ALL {
            if let Some((digest, revoked)) = self.of(scope).authenticate(offered)? {
                return Ok(Some(Authenticated { scope, digest, revoked }));
            }
        }
        Ok(None)
    }

    /// Watches the files for changes by other processes, until the subscription is dropped. Blocks.
    pub(super) fn watch(self: &Arc<Self>, file_watch: &FileWatch) -> Subscription {
        let this = Arc::clone(self);
        let subscription = file_watch.subscribe(Writers::Ignored, move |change| {
            for scope in Scope::ALL {
                let token = this.of(scope);
                if change.path.file_name() == token.file.path().file_name() {
                    token.revoke_if_changed();
                }
            }
        });
        let dir = self.control.file.path().parent().expect("the file is in a directory");
        let watched = dir
            .canonicalize()
            .map_err(|why| why.to_string())
            .and_then(|dir| subscription.watch(&dir).map_err(|why| why.to_string()));
        if let Err(why) = watched {
            // `ccmux token --rotate` still revokes at once, and other changes with the next request.
            warn!(%why, "HTTP token files not watched");
        }
        subscription
    }
}

impl Token {
    fn authenticate(
        &self,
        offered: &str,
    ) -> Result<Option<(blake3::Hash, CancellationToken)>, FileError> {
        let mut current = self.current.lock();
        let Some(digest) = self.file.matches(offered)? else { return Ok(None) };
        if let Some(current) = &*current
            && current.digest == digest
        {
            return Ok(Some((digest, current.revoked.clone())));
        }
        let revoked = CancellationToken::new();
        let next = Current { digest, revoked: revoked.clone() };
        if let Some(previous) = current.replace(next) {
            previous.revoked.cancel();
        }
        Ok(Some((digest, revoked)))
    }

    fn revoke_if_changed(&self) {
        let mut current = self.current.lock();
        let digest = self.file.digest().ok();
        if let Some(previous) = current.take_if(|current| Some(current.digest) != digest) {
            info!(file = %self.file.path().display(), "HTTP token revoked");
            previous.revoked.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_revoked_when_replaced_or_removed_and_other_scope_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(&StateRoot::open(dir.path()).unwrap());
        let authenticate = |token: &str| tokens.authenticate(token).unwrap();
        let first = tokens.get(Scope::Control).unwrap();
        let reader = authenticate(&tokens.get(Scope::Read).unwrap()).unwrap();
        let user = authenticate(&first).unwrap();
        assert_eq!((user.scope, reader.scope), (Scope::Control, Scope::Read));

        let second = tokens.rotate(Scope::Control).unwrap();

        assert!(user.revoked.is_cancelled());
        assert!(authenticate(&first).is_none());
        let user = authenticate(&second).unwrap();
        assert!(!user.revoked.is_cancelled());
        std::fs::remove_file(tokens.path(Scope::Control)).unwrap();
        tokens.control.revoke_if_changed();
        assert!(user.revoked.is_cancelled());
        assert!(!reader.revoked.is_cancelled(), "another token");
    }
}

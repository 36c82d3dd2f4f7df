//! The token endpoint of claude's logins.

use serde_json::{Value, json};

use super::reply::Reply;

/// Lifetime of a renewed login, as with the real service.
const LIFETIME_SECONDS: u64 = 8 * 60 * 60;

/// Issues tokens by generation: each renewal starts the next one, and only the refresh token of the
/// latest is valid.
#[derive(Debug, Default)]
pub(super) struct Logins {
    generation: u64,
}

impl Logins {
    /// Returns the latest login in claude's format.
    pub(super) fn stored(&self, expires_at: u64) -> Value {
        json!({"claudeAiOauth": {
            "accessToken": self.access_token(),
            "refreshToken": self.refresh_token(),
            "expiresAt": expires_at,
            "scopes": ["user:inference", "user:profile"],
            "subscriptionType": "max",
        }})
    }

    /// Answers a renewal request.
    pub(super) fn renew(&mut self, request: &Value) -> Reply {
        if request["refresh_token"] != self.refresh_token().as_str() {
            let refusal = json!({
                "error": "invalid_grant",
                "error_description": "Refresh token not found or invalid",
            });
            return Reply::json(400, &refusal);
        }
        self.generation += 1;
        let granted = json!({
            "token_type": "Bearer",
            "access_token": self.access_token(),
            "refresh_token": self.refresh_token(),
            "expires_in": LIFETIME_SECONDS,
            "scope": "user:inference user:profile",
        });
        Reply::json(200, &granted)
    }

    fn access_token(&self) -> String {
        format!("sk-ant-oat01-stub-{}", self.generation)
    }

    fn refresh_token(&self) -> String {
        format!("sk-ant-ort01-stub-{}", self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refresh_token_is_valid_for_one_renewal() {
        let mut logins = Logins::default();
        let first = json!({"refresh_token": logins.refresh_token()});

        let renewed = logins.renew(&first);
        let again = logins.renew(&first);

        let granted: Value = serde_json::from_str(&renewed.body).unwrap();
        assert_eq!(granted["access_token"], "sk-ant-oat01-stub-1");
        assert_eq!((renewed.status, again.status), (200, 400));
        assert_eq!(logins.renew(&granted).status, 200, "the new token is refused");
    }
}

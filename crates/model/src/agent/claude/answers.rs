//! The questions that claude asks once, and remembers in its state.
//!
//! The names are those of 2.1.325 and 2.1.197. Answers of the user are carried into every pane, by
//! pattern, so that those of other releases are too. Where the user has not been asked yet, hints and
//! offers are marked as seen. Consents are never given in the user's name: they are only carried.

use serde_json::{Map, Value};

/// Offers and hints that a pane does not show.
const SEEN: &[&str] = &[
    "hasCompletedOnboarding",
    "hasIdeAutoConnectDialogBeenShown",
    "hasIdeOnboardingBeenShown",
    "hasSeenAutoDefaultNotice",
    "hasSeenAutoDefaultNudge",
    "hasSeenEffortMediumNudge",
    "hasSeenTasksHint",
    "hasVisitedPasses",
    "officialMarketplaceAutoInstallAttempted",
];

/// The same for a project. External includes of `CLAUDE.md` stay disabled unless the user has
/// approved them.
const SEEN_IN_PROJECT: &[&str] =
    &["hasClaudeMdExternalIncludesWarningShown", "hasCompletedProjectOnboarding"];

/// Answers and preferences of the user whose names follow no pattern. Without the migrations, the
/// release would change the settings of the pane, and ask again about them.
const CARRIED: &[&str] = &[
    "autoCompactEnabled",
    "autoConnectIde",
    "autoInstallIdeExtension",
    "bedrockDeclinedUpgrades",
    "copyOnSelect",
    "diffTool",
    "editorMode",
    "migrationVersion",
    "newerModelAsks",
    "oauthAccount",
    "opusProMigrationTimestamp",
    "preferredNotifChannel",
    "remoteControlAtStartup",
    "seenNotifications",
    "seenSecurityWarnings",
    "theme",
    "todoFeatureEnabled",
    "ultrareviewOverageConfirmed",
    "verbose",
    "vertexDeclinedUpgrades",
];

/// The same for a project.
const CARRIED_IN_PROJECT: &[&str] = &["hasClaudeMdExternalIncludesApproved"];

/// Beginnings and ends of the names of answers.
const PREFIXES: &[&str] = &[
    "hasAcknowledged",
    "hasCompleted",
    "hasOpened",
    "hasReset",
    "hasRun",
    "hasSeen",
    "hasUsed",
    "hasVisited",
    "lastRelease",
];
const SUFFIXES: &[&str] = &[
    "Accepted",
    "Acknowledged",
    "AcknowledgedAt",
    "Complete",
    "Dismissed",
    "NeverPlugins",
    "NoticeCount",
    "SeenCount",
    "Shown",
    "ShownCount",
    "Seen",
];

/// Returns true if a pane takes over the user's value of this key of the state.
#[must_use]
pub(super) fn is_carried(key: &str) -> bool {
    CARRIED.contains(&key)
        || SEEN.contains(&key)
        || PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| key.ends_with(suffix))
}

/// Returns true if a pane takes over the user's value of this key of a project.
#[must_use]
pub(super) fn is_carried_in_project(key: &str) -> bool {
    CARRIED_IN_PROJECT.contains(&key) || SEEN_IN_PROJECT.contains(&key)
}

/// Adds what the user has not been asked yet.
pub(super) fn mark_seen(state: &mut Map<String, Value>) {
    mark(state, SEEN);
}

/// Adds what the user has not been asked yet in a project.
pub(super) fn mark_seen_in_project(project: &mut Map<String, Value>) {
    mark(project, SEEN_IN_PROJECT);
}

fn mark(values: &mut Map<String, Value>, keys: &[&str]) {
    values.extend(keys.iter().map(|key| ((*key).to_owned(), true.into())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_carried_and_other_state_is_not() {
        for key in [
            "theme",
            "bypassPermissionsModeAccepted",
            "hasSeenAutoModeEntryWarning",
            "hasSeenUltraplanTerms",
            "hasAcknowledgedCostThreshold",
            "fullscreenUpsellSeenCount",
            "hasResetAutoModeOptInForDefaultOffer",
        ] {
            assert!(is_carried(key), "{key}");
        }
        for key in ["numStartups", "userID", "projects", "customApiKeyResponses", "cachedFlags"] {
            assert!(!is_carried(key), "{key}");
        }
    }

    #[test]
    fn consents_are_never_marked() {
        for key in SEEN.iter().chain(SEEN_IN_PROJECT) {
            let is_consent = ["Accepted", "Terms", "Approved", "Acknowledged", "EntryWarning"];
            assert!(!is_consent.iter().any(|word| key.ends_with(word)), "{key}");
        }
    }
}

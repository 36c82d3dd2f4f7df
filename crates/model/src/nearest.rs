//! Suggestions for misspelt words.

/// Returns the candidate most similar to `word`, if one is similar enough.
///
/// One edit is allowed per three characters of the word (at least one).
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate, allowed), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the number of insertions, deletions, substitutions and swaps of adjacent characters
/// between `typed` and `meant`, or any larger number if it exceeds `limit`. Case and the
/// difference between `-` and `_` are ignored.
fn edit_distance(typed: &str, meant: &str, limit: usize) -> usize {
    let letters = |word: &str| -> Vec<char> {
        word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let (typed, meant) = (letters(typed), letters(meant));
    if typed.len().abs_diff(meant.len()) > limit {
        return limit + 1;
    }
    // Row `t` holds the distances between the first `t` characters of `typed` and each prefix of
    // `meant`. A swap looks two rows back.
    let mut before: Vec<usize> = vec![];
    let mut above: Vec<usize> = (0..=meant.len()).collect();
    for t in 1..=typed.len() {
        let mut row = vec![t];
        for m in 1..=meant.len() {
            let substituted = above[m - 1] + usize::from(typed[t - 1] != meant[m - 1]);
            let mut least = substituted.min(above[m] + 1).min(row[m - 1] + 1);
            let is_swap =
                t > 1 && m > 1 && (typed[t - 2], typed[t - 1]) == (meant[m - 1], meant[m - 2]);
            if is_swap {
                least = least.min(before[m - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[meant.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_misspellings_and_rejects_other_words() {
        const KNOWN: [&str; 5] = ["method", "cleanup_on_close", "share", "every", "retention"];
        let cases = [
            ("method", Some("method")),
            ("methd", Some("method")),
            ("mehtod", Some("method")),
            ("Method", Some("method")),
            ("cleanup-on-close", Some("cleanup_on_close")),
            ("clean_on_close", Some("cleanup_on_close")),
            ("shares", Some("share")),
            ("retension", Some("retention")),
            ("isolation", None),
            ("m", None),
            ("", None),
            ("évery", Some("every")),
        ];
        for (word, meant) in cases {
            assert_eq!(nearest(word, KNOWN), meant, "input: {word:?}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), KNOWN), None);
    }
}

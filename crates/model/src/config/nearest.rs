//! From a word that was mistyped to the one that was probably meant.

/// The candidate that `word` most resembles, if it resembles one at all.
///
/// As many mistakes are forgiven as the word has thirds: more would make a guess of it.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let forgiven = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (mistakes(word, candidate, forgiven), candidate))
        .filter(|(mistakes, _)| *mistakes <= forgiven)
        .min_by_key(|(mistakes, _)| *mistakes)
        .map(|(_, candidate)| candidate)
}

/// How many letters were left out, put in, mistaken or swapped with their neighbour, up to
/// `forgiven`; beyond that any number that is larger. Capitals and the kind of dash do not count.
fn mistakes(typed: &str, meant: &str, forgiven: usize) -> usize {
    let letters = |word: &str| -> Vec<char> {
        word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let (typed, meant) = (letters(typed), letters(meant));
    if typed.len().abs_diff(meant.len()) > forgiven {
        return forgiven + 1;
    }
    // Row `t` holds the mistakes between the first `t` letters typed and every beginning of what
    // was meant. A swap looks two rows back.
    let mut before: Vec<usize> = vec![];
    let mut above: Vec<usize> = (0..=meant.len()).collect();
    for t in 1..=typed.len() {
        let mut row = vec![t];
        for m in 1..=meant.len() {
            let mistaken = above[m - 1] + usize::from(typed[t - 1] != meant[m - 1]);
            let mut least = mistaken.min(above[m] + 1).min(row[m - 1] + 1);
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
    fn a_slip_is_recognised_and_another_word_is_not() {
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

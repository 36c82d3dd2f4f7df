//! Collects samples, compares them with the targets, and prints and writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::contender::Kind;
use crate::machine::Machine;

/// A target for ccmux.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// At most this multiple of tmux's value.
    TimesTmux(f64),
    /// At most this value.
    AtMost(f64),
    /// No target.
    Information,
}

/// How samples of several rounds are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sum {
    Median,
    /// For worst-case targets.
    Largest,
}

/// A row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    measure: &'static str,
    what: String,
    unit: &'static str,
    target: Target,
    sum: Sum,
    samples: BTreeMap<Kind, Vec<f64>>,
}

/// All results.
#[derive(Debug)]
pub(crate) struct Report {
    machine: Machine,
    rows: Vec<Row>,
    failures: Vec<String>,
}

#[derive(Serialize)]
struct Written<'a> {
    machine: &'a Machine,
    rows: Vec<WrittenRow<'a>>,
    failures: &'a [String],
}

#[derive(Serialize)]
struct WrittenRow<'a> {
    #[serde(flatten)]
    row: &'a Row,
    values: BTreeMap<Kind, f64>,
    ratio: Option<f64>,
    verdict: &'static str,
}

impl Report {
    pub(crate) fn new(machine: Machine) -> Self {
        Self { machine, rows: Vec::new(), failures: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Records that something could not be measured.
    pub(crate) fn fail(&mut self, measure: &str, who: Kind, error: &anyhow::Error) {
        let failure = format!("{measure}, {who:?}: {error:#}");
        eprintln!("bench: cannot measure {failure}");
        self.failures.push(failure);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }

    pub(crate) fn table(&self) -> String {
        let head = ["measure", "", "ccmux", "tmux", "bare PTY", "ratio", "target", "verdict"];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let mut table = format!("{}\n\n", self.machine);
        for line in &lines {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // Text is left-aligned, numbers right-aligned.
                let written = match column {
                    2..=5 => write!(text, "{cell:>width$}  "),
                    _ => write!(text, "{cell:width$}  "),
                };
                written.expect("a string takes everything");
            }
            table.push_str(text.trim_end());
            table.push('\n');
        }
        for failure in &self.failures {
            table.push_str("not measured: ");
            table.push_str(failure);
            table.push('\n');
        }
        table
    }

    pub(crate) fn write_json(&self, file: &Path) -> Result<()> {
        let rows = self.rows.iter().map(Row::written).collect();
        let whole = Written { machine: &self.machine, rows, failures: &self.failures };
        if let Some(dir) = file.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut out = File::create(file)?;
        serde_json::to_writer_pretty(&mut out, &whole)?;
        Ok(writeln!(out)?)
    }
}

impl Row {
    pub(crate) fn new(
        measure: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        target: Target,
    ) -> Self {
        let what = what.into();
        Self { measure, what, unit, target, sum: Sum::Median, samples: BTreeMap::new() }
    }

    /// Uses the largest sample instead of the median.
    pub(crate) fn largest(mut self) -> Self {
        self.sum = Sum::Largest;
        self
    }

    pub(crate) fn sample(&mut self, who: Kind, value: f64) {
        self.samples.entry(who).or_default().push(value);
    }

    fn written(&self) -> WrittenRow<'_> {
        let values = self.samples.keys().filter_map(|&kind| Some((kind, self.value(kind)?)));
        let (ratio, verdict) = (self.ratio(), self.verdict());
        WrittenRow { row: self, values: values.collect(), ratio, verdict }
    }

    fn value(&self, who: Kind) -> Option<f64> {
        let samples = self.samples.get(&who)?;
        match self.sum {
            Sum::Median => percentile(samples, 50),
            Sum::Largest => percentile(samples, 100),
        }
    }

    /// Returns ccmux's value divided by tmux's.
    fn ratio(&self) -> Option<f64> {
        let ratio = self.value(Kind::Ccmux)? / self.value(Kind::Tmux)?;
        ratio.is_finite().then_some(ratio)
    }

    fn verdict(&self) -> &'static str {
        let met = match self.target {
            Target::TimesTmux(limit) => self.ratio().map(|ratio| ratio <= limit),
            Target::AtMost(limit) => self.value(Kind::Ccmux).map(|value| value <= limit),
            Target::Information => None,
        };
        match met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        }
    }

    fn cells(&self) -> [String; 8] {
        let value = |who| self.value(who).map_or_else(|| "–".to_owned(), number);
        let target = match self.target {
            Target::TimesTmux(limit) => format!("≤ {limit} × tmux"),
            Target::AtMost(limit) => format!("≤ {limit} {}", self.unit),
            Target::Information => String::new(),
        };
        [
            self.what.clone(),
            self.unit.to_owned(),
            value(Kind::Ccmux),
            value(Kind::Tmux),
            value(Kind::Bare),
            self.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            target,
            self.verdict().to_owned(),
        ]
    }
}

/// Returns the smallest sample that is at least as large as `percent` of all samples.
pub(crate) fn percentile(samples: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied()
}

/// Formats three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_one_of_the_samples() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let cases = [(50, 50.0), (99, 99.0), (100, 100.0), (1, 1.0)];
        for (percent, expected) in cases {
            assert_eq!(percentile(&hundred, percent), Some(expected), "percent: {percent}");
        }
        assert_eq!(percentile(&[3.0, 1.0, 2.0], 50), Some(2.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn verdict_needs_all_values_of_its_target() {
        let mut row = Row::new("m", "w", "s", Target::TimesTmux(0.6));
        row.sample(Kind::Ccmux, 0.5);
        assert_eq!(row.verdict(), "");

        row.sample(Kind::Tmux, 1.0);
        assert_eq!(row.verdict(), "met");

        row.sample(Kind::Ccmux, 0.9);
        row.sample(Kind::Ccmux, 0.9);
        assert_eq!(row.verdict(), "missed");
    }
}

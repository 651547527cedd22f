//! Metrics: tables of series, and the page of them in Prometheus' text format.
//!
//! A series is one row of one table: its name, type, help and labels, and how its samples are read. What programs show and what
//! the documents list are both made from the tables, so nothing is shown that is not described. Values of labels are words of ours
//! and names of generators, nothing else that a caller sent: none of them needs to be escaped.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::{Display, Write as _};

/// Names of labels.
pub type Labels = &'static [&'static str];
/// Writes samples that are read from an `S`.
pub type Rows<S> = fn(&S, &mut Samples<'_>);

/// A series that is read from an `S`.
pub struct Series<S: ?Sized> {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    labels: Labels,
    read: Read<S>,
}

enum Read<S: ?Sized> {
    Count(fn(&S) -> u64),
    Level(fn(&S) -> i128),
    Rows(Rows<S>),
}

/// A number that only grows, until the program is started again.
pub const fn counter<S: ?Sized>(name: &'static str, help: &'static str, read: fn(&S) -> u64) -> Series<S> {
    Series { name, kind: "counter", help, labels: &[], read: Read::Count(read) }
}

/// Such numbers by labels.
pub const fn counters<S: ?Sized>(name: &'static str, help: &'static str, labels: Labels, rows: Rows<S>) -> Series<S> {
    Series { name, kind: "counter", help, labels, read: Read::Rows(rows) }
}

/// A number that goes up and down.
pub const fn gauge<S: ?Sized>(name: &'static str, help: &'static str, read: fn(&S) -> i128) -> Series<S> {
    Series { name, kind: "gauge", help, labels: &[], read: Read::Level(read) }
}

/// Such numbers by labels.
pub const fn gauges<S: ?Sized>(name: &'static str, help: &'static str, labels: Labels, rows: Rows<S>) -> Series<S> {
    Series { name, kind: "gauge", help, labels, read: Read::Rows(rows) }
}

/// Quantiles, the last label, and counts of what they are of.
pub const fn summary<S: ?Sized>(name: &'static str, help: &'static str, labels: Labels, rows: Rows<S>) -> Series<S> {
    Series { name, kind: "summary", help, labels, read: Read::Rows(rows) }
}

/// The samples of one series, as they are written.
pub struct Samples<'a> {
    page: &'a mut String,
    name: &'static str,
    labels: Labels,
}

impl Samples<'_> {
    /// Writes one with these values of the labels, in their order.
    pub fn of<const N: usize>(&mut self, labels: [&dyn Display; N], value: impl Display) {
        self.sample("", &labels, value);
    }

    /// Writes the count of a summary, which has all labels but the quantile.
    pub fn count<const N: usize>(&mut self, labels: [&dyn Display; N], value: impl Display) {
        self.sample("_count", &labels, value);
    }

    fn sample(&mut self, suffix: &str, labels: &[&dyn Display], value: impl Display) {
        self.page.push_str(self.name);
        self.page.push_str(suffix);
        for (nth, (label, of)) in self.labels.iter().zip(labels).enumerate() {
            let _ = write!(self.page, "{}{label}=\"{of}\"", if nth == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        // A `String` takes everything.
        let _ = writeln!(self.page, "{end} {value}");
    }
}

/// Appends all series of a table to a page, as they are in `of`; nothing if there is none.
pub fn write<'a, S: ?Sized + 'a>(page: &mut String, table: &[Series<S>], of: impl Into<Option<&'a S>>) {
    let Some(of) = of.into() else { return };
    for Series { name, kind, help, labels, read } in table {
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
        let mut samples = Samples { page, name, labels };
        match read {
            Read::Count(read) => samples.of([], read(of)),
            Read::Level(read) => samples.of([], read(of)),
            Read::Rows(write) => write(of, &mut samples),
        }
    }
}

/// A table as rows of a table in Markdown: names, types, labels and helps.
pub fn rows<S: ?Sized>(table: &[Series<S>]) -> String {
    let row = |Series { name, kind, help, labels, .. }: &Series<S>| {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "))
    };
    table.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Series<[(&str, u64)]>] = &[
        counter("all_total", "All.", |rows| rows.iter().map(|(_, n)| n).sum()),
        gauge("least", "Least.", |rows| rows.iter().map(|(_, n)| -i128::from(*n)).min().unwrap_or(0)),
        gauges("each", "Each.", &["name", "other"], |rows, out| {
            rows.iter().for_each(|(name, n)| out.of([name, &"x"], n));
        }),
        summary("took", "Time.", &["name", "quantile"], |rows, out| {
            for (name, n) in rows {
                out.of([name, &"0.5"], format_args!("{n}.00"));
                out.count([name], n);
            }
        }),
    ];

    #[test]
    fn a_page_has_the_head_and_the_samples_of_each_series() {
        let mut page = String::from("before\n");
        write(&mut page, TABLE, &[("a", u64::MAX - 1), ("b", 1)][..]);
        let expected = "before\n\
            # HELP all_total All.\n# TYPE all_total counter\nall_total 18446744073709551615\n\
            # HELP least Least.\n# TYPE least gauge\nleast -18446744073709551614\n\
            # HELP each Each.\n# TYPE each gauge\n\
            each{name=\"a\",other=\"x\"} 18446744073709551614\neach{name=\"b\",other=\"x\"} 1\n\
            # HELP took Time.\n# TYPE took summary\n\
            took{name=\"a\",quantile=\"0.5\"} 18446744073709551614.00\ntook_count{name=\"a\"} 18446744073709551614\n\
            took{name=\"b\",quantile=\"0.5\"} 1.00\ntook_count{name=\"b\"} 1\n";
        assert_eq!(page, expected);
    }

    #[test]
    fn what_is_not_there_leaves_no_trace_and_what_is_empty_has_its_heads() {
        let mut page = String::new();
        write(&mut page, TABLE, None);
        assert_eq!(page, "");
        write(&mut page, TABLE, &[][..]);
        let expected = "# HELP all_total All.\n# TYPE all_total counter\nall_total 0\n\
            # HELP least Least.\n# TYPE least gauge\nleast 0\n\
            # HELP each Each.\n# TYPE each gauge\n# HELP took Time.\n# TYPE took summary\n";
        assert_eq!(page, expected);
    }

    #[test]
    fn documents_say_the_same() {
        let expected = "| `all_total` | counter |  | All. |\n| `least` | gauge |  | Least. |\n\
            | `each` | gauge | `name`, `other` | Each. |\n| `took` | summary | `name`, `quantile` | Time. |\n";
        assert_eq!(rows(TABLE), expected);
    }
}

//! `env`, as text for people.

use model::environment::layers::Unused;
use protocol::environment::EnvironmentView;

use crate::output::{Style, printable};
use crate::table::{Cell, Colour, Table};

/// Every variable with its source; with `why`, what was not used as well.
pub(crate) fn environment(view: &EnvironmentView, why: bool, style: Style) -> String {
    let mut table = Table::new(&["SOURCE", "VARIABLE"]);
    for variable in &view.variables {
        let source = variable.source.map_or("unknown", |source| source.as_str());
        let line = format!("{}={}", variable.name, variable.value);
        table.push(vec![Cell::coloured(source, Colour::Dim), printable(&line).into()]);
    }
    // Values are not cut short: whoever asks wants to see them.
    let mut text = table.render(style.colour, None);
    if why {
        text.push_str("\nnot used:\n");
        if view.unused.is_empty() {
            text.push_str("  nothing\n");
        }
        for unused in &view.unused {
            text.push_str(&format_unused(unused));
        }
    }
    text
}

fn format_unused(unused: &Unused) -> String {
    let Unused { name, layer, by } = unused;
    let name = printable(name);
    match by {
        Some(by) => format!("  {name} of {layer}: {by} sets it\n"),
        None => format!("  {name} of {layer}: it is not passed on\n"),
    }
}

#[cfg(test)]
mod tests {
    use model::PaneId;
    use model::environment::layers::Layer;
    use protocol::environment::VariableView;

    use super::*;

    #[test]
    fn each_variable_has_its_source_and_each_that_is_not_used_its_reason() {
        let variable = |name: &str, value: &str, source| VariableView {
            name: name.to_owned(),
            value: value.to_owned(),
            masked: false,
            source,
        };
        let unused = |name: &str, by| Unused { name: name.to_owned(), layer: Layer::Inherited, by };
        let view = EnvironmentView {
            pane: PaneId::from_random([1; 16]),
            name: "dev".parse().unwrap(),
            role: None,
            ports: None,
            variables: vec![
                variable("EDITOR", "vi", Some(Layer::Pane)),
                variable("OLD", "a\nb", None),
            ],
            unused: vec![unused("EDITOR", Some(Layer::Pane)), unused("TMUX", None)],
        };
        let style = Style { colour: false, width: Some(10), now: model::Timestamp(0) };

        let text = environment(&view, true, style);

        assert_eq!(
            text,
            "SOURCE   VARIABLE\n\
             pane     EDITOR=vi\n\
             unknown  OLD=a\\nb\n\
             \n\
             not used:\n  \
             EDITOR of inherited: pane sets it\n  \
             TMUX of inherited: it is not passed on\n"
        );
        assert!(!environment(&view, false, style).contains("not used"));
    }
}

//! Text output of `env`.

use model::environment::layers::UnusedVariable;
use protocol::environment::EnvironmentView;

use crate::output::{Style, printable};
use crate::table::{Cell, Colour, Table};

/// Formats every variable with its source; with `why`, also the unused variables.
pub(crate) fn environment(view: &EnvironmentView, why: bool, style: Style) -> String {
    let mut table = Table::new(&["SOURCE", "VARIABLE"]);
    for variable in &view.variables {
        let source = variable.source.map_or("unknown", |source| source.as_str());
        let line = format!("{}={}", variable.name, variable.value);
        table.push(vec![Cell::coloured(source, Colour::Dim), printable(&line).into()]);
    }
    // Values are never truncated.
    let mut text = table.render(style.colour, None);
    if why {
        text.push_str("\nnot used:\n");
        if view.unused.is_empty() {
            text.push_str("  none\n");
        }
        for unused in &view.unused {
            text.push_str(&format_unused(unused));
        }
    }
    text
}

fn format_unused(unused: &UnusedVariable) -> String {
    let UnusedVariable { name, layer, by } = unused;
    let name = printable(name);
    match by {
        Some(by) => format!("  {name} from {layer}: overridden by {by}\n"),
        None => format!("  {name} from {layer}: not inherited\n"),
    }
}

#[cfg(test)]
mod tests {
    use model::PaneId;
    use model::environment::layers::Layer;
    use protocol::environment::VariableView;

    use super::*;

    #[test]
    fn environment_shows_sources_and_reasons_for_unused_variables() {
        let variable = |name: &str, value: &str, source| VariableView {
            name: name.to_owned(),
            value: value.to_owned(),
            masked: false,
            source,
        };
        let unused =
            |name: &str, by| UnusedVariable { name: name.to_owned(), layer: Layer::Inherited, by };
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
             EDITOR from inherited: overridden by pane\n  \
             TMUX from inherited: not inherited\n"
        );
        assert!(!environment(&view, false, style).contains("not used"));
    }
}

//! Dependencies between sibling modules, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Module;

/// Which of its siblings each child of one module names.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The graph of the modules directly below `parent`: `a` depends on `b` if any module below `a`
/// names a path below `b`, or an item that the crate's root re-exports from `b`.
pub(crate) fn siblings(modules: &[Module], parent: &[String]) -> Graph {
    let child_of = |path: &[String]| path.strip_prefix(parent)?.first().cloned();
    let mut graph = Graph::new();
    for name in modules.iter().filter_map(|module| child_of(&module.path)) {
        graph.entry(name).or_default();
    }
    let reexports = reexports(modules);
    for module in modules {
        let Some(from) = child_of(&module.path) else { continue };
        for mut path in module.references() {
            if let [name] = &path[..]
                && let Some(source) = reexports.get(name)
            {
                path = vec![source.clone()];
            }
            let Some(to) = child_of(&path) else { continue };
            if to != from && graph.contains_key(&to) {
                graph.entry(from.clone()).or_default().insert(to);
            }
        }
    }
    graph
}

/// The modules that have child modules.
pub(crate) fn parents(modules: &[Module]) -> BTreeSet<Vec<String>> {
    let parent = |module: &Module| Some(module.path.split_last()?.1.to_vec());
    modules.iter().filter_map(parent).collect()
}

/// The groups of modules that depend on each other, each sorted.
pub(crate) fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|name| (name, reachable(graph, name))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (name, reached) in &reach {
        if reached.contains(name) {
            let members = reached.iter().filter(|other| reach[*other].contains(name));
            found.insert(members.map(|&member| member.clone()).collect());
        }
    }
    found.into_iter().collect()
}

fn reachable<'g>(graph: &'g Graph, from: &str) -> BTreeSet<&'g String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = graph[from].iter().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(&graph[next]);
        }
    }
    found
}

fn reexports(modules: &[Module]) -> BTreeMap<String, String> {
    let root = modules.iter().filter(|module| module.path.is_empty());
    root.flat_map(Module::imports).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_lists_each_strongly_connected_group_once() {
        let graph = [("a", "b"), ("b", "c"), ("c", "b"), ("d", ""), ("e", "d")];
        let graph: Graph = graph
            .iter()
            .map(|(from, to)| {
                let to = [*to].into_iter().filter(|to| !to.is_empty()).map(str::to_owned);
                ((*from).to_owned(), to.collect())
            })
            .collect();

        let found = cycles(&graph);

        assert_eq!(found, [["b", "c"]]);
    }
}

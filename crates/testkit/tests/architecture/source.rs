//! The product's source files, parsed, without their tests.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, Fields, ImplItem, Item, Type, UseTree};

/// Every crate of the workspace, by the name of its directory.
pub(crate) const CRATES: [&str; 8] =
    ["model", "protocol", "terminal", "host", "keeper", "daemon", "cli", "testkit"];

/// The workspace's root directory.
pub(crate) fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace exists")
}

/// One module that has its own file.
pub(crate) struct Module {
    /// Its path inside the crate; empty for the crate's root.
    pub(crate) path: Vec<String>,
    /// Its file, relative to the workspace.
    pub(crate) file: PathBuf,
    items: Vec<Item>,
}

/// A type and the number of its fields or methods.
pub(crate) struct Count {
    /// The module that contains the item.
    pub(crate) module: Vec<String>,
    /// The type's name.
    pub(crate) name: String,
    /// How many there are.
    pub(crate) count: usize,
}

/// The modules of the library or binary crate in `crates/NAME/src`.
pub(crate) fn modules(name: &str) -> Vec<Module> {
    let root = workspace();
    let src = root.join("crates").join(name).join("src");
    let mut modules: Vec<Module> = rust_files(&src)
        .into_iter()
        .filter_map(|file| {
            let path = module_path(file.strip_prefix(&src).expect("it is below src"))?;
            let text = fs::read_to_string(&file).expect("a source file can be read");
            let parsed = syn::parse_file(&text)
                .unwrap_or_else(|error| panic!("cannot parse {}: {error}", file.display()));
            if is_test(&parsed.attrs) {
                return None;
            }
            let items = without_tests(parsed.items);
            let file = file.strip_prefix(&root).expect("it is in the workspace").to_owned();
            Some(Module { path, file, items })
        })
        .collect();
    modules.sort_by(|a, b| a.path.cmp(&b.path));
    modules
}

impl Module {
    /// The absolute module paths (`crate::a::b` as `[a, b]`) that the code names with `crate::` or
    /// `super::`, item names at the end included.
    pub(crate) fn references(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for item in &self.items {
            collect_paths(item.to_token_stream(), &self.path, &mut found);
        }
        found
    }

    /// The names that `use MODULE::...` brings into this module, with the first segment of each
    /// path. In a crate's root these are the re-exports.
    pub(crate) fn imports(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for item in &self.items {
            if let Item::Use(item) = item
                && let UseTree::Path(path) = &item.tree
            {
                let first = path.ident.to_string();
                leaves(&path.tree, &mut |name| found.push((name, first.clone())));
            }
        }
        found
    }

    /// The structs of this module with the number of their fields. For an enum each variant counts
    /// on its own, as `Enum::Variant`.
    pub(crate) fn fields(&self) -> Vec<Count> {
        let mut found = Vec::new();
        let mut add = |name: String, fields: &Fields| {
            found.push(Count { module: self.path.clone(), name, count: fields.len() });
        };
        for item in &self.items {
            match item {
                Item::Struct(item) => add(item.ident.to_string(), &item.fields),
                Item::Enum(item) => {
                    for variant in &item.variants {
                        add(format!("{}::{}", item.ident, variant.ident), &variant.fields);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// The types this module declares.
    pub(crate) fn types(&self) -> Vec<String> {
        let name = |item: &Item| match item {
            Item::Struct(item) => Some(item.ident.to_string()),
            Item::Enum(item) => Some(item.ident.to_string()),
            _ => None,
        };
        self.items.iter().filter_map(name).collect()
    }

    /// The impl blocks of this module with the number of their methods.
    pub(crate) fn methods(&self) -> Vec<Count> {
        let mut found = Vec::new();
        for item in &self.items {
            let Item::Impl(block) = item else { continue };
            let Type::Path(of) = &*block.self_ty else { continue };
            let Some(name) = of.path.segments.last() else { continue };
            let is_method = |item: &&ImplItem| matches!(item, ImplItem::Fn(_));
            let count = block.items.iter().filter(is_method).count();
            found.push(Count { module: self.path.clone(), name: name.ident.to_string(), count });
        }
        found
    }
}

/// The `.rs` files below `dir`.
fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a source directory can be read") {
            let path = entry.expect("its entries, too").path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The module in the file at this path below `src`. `None` for a test module, and for the extra
/// programs in `src/bin`, which are separate crates.
fn module_path(file: &Path) -> Option<Vec<String>> {
    let mut path: Vec<String> = file
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if path.first().is_some_and(|first| first == "bin") || path.iter().any(|name| name == "tests") {
        return None;
    }
    if path.last().is_some_and(|last| last == "mod")
        || (path.len() == 1 && path.first().is_some_and(|name| name == "lib" || name == "main"))
    {
        path.pop();
    }
    Some(path)
}

fn without_tests(items: Vec<Item>) -> Vec<Item> {
    items.into_iter().filter(|item| !is_test(attributes(item))).collect()
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().trim() == "test")
    })
}

fn leaves(tree: &UseTree, found: &mut impl FnMut(String)) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, found),
        UseTree::Name(name) => found(name.ident.to_string()),
        UseTree::Rename(name) => found(name.rename.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, found)),
        UseTree::Glob(_) => {}
    }
}

/// Collects every `crate::` and `super::` path in `tokens`, macro arguments included, as absolute
/// paths; `here` is the module that contains them.
fn collect_paths(tokens: TokenStream, here: &[String], found: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let is_path_start = !ends_with_colons(&tokens[..at]);
        match token {
            TokenTree::Ident(word) if is_path_start && word == "crate" => {
                expand(&tokens[at + 1..], Vec::new(), found);
            }
            TokenTree::Ident(word) if is_path_start && word == "super" => {
                let parent = here.split_last().map_or(Vec::new(), |(_, parent)| parent.to_vec());
                expand(&tokens[at + 1..], parent, found);
            }
            TokenTree::Group(group) => collect_paths(group.stream(), here, found),
            _ => {}
        }
        at += 1;
    }
}

/// Follows `::a::b`, `::super::a` and `::{a, b::c}` from `prefix`.
fn expand(tokens: &[TokenTree], mut prefix: Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut rest = tokens;
    while let [TokenTree::Punct(a), TokenTree::Punct(b), next, after @ ..] = rest
        && a.as_char() == ':'
        && b.as_char() == ':'
    {
        match next {
            TokenTree::Ident(word) if word == "super" => {
                prefix.pop();
            }
            TokenTree::Ident(word) => prefix.push(word.to_string()),
            TokenTree::Group(group) => return expand_group(group.stream(), &prefix, found),
            _ => break,
        }
        rest = after;
    }
    found.push(prefix);
}

fn expand_group(tokens: TokenStream, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_comma =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
    for member in tokens.split(is_comma) {
        let [TokenTree::Ident(first), rest @ ..] = member else { continue };
        let mut path = prefix.to_vec();
        if first != "self" {
            path.push(first.to_string());
        }
        expand(rest, path, found);
    }
}

fn ends_with_colons(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [.., TokenTree::Punct(a), TokenTree::Punct(b)]
        if a.as_char() == ':' && b.as_char() == ':')
}

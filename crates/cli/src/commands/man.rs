//! `ccmux man`: write the manual pages to a directory.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;

pub(super) fn run(args: &ManArgs) -> Result<(), Failure> {
    write_pages(&args.dir).map_err(|error| {
        Failure::io(&format!("write manual pages to `{}`", args.dir.display()), &error)
    })
}

fn write_pages(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_pages_creates_a_page_for_every_visible_command() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("share/man");

        write_pages(&dir).unwrap();

        let page = fs::read_to_string(dir.join("ccmux-new.1")).unwrap();
        assert!(page.contains("Start a command in a new pane"), "{page}");
        for name in ["ccmux.1", "ccmux-attach.1", "ccmux-daemon-run.1"] {
            assert!(dir.join(name).exists(), "{name}");
        }
        assert!(!dir.join("ccmux-man.1").exists(), "hidden commands have no page");
    }
}

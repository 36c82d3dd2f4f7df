//! Text output of messages between panes.

use std::fmt::Write as _;

use model::event::EventBody;
use protocol::message::{MessageView, Messages};

use super::age;
use crate::output::{Style, printable};
use crate::table::Table;

/// Number of characters of the text shown in a listing.
const EXCERPT: usize = 40;

/// Returns one sentence for a message event.
pub(super) fn line(what: &EventBody) -> String {
    if let EventBody::MessageQueued { message, pane, from, .. } = what {
        let from = from.map_or_else(|| "outside a pane".to_owned(), |pane| pane.short());
        format!("message {} from {from} queued for pane {}", message.short(), pane.short())
    } else if let EventBody::MessageDelivered { message, pane } = what {
        format!("message {} delivered to pane {}", message.short(), pane.short())
    } else if let EventBody::MessageAnswered { message, pane } = what {
        format!("message {} answered by pane {}", message.short(), pane.short())
    } else if let EventBody::MessageFailed { message, pane, why } = what {
        format!("message {} to pane {} failed: {why}", message.short(), pane.short())
    } else {
        String::new()
    }
}

/// Formats the output of `message ls`.
pub(crate) fn messages(messages: &Messages, style: Style) -> String {
    if messages.messages.is_empty() {
        return "no messages\n".to_owned();
    }
    let mut table = Table::new(&["ID", "FROM", "TO", "STATE", "SINCE", "TEXT"]);
    for message in &messages.messages {
        let first = message.text.lines().next().unwrap_or_default();
        let mut text: String = first.chars().take(EXCERPT).collect();
        if text.len() < message.text.trim_end().len() {
            text.push('…');
        }
        table.push(vec![
            message.id.short().into(),
            from(message).into(),
            to(message).into(),
            message.state.as_str().into(),
            age(message.since, style.now).into(),
            printable(&text).into(),
        ]);
    }
    table.render(style.colour, style.width)
}

/// Formats the output of `message show`.
pub(crate) fn message(message: &MessageView) -> String {
    let mut shown = format!(
        "id         {}\nfrom       {}\nto         {} (as {})\nqueued     {}\n",
        message.id,
        from(message),
        to(message),
        printable(&message.asked),
        message.at
    );
    for receipt in &message.receipts {
        let why = receipt.why.as_deref().map(|why| format!("  {why}")).unwrap_or_default();
        writeln!(shown, "{:<11}{}{}", receipt.state, receipt.at, printable(&why))
            .expect("writing to a string cannot fail");
    }
    let text = message.text.lines().map(|line| format!("  {}\n", printable(line)));
    shown.push('\n');
    shown.extend(text);
    shown
}

fn from(message: &MessageView) -> String {
    match (&message.from_name, message.from) {
        (Some(name), _) => name.to_string(),
        (None, Some(pane)) => pane.short(),
        (None, None) => "-".to_owned(),
    }
}

fn to(message: &MessageView) -> String {
    message.to_name.as_ref().map_or_else(|| message.to.short(), ToString::to_string)
}

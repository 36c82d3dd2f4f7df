//! Which ports of this machine are in use.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use model::ports::PortBlock;

/// Those ports of a block on which somebody listens.
///
/// Asked of the kernel by listening on each for a moment, on all addresses at once: whoever has it
/// on one of them has it.
#[must_use]
pub fn taken(block: PortBlock) -> Vec<u16> {
    block.ports().filter(|port| !is_free(*port)).collect()
}

/// Whether nobody listens on any port of a block.
#[must_use]
pub fn is_block_free(block: PortBlock) -> bool {
    block.ports().all(is_free)
}

fn is_free(port: u16) -> bool {
    let everywhere = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    everywhere.into_iter().all(|address| match TcpListener::bind((address, port)) {
        Ok(_) => true,
        // A machine without this kind of address cannot have the port on it.
        Err(error) => !matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied),
    })
}

/// The ports that the kernel gives to whoever asks for none in particular: first and last.
#[must_use]
pub fn given_away() -> Option<(u16, u16)> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ports = text.split_whitespace().map(str::parse);
    Some((ports.next()?.ok()?, ports.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_on_which_somebody_listens_is_taken_whatever_the_address() {
        for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
            let listener = TcpListener::bind((address, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert_eq!(taken(PortBlock { base: port, count: 1 }), [port], "{address}");
        }
    }
}

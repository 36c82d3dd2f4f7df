//! TCP ports of this machine that are in use.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use model::ports::PortBlock;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

/// Returns the ports of a block on which a process listens, on any address.
#[must_use]
pub fn taken(block: PortBlock) -> Vec<u16> {
    block.ports().filter(|port| !is_free(*port)).collect()
}

/// Returns whether no process listens on any port of a block.
///
/// Costs one short-lived socket per port (four system calls, no `listen`). `/proc/net/tcp` has the
/// answer in one file, but reading it walks the kernel's whole connection table, which takes
/// milliseconds on a machine with much memory, and it does not list sockets that are bound and not
/// yet listening.
#[must_use]
pub fn is_block_free(block: PortBlock) -> bool {
    block.ports().all(is_free)
}

/// Binds a socket to the port on all IPv6 and IPv4 addresses at once, which the kernel refuses if a
/// listener has the port on one of them. Machines without IPv6 are asked for IPv4 only.
fn is_free(port: u16) -> bool {
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    match try_bind(everywhere) {
        Ok(()) => true,
        Err(error) if is_refusal(&error) => false,
        // An error other than a refusal means that the machine has no such addresses.
        Err(_) => try_bind(ipv4).map_or_else(|error| !is_refusal(&error), |()| true),
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied)
}

fn try_bind(address: SocketAddr) -> io::Result<()> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Connections that a former listener left in TIME_WAIT do not keep the port.
    set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, false)?;
    }
    Ok(bind(&socket, &address)?)
}

/// Returns the first and last port of the range from which the kernel assigns ephemeral ports.
#[must_use]
pub fn ephemeral_range() -> Option<(u16, u16)> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ports = text.split_whitespace().map(str::parse);
    Some((ports.next()?.ok()?, ports.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn taken_reports_listener_on_any_address() {
        let addresses = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ];
        for address in addresses {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind((address, 0)) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert_eq!(taken(PortBlock { base: port, count: 1 }), [port], "{address}");
        }
    }

    #[test]
    fn taken_ignores_closed_listener_with_connections_in_time_wait() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        // The side that closes first is the one that stays in TIME_WAIT.
        drop(server);
        drop(client);
        drop(listener);

        assert!(is_block_free(PortBlock { base: port, count: 1 }));
    }
}

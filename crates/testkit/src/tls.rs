//! A self-signed certificate, and a client that trusts only it.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A certificate for `localhost` and its key, in files.
#[derive(Debug)]
pub struct Certificate {
    /// The certificate in PEM.
    pub cert: PathBuf,
    /// Its private key in PEM, mode 0600.
    pub key: PathBuf,
    der: CertificateDer<'static>,
}

impl Certificate {
    /// Creates a certificate in `dir`.
    ///
    /// # Panics
    ///
    /// When it cannot be created.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .expect("the certificate can be signed");
        let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
        put_private(&cert, &made.cert.pem());
        put_private(&key, &made.signing_key.serialize_pem());
        Self { cert, key, der: made.cert.der().clone() }
    }

    /// Sends a request over TLS and returns the complete response.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    ///
    /// # Panics
    ///
    /// When the certificate is invalid.
    pub fn ask(&self, address: SocketAddr, request: &str) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let client = ClientConnection::new(Arc::new(config), name).expect("a configuration");
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        let mut stream = StreamOwned::new(client, stream);
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            // A server need not send close_notify after the last byte.
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error),
            Ok(_) | Err(_) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }
}

fn put_private(path: &Path, text: &str) {
    crate::put(path, text);
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("it is ours");
}

//! TLS, from the files that the configuration names.

use std::path::Path;
use std::sync::Arc;

use model::config::HttpConfig;
use protocol::{ErrorBody, ErrorCode};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What speaks TLS for us; none if no certificate is named. Blocks.
///
/// # Errors
///
/// What is wrong with the files.
pub(super) fn acceptor(config: &HttpConfig) -> Result<Option<TlsAcceptor>, ErrorBody> {
    match (config.tls_cert.as_str(), config.tls_key.as_str()) {
        ("", "") => Ok(None),
        ("", _) => Err(wrong("http.tls_key is set, and http.tls_cert is not")),
        (_, "") => Err(wrong("http.tls_cert is set, and http.tls_key is not")),
        (cert, key) => Ok(Some(load(Path::new(cert), Path::new(key))?)),
    }
}

fn load(cert: &Path, key: &Path) -> Result<TlsAcceptor, ErrorBody> {
    host::token::private(key).map_err(wrong)?;
    let unread = |path: &Path, why: &dyn std::fmt::Display| {
        wrong(format!("`{}` cannot be used: {why}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(|found| found.collect::<Result<Vec<_>, _>>())
        .map_err(|error| unread(cert, &error))?;
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| unread(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key_der))
        .map_err(|error| unread(cert, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn wrong(why: impl std::fmt::Display) -> ErrorBody {
    ErrorBody::new(ErrorCode::Usage, format!("TLS cannot be set up: {why}"))
        .hint("http.tls_cert and http.tls_key in ccmux.toml name PEM files")
}

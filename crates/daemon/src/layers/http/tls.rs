//! TLS, configured by `http.tls_cert` and `http.tls_key`.

use std::path::Path;
use std::sync::Arc;

use model::config::HttpConfig;
use protocol::{ErrorBody, ErrorCode};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Loads the certificate and key, or returns `None` if neither is configured. Blocks.
///
/// # Errors
///
/// If only one of the files is configured, or a file is invalid.
pub(super) fn acceptor(config: &HttpConfig) -> Result<Option<TlsAcceptor>, ErrorBody> {
    match (config.tls_cert.as_str(), config.tls_key.as_str()) {
        ("", "") => Ok(None),
        ("", _) => Err(invalid("http.tls_key is set, but http.tls_cert is not")),
        (_, "") => Err(invalid("http.tls_cert is set, but http.tls_key is not")),
        (cert, key) => Ok(Some(load(Path::new(cert), Path::new(key))?)),
    }
}

fn load(cert: &Path, key: &Path) -> Result<TlsAcceptor, ErrorBody> {
    host::token::check_private(key).map_err(invalid)?;
    let unusable = |path: &Path, why: &dyn std::fmt::Display| {
        invalid(format!("cannot load `{}`: {why}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(|found| found.collect::<Result<Vec<_>, _>>())
        .map_err(|error| unusable(cert, &error))?;
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key_der))
        .map_err(|error| unusable(cert, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn invalid(why: impl std::fmt::Display) -> ErrorBody {
    ErrorBody::new(ErrorCode::Usage, format!("cannot set up TLS: {why}"))
        .hint("set http.tls_cert and http.tls_key in ccmux.toml to PEM files")
}

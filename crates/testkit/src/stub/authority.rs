//! The stub's certificate authority.
//!
//! Claude renews logins at a fixed address over HTTPS. To play that host, the stub signs a
//! certificate with this authority, which the agent is configured to trust.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The hosts that the stub plays: for renewing a login and for its account.
pub(super) const PLAYED: [&str; 2] = ["platform.claude.com", "api.anthropic.com"];

/// The authority's certificate, and the TLS configuration for [`PLAYED`].
#[derive(Debug)]
pub(super) struct Authority {
    certificate: String,
    config: Arc<ServerConfig>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names to be wrong");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "ccmux test stub");
        let certificate = params.self_signed(&key).expect("a certificate of our own");
        let issuer = Issuer::new(params, key);

        let host_key = KeyPair::generate().expect("a key");
        let names = PLAYED.map(str::to_owned);
        let hosts = CertificateParams::new(names).expect("they are host names");
        let signed = hosts.signed_by(&host_key, &issuer).expect("we sign what we made");
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(host_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what the default needs")
            .with_no_client_auth()
            .with_single_cert(vec![signed.der().clone()], private)
            .expect("key and certificate belong together");
        Self { certificate: certificate.pem(), config: Arc::new(config) }
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Writes the certificate that agents must trust.
    pub(super) fn write_certificate(&self, file: &Path) {
        let mut file = File::create(file).expect("a file for the certificate");
        file.write_all(self.certificate.as_bytes()).expect("room for the certificate");
    }
}

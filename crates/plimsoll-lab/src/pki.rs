//! The certificates of a lab: an authority of its own, so that nobody else's client or server is ever taken for one of this lab.

use crate::LabError;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use std::net::{IpAddr, Ipv4Addr};

/// Signs the certificates of one lab.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its key, both as PEM.
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// A new one.
    pub fn new() -> Result<Self, LabError> {
        let fail = |source| LabError::Certificate { name: "the lab's authority".to_string(), source };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "plimsoll-lab");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(fail)?;
        let pem = params.self_signed(&key).map_err(fail)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// The certificate of the authority.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A server on loopback.
    pub fn server(&self) -> Result<Identity, LabError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "plimsoll-lab-server");
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            let name = name.try_into().map_err(|source| LabError::Certificate { name: name.to_string(), source })?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        self.sign("the servers", params)
    }

    /// A client: Kubernetes takes the common name for its user and the organisation for its group.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Identity, LabError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        self.sign(user, params)
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> Result<Identity, LabError> {
        let fail = |source| LabError::Certificate { name: name.to_string(), source };
        params.key_usages.push(KeyUsagePurpose::DigitalSignature);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(fail)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(fail)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

/// The keys that sign and check the tokens of service accounts: private, then public.
pub fn service_account_keys() -> Result<(String, String), LabError> {
    let fail = |source| LabError::Certificate { name: "service accounts".to_string(), source };
    let key = KeyPair::generate().map_err(fail)?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

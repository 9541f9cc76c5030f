/** The reason why a TLS handshake failed, from the codes of Node's TLS and of OpenSSL. */
export type TlsFault = 'untrusted' | 'expired' | 'other-name' | 'certificate-wanted' | 'no-tls';

const UNTRUSTED = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'INVALID_CA',
]);
const EXPIRED = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']);
const CERTIFICATE_WANTED = new Set([
  'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
  'ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE',
  'ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE',
  'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
]);

/** Returns the fault that an error code means; undefined if the code is not a TLS code. */
export function tlsFault(code: string | undefined): TlsFault | undefined {
  if (code === undefined) return undefined;
  if (UNTRUSTED.has(code)) return 'untrusted';
  if (EXPIRED.has(code)) return 'expired';
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'other-name';
  if (CERTIFICATE_WANTED.has(code)) return 'certificate-wanted';
  return /^ERR_SSL_|^EPROTO$/.test(code) ? 'no-tls' : undefined;
}

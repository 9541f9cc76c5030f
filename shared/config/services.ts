import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { errorCode } from '../errors.ts';

/** The connection settings of Kafka and Postgres, without those that could not be read. */
export interface ServiceSettings {
  readonly DATABASE_URL?: string | undefined;
  readonly DATABASE_DIRECT_URL?: string | undefined;
  readonly DATABASE_TLS_CA?: string | undefined;
  readonly KAFKA_SASL_MECHANISM?: string | undefined;
  readonly KAFKA_SASL_USERNAME?: string | undefined;
  readonly KAFKA_SASL_PASSWORD?: string | undefined;
  readonly KAFKA_TLS?: string | undefined;
  readonly KAFKA_TLS_CA?: string | undefined;
  readonly KAFKA_TLS_CERT?: string | undefined;
  readonly KAFKA_TLS_KEY?: string | undefined;
}

/** A setting that contradicts other settings, or names a file that cannot be used. */
export interface ServiceProblem {
  readonly name: keyof ServiceSettings;
  readonly problem: string;
}

/**
 * Returns the problems of Kafka's settings in combination. Reads the files that the settings name,
 * and never repeats their content.
 */
export function kafkaProblems(settings: ServiceSettings): ServiceProblem[] {
  const problems: ServiceProblem[] = [];
  const needs = (name: keyof ServiceSettings, because: keyof ServiceSettings) => {
    if (settings[because] !== undefined && settings[name] === undefined) {
      problems.push({ name, problem: `is missing, which ${because} needs` });
    }
  };
  needs('KAFKA_SASL_USERNAME', 'KAFKA_SASL_MECHANISM');
  needs('KAFKA_SASL_PASSWORD', 'KAFKA_SASL_MECHANISM');
  needs(
    'KAFKA_SASL_MECHANISM',
    settings.KAFKA_SASL_USERNAME === undefined ? 'KAFKA_SASL_PASSWORD' : 'KAFKA_SASL_USERNAME',
  );
  const files = (['KAFKA_TLS_CA', 'KAFKA_TLS_CERT', 'KAFKA_TLS_KEY'] as const).filter(
    (name) => settings[name],
  );
  if (files.length > 0 && settings.KAFKA_TLS === 'off') {
    problems.push({ name: 'KAFKA_TLS', problem: `must be on, as ${files.join(' and ')} would not be used` });
  }
  needs('KAFKA_TLS_KEY', 'KAFKA_TLS_CERT');
  needs('KAFKA_TLS_CERT', 'KAFKA_TLS_KEY');
  const broken = files.flatMap((name) => fileProblem(name, settings[name]!, /_KEY$/.test(name)));
  problems.push(...broken);
  const { KAFKA_TLS_CERT: cert, KAFKA_TLS_KEY: key } = settings;
  if (cert && key && broken.length === 0 && !fits(cert, key)) {
    problems.push({
      name: 'KAFKA_TLS_KEY',
      problem: 'must name the key of KAFKA_TLS_CERT, without a passphrase',
    });
  }
  return problems;
}

/** Returns the problems of the database's settings in combination. */
export function databaseProblems(settings: ServiceSettings): ServiceProblem[] {
  const { DATABASE_TLS_CA } = settings;
  return [
    ...(DATABASE_TLS_CA ? fileProblem('DATABASE_TLS_CA', DATABASE_TLS_CA, false) : []),
    ...(['DATABASE_URL', 'DATABASE_DIRECT_URL'] as const).flatMap((name) => urlProblems(name, settings)),
  ];
}

function urlProblems(
  name: 'DATABASE_URL' | 'DATABASE_DIRECT_URL',
  settings: ServiceSettings,
): ServiceProblem[] {
  const problems: ServiceProblem[] = [];
  const parameters = parametersOf(settings[name]);
  const mode = parameters.get('sslmode');
  if (mode !== null && !SSL_MODES.includes(mode)) {
    problems.push({
      name,
      problem: 'has an sslmode that is not known: it must be disable, require, verify-full or no-verify',
    });
  }
  // The driver treats all other modes as verify-full.
  const contradiction = mode === 'disable' || mode === 'no-verify';
  if (settings.DATABASE_TLS_CA && contradiction) {
    problems.push({
      name: 'DATABASE_TLS_CA',
      problem: `is not used with sslmode=${mode} in ${name}: make that verify-full, or leave one of the two out`,
    });
  }
  for (const parameter of ['sslrootcert', 'sslcert', 'sslkey']) {
    const path = parameters.get(parameter);
    for (const { problem } of path ? fileProblem('DATABASE_URL', path, parameter === 'sslkey') : []) {
      problems.push({ name, problem: `has an ${parameter} that ${problem}` });
    }
  }
  return problems;
}

/**
 * Returns a URL of the database with DATABASE_TLS_CA as parameters of the driver, so that every connection
 * verifies the server's certificate and name. `prefer`, `require` and `verify-ca` become
 * `verify-full`: the driver treats these modes the same way, but prints a warning to standard
 * error.
 */
export function databaseUrlOf(given: string, { DATABASE_TLS_CA }: ServiceSettings): string {
  const parameters = parametersOf(given);
  const url =
    parameters.get('uselibpqcompat') === 'true'
      ? given
      : given.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|#|$)/, `$1${VERIFY_FULL}`);
  if (DATABASE_TLS_CA === undefined) return url;
  const added = [
    ...(parameters.has('sslmode') ? [] : [`sslmode=${VERIFY_FULL}`]),
    `sslrootcert=${encodeURIComponent(DATABASE_TLS_CA)}`,
  ].join('&');
  return `${url}${url.includes('?') ? '&' : '?'}${added}`;
}

const VERIFY_FULL = 'verify-full';
const SSL_MODES: readonly string[] = ['disable', 'prefer', 'require', 'verify-ca', VERIFY_FULL, 'no-verify'];

export const CERTIFICATE_BLOCK = /-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs;
const KEY_BLOCK = /-----BEGIN [A-Z ]*PRIVATE KEY-----/g;

function parametersOf(url: string | undefined): URLSearchParams {
  const query = /\?([^#]*)/.exec(url ?? '')?.[1];
  return new URLSearchParams(query);
}

function fileProblem(name: ServiceProblem['name'], path: string, isKey: boolean): ServiceProblem[] {
  const what = isKey ? 'private key' : 'certificate';
  try {
    const pem = readFileSync(path, 'utf8');
    const blocks = pem.match(isKey ? KEY_BLOCK : CERTIFICATE_BLOCK);
    if (blocks === null) {
      return [{ name, problem: `names a file that holds no ${what} in PEM form` }];
    }
    // A key is checked together with its certificate.
    if (!isKey) for (const block of blocks) new X509Certificate(block);
    return [];
  } catch (error) {
    const code = errorCode(error) ?? 'unknown error';
    const reading = /^E[A-Z]+$/.test(code);
    return [
      {
        name,
        problem: reading
          ? `names a file that cannot be read (${code})`
          : `names a file with a broken ${what}`,
      },
    ];
  }
}

function fits(cert: string, key: string): boolean {
  try {
    createSecureContext({ cert: readFileSync(cert), key: readFileSync(key) });
    return true;
  } catch {
    return false;
  }
}

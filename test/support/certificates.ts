import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

/** Paths of PEM files. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority for one test, made with openssl. */
export interface Authority {
  /** The authority's own certificate. */
  readonly ca: string;
  /** Issues a certificate for these names, such as `IP:127.0.0.1` or `DNS:localhost`. */
  issue(name: string, alternativeNames: readonly string[]): Promise<Certificate>;
}

const run = promisify(execFile);
const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];

/** Creates a directory for keys, which the caller removes. */
export const makeKeyDirectory = async (): Promise<{ path: string; remove(): Promise<void> }> => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'sluice-test-keys-'));
  return { path: directory, remove: () => rm(directory, { recursive: true, force: true }) };
};

export async function makeAuthority(directory: string, name: string): Promise<Authority> {
  const ca = path.join(directory, `${name}.pem`);
  const caKey = path.join(directory, `${name}.key`);
  await run('openssl', ['req', '-x509', ...KEY, '-subj', `/CN=${name}`, '-keyout', caKey, '-out', ca]);
  return {
    ca,
    async issue(subject, alternativeNames) {
      const cert = path.join(directory, `${subject}.pem`);
      const key = path.join(directory, `${subject}.key`);
      const names = ['-addext', `subjectAltName=${alternativeNames.join(',')}`];
      const issuer = ['-CA', ca, '-CAkey', caKey];
      const subjectArguments = ['-subj', `/CN=${subject}`, ...names];
      await run('openssl', [
        ...['req', '-x509', ...KEY, ...subjectArguments, ...issuer],
        ...['-keyout', key, '-out', cert],
      ]);
      return { cert, key };
    },
  };
}

/**
 * Writes key and certificate to one file, the PEM key store format of Kafka. Resolves with its
 * path.
 */
export async function keyStoreOf({ cert, key }: Certificate): Promise<string> {
  const store = `${cert}.store`;
  await writeFile(store, (await readFile(key, 'utf8')) + (await readFile(cert, 'utf8')));
  return store;
}

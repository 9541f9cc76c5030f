import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { SASLOptions } from 'kafkajs';
import type { Config, KafkaSetting } from '../../config/config.ts';

/** How the brokers are known to be the right ones, and we to them. */
export interface KafkaSecurity {
  /** TLS, with certificates and keys in PEM form; undefined: a plain connection. */
  readonly tls?: Readonly<Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>> | undefined;
  readonly sasl?: KafkaSasl | undefined;
}

export interface KafkaSasl {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
}

/**
 * The brokers of the settings and how they are reached, for `createKafkaLog`. Reads the files that the settings name:
 * `loadConfig` has checked that they can be.
 */
export function kafkaOptionsOf(
  config: Config<KafkaSetting>,
): KafkaSecurity & { readonly brokers: readonly string[] } {
  const { KAFKA_SASL_MECHANISM: mechanism } = config;
  return {
    brokers: config.KAFKA_BROKERS ?? [],
    tls: config.KAFKA_TLS === 'on' ? tlsOf(config) : undefined,
    sasl: mechanism && {
      mechanism,
      username: config.KAFKA_SASL_USERNAME!,
      password: config.KAFKA_SASL_PASSWORD!,
    },
  };
}

/** The part of kafkajs's options that is about security. New objects each time, since kafkajs writes into them. */
export function kafkajsSecurity({ tls, sasl }: KafkaSecurity): {
  ssl?: ConnectionOptions;
  sasl?: SASLOptions;
} {
  return { ...(tls && { ssl: { ...tls } }), ...(sasl && { sasl: { ...sasl } as SASLOptions }) };
}

function tlsOf(config: Config<KafkaSetting>): KafkaSecurity['tls'] {
  const { KAFKA_TLS_CA: ca, KAFKA_TLS_CERT: cert, KAFKA_TLS_KEY: key } = config;
  return {
    ...(ca && { ca: readFileSync(ca) }),
    ...(cert && { cert: readFileSync(cert) }),
    ...(key && { key: readFileSync(key) }),
  };
}

import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { SASLOptions } from 'kafkajs';
import type { Config, KafkaSetting } from '../../config/config.ts';

/** How the brokers and this process authenticate to each other. */
export interface KafkaSecurity {
  /** TLS options, with certificates and keys in PEM form; undefined: connections without TLS. */
  readonly tls?: Readonly<Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>> | undefined;
  readonly sasl?: KafkaSasl | undefined;
}

export interface KafkaSasl {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
}

/**
 * Returns the configured brokers and their security, for `createKafkaLog`. Reads the files that the
 * settings name, which `loadConfig` has checked.
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

/**
 * Returns kafkajs's security options. Returns new objects each time, because kafkajs modifies them.
 */
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

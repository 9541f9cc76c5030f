import type { KafkaSasl } from '../../shared/log/kafka/security.ts';
import { type Authority, keyStoreOf, makeAuthority, makeKeyDirectory } from './certificates.ts';
import { type KafkaBroker, startKafkaBroker } from './kafka-broker.ts';

/** A broker with one listener per security protocol. Its certificate is for 127.0.0.1 only. */
export interface SecureKafka {
  readonly broker: KafkaBroker;
  /**
   * Addresses: SASL (all 3 mechanisms) over TLS; SASL on a plain connection; TLS with client
   * certificates.
   */
  readonly listeners: Readonly<Record<'sasltls' | 'saslplain' | 'mutual', string>>;
  readonly authority: Authority;
  /** Another authority, which did not issue the broker's certificate. */
  readonly stranger: Authority;
  stop(): Promise<void>;
}

export const MECHANISMS: readonly KafkaSasl['mechanism'][] = ['plain', 'scram-sha-256', 'scram-sha-512'];
export const USERNAME = 'sluice';
/** A user with the same password and no permissions yet. */
export const LIMITED = 'limited';
export const PASSWORD = 'planted-p4ss:w/ord+=';

const PLAIN = `org.apache.kafka.common.security.plain.PlainLoginModule required user_${USERNAME}="${PASSWORD}" user_${LIMITED}="${PASSWORD}";`;
const SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required;';

/** Creates certificates and starts the broker. Rejects if no broker can be started. */
export async function startSecureKafka(): Promise<SecureKafka> {
  const directory = await makeKeyDirectory();
  try {
    const authority = await makeAuthority(directory.path, 'authority');
    const stranger = await makeAuthority(directory.path, 'stranger');
    const store = await keyStoreOf(await authority.issue('broker', ['IP:127.0.0.1']));
    const tls = (listener: string) => [
      `listener.name.${listener}.ssl.keystore.type=PEM`,
      `listener.name.${listener}.ssl.keystore.location=${store}`,
      `listener.name.${listener}.ssl.truststore.type=PEM`,
      `listener.name.${listener}.ssl.truststore.location=${authority.ca}`,
    ];
    const sasl = (listener: string) => [
      `listener.name.${listener}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512`,
      `listener.name.${listener}.plain.sasl.jaas.config=${PLAIN}`,
      `listener.name.${listener}.scram-sha-256.sasl.jaas.config=${SCRAM}`,
      `listener.name.${listener}.scram-sha-512.sasl.jaas.config=${SCRAM}`,
    ];
    const broker = await startKafkaBroker({
      secure: {
        protocols: { sasltls: 'SASL_SSL', saslplain: 'SASL_PLAINTEXT', mutual: 'SSL' },
        properties: [
          ...tls('sasltls'),
          ...sasl('sasltls'),
          ...sasl('saslplain'),
          ...tls('mutual'),
          'listener.name.mutual.ssl.client.auth=required',
          'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer',
          `super.users=User:ANONYMOUS;User:${USERNAME};User:CN=client`,
        ],
        scram: ['SCRAM-SHA-256', 'SCRAM-SHA-512'].map(
          (mechanism) => `${mechanism}=[name=${USERNAME},password=${PASSWORD}]`,
        ),
      },
    });
    const { sasltls, saslplain, mutual } = broker.listeners;
    return {
      broker,
      listeners: { sasltls: sasltls!, saslplain: saslplain!, mutual: mutual! },
      authority,
      stranger,
      async stop() {
        await broker.stop();
        await directory.remove();
      },
    };
  } catch (error) {
    await directory.remove();
    throw error;
  }
}

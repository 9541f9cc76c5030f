import { AppError, errorCode, errorMessage } from '../../errors.ts';
import { type TlsFault, tlsFault } from '../../tls-faults.ts';
import type { KafkaSecurity } from './security.ts';

/**
 * Code of the AppError of a connection that Kafka or this process refuses; retryable, since the
 * cluster may be changed.
 */
export const LOG_ACCESS_REFUSED = 'LOG_ACCESS_REFUSED';

/**
 * Returns a kafkajs error as an AppError, `LOG_ACCESS_REFUSED` or `LOG_UNAVAILABLE`, that names the
 * setting at fault.
 */
export function kafkaError(error: unknown, security: KafkaSecurity): AppError {
  if (error instanceof AppError) return error;
  const refusal = refusalOf(error, security);
  const message =
    refusal ??
    missingTopic(error) ??
    `Kafka does not answer (${errorMessage(error)}): ${adviceFor(error, security)}`;
  return new AppError(refusal ? LOG_ACCESS_REFUSED : 'LOG_UNAVAILABLE', message, {
    retryable: true,
    cause: error,
  });
}

/** Returns a sentence that explains why a connection was refused; undefined for other errors. */
export function refusalOf(error: unknown, security: KafkaSecurity): string | undefined {
  for (const link of chainOf(error)) {
    if (link instanceof AppError && link.code === LOG_ACCESS_REFUSED) return link.message;
    const { name, type } = link as { name?: unknown; type?: unknown };
    if (name === 'KafkaJSSASLAuthenticationError') return saslRefusal(security);
    if (type === 'UNSUPPORTED_SASL_MECHANISM') return unsupportedMechanism(security);
    if (lacksRight(link)) return notAllowed(String(type), security);
    const fault = tlsFault(errorCode(link));
    if (fault) return tlsRefusal(fault);
  }
  return undefined;
}

/**
 * Returns why a consumer is not in its group. kafkajs drops the brokers' error when it looks up the
 * group's coordinator.
 */
export function memberProblem(error: unknown, security: KafkaSecurity): string {
  const text = refusalOf(error, security) ?? connectionProblem(error, security) ?? errorMessage(error);
  const { name } = (chainOf(error).at(-1) ?? {}) as { name?: unknown };
  if (name !== 'KafkaJSGroupCoordinatorNotFound' || !security.sasl) return text;
  return `${text}; if this persists, the user ${security.sasl.username} (KAFKA_SASL_USERNAME) may lack the right to read the groups of SLUICE_TOPIC_PREFIX`;
}

function connectionProblem(error: unknown, security: KafkaSecurity): string | undefined {
  const missing = missingTopic(error);
  if (missing !== undefined) return missing;
  for (const { name } of chainOf(error) as { name?: unknown }[]) {
    if (CONNECTION_ERRORS.has(String(name))) return kafkaError(error, security).message;
  }
  return undefined;
}

function missingTopic(error: unknown): string | undefined {
  const missing = chainOf(error).some(
    (link) => (link as { type?: unknown }).type === 'UNKNOWN_TOPIC_OR_PARTITION',
  );
  return missing ? TOPIC_MISSING_TEXT : undefined;
}

export const TOPIC_MISSING_TEXT =
  'the topic does not exist, or its user may not see it: run `./sluice topics create`, or correct SLUICE_TOPIC_PREFIX';

const CONNECTION_ERRORS = new Set(['KafkaJSConnectionError', 'KafkaJSConnectionClosedError']);

function saslRefusal({ sasl }: KafkaSecurity): string {
  return `Kafka refuses the user ${sasl?.username ?? ''}: check KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and KAFKA_SASL_MECHANISM (${sasl?.mechanism})`;
}

function unsupportedMechanism({ sasl }: KafkaSecurity): string {
  return `Kafka does not offer ${sasl?.mechanism} on this listener: set KAFKA_SASL_MECHANISM to one that it offers, or KAFKA_BROKERS to another listener`;
}

function notAllowed(type: string, { sasl }: KafkaSecurity): string {
  const user = sasl ? `the user ${sasl.username} (KAFKA_SASL_USERNAME)` : 'this process';
  return `Kafka denies ${user} a required right (${type}): grant it on the topics and groups of SLUICE_TOPIC_PREFIX`;
}

function tlsRefusal(fault: TlsFault): string {
  switch (fault) {
    case 'untrusted':
      return "the broker's certificate was not issued by a trusted authority: set KAFKA_TLS_CA to the file with its authority's certificate";
    case 'expired':
      return "the broker's certificate is not valid at this time: renew it, or set the clock";
    case 'other-name':
      return "the broker's certificate is for another name: use its name in KAFKA_BROKERS and in the brokers' advertised.listeners";
    case 'certificate-wanted':
      return 'Kafka requires a client certificate that it trusts: set KAFKA_TLS_CERT and KAFKA_TLS_KEY';
    case 'no-tls':
      return 'the TLS handshake with Kafka failed: set KAFKA_TLS=off, or KAFKA_BROKERS to its TLS listener';
  }
}

/**
 * Returns advice on an unreachable cluster. A listener with another security protocol than
 * configured closes connections without an error.
 */
function adviceFor(error: unknown, { tls, sasl }: KafkaSecurity): string {
  if (!chainOf(error).some(isHangUp)) {
    return 'check that the brokers of KAFKA_BROKERS run and can be reached';
  }
  const is = [tls ? 'KAFKA_TLS is on' : 'KAFKA_TLS is off', sasl ? '' : 'KAFKA_SASL_MECHANISM is not set'];
  return `check that the listeners of KAFKA_BROKERS are of that kind: ${is.filter(Boolean).join(', ')}`;
}

function isHangUp(error: object): boolean {
  return (error as Error).name === 'KafkaJSConnectionClosedError' || errorCode(error) === 'ECONNRESET';
}

/** Returns whether the error means that the user lacks a right. */
export const isNotAllowed = (error: unknown): boolean => chainOf(error).some(lacksRight);

function lacksRight(error: object): boolean {
  const { type } = error as { type?: unknown };
  return typeof type === 'string' && type.endsWith('_AUTHORIZATION_FAILED');
}

/**
 * Returns the error and its causes: kafkajs wraps errors after its retries, and aggregates those of
 * several topics.
 */
function chainOf(error: unknown): object[] {
  const chain: object[] = [];
  let link = error;
  while (typeof link === 'object' && link !== null && !chain.includes(link)) {
    chain.push(link);
    const { cause, errors } = link as { cause?: unknown; errors?: readonly unknown[] };
    link = cause ?? errors?.[0];
  }
  return chain;
}

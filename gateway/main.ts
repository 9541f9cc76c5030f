import { systemClock } from '../shared/clock.ts';
import { type Config, environment, loadConfig, type SettingOf } from '../shared/config/config.ts';
import { createUlidGenerator } from '../shared/ids.ts';
import { createKeyRing } from '../shared/keyring/keyring.ts';
import { createKafkaLog } from '../shared/log/kafka/kafka-log.ts';
import { kafkaOptionsOf } from '../shared/log/kafka/security.ts';
import { watchTopics } from '../shared/log/kafka/topic-watch.ts';
import { createLogger } from '../shared/logging.ts';
import { expectedTopics } from '../shared/postgres/log-topics.ts';
import { createPool } from '../shared/postgres/pool.ts';
import { requireSchema } from '../shared/postgres/require-schema.ts';
import { cannotStart, runMain } from '../shared/process/main.ts';
import { openOutput } from '../shared/process/output.ts';
import { stopOnSignals } from '../shared/process/shutdown.ts';
import { startGateway } from './start.ts';

const NAME = 'The gateway';

/** Runs one gateway process: reads the settings, starts the listener, and drains it on shutdown. */
async function main(): Promise<void> {
  const config = loadConfig(environment(), 'gateway');
  const output = openOutput();
  const logger = createLogger('gateway', config.SLUICE_LOG_LEVEL, output);
  const pool = createPool({
    connectionString: config.DATABASE_URL!,
    max: config.SLUICE_DATABASE_CONNECTIONS,
    applicationName: 'sluice-gateway',
    logger,
  });
  const log = createKafkaLog({ ...kafkaOptionsOf(config), clientId: 'sluice-gateway', logger });
  const options = optionsOf(config);
  const { keyRing } = options;
  await requireSchema({ pool, logger, keyRing, onUnfit: (error) => cannotStart(NAME, error) });
  const gateway = await startGateway({ pool, log, logger, ...options });
  const topics = watchTopics({ log, specs: expectedTopics(config.SLUICE_TOPIC_PREFIX), logger });
  stopOnSignals({
    logger,
    output,
    graceMs: config.SLUICE_SHUTDOWN_GRACE_MS,
    async stop() {
      topics.close();
      await gateway.stop();
      await log.close();
      await pool.end();
    },
  });
}

function optionsOf(config: Config<SettingOf<'gateway'>>) {
  return {
    keyRing: createKeyRing(config.SLUICE_CREDENTIALS_KEYS!),
    clock: systemClock,
    nextId: createUlidGenerator(systemClock),
    topicPrefix: config.SLUICE_TOPIC_PREFIX,
    host: config.HOST,
    port: config.PORT,
    publishDeadlineMs: config.SLUICE_PUBLISH_DEADLINE_MS,
    publishBufferBytesMax: config.SLUICE_PUBLISH_BUFFER_BYTES,
    deadLettersBytesMax: config.SLUICE_DEAD_LETTERS_BYTES_MAX,
    drainDelayMs: config.SLUICE_DRAIN_DELAY_MS,
    gateways: config.SLUICE_GATEWAYS,
    bodyBufferBytesMax: config.SLUICE_BODY_BUFFER_BYTES,
    connections: {
      connectionsMax: config.SLUICE_CONNECTIONS_MAX,
      trustedHops: config.SLUICE_TRUSTED_HOPS,
      keepAliveMs: config.SLUICE_KEEP_ALIVE_MS,
    },
    docs: config.SLUICE_DOCS === 'on',
  };
}

await runMain(NAME, main);

import type { EventLog } from '../../shared/log/log.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { KafkaCluster } from '../support/kafka-cluster.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import type { Part } from './part.ts';
import type { Receivers } from './receivers.ts';
import type { Sluice } from './sluice.ts';

export type LogName = 'kafka' | 'embedded';

export interface Tenant {
  readonly name: string;
  readonly tenantId: string;
  readonly apiKeyId: string;
  readonly apiKeySecret: string;
}

/** The database under the product. */
export interface LaboratoryPostgres {
  /** SIGKILL of all its processes; resolves when they are gone. */
  kill(): Promise<void>;
  /** Starts it again after a kill, where nothing else does; resolves when it takes connections. */
  restart(): Promise<void>;
  /** SIGSTOP of all its processes; resolves when they stand still. */
  pause(): Promise<void>;
  /** SIGCONT of all its processes. */
  resume(): void | Promise<void>;
}

/** The whole product, running, and what faults are brought about with. */
export interface Laboratory {
  readonly log: LogName;
  readonly topicPrefix: string;
  readonly tenants: readonly Tenant[];
  /** Processes that take requests, and processes that store. In the embedded product both are the one process. */
  readonly gateways: readonly Part[];
  readonly workers: readonly Part[];
  readonly parts: readonly Part[];
  readonly postgres: LaboratoryPostgres;
  /** Address of the product's database, past all proxies; its role is the server's owner. */
  databaseUrl(): Promise<string>;
  /** A connection of the laboratory's own, past all proxies. */
  pool(): Promise<Pool>;
  /** The event log, past all proxies. */
  eventLog(): Promise<EventLog>;
  readonly receivers: Receivers;
  /** The brokers; only on Kafka. */
  readonly cluster: KafkaCluster | undefined;
  /** Between parts and Postgres, by the kind of part; only on Kafka, where Postgres is not the product's own. */
  readonly databaseProxies: Readonly<Partial<Record<'gateway' | 'worker', TcpProxy>>>;
  readonly sluice: Sluice;
  /** Ends everything and deletes its data. */
  stop(): Promise<void>;
}

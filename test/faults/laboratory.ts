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

/** The product's Postgres server. */
export interface LaboratoryPostgres {
  /** Sends SIGKILL to all server processes; resolves when they have exited. */
  kill(): Promise<void>;
  /**
   * Restarts the server after a kill, unless the product does; resolves when it accepts
   * connections.
   */
  restart(): Promise<void>;
  /** Sends SIGSTOP to all server processes; resolves when they are stopped. */
  pause(): Promise<void>;
  /** Sends SIGCONT to all server processes. */
  resume(): void | Promise<void>;
}

/** The whole running product, with the tools that inject faults. */
export interface Laboratory {
  readonly log: LogName;
  readonly topicPrefix: string;
  readonly tenants: readonly Tenant[];
  /**
   * Processes that accept requests, and processes that store. The embedded product is both in one
   * process.
   */
  readonly gateways: readonly Part[];
  readonly workers: readonly Part[];
  readonly parts: readonly Part[];
  readonly postgres: LaboratoryPostgres;
  /**
   * Resolves with the address of the product's database, bypassing all proxies. Its role is the
   * server's owner.
   */
  databaseUrl(): Promise<string>;
  /** Resolves with the laboratory's own pool, bypassing all proxies. */
  pool(): Promise<Pool>;
  /** Resolves with the event log, bypassing all proxies. */
  eventLog(): Promise<EventLog>;
  readonly receivers: Receivers;
  /** The brokers; undefined on the embedded log. */
  readonly cluster: KafkaCluster | undefined;
  /**
   * Proxies between parts and Postgres, by the kind of part. Only on Kafka, because the embedded
   * product owns its Postgres.
   */
  readonly databaseProxies: Readonly<Partial<Record<'gateway' | 'worker', TcpProxy>>>;
  readonly sluice: Sluice;
  /** Stops everything and deletes its data. */
  stop(): Promise<void>;
}

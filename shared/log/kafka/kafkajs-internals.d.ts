/**
 * Types of the internal modules of kafkajs 2.2.4 that log/kafka/ uses. The package is pinned to
 * that version, the last one, so that these modules do not change.
 */
interface KafkajsRequest {
  readonly apiKey: number;
  readonly apiName: string;
  readonly apiVersion: number;
}

interface KafkajsResponse {
  decode: (raw: Buffer) => Promise<unknown>;
  parse(decoded: unknown): Promise<unknown>;
}

interface KafkajsProtocol {
  readonly request: KafkajsRequest;
  readonly response: KafkajsResponse;
}

interface KafkajsApi {
  readonly versions: string[];
}

interface KafkajsConnectionPool {
  /** The first connection is for all requests but fetches. */
  readonly pool: import('kafkajs/src/network/connection.js').default[];
  send(options: KafkajsProtocol & { readonly requestTimeout?: number }): Promise<unknown>;
}

declare module 'kafkajs/src/broker/index.js' {
  export default class Broker {
    constructor(options: {
      connectionPool: KafkajsConnectionPool;
      logger: import('kafkajs').Logger;
      nodeId: number | null;
      allowAutoTopicCreation: boolean;
    });
    readonly connectionPool: KafkajsConnectionPool;
    /** Throws until connected. */
    lookupRequest(apiKey: number, api: KafkajsApi): (payload: object) => KafkajsProtocol;
    isConnected(): boolean;
    connect(): Promise<void>;
    disconnect(): Promise<void>;
    findGroupCoordinator(options: { groupId: string }): Promise<{
      readonly coordinator: { readonly nodeId: number; readonly host: string; readonly port: number };
    }>;
    /** Throws for the first error inside. */
    metadata(topics: string[]): Promise<object>;
    /** Throws for the first error inside. */
    fetch(options: {
      replicaId: number;
      isolationLevel: number;
      maxWaitTime: number;
      minBytes: number;
      maxBytes: number;
      topics: { topic: string; partitions: { partition: number; fetchOffset: string; maxBytes: number }[] }[];
    }): Promise<{
      readonly responses: readonly {
        readonly partitions: readonly { readonly messages: readonly import('kafkajs').KafkaMessage[] }[];
      }[];
    }>;
    leaveGroup(options: { groupId: string; memberId: string }): Promise<unknown>;
  }
}

declare module 'kafkajs/src/cluster/index.js' {
  interface TopicPartitions {
    readonly topic: string;
    readonly partitions: readonly { readonly partition: number }[];
  }
  export default class Cluster {
    constructor(options: object);
    getNodeIds(): string[];
    /** Node ids of leaders, each with its partitions; -1 for partitions without a leader. */
    findLeaderForPartitions(topic: string, partitions: readonly number[]): Record<string, number[]>;
    fetchTopicsOffset(topics: readonly TopicPartitions[]): Promise<TopicPartitions[]>;
  }
}

declare module 'kafkajs/src/cluster/connectionPoolBuilder.js' {
  export default function connectionPoolBuilder(options: {
    brokers: string[];
    ssl?: import('node:tls').ConnectionOptions;
    sasl?: import('kafkajs').SASLOptions;
    clientId: string;
    socketFactory: import('kafkajs').ISocketFactory;
    connectionTimeout: number;
    requestTimeout: number;
    enforceRequestTimeout: boolean;
    maxInFlightRequests: number | null;
    logger: import('kafkajs').Logger;
  }): { build(address: { host: string; port: number }): Promise<KafkajsConnectionPool> };
}

declare module 'kafkajs/src/network/connection.js' {
  export default class Connection {
    constructor(options: object);
    /** The received parts of an incomplete response. */
    chunks: Buffer[];
    bytesBuffered: number;
    bytesNeeded: number;
    readonly clientId: string;
    readonly socket: import('node:net').Socket | undefined;
    readonly requestQueue: import('kafkajs/src/network/requestQueue/index.js').default;
    isConnected(): boolean;
    nextCorrelationId(): number;
    connect(): Promise<unknown>;
  }
}

declare module 'kafkajs/src/network/socketFactory.js' {
  export default function socketFactory(): import('kafkajs').ISocketFactory;
}

declare module 'kafkajs/src/consumer/runner.js' {
  /** Runs a consumer's loops. */
  export default class Runner {
    constructor(options: object);
    readonly running: boolean;
    readonly fetchManager: { stop(): Promise<void> };
    start(): Promise<void>;
    stop(): Promise<void>;
    fetch(nodeId: number): Promise<unknown[]>;
  }
}

declare module 'kafkajs/src/consumer/consumerGroup.js' {
  /** The member of a consumer group. */
  export default class ConsumerGroup {
    constructor(options: object);
    /** Milliseconds that the next fetch waits for records. */
    maxWaitTime: number;
    pause(partitions: readonly { readonly topic: string; readonly partitions?: readonly number[] }[]): void;
    resume(partitions: readonly { readonly topic: string; readonly partitions?: readonly number[] }[]): void;
    fetch(nodeId: number): Promise<unknown[]>;
  }
}

declare module 'kafkajs/src/network/requestQueue/index.js' {
  export default class RequestQueue {
    readonly pending: readonly unknown[];
    readonly throttledUntil: number;
    throttleCheckTimeoutId: NodeJS.Timeout | null;
    /** Sends the request immediately, unless the broker has asked for a pause. */
    push(request: {
      readonly entry: {
        readonly apiKey: number;
        readonly apiName: string;
        readonly apiVersion: number;
        readonly correlationId: number;
        resolve(answer: { readonly payload: Buffer }): void;
        reject(error: Error): void;
      };
      readonly expectResponse: boolean;
      readonly requestTimeout: number;
      readonly sendRequest: () => void;
    }): void;
    /** Pauses for some milliseconds, if any. */
    maybeThrottle(ms: number | null): void;
    checkPendingRequests(): void;
    scheduleCheckPendingRequests(): void;
  }
}

declare module 'kafkajs/src/protocol/requests/index.js' {
  const protocol: { readonly requests: Readonly<Record<'Produce' | 'Metadata' | 'ListOffsets', KafkajsApi>> };
  export default protocol;
}

declare module 'kafkajs/src/protocol/requests/fetch/v11/response.js' {
  const response: KafkajsResponse;
  export default response;
}

declare module 'kafkajs/src/protocol/requests/apiKeys.js' {
  const apiKeys: Readonly<Record<'Produce' | 'Metadata' | 'ListOffsets', number>>;
  export default apiKeys;
}

declare module 'kafkajs/src/protocol/error.js' {
  const errors: {
    createErrorFromCode(code: number): Error & { readonly type: string; readonly retriable: boolean };
  };
  export default errors;
}

declare module 'kafkajs/src/loggers/index.js' {
  const loggers: {
    createLogger(options: {
      level: number;
      logCreator: import('kafkajs').logCreator;
    }): import('kafkajs').Logger;
  };
  export default loggers;
}

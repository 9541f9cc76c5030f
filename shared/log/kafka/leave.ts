import type Broker from 'kafkajs/src/broker/index.js';
import { withDeadline } from '../../async.ts';
import { type KafkaConnection, REQUEST_TIMEOUT_MS } from './client.ts';
import { createBrokerOpener, cut, seedAddresses } from './connect.ts';

/** Timeout in milliseconds for the whole attempt, whose only purpose is a faster next join. */
const LEAVE_TIMEOUT_MS = 2_000;

/**
 * Removes a crashed member from its group. kafkajs leaves a group only on an orderly stop. Without
 * this request, the group would admit the successor only after the session timeout. Returns whether
 * the member is gone.
 */
export async function leaveGroup(
  connection: KafkaConnection,
  group: string,
  memberId: string,
): Promise<boolean> {
  const open = createBrokerOpener(connection, REQUEST_TIMEOUT_MS);
  const opened: Broker[] = [];
  const connect = async (address: { host: string; port: number }): Promise<Broker> => {
    const broker = await open(address);
    opened.push(broker);
    await broker.connect();
    return broker;
  };
  const leave = async (): Promise<void> => {
    const any = await firstOf(seedAddresses(connection).map((seed) => () => connect(seed)));
    const { coordinator } = await any.findGroupCoordinator({ groupId: group });
    await (await connect(coordinator)).leaveGroup({ groupId: group, memberId });
  };
  try {
    await withDeadline(leave(), LEAVE_TIMEOUT_MS);
    return true;
  } catch (error) {
    return (error as { type?: unknown }).type === 'UNKNOWN_MEMBER_ID';
  } finally {
    for (const broker of opened) cut(broker);
  }
}

async function firstOf<T>(attempts: readonly (() => Promise<T>)[]): Promise<T> {
  let lastError: unknown;
  for (const attempt of attempts) {
    try {
      return await attempt();
    } catch (error) {
      lastError = error;
    }
  }
  throw lastError;
}

import { errorCode } from '../../shared/errors.ts';
import { type Client, openClient } from '../../shared/postgres/client.ts';

/**
 * What a server answers: `ready`; `busy` (starting, recovering, shutting down, or out of connections); `unreachable`
 * (nobody listens, or no answer in time); `rejected` (it is up, but not ours: other password, other data directory).
 */
export type ServerState = 'ready' | 'busy' | 'unreachable' | 'rejected';

const CANNOT_CONNECT_NOW = '57P03';
const TOO_MANY_CONNECTIONS = '53300';
const WRONG_CREDENTIALS = new Set(['28P01', '28000']);

/** Asks a server whether it can be used and works on `dataDirectory` (absolute, links resolved). Never rejects. */
export async function probeServer(connectionString: string, dataDirectory: string): Promise<ServerState> {
  let client: Client;
  try {
    client = await openClient({
      connectionString,
      applicationName: 'sluice-probe',
      connectionTimeoutMs: 2000,
    });
  } catch (error) {
    return stateOf(error);
  }
  try {
    const result = await client.query<{ data_directory: string }>('SHOW data_directory');
    return result.rows[0]?.data_directory === dataDirectory ? 'ready' : 'rejected';
  } catch (error) {
    return stateOf(error);
  } finally {
    await client.end().catch(() => undefined);
  }
}

function stateOf(error: unknown): ServerState {
  const code = errorCode(error) ?? '';
  if (code === CANNOT_CONNECT_NOW || code === TOO_MANY_CONNECTIONS) return 'busy';
  return WRONG_CREDENTIALS.has(code) ? 'rejected' : 'unreachable';
}

import { ConnectionPool } from './load/connection-pool.ts';
import { IdSequence, RequestTemplate } from './load/request-template.ts';

/** Returns a function that sends MessageSent events over this number of persistent connections. */
export function createSender(port: number, connections: number) {
  const pool = new ConnectionPool({ port, max: connections });
  const ids = new IdSequence();
  let sent = 0;
  /** Sends one event. Resolves with the status once the whole answer has arrived. */
  return async (apiKeyId: string): Promise<number> => {
    const request = new RequestTemplate({
      operation: 'message-sent',
      records: 1,
      apiKeyId,
      secret: 'secret',
      firstEntity: sent++,
    });
    request.renew(ids);
    return (await pool.exchange(request.bytes)).status;
  };
}

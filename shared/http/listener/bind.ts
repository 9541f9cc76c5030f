import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { SettingName } from '../../config/config.ts';
import { AppError, errorCode } from '../../errors.ts';

export interface BindOptions {
  readonly host: string;
  /** The port; 0 picks a free one. */
  readonly port: number;
  /** The name of the port's setting, for error messages. */
  readonly portSetting: SettingName;
}

/** Listens, and resolves with the address. Rejects with AppError `LISTEN_FAILED`. */
export async function bind(server: Server, { host, port, portSetting }: BindOptions): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      const reason = bindProblem(error, portSetting);
      reject(new AppError('LISTEN_FAILED', `cannot listen on ${host}:${port}: ${reason}`, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
  server.removeAllListeners('error');
  server.on('error', () => {});
  return server.address() as AddressInfo;
}

function bindProblem(error: Error, portSetting: SettingName): string {
  const hostSetting = portSetting.replace('PORT', 'HOST');
  switch (errorCode(error)) {
    case 'EADDRINUSE':
      return `the port is in use; stop the program that uses it, or set ${portSetting}`;
    case 'EACCES':
      return `this user may not use the port; set ${portSetting} to 1024 or higher`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `this machine has no such address; set ${hostSetting} to one that it has, or to 0.0.0.0 for all`;
    default:
      return `${error.message}; check ${portSetting} and ${hostSetting}`;
  }
}

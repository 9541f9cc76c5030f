import { listenAddress, oneOf, origins, wholeNumber } from './schemas.ts';
import { type Settings, WORKERS } from './setting.ts';

const onOrOff = oneOf(['on', 'off']);
function port(standard: number) {
  return wholeNumber(0, 65_535, standard);
}

/** The settings of the listeners with operations and health checks. */
export const listeners = {
  PORT: {
    ...port(8080),
    usedBy: ['embedded', 'gateway'],
    meaning: 'Port of the gateway; 0 selects a free port.',
    example: '8080',
  },
  HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('0.0.0.0'),
    embeddedDefault: '127.0.0.1',
    usedBy: ['embedded', 'gateway'],
    meaning: 'Address on which the gateway listens.',
    example: '0.0.0.0',
  },
  ADMIN_PORT: {
    ...port(8081),
    usedBy: ['embedded', 'admin'],
    meaning: 'Port of the admin listener; 0 selects a free port.',
    example: '8081',
  },
  ADMIN_HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('127.0.0.1'),
    usedBy: ['embedded', 'admin'],
    meaning: 'Address on which the admin listener listens.',
    example: '127.0.0.1',
  },
  SLUICE_ADMIN_ORIGINS: {
    allowed: origins.allowed,
    schema: origins.schema.optional(),
    usedBy: ['embedded', 'admin'],
    meaning:
      'Origins of web pages that may call the webhook part of the admin API with a portal token (CORS). Unset: none.',
    example: 'https://portal.example.com,http://localhost:3000',
  },
  SLUICE_DOCS: {
    allowed: onOrOff.allowed,
    schema: onOrOff.schema.default('on'),
    usedBy: ['embedded', 'gateway'],
    meaning:
      'Serves /docs, /openapi.json and /asyncapi.json on the gateway, without a key. The admin listener always serves its own.',
    example: 'off',
  },
  WORKER_PORT: {
    ...port(8082),
    usedBy: WORKERS,
    meaning: "Port of the workers' health checks and metrics; 0 selects a free port.",
    example: '8082',
  },
  WORKER_HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('127.0.0.1'),
    usedBy: WORKERS,
    meaning: "Address on which the workers' health checks and metrics are served.",
    example: '127.0.0.1',
  },
} as const satisfies Settings;

export const metrics = {
  METRICS_PORT: {
    ...port(9464),
    usedBy: ['embedded', 'gateway'],
    ignorable: true,
    meaning:
      "Port on which the gateway, or `npm start`, serves its metrics at /metrics; 0 selects a free port. The admin and the workers' listeners serve theirs themselves.",
    example: '9464',
  },
  METRICS_HOST: {
    allowed: listenAddress.allowed,
    schema: listenAddress.schema.default('127.0.0.1'),
    usedBy: ['embedded', 'gateway'],
    ignorable: true,
    meaning: 'Address on which the metrics listener listens. It needs no key, so it must not be public.',
    example: '127.0.0.1',
  },
  SLUICE_METRICS_TENANTS: {
    ...wholeNumber(0, 1000, 0),
    usedBy: ['embedded', 'gateway'],
    ignorable: true,
    meaning:
      'Number of tenants, the busiest ones, whose accepted records each gateway process counts by tenant id; the others are counted as `other`.',
    example: '100',
  },
} as const satisfies Settings;

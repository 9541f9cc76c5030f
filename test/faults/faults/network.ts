import { setTimeout as delay } from 'node:timers/promises';
import type { TcpProxy } from '../../support/tcp-proxy.ts';
import type { Fault } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import { failuresSince } from '../ledger.ts';
import { LIGHT_TRAFFIC } from '../traffic.ts';
import { clusterOf, inService } from './brokers.ts';

const HALF_OPEN_MS = 10_000;
const CUTS = 20;
const CUT_EVERY_MS = 200;
const SLOW_MS = 10_000;
const SLOW_DELAY_MS = 300;
/** Less than the laboratory's traffic needs. */
const DRIP_BYTES_PER_SECOND = 64 * 1024;

/** Pairs of parts that communicate. One run covers all of them. */
const LINKS = [
  ['gateway', 'brokers'],
  ['worker', 'brokers'],
  ['gateway', 'Postgres'],
  ['worker', 'Postgres'],
] as const;

type Link = (typeof LINKS)[number];

export const networkHalfOpen: Fault = {
  name: 'network-half-open',
  description:
    'connections stay open for 10 s while no data passes, and are then lost, on each link in turn: gateways and brokers, workers and brokers, gateways and Postgres, workers and Postgres',
  logs: ['kafka'],
  stallLimit:
    'the 10 s, and the seconds until gateways reconnect to the brokers; no effect on callers on the other links',
  times: LINKS.length,
  traffic: LIGHT_TRAFFIC,
  async inject(lab, { ledger, round, problem }) {
    const link = linkOf(round);
    const proxies = proxiesOf(lab, link);
    const failedBefore = ledger.failures.length;
    for (const proxy of proxies) proxy.halfOpen();
    await delay(HALF_OPEN_MS);
    for (const proxy of proxies) proxy.heal();
    await inService(lab);
    const failed = failuresSince(ledger, failedBefore);
    if (failed !== undefined && !isNeededForAnswers(link)) {
      problem(`while nothing passed between ${link.join(' and ')}, ${failed}`);
    }
  },
};

export const networkCut: Fault = {
  name: 'network-cut',
  description: `all connections are reset ${1000 / CUT_EVERY_MS} times per second for ${(CUTS * CUT_EVERY_MS) / 1000} s, on the same links in turn`,
  logs: ['kafka'],
  stallLimit:
    'the seconds of the cuts, and the time of a new connection; no effect on callers on links of workers',
  times: LINKS.length,
  traffic: LIGHT_TRAFFIC,
  async inject(lab, { round }) {
    const proxies = proxiesOf(lab, linkOf(round));
    for (let cut = 0; cut < CUTS; cut++) {
      for (const proxy of proxies) proxy.reset();
      await delay(CUT_EVERY_MS);
    }
    await inService(lab);
  },
};

export const networkSlow: Fault = {
  name: 'network-slow',
  description: `${SLOW_DELAY_MS} ms of latency each way, then ${DRIP_BYTES_PER_SECOND / 1024} KiB/s, for ${SLOW_MS / 1000} s, on the same links in turn`,
  logs: ['kafka'],
  stallLimit: 'the deadline of an answer (5 s) while the link is slow; a slow connection is not dropped',
  times: LINKS.length,
  traffic: LIGHT_TRAFFIC,
  async inject(lab, { round }) {
    const proxies = proxiesOf(lab, linkOf(round));
    for (const proxy of proxies) proxy.delay(SLOW_DELAY_MS);
    await delay(SLOW_MS / 2);
    for (const proxy of proxies) proxy.heal();
    for (const proxy of proxies) proxy.drip(DRIP_BYTES_PER_SECOND);
    await delay(SLOW_MS / 2);
    for (const proxy of proxies) proxy.heal();
    await inService(lab);
  },
};

const linkOf = (round: number): Link => LINKS[round % LINKS.length]!;

function proxiesOf(lab: Laboratory, [part, other]: Link): readonly TcpProxy[] {
  return other === 'brokers' ? clusterOf(lab).through(part).proxies : [lab.databaseProxies[part]!];
}

/**
 * Returns whether callers' answers depend on the link. Without the database, gateways answer with
 * cached keys; workers answer no callers.
 */
const isNeededForAnswers = ([part, other]: Link): boolean => part === 'gateway' && other === 'brokers';

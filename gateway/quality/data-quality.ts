import { singleFlight } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import type { ErrorDetail, Refusal } from '../../shared/contracts/errors.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { BLANK_AGENT_ID } from '../../shared/contracts/results.ts';
import {
  type Measure,
  NAMES_MAX,
  OTHER_NAMES,
  type QualityCount,
  QualityCounts,
  type QualityItem,
} from '../../shared/data-quality/counts.ts';
import { errorMessage } from '../../shared/errors.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { withoutOwnSecret } from '../../shared/http/headers.ts';
import type { Logger } from '../../shared/logging.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import type { Outcome } from '../accept/accept.ts';
import { countRefused, countUnknownMembers } from '../record-metrics.ts';
import { storedName } from './stored-name.ts';

export interface DataQualityOptions {
  /**
   * Adds counts to the store, once for each source. Rejects after its own deadline; then it is unknown
   * whether they were added.
   */
  readonly write: (source: string, counts: readonly QualityCount[]) => Promise<void>;
  /** Identifies the counts of this process. */
  readonly gatewayId: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two writes. Default 5000. */
  readonly intervalMs?: number;
}

/** Codes of requests whose body was refused for what it contains. Conflicts are counted by outcome. */
const REJECTED: ReadonlySet<string> = new Set(['400-01', '413-01', '422-01']);

/**
 * Counts what is wrong with records and is known only to the gateway, per tenant. Requests never wait
 * for the store: the counts are written once per interval. While the store is down they are kept, so a
 * process that is killed loses the counts since its last write.
 *
 * The names of members come from callers. Per tenant, day and measure, at most {@link NAMES_MAX} of
 * them are kept. Values are never looked at.
 */
export class DataQuality {
  private readonly options: DataQualityOptions;
  private readonly counts = new QualityCounts();
  /** Counts that are being written. Their source stays the same, so that a retry adds them once. */
  private unwritten: { readonly source: string; readonly counts: readonly QualityCount[] } | undefined;
  private writes = 0;
  /** The names of today, by tenant and measure. */
  private readonly names = new Map<string, Set<string>>();
  private namesDay = '';
  private readonly flush = singleFlight(() => this.write());
  private readonly timer: NodeJS.Timeout;
  private isFailing = false;

  constructor(options: DataQualityOptions) {
    this.options = options;
    this.timer = setInterval(this.flush, options.intervalMs ?? 5000).unref();
  }

  /** Counts a record with unknown members. */
  unknownMembers(c: HttpContext, kind: Kind, names: readonly string[]): void {
    countUnknownMembers(kind);
    const item = { measure: 'unknown-member', kind } as const;
    // In a submission of credentials, a misplaced name may itself be a secret.
    const kept = kind === 'credentials' ? [] : names.map((name) => storedName(withoutOwnSecret(c, name)));
    this.add(c.get('apiKey').tenantId, item, kept);
  }

  /** Counts a record that was rejected for its content. */
  rejected(tenantId: string, kind: Kind, code: string, details: readonly ErrorDetail[]): void {
    countRefused(kind, code);
    this.add(tenantId, { measure: 'rejected', kind, code }, details.map(fieldOf));
  }

  /** Counts a request that was refused as a whole, if its body was the reason. */
  refused(c: HttpContext, kind: Kind, { code, details = [] }: Refusal): void {
    const tenantId = c.get('apiKey')?.tenantId;
    // Without details, the caller did not send the whole body.
    if (tenantId === undefined || !REJECTED.has(code) || details.length === 0) return;
    this.rejected(tenantId, kind, code, details);
  }

  /** Counts duplicates and conflicts among outcomes. */
  outcomes(tenantId: string, kind: Kind, outcomes: readonly Outcome[]): void {
    let duplicates = 0;
    let conflicts = 0;
    for (const outcome of outcomes) {
      if (outcome === 'known') duplicates += 1;
      else if (outcome === 'conflict') conflicts += 1;
    }
    const nowMs = this.options.clock.nowMs();
    const add = (measure: Measure, records: number) =>
      this.counts.add(tenantId, nowMs, { measure, kind, code: 'gateway' }, records);
    if (duplicates > 0) add('duplicate', duplicates);
    if (conflicts > 0) add('conflict', conflicts);
  }

  /** Writes the counts that are not yet in the store. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.flush.idle();
    await this.flush();
    if (!this.unwritten) await this.flush();
    const counts = this.counts.take().concat(this.unwritten?.counts ?? []);
    if (counts.length > 0) {
      this.options.logger.warn({ counts: counts.length }, 'counts of data quality not written');
    }
  }

  /** Adds a record, and each of the names of its members once. */
  private add(tenantId: string, item: QualityItem, names: readonly string[]): void {
    const nowMs = this.options.clock.nowMs();
    this.counts.add(tenantId, nowMs, item);
    if (names.length === 0) return;
    const limited = new Set(names.map((name) => this.limited(tenantId, nowMs, item, name)));
    for (const name of limited) this.counts.add(tenantId, nowMs, { ...item, name });
  }

  /** Returns the name, or that of all names above the maximum. */
  private limited(
    tenantId: string,
    nowMs: number,
    { measure, kind, code }: QualityItem,
    name: string,
  ): string {
    const day = dayOf(nowMs);
    if (day !== this.namesDay) this.names.clear();
    this.namesDay = day;
    const key = `${tenantId} ${measure}`;
    const names = this.names.get(key) ?? new Set();
    this.names.set(key, names);
    const full = `${kind} ${code} ${name}`;
    if (!names.has(full) && names.size >= NAMES_MAX) return OTHER_NAMES;
    names.add(full);
    return name;
  }

  private async write(): Promise<void> {
    const { write, gatewayId, logger } = this.options;
    if (!this.unwritten) {
      if (this.counts.isEmpty()) return;
      this.writes += 1;
      this.unwritten = { source: `gateway/${gatewayId}/${this.writes}`, counts: this.counts.take() };
    }
    try {
      await write(this.unwritten.source, this.unwritten.counts);
      this.unwritten = undefined;
      if (this.isFailing) logger.info('counts of data quality written again');
      this.isFailing = false;
    } catch (error) {
      if (!this.isFailing) {
        logger.warn({ reason: errorMessage(error) }, 'counts of data quality not written, retrying');
      }
      this.isFailing = true;
    }
  }
}

/** Returns the member of a problem; `record` if the record as a whole is the problem. */
function fieldOf({ path, message }: ErrorDetail): string {
  if (path === '') return message === BLANK_AGENT_ID ? 'externalAgentId' : 'record';
  return storedName(path.replaceAll(/\[\d+\]/g, '[]'));
}

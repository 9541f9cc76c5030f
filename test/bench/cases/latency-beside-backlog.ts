import { waitFor } from '../../support/wait.ts';
import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { acceptedRecords, fillTopic, type TopicRecord, unreadableRecords } from '../fill-topic.ts';
import { type LatencyProbe, startLatencyProbe, worstOf } from '../latency.ts';
import type { LatencyReport } from '../load/latency-probe.ts';
import { type LoadedProduct, startOnKafka } from '../loaded-product.ts';
import { median } from '../statistics.ts';
import { storedPositions, waitUntilStored } from '../stored.ts';

export const latencyBesideBacklog: BenchCase = {
  name: 'latency-beside-backlog',
  must: 1,
  goal: 1,
  needsKafka: true,
  run: measureBesideBacklog,
};

const GOAL_TIMES = 1.5;
const MUST_TIMES = 3;
const PER_SECOND = 50;
const AGENTS = 350_000;
const UNREADABLE = 1_000_000;
/** Room for the unreadable records of all rounds, so that the tenant is not refused. */
const DEAD_LETTERS_BYTES_MAX = 64 * 1024 ** 3;
/** The time of a full run, for which a backlog lasts. Shorter runs have smaller backlogs. */
const FULL_MS = 40_000;
const DRAIN_TIMEOUT_MS = 1_800_000;
const VACUUM_TIMEOUT_MS = 600_000;

/** Backlogs next to which the first tenant's latencies are measured. */
const BACKLOGS = [
  'of another tenant',
  'of the same tenant',
  'of the same tenant, with unreadable records',
] as const;

type BacklogKind = (typeof BACKLOGS)[number];

async function measureBesideBacklog(length: RunLength): Promise<CaseResult> {
  const product = await startOnKafka({
    parts: ['gateway', 'workers'],
    settings: { SLUICE_DEAD_LETTERS_BYTES_MAX: String(DEAD_LETTERS_BYTES_MAX) },
  });
  const probe = await startLatencyProbe(product, { webhooks: true });
  try {
    const filler = new BacklogFiller(product, probe, length);
    const rounds: Round[] = [];
    for (let i = 0; i < length.rounds; i++) rounds.push(await filler.round());
    await waitUntilStored(product, 'automation-events', filler.accepted);
    return toResult(rounds);
  } finally {
    await probe.stop();
    await product.stop();
  }
}

interface Round {
  readonly alone: LatencyReport;
  readonly beside: Readonly<Record<BacklogKind, LatencyReport>>;
  /** Backlogs that were worked off before the measurement ended. */
  readonly endedEarly: readonly BacklogKind[];
}

class BacklogFiller {
  /** Replies that were accepted in all rounds. */
  accepted = 0;
  private readonly product: LoadedProduct;
  private readonly probe: LatencyProbe;
  private readonly length: RunLength;
  /** Records in the topic of the agents. */
  private filled = 0;

  constructor(product: LoadedProduct, probe: LatencyProbe, length: RunLength) {
    this.product = product;
    this.probe = probe;
    this.length = length;
  }

  async round(): Promise<Round> {
    await this.untilVacuumed();
    const alone = await this.measure();
    const beside: Partial<Record<BacklogKind, LatencyReport>> = {};
    const endedEarly: BacklogKind[] = [];
    for (const kind of BACKLOGS) {
      await this.product.stopPart('workers');
      await this.fill(kind);
      await this.product.startPart('workers');
      beside[kind] = await this.measure();
      if (await this.isDrained()) endedEarly.push(kind);
      await waitFor(() => this.isDrained(), {
        timeoutMs: DRAIN_TIMEOUT_MS,
        what: 'the backlog to be stored',
      });
    }
    return { alone, beside: beside as Round['beside'], endedEarly };
  }

  private async measure(): Promise<LatencyReport> {
    const { warmupMs, measuredMs } = this.length;
    const keys = [this.probe.keys[0]!];
    const measures = ['state', 'webhook'] as const;
    const report = await this.probe.measure({ keys, perSecond: PER_SECOND, warmupMs, measuredMs, measures });
    this.accepted += report.accepted;
    return report;
  }

  private async fill(kind: BacklogKind): Promise<void> {
    const { warmupMs, measuredMs } = this.length;
    const part = Math.min(1, (warmupMs + measuredMs) / FULL_MS);
    const [same, other] = this.probe.keys;
    const tenantId = kind === 'of another tenant' ? other!.tenantId : same!.tenantId;
    const agents = Math.ceil(AGENTS * part);
    const unreadable = kind.endsWith('unreadable records') ? Math.ceil(UNREADABLE * part) : 0;
    const records = mixed(
      acceptedRecords('agent-metadata', [tenantId], agents),
      unreadableRecords(tenantId, unreadable),
      unreadable / agents,
    );
    await fillTopic(this.product, 'agent-metadata', records);
    this.filled += agents + unreadable;
  }

  /** Waits until Postgres no longer cleans up after the previous backlog. */
  private async untilVacuumed(): Promise<void> {
    const isDone = async () => {
      const { rows } = await this.product.pool.query(
        `select from pg_stat_activity where backend_type = 'autovacuum worker'`,
      );
      return rows.length === 0;
    };
    await waitFor(isDone, { timeoutMs: VACUUM_TIMEOUT_MS, what: 'the end of vacuuming', everyMs: 1_000 });
  }

  private async isDrained(): Promise<boolean> {
    return (await storedPositions(this.product, 'agent-metadata')) >= this.filled;
  }
}

/** Yields all records of the first, and about `each` of the second after each of them. */
function* mixed(
  records: Iterable<TopicRecord>,
  others: Generator<TopicRecord>,
  each: number,
): Generator<TopicRecord> {
  let due = 0;
  for (const record of records) {
    yield record;
    for (due += each; due >= 1; due--) {
      const next = others.next();
      if (!next.done) yield next.value;
    }
  }
  yield* others;
}

function toResult(rounds: readonly Round[]): CaseResult {
  const figures = BACKLOGS.flatMap((kind) =>
    (['state', 'webhook'] as const).flatMap((measure) =>
      (['p50Ms', 'p99Ms'] as const).map((of) => {
        const times = rounds.map(({ alone, beside }) => beside[kind][measure][of] / alone[measure][of]);
        const name = `${measure} ${of.slice(0, 3)}, backlog ${kind}`;
        return {
          unit: `times alone (${name})`,
          value: median(times),
          goal: GOAL_TIMES,
          times,
          kind,
          measure,
        };
      }),
    ),
  );
  const worst = worstOf(figures);
  const besideMs = (of: 'p50Ms' | 'p99Ms') =>
    median(rounds.map(({ beside }) => beside[worst.kind][worst.measure][of]));
  const early = [...new Set(rounds.flatMap(({ endedEarly }) => endedEarly))];
  return {
    value: worst.value,
    unit: worst.unit,
    limit: GOAL_TIMES,
    ratios: worst.times.map((times) => GOAL_TIMES / times),
    p50Ms: besideMs('p50Ms'),
    p99Ms: besideMs('p99Ms'),
    notes: [
      `must be at most ${MUST_TIMES} times alone (a ratio of ${GOAL_TIMES / MUST_TIMES}), goal ${GOAL_TIMES}`,
      ...figures.map(({ unit, value }) => `${value.toFixed(1)} ${unit}`),
      ...early.map((kind) => `the backlog ${kind} was worked off before the measurement ended`),
    ],
  };
}

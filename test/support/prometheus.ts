import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts, ROOT } from './program.ts';
import { waitFor } from './wait.ts';

/**
 * Returns whether prometheus and promtool are installed. If not, prints what was not tested, or
 * throws if SLUICE_TEST_REQUIRE_PROMETHEUS is set.
 */
export function hasPrometheus(): boolean {
  if (['prometheus', 'promtool'].every((program) => spawnSync(program, ['--version']).status === 0)) {
    return true;
  }
  const text = 'alerts and dashboards were not tested: install prometheus (apt-get install prometheus)';
  if (process.env.SLUICE_TEST_REQUIRE_PROMETHEUS) throw new Error(text);
  console.log(`Skipped: ${text}`);
  return false;
}

/** One series of an answer. The value is text, because it can be NaN or +Inf. */
export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

export interface Rule {
  readonly name: string;
  readonly health: string;
  readonly lastError?: string;
  readonly state: string;
}

/** A Prometheus with the alerts of deploy/prometheus. */
export interface Prometheus {
  /** Resolves with the current series of an expression. Rejects with its message if that fails. */
  query(expression: string): Promise<readonly Series[]>;
  rules(): Promise<readonly Rule[]>;
  stop(): Promise<void>;
}

/** Starts a Prometheus that scrapes these URLs every second, by name of the job. */
export async function startPrometheus(targets: Readonly<Record<string, string>>): Promise<Prometheus> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-prometheus-'));
  const [port] = await freePorts(1);
  const configuration = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [join(ROOT, 'deploy/prometheus/rules.yml')],
    scrape_configs: Object.entries(targets).map(([job, url]) => ({
      job_name: job,
      metrics_path: new URL(url).pathname,
      static_configs: [{ targets: [new URL(url).host] }],
    })),
  };
  const file = join(directory, 'prometheus.yml');
  // JSON is YAML.
  await writeFile(file, JSON.stringify(configuration));
  const child = spawn(
    'prometheus',
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  const killChild = () => child.kill('SIGKILL');
  process.once('exit', killChild);
  const base = `http://127.0.0.1:${port}`;
  const get = async <Data>(path: string): Promise<Data> => {
    const response = await fetch(`${base}/api/v1/${path}`);
    const answer = (await response.json()) as { status: string; error?: string; data: Data };
    if (answer.status !== 'success') throw new Error(answer.error);
    return answer.data;
  };
  const ready = async () => (await fetch(`${base}/-/ready`)).ok;
  await waitFor(ready, { timeoutMs: 30_000, what: 'Prometheus', everyMs: 100 });
  return {
    async query(expression) {
      const path = `query?query=${encodeURIComponent(expression)}`;
      return (await get<{ result: Series[] }>(path)).result;
    },
    async rules() {
      const { groups } = await get<{ groups: { rules: Rule[] }[] }>('rules');
      return groups.flatMap((group) => group.rules);
    },
    async stop() {
      process.removeListener('exit', killChild);
      child.kill('SIGTERM');
      await once(child, 'exit');
      await rm(directory, { recursive: true, force: true });
    },
  };
}

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Product, startEmbeddedProduct, startOwnProduct } from '../support/product.ts';
import { type Program, ROOT, startProgram } from '../support/program.ts';
import { hasPrometheus, type Prometheus, startPrometheus } from '../support/prometheus.ts';
import { waitFor } from '../support/wait.ts';

const brokers = inject('kafkaBrokers');
/** Milliseconds until a query has data: a machine of CI runs other tests meanwhile. */
const DATA_WITHIN_MS = 90_000;

const GRAFANA = join(ROOT, 'deploy/grafana');
const queries = readdirSync(GRAFANA).flatMap((file) => {
  const dashboard = JSON.parse(readFileSync(join(GRAFANA, file), 'utf8'));
  return dashboard.panels.flatMap((panel: { title: string; targets?: { expr: string }[] }) =>
    (panel.targets ?? []).map(({ expr }) => ({ file, panel: panel.title, expr })),
  );
});
const runbooks = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
const runbookQueries = [...runbooks.matchAll(/^- \*\*Query:\*\* `([^`]+)`/gm)].map(([, expr]) => expr!);

/** Scrapes `npm start` and the parts on Kafka, both under the traffic of `sluice demo`. */
describe.skipIf(!hasPrometheus() || brokers === '')(
  'a Prometheus that scrapes the product under load',
  () => {
    let prometheus: Prometheus;
    let products: readonly Product[];
    let demos: readonly Program[];

    beforeAll(async () => {
      products = await Promise.all([startEmbeddedProduct('info'), startOwnProduct(brokers, 'info')]);
      const [embedded, own] = products;
      const [gateway, admin, worker] = own!.metricsUrls!;
      prometheus = await startPrometheus({
        sluice: embedded!.metricsUrls![0]!,
        'sluice-gateway': gateway!,
        'sluice-admin': admin!,
        'sluice-worker': worker!,
      });
      demos = products.map(makeTraffic);
      await Promise.all(products.map(poison));
    }, 120_000);

    afterAll(async () => {
      await Promise.all((demos ?? []).map((demo) => demo.end('SIGTERM')));
      await prometheus?.stop();
      await Promise.all((products ?? []).map((product) => product.stop()));
    }, 60_000);

    it('scrapes all parts', async () => {
      await waitFor(async () => (await prometheus.query('up == 1')).length === 4, waitOptions('4 targets'));
      const parts = await prometheus.query('sluice_build_info');
      expect(parts.map(({ metric }) => metric.part).sort()).toEqual([
        'admin',
        'embedded',
        'gateway',
        'worker',
      ]);
    });

    it.each(queries)(
      'has data for each panel: $file, $panel: $expr',
      { timeout: 2 * DATA_WITHIN_MS },
      async ({ expr }) => {
        const expression = expr.replaceAll('$__rate_interval', '30s');
        await waitFor(async () => {
          const found = await prometheus.query(expression);
          // A rate of nothing divided by nothing is no data.
          return found.some(({ value: [, value] }) => value !== 'NaN');
        }, waitOptions(expression));
      },
    );

    it('evaluates every alert', async () => {
      const rules = await waitFor(async () => {
        const found = await prometheus.rules();
        return found.every(({ health }) => health !== 'unknown') && found;
      }, waitOptions('rules'));
      expect(rules.filter(({ health }) => health !== 'ok')).toEqual([]);
    });

    it('has alerts for the poison record and the failing endpoint, and none for what works', {
      timeout: 2 * DATA_WITHIN_MS,
    }, async () => {
      const names = async (...states: string[]) =>
        (await prometheus.rules()).filter(({ state }) => states.includes(state)).map(({ name }) => name);
      await waitFor(async () => {
        const active = await names('pending', 'firing');
        return ['SluiceDeadLetters', 'SluiceWebhookEndpointsFailing'].every((name) => active.includes(name));
      }, waitOptions('the alerts'));
      // One scrape that a busy machine answers too late makes an alert pending.
      expect(await names('firing')).not.toEqual(
        expect.arrayContaining([
          expect.stringMatching(/^Sluice(TargetDown|MetricsMissing|BreakerOpen|PartitionStalled)$/),
        ]),
      );
    });

    it.each(runbookQueries)('answers the query of a runbook: %s', async (expr) => {
      await prometheus.query(expr);
    });
  },
);

/** Runs `sluice demo` for up to 4 minutes, with its endpoint that fails. */
function makeTraffic({ baseUrl, adminUrl, apiKeyId, apiKeySecret, commandEnv }: Product): Program {
  const args = ['demo', '--rate', '10', '--minutes', '4', '--url', baseUrl, '--admin-url', adminUrl];
  return startProgram(
    'cli/main.js',
    { ...commandEnv, SLUICE_API_KEY_ID: apiKeyId, SLUICE_API_KEY_SECRET: apiKeySecret },
    { args },
  );
}

/** Publishes a record that workers cannot decode, which becomes a dead letter. */
async function poison({ log, topicPrefix }: Product): Promise<void> {
  const publisher = log.createPublisher({ deadlineMs: 10_000, bufferedBytesMax: 1e6 });
  const record = { partition: 0, key: 'poison', value: Buffer.from('not a record') };
  const [outcome] = await publisher.publish(`${topicPrefix}agent-metadata`, [record]);
  await publisher.close();
  if (!outcome!.ok) throw new Error(`the log did not take the record: ${outcome!.reason}`);
}

function waitOptions(what: string) {
  return { timeoutMs: DATA_WITHIN_MS, what, everyMs: 500 };
}

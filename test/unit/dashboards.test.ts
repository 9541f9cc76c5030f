import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dashboards } from '../../docs/generate/dashboards/dashboards.ts';
import { ROOT } from '../support/program.ts';

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly description: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig: { readonly defaults: { readonly unit?: string } };
  readonly targets: readonly { readonly expr: string }[];
}

const panels = Object.entries(dashboards()).flatMap(([path, dashboard]) =>
  (dashboard as { panels: Panel[] }).panels.map((panel) => ({ path, panel, title: panel.title })),
);
const graphs = panels.filter(({ panel }) => panel.type !== 'row');
const rules = readFileSync(join(ROOT, 'deploy/prometheus/rules.yml'), 'utf8');
const ruleExpressions = rules.match(/^ +expr: (\|\n( {10,}.*\n)+|.+$)/gm)!;
const runbooks = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');

describe('the panels of a dashboard', () => {
  it.each(graphs)('say what they show: $path, $title', ({ panel }) => {
    expect(panel.description).toMatch(/\.$/);
    if (panel.type !== 'table') expect(panel.fieldConfig.defaults.unit).toBeDefined();
  });

  it.each(Object.keys(dashboards()))('do not overlap: %s', (path) => {
    const taken = new Set<string>();
    for (const { panel } of panels.filter((one) => one.path === path)) {
      const { x, y, w, h } = panel.gridPos;
      expect(x + w).toBeLessThanOrEqual(24);
      for (let column = x; column < x + w; column += 1) {
        for (let line = y; line < y + h; line += 1) {
          expect(taken).not.toContain(`${column} ${line}`);
          taken.add(`${column} ${line}`);
        }
      }
    }
  });
});

it('the panel of alerts shows the labels that tell their causes apart', () => {
  const { panel } = panels.find(({ path, title }) => path.endsWith('overview.json') && title === 'Alerts')!;
  const shown = /by \(([^)]*)\)/.exec(panel.targets[0]!.expr)![1]!.split(', ');
  const labels = [...ruleExpressions.join().matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) =>
    list!.split(', '),
  );
  expect(shown).toEqual(expect.arrayContaining(labels.filter((label) => label !== 'le')));
});

describe('queries', () => {
  /** The labels of each metric, as docs/metrics.md lists them. */
  const page = readFileSync(join(ROOT, 'docs/metrics.md'), 'utf8');
  const labelsOf = new Map(
    [...page.matchAll(/^\| `(sluice_\w+)` \| (\w+) \| (.*?) \|/gm)].map(([, name, , labels]) => [
      name!,
      [...labels!.matchAll(/`(\w+)`/g)].map(([, label]) => label!),
    ]),
  );
  /** Labels that Prometheus, node_exporter or prom-client's default metrics add. */
  const OTHERS = ['job', 'instance', 'le', 'part', 'kind', 'alertname', 'alertstate', 'severity', 'fstype'];

  const expressions = [
    ...graphs.flatMap(({ panel }) => panel.targets.map(({ expr }) => expr)),
    ...ruleExpressions,
    ...[...runbooks.matchAll(/^- \*\*Query:\*\* `([^`]+)`/gm)].map(([, expr]) => expr!),
  ];

  it('are found', () => {
    expect(labelsOf.size).toBeGreaterThan(30);
    expect(expressions.length).toBeGreaterThan(100);
  });

  it.each(expressions)('name metrics and labels that exist: %s', (expr) => {
    const metrics = (expr.match(/\bsluice_\w+/g) ?? []).map((name) =>
      labelsOf.has(name) ? name : name.replace(/_(bucket|sum|count)$/, ''),
    );
    for (const metric of metrics) expect([...labelsOf.keys()]).toContain(metric);
    const known = [...OTHERS, ...metrics.flatMap((metric) => labelsOf.get(metric)!)];
    const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(', '));
    const matched = [...expr.matchAll(/(\w+)[!=]~?"/g)].map(([, label]) => label!);
    if (!expr.includes('ALERTS')) expect(known).toEqual(expect.arrayContaining([...grouped, ...matched]));
  });
});

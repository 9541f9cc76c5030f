import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';

const rules = readFileSync(join(ROOT, 'deploy/prometheus/rules.yml'), 'utf8');
const page = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');

/** The alerts by name, with the text of their rule. */
const alerts = rules
  .split(/^ {6}- alert: /m)
  .slice(1)
  .map((text) => ({ name: text.slice(0, text.indexOf('\n')), text }));
const names = new Set(alerts.map(({ name }) => name));

const incidents = page.slice(page.indexOf('\n## Incidents\n'));
const sections = incidents
  .split(/^### /m)
  .slice(1)
  .map((text) => ({ title: text.slice(0, text.indexOf('\n')), text }));

describe('every alert', () => {
  it('is found', () => expect(names.size).toBeGreaterThan(20));

  it.each(alerts)('has a severity, and texts for people: $name', ({ text }) => {
    expect(text).toMatch(/severity: (critical|warning)/);
    expect(text).toMatch(/^ +summary: .+$/m);
    expect(text).toMatch(/^ +description: .+\.['"]$/m);
  });

  it.each(alerts)('links to its runbook: $name', ({ name, text }) => {
    const link = `runbook_url: '{{ or $externalLabels.sluice_runbooks "docs/operations.md" }}#${name.toLowerCase()}'`;
    expect(text).toContain(link);
    expect(sections.map(({ title }) => title)).toContain(name);
  });

  it.each([...names])('has a runbook with query, cause, command and end: %s', (name) => {
    const { text } = sections.find(({ title }) => title === name)!;
    expect(text).toMatch(/^- \*\*Query:\*\* `/m);
    expect(text).toMatch(/^- \*\*Cause/m);
    expect(text).toMatch(/^- \*\*(Command|Cause and command)/m);
    expect(text).toMatch(/^- \*\*Over when\*\* /m);
  });
});

describe('every incident', () => {
  const others = sections.filter(({ title }) => !names.has(title));

  it.each(others)('names its alerts, or why there is none: $title', ({ text }) => {
    const [, first] = text.split('\n\n');
    const [, list] = /^Alerts: (.*)\.$/.exec(first!) ?? [];
    if (list === undefined) expect(first).toMatch(/^No alert: .+\.$/);
    else expect([...names]).toEqual(expect.arrayContaining(list.split(', ')));
  });

  it('is the cause of alerts that exist', () => {
    const named = incidents.match(/\bSluice[A-Z]\w+/g)!;
    expect([...names]).toEqual(expect.arrayContaining([...new Set(named)]));
  });
});

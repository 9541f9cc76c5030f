/** Builds dashboards of Grafana 10 and later from rows of panels. */

export interface Query {
  readonly expr: string;
  /** The name of each line, with labels in double braces. */
  readonly legend: string;
}

export interface Panel {
  readonly title: string;
  /** Says what is shown, what a high value means, and where to look next. */
  readonly description: string;
  /**
   * `lines`: values over time. `states`: one row per series, green at 0, red above. `table`: the
   * current series with their labels.
   */
  readonly kind: 'lines' | 'states' | 'table';
  /** A unit of Grafana: s, bytes, percentunit, reqps, short. */
  readonly unit: string;
  readonly queries: readonly Query[];
  /** A line at the threshold of the alert. */
  readonly threshold?: Threshold;
  /** Highest value of the axis, for shares. */
  readonly max?: number;
  /** Shown in place of "No data", where an absent series must not look healthy. */
  readonly noData?: string;
}

interface Threshold {
  readonly value: number;
  /** Which side of the value is bad. Default: above. */
  readonly bad?: 'above' | 'below';
}

export interface Row {
  readonly title: string;
  /** At most 4, which share the width. */
  readonly panels: readonly Panel[];
}

export interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly description: string;
  readonly rows: readonly Row[];
}

/** The interval of rates, which Grafana derives from the scrape interval and the zoom. */
export const RATE = '[$__rate_interval]';

const DATASOURCE = { type: 'prometheus', uid: '$' + '{datasource}' };
const WIDTH = 24;
const HEIGHT = 7;

/** Returns the dashboard as Grafana imports it. */
export function grafanaDashboard({ uid, title, description, rows }: Dashboard): object {
  return {
    uid,
    title,
    description,
    tags: ['sluice'],
    schemaVersion: 39,
    version: 1,
    editable: true,
    graphTooltip: 1,
    time: { from: 'now-1h', to: 'now' },
    refresh: '30s',
    timezone: 'browser',
    templating: { list: [datasourceVariable()] },
    annotations: { list: [] },
    links: [{ type: 'dashboards', title: 'Sluice', tags: ['sluice'], keepTime: true, includeVars: true }],
    panels: panelsOf(rows),
  };
}

function datasourceVariable(): object {
  return {
    name: 'datasource',
    label: 'Prometheus',
    type: 'datasource',
    query: 'prometheus',
    refresh: 1,
    current: {},
    hide: 0,
    multi: false,
    includeAll: false,
  };
}

function panelsOf(rows: readonly Row[]): object[] {
  let id = 0;
  let y = 0;
  return rows.flatMap(({ title, panels }) => {
    const row = {
      id: ++id,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y: y++, w: WIDTH, h: 1 },
      panels: [],
    };
    const w = WIDTH / panels.length;
    const shown = panels.map((panel, index) => ({
      id: ++id,
      gridPos: { x: index * w, y, w, h: HEIGHT },
      ...grafanaPanel(panel),
    }));
    y += HEIGHT;
    return [row, ...shown];
  });
}

function grafanaPanel(panel: Panel): object {
  const { title, description, kind, queries } = panel;
  return {
    ...KINDS[kind](panel),
    title,
    description,
    datasource: DATASOURCE,
    targets: queries.map(({ expr, legend }, index) => ({
      refId: 'ABCD'[index],
      datasource: DATASOURCE,
      editorMode: 'code',
      expr,
      legendFormat: legend,
      ...(kind === 'table' ? { instant: true, format: 'table' } : { range: true }),
    })),
  };
}

const KINDS: Readonly<Record<Panel['kind'], (panel: Panel) => object>> = {
  lines: ({ unit, threshold, max, noData }) => ({
    type: 'timeseries',
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        ...(max !== undefined && { max }),
        ...(noData !== undefined && { noValue: noData }),
        custom: {
          fillOpacity: 10,
          showPoints: 'never',
          thresholdsStyle: { mode: threshold ? 'line' : 'off' },
        },
        thresholds: { mode: 'absolute', steps: stepsOf(threshold) },
      },
      overrides: [],
    },
    options: {
      legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
  }),
  states: ({ unit }) => ({
    type: 'state-timeline',
    fieldConfig: {
      defaults: {
        unit,
        custom: { fillOpacity: 80, lineWidth: 0 },
        color: { mode: 'thresholds' },
        thresholds: { mode: 'absolute', steps: stepsOf({ value: 1 }) },
        mappings: [
          { type: 'value', options: { 0: { text: 'good', index: 0 } } },
          { type: 'range', options: { from: 1, to: 1000, result: { text: 'bad', index: 1 } } },
        ],
      },
      overrides: [],
    },
    options: {
      mergeValues: true,
      showValue: 'never',
      rowHeight: 0.9,
      legend: { displayMode: 'list', placement: 'bottom', showLegend: false },
      tooltip: { mode: 'single' },
    },
  }),
  table: () => ({
    type: 'table',
    fieldConfig: { defaults: {}, overrides: [] },
    options: { showHeader: true },
    transformations: [{ id: 'organize', options: { excludeByName: { Time: true, Value: true } } }],
  }),
};

function stepsOf(threshold: Threshold | undefined): object[] {
  if (threshold === undefined) return [{ color: 'green', value: null }];
  const { value, bad = 'above' } = threshold;
  return bad === 'above'
    ? [
        { color: 'green', value: null },
        { color: 'red', value },
      ]
    : [
        { color: 'red', value: null },
        { color: 'green', value },
      ];
}

/** Returns the query of a quantile of a histogram, by these labels. */
export function quantile(q: number, histogram: string, labels: readonly string[], filter = ''): string {
  return `histogram_quantile(${q}, sum by (${[...labels, 'le'].join(', ')}) (rate(${histogram}_bucket${filter}${RATE})))`;
}

/** Returns the query of the rate of a counter, summed by these labels. */
export function rate(counter: string, labels: readonly string[], filter = ''): string {
  return `sum by (${labels.join(', ')}) (rate(${counter}${filter}${RATE}))`;
}

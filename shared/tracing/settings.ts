import { accessSync, constants } from 'node:fs';

/**
 * The standard variables of OpenTelemetry that Sluice interprets itself. The SDK reads the others,
 * such as headers and limits.
 */
export interface TraceSettings {
  readonly protocol: Protocol;
  readonly sampler: SamplerName;
  /** Share of new traces that a sampler by ratio keeps, from 0 to 1. */
  readonly ratio: number;
  /** Ended spans that wait for an export; more are dropped. */
  readonly queueMax: number;
  readonly batchMax: number;
  readonly delayMs: number;
  /** Milliseconds for an export, retries included. */
  readonly timeoutMs: number;
}

/** Reports a setting that cannot be used. `problem` never has the setting's value. */
export type Warn = (setting: string, problem: string) => void;

type Range = readonly [min: number, max: number];
type Env = Readonly<Record<string, string | undefined>>;

const PROTOCOLS = ['http/protobuf', 'http/json'] as const;
type Protocol = (typeof PROTOCOLS)[number];

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
export type SamplerName = (typeof SAMPLERS)[number];

/** The largest number of milliseconds of a timer. */
const NUMBER_MAX = 2 ** 31 - 1;

/**
 * Reads the settings. Returns undefined if no traces are to be exported, which is the default, or if
 * they cannot be. Settings that only change how they are exported have their defaults instead.
 */
export function readTraceSettings(env: Env, warn: Warn): TraceSettings | undefined {
  const settings = new Settings(env, warn);
  if (settings.get('OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return undefined;
  const endpoint = settings.ofTraces('ENDPOINT');
  const exporter = settings.get('OTEL_TRACES_EXPORTER') ?? (endpoint.value === undefined ? 'none' : 'otlp');
  if (exporter === 'none') return undefined;
  const protocol = settings.ofTraces('PROTOCOL');
  const { value = PROTOCOLS[0] } = protocol;
  const without = (setting: string, problem: string) => {
    warn(setting, `${problem}; no traces are exported`);
    return undefined;
  };
  if (exporter !== 'otlp') return without('OTEL_TRACES_EXPORTER', 'must be otlp or none');
  if (!isUrl(endpoint.value)) return without(endpoint.name, 'must be a URL with http or https');
  if (!isOneOf(PROTOCOLS, value)) return without(protocol.name, `must be one of ${PROTOCOLS.join(', ')}`);
  settings.checkUnread();
  const sampler = settings.oneOf('OTEL_TRACES_SAMPLER', SAMPLERS, 'parentbased_always_on');
  const queueMax = settings.number('OTEL_BSP_MAX_QUEUE_SIZE', 2048);
  return {
    protocol: value,
    sampler,
    ratio: sampler.endsWith('traceidratio') ? settings.number('OTEL_TRACES_SAMPLER_ARG', 1, [0, 1]) : 1,
    queueMax,
    batchMax: Math.min(queueMax, settings.number('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512)),
    delayMs: settings.number('OTEL_BSP_SCHEDULE_DELAY', 5000, [0, NUMBER_MAX]),
    timeoutMs: settings.number(settings.ofTraces('TIMEOUT').name, 10_000),
  };
}

class Settings {
  readonly #env: Env;
  readonly #warn: Warn;

  constructor(env: Env, warn: Warn) {
    this.#env = env;
    this.#warn = warn;
  }

  /** Returns the value of a setting; an empty one counts as not set. */
  get(name: string): string | undefined {
    return this.#env[name]?.trim() || undefined;
  }

  /** Returns a setting of the exporter, which may be set for traces or for all signals. */
  ofTraces(name: string): { readonly name: string; readonly value: string | undefined } {
    const own = `OTEL_EXPORTER_OTLP_TRACES_${name}`;
    const general = `OTEL_EXPORTER_OTLP_${name}`;
    const used = this.get(own) === undefined ? general : own;
    return { name: used, value: this.get(used) };
  }

  oneOf<T extends string>(name: string, allowed: readonly T[], standard: T): T {
    const value = this.get(name) ?? standard;
    if (isOneOf(allowed, value)) return value;
    this.#warn(name, `must be one of ${allowed.join(', ')}; ${standard} is used`);
    return standard;
  }

  number(name: string, standard: number, [min, max]: Range = [1, NUMBER_MAX]): number {
    const value = Number(this.get(name) ?? standard);
    if (value >= min && value <= max) return value;
    this.#warn(name, `must be a number from ${min} to ${max}; ${standard} is used`);
    return standard;
  }

  /** Checks settings that the SDK ignores without a word if they are wrong. */
  checkUnread(): void {
    this.oneOf('OTEL_SDK_DISABLED', ['true', 'false'], 'false');
    const propagators = this.get('OTEL_PROPAGATORS')?.split(',') ?? [];
    if (!propagators.every((one) => isOneOf(['tracecontext', 'baggage'], one.trim())))
      this.#warn('OTEL_PROPAGATORS', 'only tracecontext is supported, which is used');
    if (!hasPairs(this.get('OTEL_RESOURCE_ATTRIBUTES'), 1))
      this.#warn('OTEL_RESOURCE_ATTRIBUTES', 'must be key=value, separated by commas; it is ignored');
    for (const name of ['OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_EXPORTER_OTLP_TRACES_HEADERS']) {
      if (!hasPairs(this.get(name)))
        this.#warn(name, 'must be key=value, separated by commas; what is not is ignored');
    }
    for (const kind of ['CERTIFICATE', 'CLIENT_CERTIFICATE', 'CLIENT_KEY']) {
      const { name, value } = this.ofTraces(kind);
      if (value !== undefined && !isReadable(value)) this.#warn(name, 'the file cannot be read');
    }
  }
}

function isUrl(text: string | undefined): boolean {
  if (text === undefined) return true;
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

function isOneOf<T extends string>(allowed: readonly T[], value: string): value is T {
  return (allowed as readonly string[]).includes(value);
}

/** Returns whether the text is a list of pairs, each with at most this number of `=`. */
function hasPairs(text = '', equalsMax = Number.POSITIVE_INFINITY): boolean {
  return text.split(',').every((pair) => {
    if (pair.trim() === '') return true;
    const [key = '', ...values] = pair.split('=');
    if (key.trim() === '' || values.length === 0 || values.length > equalsMax) return false;
    return !/%(?![0-9A-Fa-f]{2})/.test(pair);
  });
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

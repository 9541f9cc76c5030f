import type { Where } from './request.ts';
import { fuzzRequest } from './request.ts';
import { ANSWER_MS, type Failure, type Figures, GROWTH_MIB } from './run.ts';

const SHOWN_BYTES = 3000;
const NOT_DUE = 'no answer due';

/** Formats the figures of a run, one per line. */
export function figureLines({ sent, statuses, longest, rssMiB, failures }: Figures): string[] {
  const kinds = [...statuses].sort().map(([kind, counts]) => {
    const each = [...counts]
      .sort(([a], [b]) => a - b)
      .map(([status, count]) => `${status || NOT_DUE}: ${count}`);
    return `  ${kind.padEnd(8)} ${each.join(', ')}`;
  });
  const memory = rssMiB
    ? `memory ${rssMiB[0]} MiB before, at most ${rssMiB[1]} in the first half and ${rssMiB[2]} in the second (${GROWTH_MIB} more are allowed)`
    : 'memory not watched';
  return [
    `${sent} requests, ${failures.length} failures; statuses by kind of change:`,
    ...kinds,
    ...(kinds.some((line) => line.includes(NOT_DUE))
      ? [`${NOT_DUE}: as HTTP has it the request was not at its end when our side ended the connection`]
      : []),
    `longest answer ${Math.round(longest.ms)} ms (request ${longest.index}; ${ANSWER_MS} are allowed); ${memory}`,
  ];
}

/** Formats a failure with the request that caused it, without secrets. */
export function failureLines(where: Where, { index, kind, problem }: Failure): string[] {
  const { bytes } = fuzzRequest(where, index);
  const text = JSON.stringify(bytes.subarray(0, SHOWN_BYTES).toString('latin1'))
    .replaceAll(where.key.apiKeySecret, '<secret>')
    .replaceAll(where.key.apiKeyId, '<id>');
  return [
    `FAILED ${index} (${kind}): ${problem}`,
    `  ${text}${bytes.length > SHOWN_BYTES ? `… ${bytes.length} bytes` : ''}`,
    `  again: npm run fuzz -- --seed ${where.seed} --only ${index}`,
  ];
}

import { expect, it } from 'vitest';
import { ArgumentError, parseBenchArguments } from '../../bench/arguments.ts';

const NAMES = ['first', 'second', 'third'];
const parse = (...argv: string[]) => parseBenchArguments(argv, NAMES);

it('the benchmark command runs all cases with 3 rounds of 10 s warm-up and 30 s measured by default', () => {
  expect(parse()).toEqual({ names: NAMES, json: false, rounds: 3, warmupMs: 10_000, measuredMs: 30_000 });
});

it('the benchmark command runs only the named cases, each once, in the order of the list', () => {
  expect(parse('third', 'first', 'third').names).toEqual(['first', 'third']);
});

it('the benchmark command reads the options of a short run', () => {
  expect(parse('--json', '--seconds', '2.5', '--warmup', '0', '--rounds', '5', 'second')).toEqual({
    names: ['second'],
    json: true,
    rounds: 5,
    warmupMs: 0,
    measuredMs: 2500,
  });
});

it('the benchmark command refuses an unknown case with the list of all cases', () => {
  expect(() => parse('first', 'fourth')).toThrow(
    new ArgumentError('unknown case fourth; the cases are first, second, third'),
  );
});

it.each([
  ['--rounds', '2'],
  ['--rounds', '3.5'],
  ['--seconds', '0'],
  ['--seconds', 'many'],
  ['--warmup', '-1'],
  ['--minutes', '1'],
])('refuses %s %s', (option, value) => {
  expect(() => parse(`${option}=${value}`)).toThrow(ArgumentError);
});

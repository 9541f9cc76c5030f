import { describe, expect, it } from 'vitest';
import { BufferedOutput, type Sink } from '../../shared/process/output.ts';

type Done = Parameters<Sink['send']>[1];

/** Creates a sink whose writes the test settles one by one. */
function setUp() {
  let text = '';
  const open: { bytes: Buffer; done: Done }[] = [];
  const output = new BufferedOutput({
    send: (bytes, done) => void open.push({ bytes, done }),
    sendSync: (bytes) => {
      text += bytes;
    },
  });
  const settle = (written?: number) => {
    const { bytes, done } = open.shift()!;
    text += bytes.subarray(0, written);
    done(null, written ?? bytes.length);
  };
  return {
    output,
    open,
    settle,
    settleAll: () => {
      while (open.length > 0) settle();
    },
    fail: (code: string) => open.shift()!.done(Object.assign(new Error(code), { code }), 0),
    text: () => text,
  };
}

const LINE = `${'x'.repeat(1023)}\n`;

describe('output', () => {
  it('writes lines in order, one write at a time', () => {
    const { output, open, settleAll, text } = setUp();
    for (const line of ['a\n', 'b\n', 'c\n']) output.write(line);
    expect(open).toHaveLength(1);
    settleAll();
    expect(text()).toBe('a\nb\nc\n');
  });

  it('continues a short write where it ended', () => {
    const { output, settle, settleAll, text } = setUp();
    output.write('abc\n');
    settle(2);
    settleAll();
    expect(text()).toBe('abc\n');
  });

  it('drops lines while the reader is stopped, and reports their number between the lines', () => {
    const { output, settleAll, text } = setUp();
    const reports: number[] = [];
    output.onDropped((count) => {
      reports.push(count);
      output.write(`dropped ${count}\n`);
    });
    for (let i = 0; i < 10_000; i++) output.write(LINE);
    const bytesMax = 1024 * 1024 + 64 * 1024;
    settleAll();
    output.write('after\n');
    settleAll();
    expect(reports).toHaveLength(1);
    expect(text().length).toBeLessThan(bytesMax + 100);
    const kept = text().split(LINE).length - 1;
    expect(kept + reports[0]!).toBe(10_000);
    expect(text().endsWith(`\ndropped ${reports[0]}\nafter\n`)).toBe(true);
  });

  it('ends within its timeout when the reader is stopped', async () => {
    const { output, text } = setUp();
    output.write('a\n');
    output.write('b\n');
    await output.end(10);
    output.flushSync();
    expect(text()).toBe('');
  });

  it('ends immediately when nothing can be written', async () => {
    const { output, open, fail } = setUp();
    output.write('a\n');
    fail('ENOSPC');
    output.write('b\n');
    expect(open).toHaveLength(0);
    const ended = output.end(60_000);
    fail('ENOSPC');
    await ended;
  });

  it('ends once everything is written', async () => {
    const { output, settleAll, text } = setUp();
    output.write('a\n');
    output.write('b\n');
    const ended = output.end(60_000);
    settleAll();
    await ended;
    expect(text()).toBe('a\nb\n');
  });

  it('writes waiting lines at the exit of the process', () => {
    const { output, fail, text } = setUp();
    output.write('a\n');
    fail('EPIPE');
    output.write('b\n');
    output.flushSync();
    output.flushSync();
    expect(text()).toBe('a\nb\n');
  });
});

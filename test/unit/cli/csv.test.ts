import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { type InputLine, readLines } from '../../../cli/send/input.ts';
import { KIND_BY_NAME, type SendKindName } from '../../../cli/send/kinds.ts';

async function read(text: string | Buffer, kind: SendKindName = 'agents', delimiter = ',') {
  const warnings: string[] = [];
  const lines: InputLine[] = [];
  const options = {
    format: 'csv' as const,
    kind: KIND_BY_NAME[kind],
    delimiter,
    warn: (sentence: string) => warnings.push(sentence),
  };
  for await (const line of readLines(Readable.from([Buffer.from(text)]), options)) lines.push(line);
  return {
    lines: lines.map((line) =>
      line.problem === undefined ? [line.number, JSON.parse(line.text)] : [line.number, line.problem],
    ),
    warnings,
  };
}

describe('a CSV file', () => {
  it('becomes records: lists, numbers, attributes; empty cells are left out', async () => {
    const { lines, warnings } = await read(
      '\ufeffexternalAgentId,languages,concurrency,attributes.team,attributes.site,shoeSize\r\n' +
        'a1,en-gb; de,3,"blue, or so",,42\r\na2,,many,,north,\r\n\r\n',
    );
    expect(lines).toEqual([
      [
        2,
        {
          externalAgentId: 'a1',
          languages: ['en-gb', 'de'],
          concurrency: 3,
          attributes: [{ name: 'team', value: 'blue, or so' }],
        },
      ],
      [3, { externalAgentId: 'a2', concurrency: 'many', attributes: [{ name: 'site', value: 'north' }] }],
    ]);
    expect(warnings).toEqual(['columns that agents do not have are not sent: shoeSize']);
  });

  it('reads nested members and JSON of events, and other separators', async () => {
    const { lines } = await read(
      'conversationId;externalConversationId;type;occurredAt;reply.messageId;reply.text;inputVariables\n' +
        'C;x;reply;2026-01-01T00:00:00Z;m;Hi;"{""a"": 1}"\n',
      'events',
      ';',
    );
    expect(lines).toEqual([
      [
        2,
        {
          conversationId: 'C',
          externalConversationId: 'x',
          type: 'reply',
          occurredAt: '2026-01-01T00:00:00Z',
          reply: { messageId: 'm', text: 'Hi' },
          inputVariables: { a: 1 },
        },
      ],
    ]);
  });

  it('loses to a broken line only that line, and numbers lines as an editor does', async () => {
    const { lines } = await read(
      Buffer.concat([
        Buffer.from(
          'externalAgentId,agentName\na2,"two\nlines"\na4,"open\na5,five\na6,"more" here\na7,x"y\na8\na9,"open too\n',
        ),
        Buffer.from([0x61, 0xff, 0x2c, 0x62, 0x0a]),
        Buffer.from('a11,"fine"'),
      ]),
    );
    expect(lines).toEqual([
      [2, { externalAgentId: 'a2', agentName: 'two\nlines' }],
      [4, 'opens a quote that is never closed'],
      [5, { externalAgentId: 'a5', agentName: 'five' }],
      [6, expect.stringContaining('closing quote')],
      [7, expect.stringContaining('never closed')],
      [8, 'has 1 cell, the first line names 2 columns'],
      [9, 'opens a quote that is never closed'],
      [10, expect.stringContaining('UTF-8')],
      [11, { externalAgentId: 'a11', agentName: 'fine' }],
    ]);
  });

  it('takes quotes, delimiters and empty cells inside of quotes as RFC 4180 has them', async () => {
    const { lines } = await read(
      'externalAgentId,agentName,jobTitle\n"a","say ""hi"", twice",""\n"b",,"""quoted"""\n"c","x" ,y\n',
    );
    expect(lines).toEqual([
      [2, { externalAgentId: 'a', agentName: 'say "hi", twice' }],
      [3, { externalAgentId: 'b', jobTitle: '"quoted"' }],
      [4, expect.stringContaining('closing quote')],
    ]);
  });

  it.each([
    ['', 'is empty'],
    ['externalAgentId,agentName\ra,b\r', 'end in CR alone'],
    ['name,languages\na,b\n', 'has no column externalAgentId'],
    ['externalAgentId,externalAgentId\na,b\n', 'has the column externalAgentId twice'],
  ])('is refused as a whole: %j', async (text, message) => {
    await expect(read(text)).rejects.toThrow(message);
  });
});

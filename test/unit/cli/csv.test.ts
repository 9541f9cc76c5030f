import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { createTimeReader, parseDateFormat } from '../../../cli/send/dates.ts';
import { readLines } from '../../../cli/send/input.ts';
import type { InputLine, InputOptions } from '../../../cli/send/input-line.ts';
import { KIND_BY_NAME, type SendKindName } from '../../../cli/send/kinds.ts';

async function read(
  text: string | Buffer,
  kind: SendKindName = 'agents',
  delimiter = ',',
  pieceBytes = Number.MAX_SAFE_INTEGER,
  extra: Partial<InputOptions> = {},
) {
  const bytes = Buffer.from(text);
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(bytes.subarray(at, at + pieceBytes));
  const warnings: string[] = [];
  const lines: InputLine[] = [];
  const options = {
    format: 'csv' as const,
    kind: KIND_BY_NAME[kind],
    delimiter,
    readTime: createTimeReader([], 'UTC'),
    ...extra,
    warn: (sentence: string) => warnings.push(sentence),
  };
  for await (const line of readLines(Readable.from(pieces), options)) lines.push(line);
  return {
    lines: lines.map((line) =>
      line.problem === undefined ? [line.number, JSON.parse(line.text)] : [line.number, line.problem],
    ),
    warnings,
  };
}

describe('a CSV file', () => {
  it('is read as records with lists, numbers and attributes, without empty cells', async () => {
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
    expect(warnings).toEqual([
      'columns that agents do not have are not sent: shoeSize; to send one: --map "shoeSize=MEMBER" ' +
        '(--help lists the members), or as an attribute: --map "shoeSize=attributes.shoeSize"',
    ]);
  });

  it('has nested members and JSON for events, and may use other separators', async () => {
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

  it('loses only a malformed line, and numbers lines as an editor does', async () => {
    const { lines } = await read(
      Buffer.concat([
        Buffer.from('externalAgentId,agentName\na2,"two\nlines"\na4\na5,five\n'),
        Buffer.from([0x61, 0xff, 0x2c, 0x62, 0x0a]),
        Buffer.from(`long,${'x'.repeat(2e6)}\na8,"fine"`),
      ]),
    );
    expect(lines).toEqual([
      [2, { externalAgentId: 'a2', agentName: 'two\nlines' }],
      [4, 'has 1 cell, the header names 2 columns'],
      [5, { externalAgentId: 'a5', agentName: 'five' }],
      [6, expect.stringContaining('UTF-8')],
      [7, expect.stringContaining('longer than')],
      [8, { externalAgentId: 'a8', agentName: 'fine' }],
    ]);
  });

  const inner = 'inner,not a record';
  it.each([
    ['a quote that is never closed', `a3,"open\n${inner}\n`, 'never closed'],
    ['a cell of 5000 lines that is never closed', `a3,"open\n${`${inner}\n`.repeat(5000)}`, 'never closed'],
    ['a cell larger than a record may be', `a3,"${`${inner}\n`.repeat(60_000)}"\n`, 'not closed within'],
    [
      'a forgotten quote that the next one closes',
      `a3,"open\na4,four\n"a5","x\n${inner}\ny"\n`,
      'closing quote',
    ],
    ['a forgotten quote and too many cells', `a3,"open\n${inner}\n",x\n`, 'has 3 cells instead of 2'],
    ['a quote in the middle of a cell', `a3,5" x 4"\na4,"two\n${inner}\nlines"\n`, 'middle of a cell'],
    ['text after a closing quote', `a3,"more" here\n${inner}\n`, 'closing quote'],
    ['a CR between quoted cells', `a3,"three"\ra4,"four"\n${inner}\n`, 'has a CR in the middle'],
    ['a CR in a line without quotes', `a3,three\ra4,four\n${inner}\n`, 'has a CR in the middle'],
    ['a CR that no LF follows', `a3,three\r\r\n${inner}\n`, 'has a CR in the middle'],
    ['a CR after a cell of two lines', `a3,"three\r\nlines"\ra4,four\n`, 'has a CR in the middle'],
    ['a forgotten quote that encloses a CR', `a3,"three\ra4,four",x\n${inner}\n`, 'has 3 cells instead of 2'],
    ['a quoted line that is too long', `a3,"${'x'.repeat(2e6)}\n${inner}\n"\n`, 'not closed within'],
    ['a line that is too long and has a quote', `a3,${'x'.repeat(2e6)}"\n${inner}\n"\n`, 'longer than'],
  ])('is refused from %s on', async (_, rest, problem) => {
    const { lines } = await read(`externalAgentId,agentName\na2,two\n${rest}`);
    expect(lines).toEqual([
      [2, { externalAgentId: 'a2', agentName: 'two' }],
      [3, expect.stringMatching(new RegExp(`${problem}.*; nothing from this line on is sent`))],
    ]);
  });

  it('may have a quoted cell of any number of lines', async () => {
    const text = `${inner}\n`.repeat(5000);
    const { lines } = await read(`externalAgentId,agentName\na2,"${text}"\na5003,x\n`);
    expect(lines).toEqual([
      [2, { externalAgentId: 'a2', agentName: text }],
      [5003, { externalAgentId: 'a5003', agentName: 'x' }],
    ]);
  });

  it('keeps every line end inside quotes byte for byte', async () => {
    const { lines } = await read(
      'externalAgentId,agentName\r\na2,"one\r\ntwo\nthree\rfour"\r\n"a5","five"\r\na6,six\r\n',
    );
    expect(lines).toEqual([
      [2, { externalAgentId: 'a2', agentName: 'one\r\ntwo\nthree\rfour' }],
      [5, { externalAgentId: 'a5', agentName: 'five' }],
      [6, { externalAgentId: 'a6', agentName: 'six' }],
    ]);
  });

  it('keeps U+FEFF in cells, but not the byte order mark of the file', async () => {
    const { lines } = await read('\ufeffexternalAgentId,agentName\r\n\ufeffa2,"\ufeffone\r\n\ufefftwo"\r\n');
    expect(lines).toEqual([[2, { externalAgentId: '\ufeffa2', agentName: '\ufeffone\r\n\ufefftwo' }]]);
  });

  it.each([
    ['blank lines', '\n\r\n \nexternalAgentId,agentName\na5,five\n', 5],
    ['rows of empty cells', ',\n,\nexternalAgentId,agentName\na4,four\n', 4],
    ['a separator', 'sep=;\nexternalAgentId;agentName\na3;"x;y"\n', 3],
    [
      'a mark, a quoted separator and a blank line',
      '\ufeff"sep=|"\r\n\r\nexternalAgentId|agentName\r\na|b\r\n',
      4,
    ],
    ['a separator that is the default', 'SEP=,\nexternalAgentId,agentName\na3,x\n', 3],
  ])('reads a header after %s', async (_, text, number) => {
    const { lines } = await read(text);
    expect(lines).toEqual([[number, { externalAgentId: expect.any(String), agentName: expect.any(String) }]]);
  });

  it('is read on after a second header, which is reported by name', async () => {
    const header = 'externalAgentId,agentName\n';
    const { lines } = await read(`${header}a2,two\n\ufeff${header}agentName,externalAgentId\na5,agentName\n`);
    expect(lines).toEqual([
      [2, { externalAgentId: 'a2', agentName: 'two' }],
      [3, expect.stringContaining('second header')],
      [4, expect.stringContaining('second header')],
      [5, { externalAgentId: 'a5', agentName: 'agentName' }],
    ]);
  });

  it('loses only the quoted record that is not UTF-8', async () => {
    const { lines } = await read(
      Buffer.concat([
        Buffer.from('externalAgentId,agentName\n"a'),
        Buffer.from([0xff]),
        Buffer.from('","x\ny"\na4,z'),
      ]),
    );
    expect(lines).toEqual([
      [2, expect.stringContaining('UTF-8')],
      [4, { externalAgentId: 'a4', agentName: 'z' }],
    ]);
  });

  it('gives the same records in pieces of any size', async () => {
    const text =
      '\ufeff\r\nsep=;\r\nexternalAgentId;agentName\r\na4;"é;\r\n""q"""\r\n\r\na7;x\r\nalone\r\na9;"\ufeff"\r\na10;"open\r\n';
    const whole = await read(text);
    expect(whole.lines.map(([number]) => number)).toEqual([4, 7, 8, 9, 10]);
    for (const size of [1, 2, 3, 7, 64]) expect(await read(text, 'agents', ',', size)).toEqual(whole);
  });

  it('may quote quotes, delimiters and empty cells as in RFC 4180', async () => {
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
    ['"externalAgentId","agentName"\r"a","b"\r', 'end in CR alone'],
    ['externalAgentId,agentName\ra,"b"\r', 'end in CR alone'],
    ['name,languages\na,b\n', 'has no column externalAgentId'],
    ['externalAgentId,externalAgentId\na,b\n', 'has the column externalAgentId twice'],
  ])('is refused as a whole: %j', async (text, message) => {
    await expect(read(text)).rejects.toThrow(message);
  });

  const spreadsheet = (text: string, mappings: [column: string, member: string][], formats: string[] = []) =>
    read(text, 'agents', ',', undefined, {
      mappings: mappings.map(([column, member]) => ({ column, member })),
      readTime: createTimeReader(
        formats.map((format) => parseDateFormat(format)!),
        'Europe/Berlin',
      ),
    });

  it('may have columns with other names, which are mapped to members and attributes', async () => {
    const { lines, warnings } = await spreadsheet('"Employee\nID",Desk  No,Team\nDE 1,4.17,Blue\n', [
      ['Employee ID', 'externalAgentId'],
      ['Desk No', 'attributes.desk'],
    ]);
    expect(lines).toEqual([[3, { externalAgentId: 'DE 1', attributes: [{ name: 'desk', value: '4.17' }] }]]);
    expect(warnings).toEqual([expect.stringContaining('are not sent: Team; to send one: --map "Team=')]);
  });

  it.each([
    [
      [['Employee No', 'externalAgentId']],
      '--map names the column "Employee No", but the header has "Employee ID", "Name"',
    ],
    [[], 'or map other names, such as --map "COLUMN=externalAgentId"'],
    [
      [
        ['Employee ID', 'externalAgentId'],
        ['Name', 'externalAgentId'],
      ],
      'has two columns for externalAgentId: "Employee ID" and "Name"',
    ],
  ] as [[string, string][], string][])(
    'is refused with the mapping %j, and the columns are named',
    async (mappings, message) => {
      await expect(spreadsheet('Employee ID,Name\n1,x\n', mappings)).rejects.toThrow(message);
    },
  );

  it('is refused with the separator that it seems to have', async () => {
    await expect(read('externalAgentId;agentName\na;b\n')).rejects.toThrow("--delimiter ';'");
    await expect(read('externalAgentId\tagentName\na\tb\n')).rejects.toThrow('--delimiter tab');
    await expect(read('"a;""b"";c"x\n')).rejects.toThrow('--delimiter');
  });

  it('loses only the lines whose times cannot be read, with column, value and option', async () => {
    const { lines } = await spreadsheet(
      'externalAgentId,Start,ranking\na1,31.01.2026,\na2,1/31/2026,x\na3,2026-01-31T00:00:00Z,\n',
      [['Start', 'startTs']],
      ['DD.MM.YYYY'],
    );
    expect(lines).toEqual([
      [2, { externalAgentId: 'a1', startTs: '2026-01-30T23:00:00Z' }],
      [
        3,
        'column Start (startTs): "1/31/2026" is not a date in the format DD.MM.YYYY: add --date-format "MM/DD/YYYY"; ' +
          'column ranking: "x" must be a whole number from -2147483648 to 2147483647',
      ],
      [4, { externalAgentId: 'a3', startTs: '2026-01-31T00:00:00Z' }],
    ]);
  });

  it('shows only values of the file in the problems of a line', async () => {
    const { lines } = await read(
      'messageId,augmentationType,occurredAt,numEdits\nm1,FREEHAND,yesterday,\nm2,FREEHAND,yesterday,x\n',
      'messages',
    );
    const time = 'column occurredAt: "yesterday" is not a time such as 2026-01-31T08:30:00Z';
    expect(lines).toEqual([
      [2, time],
      [3, expect.stringMatching(new RegExp(`^${time}; column numEdits: "x" must be [^;]*$`))],
    ]);
  });
});

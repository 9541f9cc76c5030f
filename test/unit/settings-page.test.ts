import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { generatedFiles } from '../../docs/generate/files.ts';
import { stackDefaults, stackPart } from '../../docs/generate/stack.ts';

/** Returns the variable in the syntax of compose files. */
const variable = (rest: string) => `\${STACK_${rest}}`;

describe('files made by `npm run docs`', () => {
  it.each(Object.entries(generatedFiles()))('%s is as it would be made now', (path, content) => {
    expect(readFileSync(path, 'utf8'), 'run `npm run docs`').toBe(content);
  });

  it('say of the variables of the compose files what the files say', () => {
    const text = ['A:?say how', 'B:--Xms1m -Xmx2m', 'C-', 'B:--Xms1m -Xmx2m'].map(variable).join(', ');
    expect([...stackDefaults([text])]).toEqual([
      ['STACK_A', undefined],
      ['STACK_B', '-Xms1m -Xmx2m'],
      ['STACK_C', ''],
    ]);
    expect(() => stackDefaults([variable('A:-1'), variable('A:-2')])).toThrow('STACK_A has two defaults');
  });

  it('leave no variable of the compose files out', () => {
    expect(() => stackPart([variable('OTHER:-1')])).toThrow(/STACK_OTHER.*STACK_IMAGE/);
  });
});

import { expect, it } from 'vitest';
import { JsonSyntaxError } from '../../../shared/contracts/json.ts';

it('an error in data has no stack trace, and later errors have one', () => {
  expect(new JsonSyntaxError('is not valid UTF-8').stack).not.toContain('stackless-error.test.ts');
  expect(new Error('a defect').stack).toContain('stackless-error.test.ts');
});

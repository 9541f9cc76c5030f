import { expect, it } from 'vitest';
import { ERRORS, type ErrorCode, errorEnvelope } from '../../../shared/contracts/errors.ts';
import { MESSAGES } from '../../conformance/check.ts';

it('the table of errors has the codes and messages of the interface', () => {
  expect(Object.fromEntries(Object.entries(ERRORS).map(([code, { message }]) => [code, message]))).toEqual(
    MESSAGES,
  );
});

it.each(Object.entries(ERRORS))('error code %s begins with its HTTP status', (code, { status }) => {
  expect(code).toBe(`${status}-01`);
});

it('a misspelt error code does not compile', () => {
  // @ts-expect-error: no such code.
  const misspelt: ErrorCode = '400-1';
  expect(Object.keys(ERRORS)).not.toContain(misspelt);
  expect(errorEnvelope('r', '409-01').error).toEqual({ requestId: 'r', code: '409-01', message: 'Conflict' });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { runSluice } from '../support/command.ts';
import { CONFLICT_CASES, type ConflictCase } from '../support/conflict-cases.ts';
import type { Product } from '../support/product.ts';
import { waitFor } from '../support/wait.ts';

/**
 * Tests how callers and operators see two contents under one id, with the real log and with kill -9
 * of the processes that cache ids.
 */
export function describeConflicts<P extends Product>(
  name: string,
  start: () => Promise<P>,
  more: (product: () => P, tools: ConflictTools) => void = () => {},
): void {
  describe(`conflicts on ${name}`, () => {
    let product: P;
    beforeAll(async () => {
      product = await start();
    }, 90_000);
    afterAll(() => product?.stop());

    const nextId = createUlidGenerator(systemClock);
    const tools: ConflictTools = {
      nextId,
      async send({ path, body, outcome }, id, content, baseUrl = product.baseUrl) {
        const response = await fetch(`${baseUrl}${path}`, {
          method: 'POST',
          headers: {
            'service-api-id': product.apiKeyId,
            'service-api-secret': product.apiKeySecret,
            'content-type': 'application/json',
          },
          body: JSON.stringify(body(id, content)),
        });
        return outcome(response.status, await response.text());
      },
      async json(args) {
        const { code, stdout, stderr } = await runSluice(`${args} --json`, product.commandEnv!);
        if (code !== 0) throw new Error(stderr);
        return JSON.parse(stdout);
      },
      stored: (id, conflicts) =>
        waitFor(
          async () =>
            (await tools.json(`events show ${id}`)).find(
              (event: { conflicts: number }) => event.conflicts === conflicts,
            ),
          { timeoutMs: 30_000, what: `${id} with ${conflicts} conflicts` },
        ),
    };
    const { send, json, stored } = tools;

    it('20 concurrent requests with two contents of an id: one content is accepted, the other refused with a conflict', async () => {
      for (const conflict of CONFLICT_CASES) {
        const id = nextId();
        const outcomes = await Promise.all(Array.from({ length: 20 }, (_, i) => send(conflict, id, i % 2)));
        const winner = outcomes.indexOf('accepted') % 2;
        expect(outcomes).toEqual(outcomes.map((_, i) => (i % 2 === winner ? 'accepted' : 'conflict')));
        expect(await stored(id, 0)).toMatchObject({ kind: conflict.kind, status: 'stored' });
        expect(await conflict.stored(product.pool, product.tenantId, id)).toEqual([winner]);
      }
    });

    it('after kill -9 of the gateway, different content is refused or dead-lettered, and the first content stays', async () => {
      const ids = new Map(CONFLICT_CASES.map((conflict) => [conflict, nextId()]));
      for (const [conflict, id] of ids) {
        expect(await send(conflict, id, 1)).toBe('accepted');
        await stored(id, 0);
      }
      await product.killAndRestart(product.parts[0]!);
      for (const [conflict, id] of ids) {
        // The first look-up of a process may exceed its time limit. The worker finds the conflict
        // instead.
        const outcome = await send(conflict, id, 2);
        expect(outcome).toBe(conflict.lookedUp && outcome !== 'accepted' ? 'conflict' : 'accepted');
        if (outcome === 'conflict') continue;
        const event = await stored(id, 1);
        expect(event.status).toBe('stored');
        const firstPosition = event.lastConflict.deadLetter;
        const [letter, ...others] = await json(`dead-letters show ${firstPosition}`);
        expect(others).toEqual([]);
        expect(letter).toMatchObject({ firstPosition, id, reason: 'conflict', kind: conflict.kind });
        expect(conflict.numberIn(letter.value.data)).toBe(2);
        expect(
          (await json('dead-letters list --reason conflict')).map(
            (found: { firstPosition: string }) => found.firstPosition,
          ),
        ).toContain(firstPosition);
        expect(await conflict.stored(product.pool, product.tenantId, id)).toEqual([1]);
      }
    }, 120_000);

    more(() => product, tools);
  });
}

export interface ConflictTools {
  nextId(): string;
  send(conflict: ConflictCase, id: string, content: number, baseUrl?: string): Promise<string>;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  json(args: string): Promise<any>;
  /** Waits until the id has this number of conflicts. Resolves with its entry in `events show`. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  stored(id: string, conflicts: number): Promise<any>;
}

import { describe, expect, it } from 'vitest';
import { describeEventTypes } from '../../shared/contracts/event-types.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { webhookProblems } from '../support/webhook-schemas.ts';

const [started, reply] = describeEventTypes().map(({ example }) => example as never as Received);

interface Received {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

describe('the check of webhooks in tests', () => {
  it.each(describeEventTypes())('accepts the example of $type', ({ example }) => {
    expect(webhookProblems(example as never)).toEqual([]);
    expect(webhookProblems({ ...example, sample: true } as never)).toEqual([]);
  });

  it.each([
    ['a missing member', { ...reply!, data: started!.data }, "/data must have required property 'reply'"],
    [
      'an undescribed member of data',
      { ...started!, data: { ...started!.data, new: 1 } },
      'new is not described',
    ],
    ['an undescribed member', { ...started!, new: 1 }, 'new is not described'],
    ['another form of time', { ...started!, timestamp: 'now' }, '/timestamp must match'],
    [
      'an unknown type',
      { ...started!, type: 'automation.new' },
      'the type automation.new is not in the catalogue',
    ],
  ])('rejects %s', (_, body, problem) => {
    expect(webhookProblems(body).join('; ')).toContain(problem);
  });

  it('makes the receiver of a suite fail', async () => {
    const send = async (receiver: Receiver, type: string) => {
      const headers = { 'webhook-signature': 'v1,' };
      await fetch(receiver.url, { method: 'POST', headers, body: JSON.stringify({ type, data: {} }) });
      return await receiver.close().catch((error: Error) => error.message);
    };
    expect(await send(await startReceiver(), 'automation.reply')).toMatch(
      /^webhooks without a matching schema: /,
    );
    expect(await send(await startReceiver({ eventsOfTest: true }), 'automation.reply')).toBeUndefined();
    expect(await send(await startReceiver({ eventsOfTest: true }), 'webhook.new')).toContain('webhook.new');
  });
});

import { expect, it } from 'vitest';
import { createAdminTestApp } from '../../support/admin-app.ts';
import { SECRET } from '../../support/gateway-app.ts';

it.each(['/admin/v1/keys', '/admin/v1/keys/key-1/rotate', '/admin/v1/webhooks'])(
  'POST %s does nothing for a key that was revoked while its body arrived',
  async (path) => {
    const key = { revoked: false };
    const app = createAdminTestApp(['*'], key);
    const post = async (body: ReadableStream<Uint8Array>) => {
      const response = await app.request(path, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'service-api-id': 'key-1',
          'service-api-secret': SECRET,
        },
        body,
        duplex: 'half',
      } as RequestInit);
      return response.status;
    };
    const bodyThat = (onRead: () => void) =>
      new ReadableStream<Uint8Array>(
        {
          pull(controller) {
            onRead();
            const body = { scopes: ['events:read'], url: 'https://example.com/' };
            controller.enqueue(new TextEncoder().encode(JSON.stringify(path.endsWith('rotate') ? {} : body)));
            controller.close();
          },
        },
        { highWaterMark: 0 },
      );
    const reached = await post(bodyThat(() => {}));
    expect(reached).not.toBe(401);
    const refused = await post(
      bodyThat(() => {
        key.revoked = true;
      }),
    );
    expect(refused).toBe(401);
  },
);

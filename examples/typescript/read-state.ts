import { call } from './sluice.ts';

const externalId = 'chat-1';
const { status, text } = await call(
  'GET',
  `/automation-agent/v1/state?externalId=${encodeURIComponent(externalId)}`,
);
if (status === 200) console.log(JSON.parse(text).state);
else console.log(status === 404 ? 'no state reported yet' : `refused: ${status} ${text}`);

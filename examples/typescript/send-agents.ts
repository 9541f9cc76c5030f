import { sendAgents } from './sluice.ts';

const refused = await sendAgents([
  { externalAgentId: 'ada', eventId: 'ts-ada-1', agentName: 'Ada', languages: ['en-gb'], concurrency: 3 },
  { externalAgentId: 'ada', eventId: 'ts-ada-2', jobTitle: 'Lead', languages: ['en-gb', 'fr'] },
  { externalAgentId: 'grace', eventId: 'ts-grace-1', concurrency: -1 },
]);
for (const { agent, error } of refused) console.log(`${agent.eventId}: ${error}`);

import { readFileSync } from 'node:fs';
import { adminDocument } from '../../admin/openapi.ts';
import { asyncApiDocument } from '../../gateway/documents/asyncapi.ts';
import { gatewayDocument } from '../../gateway/openapi.ts';
import { withAnswerMembers } from './answer-members.ts';
import { dashboards } from './dashboards/dashboards.ts';
import { withEventTypes } from './event-types.ts';
import { metricsPage } from './metrics.ts';
import { requestsPage } from './requests.ts';
import { envExample, settingsPage } from './settings.ts';
import { stackSection } from './stack.ts';

const COMPOSE_FILES = ['docker-compose.yml', 'docker-compose.cluster.yml'];

/** Returns the content of every generated file by its path from the root. */
export function generatedFiles(): Readonly<Record<string, string>> {
  const stack = stackSection(COMPOSE_FILES.map((file) => readFileSync(file, 'utf8')));
  return {
    'docs/settings.md': settingsPage(stack),
    'docs/metrics.md': metricsPage(),
    'docs/requests.md': requestsPage(gatewayDocument(), adminDocument()),
    'docs/webhooks.md': withEventTypes(
      withAnswerMembers(readFileSync('docs/webhooks.md', 'utf8'), adminDocument()),
    ),
    '.env.example': envExample(),
    'docs/openapi.json': json(gatewayDocument()),
    'docs/asyncapi.json': json(asyncApiDocument()),
    'docs/openapi-admin.json': json(adminDocument()),
    ...Object.fromEntries(Object.entries(dashboards()).map(([path, dashboard]) => [path, json(dashboard)])),
  };
}

function json(document: object): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}

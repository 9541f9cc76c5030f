import { spawnSync } from 'node:child_process';

/**
 * Returns whether prometheus and promtool are installed. If not, prints what was not tested, or
 * throws if SLUICE_TEST_REQUIRE_PROMETHEUS is set.
 */
export function hasPrometheus(): boolean {
  if (['prometheus', 'promtool'].every((program) => spawnSync(program, ['--version']).status === 0))
    return true;
  const text = 'alerts and dashboards were not tested: install prometheus (apt-get install prometheus)';
  if (process.env.SLUICE_TEST_REQUIRE_PROMETHEUS) throw new Error(text);
  console.log(`Skipped: ${text}`);
  return false;
}

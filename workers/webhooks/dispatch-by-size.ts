import { LARGE_FROM, runUrgent } from '../../shared/map-in-slices.ts';
import { type DispatchContext, type Dispatched, dispatchEndpoints, type EndpointWork } from './dispatch.ts';

/**
 * Dispatches endpoints. A dispatch of few deliveries goes before large work of the process, because
 * its latency is that of single webhooks.
 */
export function dispatchBySize(
  context: DispatchContext,
  works: readonly EndpointWork[],
): Promise<(Dispatched | undefined)[]> {
  const dispatch = () => dispatchEndpoints(context, works);
  const deliveries = works.reduce((sum, { attempts, unsent }) => sum + attempts.length + unsent.length, 0);
  return deliveries < LARGE_FROM ? runUrgent(dispatch) : dispatch();
}

/** The steps of an erasure, in order; tests stop at each step. */
export type ErasureStep =
  | 'recorded'
  | 'known'
  | 'webhooks'
  | 'dead-letters'
  | 'entities'
  | 'credentials'
  | 'messages'
  | 'counts'
  | 'finished';

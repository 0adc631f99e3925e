export type Random = () => number;

const RECONNECT_STEPS_MS = [0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
const PUBLISH_FIRST_MS = 100;
const PUBLISH_MAX_MS = 3_000;

/** ± 20 %, so that clients cut off together do not come back together. */
function jitter(ms: number, random: Random): number {
  return Math.round(ms * (0.8 + 0.4 * random()));
}

/** Wait before reconnect number `attempt` (0 = the first): at once, then 1, 2, 4, 8 … 30 s (R-GW-7). */
export function reconnectDelayMs(attempt: number, random: Random = Math.random): number {
  return jitter(RECONNECT_STEPS_MS[Math.min(attempt, RECONNECT_STEPS_MS.length - 1)] ?? 0, random);
}

/** Wait after refusal number `refusals` (1 = the first) of a publish: the server's word, else 100 ms … 3 s (R-GW-4). */
export function publishDelayMs(refusals: number, retryAfterMs: number, random: Random = Math.random): number {
  const own = Math.min(PUBLISH_MAX_MS, PUBLISH_FIRST_MS * 2 ** Math.min(Math.max(refusals - 1, 0), 10));
  if (retryAfterMs <= 0) return jitter(own, random);
  // The server's time is a floor: jitter only adds to it.
  return Math.max(PUBLISH_FIRST_MS, retryAfterMs + Math.round(0.2 * retryAfterMs * random()));
}

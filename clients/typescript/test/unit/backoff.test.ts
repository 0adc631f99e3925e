import assert from "node:assert/strict";
import { test } from "node:test";

import { publishDelayMs, reconnectDelayMs } from "../../src/backoff.js";
import { closeName, reconnects } from "../../src/errors.js";

// R-GW-7
test("reconnect: at once, then 1, 2, 4, 8 … 30 s", () => {
  const delays = Array.from({ length: 9 }, (_, attempt) => reconnectDelayMs(attempt, () => 0.5));
  assert.deepEqual(delays, [0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
});

test("reconnect: jitter spreads by a fifth each way", () => {
  assert.equal(reconnectDelayMs(3, () => 0), 3_200);
  assert.equal(reconnectDelayMs(3, () => 1), 4_800);
});

// R-GW-4
test("refused publish: the server's time is a floor, else 100 ms doubling to 3 s", () => {
  assert.deepEqual([1, 2, 3, 6, 60].map((refusals) => publishDelayMs(refusals, 0, () => 0.5)), [100, 200, 400, 3_000, 3_000]);
  assert.equal(publishDelayMs(1, 700, () => 0), 700);
  assert.ok(publishDelayMs(9, 50, () => 0) >= 100);
});

test("close codes: 4000–4499 reconnect, 4500–4999 do not", () => {
  assert.deepEqual([1006, 4000, 4003, 4499, 4500, 4501, 4999].map(reconnects), [true, true, true, true, false, false, false]);
  assert.equal(closeName(4500), "session_replaced");
});

/** Refreshes that are paced. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { Paced } from "../src/views/paced.ts";

test("requests that come faster than the interval are joined, and none is lost", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
  const ran: number[] = [];
  const paced = new Paced(() => ran.push(Date.now() - 1_000_000), 400);
  for (let time = 0; time < 5000; time += 20) {
    if (time < 1000) paced.call();
    context.mock.timers.tick(20);
  }
  assert.deepEqual(ran, [20, 420, 820, 1220]);
});

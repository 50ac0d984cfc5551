// When reports of handlers are sent: steps at once, progress at most every 100 ms.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { Attempt } from "../src/attempt.js";
import type { Core } from "../src/core.js";
import { Reporter } from "../src/reporter.js";

interface Rig {
  attempt: Attempt;
  reporter: Reporter;
  renewals: string[];
}

function rig(): Rig {
  const renewals: string[] = [];
  const core = {
    readTimeoutMs: 1000,
    callText: async (_request: unknown, body: string) => {
      renewals.push(body);
      return { renewed: [{ id: "1" }] };
    },
  } as unknown as Core;
  const attempt = {
    id: "1",
    claimed: { token: "1" },
    reports: [],
    nextSeq: 0,
    lost: false,
  } as unknown as Attempt;
  const unwanted = () => assert.fail("no lease is lost and no job is cancelled");
  const options = { core, worker: "w", leaseMs: 30_000, lost: unwanted, cancel: unwanted };
  return { attempt, reporter: new Reporter(options), renewals };
}

// Reports a step. Returns whether the answer came without any timer.
async function step({ attempt, reporter }: Rig, name: string): Promise<boolean> {
  let answered = false;
  const answer = () => (answered = true);
  attempt.reports.push({ type: "memo", name, json: "1", answer } as never);
  reporter.soon(attempt, true);
  for (let turn = 0; turn < 20 && !answered; turn += 1) await new Promise(setImmediate);
  return answered;
}

test("many steps in a row do not wait for the pause of progress", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const one = rig();
    for (let i = 0; i < 5; i += 1) assert.ok(await step(one, `s${i}`), `step ${i} waits`);
    assert.equal(one.renewals.length, 5);
  } finally {
    mock.timers.reset();
  }
});

test("a step ends the pause in which only progress waits", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const one = rig();
    // Progress that changes while a renewal is under way is sent after the pause.
    const renewed = one.renewals.push.bind(one.renewals);
    one.renewals.push = (body) => {
      one.attempt.newProgress = { value: one.renewals.length } as never;
      one.reporter.soon(one.attempt, false);
      return renewed(body);
    };
    assert.ok(await step(one, "first"));
    assert.ok(await step(one, "second"), "it waits for the pause");
    assert.equal(one.renewals.length, 2);
    one.reporter.stop();
  } finally {
    mock.timers.reset();
  }
});

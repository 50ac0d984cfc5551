// Responses that are lost, broken or unknown: they never become an outcome.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";

import {
  defineJob,
  type JobContext,
  type LogFields,
  type Logger,
  Mainspring,
  TimedOut,
  type Worker,
} from "@mainspring-jobs/client";
import { silent } from "@mainspring-jobs/client/testing";

import type { Attempt } from "../src/attempt.js";
import { now } from "../src/clock.js";
import { Overdue } from "../src/overdue.js";
import { VERSION } from "../src/versions.js";
import { type Asked, eventually, type Fake, fakeServer, json } from "./fake.js";

type Answer = (asked: Asked, response: ServerResponse, count: number) => void;

const claimed = (id: number, more: Record<string, unknown> = {}) => ({
  ...{
    id,
    token: 10 + id,
    attempt: 1,
    max_attempts: 20,
    queue: "q",
    kind: "k",
    args: {},
    priority: 5,
  },
  ...{ timeout_ms: 900_000, lease_expires_in_ms: 30_000, ...more },
});
const k = defineJob("k", { queue: "q" });

/** A server that gives `jobs` once, and answers finishes and renewals as the test says. */
async function withWorker(
  answers: {
    jobs?: unknown[];
    claim?: Answer;
    finish?: Answer;
    renew?: Answer;
    version?: Answer;
    handler?: (context: JobContext) => unknown;
  },
  run: (fake: Fake, worker: Worker, lines: string[]) => Promise<void>,
): Promise<void> {
  let given = false;
  const fake = await fakeServer((asked, response, count) => {
    if (asked.path === "/v1/version") {
      if (answers.version) return answers.version(asked, response, count);
      return json(response, 200, { name: "mainspring", version: VERSION, api: "v1" });
    }
    if (asked.path === "/v1/claim" && answers.claim) return answers.claim(asked, response, count);
    if (asked.path === "/v1/claim" && !given) {
      given = true;
      return json(response, 200, { jobs: answers.jobs ?? [claimed(1)] });
    }
    if (asked.path === "/v1/claim/end") return json(response, 200, { ended: 0 });
    if (asked.path === "/v1/finish" && answers.finish)
      return answers.finish(asked, response, count);
    if (asked.path === "/v1/renew" && answers.renew) return answers.renew(asked, response, count);
    if (asked.path === "/v1/claim")
      return void setTimeout(() => json(response, 200, { jobs: [] }), 100);
    json(response, 200, { results: [{ id: 1, status: "ok" }], renewed: [] });
  });
  const lines: string[] = [];
  const line = (message: string, fields: LogFields = {}) =>
    void lines.push(`${message} ${String(fields["error"] ?? "")} ${String(fields["versions"] ?? "")}`);
  const log: Logger = { ...silent, warn: line, error: line };
  const ms = new Mainspring(fake.url, { log });
  const worker = ms.worker({ lease: "1s", slots: 4 }).on(k, answers.handler ?? (() => 1));
  try {
    await run(fake, worker, lines);
  } finally {
    await worker.stop({ timeout: "300ms" });
    ms.close();
    fake.close();
  }
}

const finishes = (fake: Fake) => fake.asked.filter(({ path }) => path === "/v1/finish");
const results = (asked: Asked | undefined) =>
  (JSON.parse(asked?.body ?? "{}") as { results: unknown }).results;

test("a finish is sent again, unchanged, until its response is valid", async () => {
  const broken: Answer[] = [
    (_, response) => void response.destroy(),
    (_, response) => json(response, 404, "<html>no such page</html>"),
    (_, response) => json(response, 200, { results: [] }),
    (_, response) => json(response, 200, { results: [{ id: 2, status: "ok" }] }),
    (_, response) => json(response, 200, { results: [{ id: 1, status: "banana" }] }),
    (_, response) => json(response, 500, { error: { code: "internal", message: "?" } }),
  ];
  const finish: Answer = (asked, response, count) => {
    const one = broken[count - 1];
    if (one) return one(asked, response, count);
    json(response, 200, { results: [{ id: 1, status: "ok" }] });
  };
  await withWorker({ finish }, async (fake, worker) => {
    await eventually(() => worker.stats.completed === 1, "the outcome is taken", 30_000);
    const sent = finishes(fake);
    assert.equal(sent.length, broken.length + 1);
    for (const one of sent) assert.deepEqual(results(one), results(sent[0]));
    assert.deepEqual([worker.stats.stale, worker.stats.refused], [0, 0]);
  });
});

test("a claim that is refused with a finish does not spoil the finish", async () => {
  const finish: Answer = (asked, response) => {
    if (asked.body.includes('"claim"'))
      return json(response, 403, { error: { code: "forbidden", message: "claim" } });
    json(response, 200, { results: [{ id: 1, status: "ok" }] });
  };
  const claim: Answer = (_, response, count) =>
    json(response, 200, { jobs: count === 1 ? [claimed(1)] : [] });
  await withWorker({ finish, claim }, async (_, worker) => {
    await eventually(() => worker.stats.completed === 1, "the outcome is taken");
  });
});

test("one outcome that is refused does not spoil the others of its batch", async () => {
  const finish: Answer = (asked, response) => {
    const sent = results(asked) as { id: number }[];
    if (sent.some(({ id }) => id === 2))
      return json(response, 400, { error: { code: "invalid_argument", message: "no" } });
    json(response, 200, { results: sent.map(({ id }) => ({ id, status: "ok" })) });
  };
  await withWorker({ finish, jobs: [claimed(1), claimed(2), claimed(3)] }, async (_, worker) => {
    await eventually(
      () => worker.stats.completed === 2 && worker.stats.refused === 1,
      "two of three",
    );
  });
});

test("a part that is over its limit makes the job dead, once", async () => {
  const finish: Answer = (asked, response) => {
    const [one] = results(asked) as { id: number; outcome: string }[];
    const error = {
      code: "too_large",
      message: "result has too many bytes",
      field: "results[0].result",
    };
    json(response, 200, {
      results: [
        one?.outcome === "dead" ? { id: 1, status: "ok" } : { id: 1, status: "refused", error },
      ],
    });
  };
  await withWorker({ finish }, async (fake, worker) => {
    await eventually(() => worker.stats.dead === 1, "the job is dead");
    assert.match(
      finishes(fake).at(-1)?.body ?? "",
      /"reason":"outcome_refused","description":"result has too many bytes"/,
    );
  });
});

test("an outcome that the server refuses by name makes the job dead, once", async () => {
  const finish: Answer = (asked, response) => {
    const sent = results(asked) as { id: number; outcome: string }[];
    const at = sent.findIndex(({ id, outcome }) => id === 2 && outcome !== "dead");
    if (at >= 0) {
      const error = { code: "invalid_argument", message: "too deep", field: `results[${at}].result` };
      return json(response, 400, { error });
    }
    json(response, 200, { results: sent.map(({ id }) => ({ id, status: "ok" })) });
  };
  await withWorker({ finish, jobs: [claimed(1), claimed(2), claimed(3)] }, async (fake, worker) => {
    await eventually(
      () => worker.stats.completed === 2 && worker.stats.dead === 1,
      "two are done and one is dead",
    );
    assert.match(
      finishes(fake).at(-1)?.body ?? "",
      /"id":2,.*"reason":"outcome_refused","description":"too deep"/,
    );
  });
});

test("whatever a handler throws ends its attempt as failed and frees its slot", async () => {
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const odd: unknown[] = [
    Object.create(null),
    { toString: () => Object.create(null) as string },
    Object.defineProperty(new Error("x"), "stack", { get: () => assert.fail("no stack") }),
    Object.assign(new Error("x"), { stack: 5 }),
    Symbol("s"),
    undefined,
    revoked.proxy,
    "\ud800 \udc00 \ud83d\ude00",
    "a" + "\ud83d\ude00".repeat(20_000),
  ];
  const sent: { outcome: string; error: string }[] = [];
  const finish: Answer = (asked, response) => {
    const some = results(asked) as { id: number; outcome: string; error: string }[];
    sent.push(...some);
    json(response, 200, { results: some.map(({ id }) => ({ id, status: "ok" })) });
  };
  const handler = ({ job }: { job: { id: string } }) => {
    throw odd[Number(job.id) - 1];
  };
  const jobs = odd.map((_, i) => claimed(i + 1));
  await withWorker({ finish, handler, jobs }, async (_, worker) => {
    await eventually(() => worker.stats.failed === odd.length, "each attempt has failed");
    assert.equal(worker.stats.running, 0);
    for (const { outcome, error } of sent) {
      assert.equal(outcome, "retry");
      assert.equal(Buffer.from(error).toString(), error); // no half of a surrogate pair
    }
  });
});

test("claims: an invalid response gives no jobs, and the worker claims again", async () => {
  const claim: Answer = (_, response, count) => {
    if (count === 1) return json(response, 200, "[]");
    if (count === 2) return json(response, 200, { jobs: "none" });
    if (count === 3)
      return json(response, 200, {
        jobs: [{ id: 1, kind: "k" }, { ...claimed(2), token: -1 }, 7, claimed(1)],
      });
    setTimeout(() => json(response, 200, { jobs: [] }), 50);
  };
  const ran: string[] = [];
  const handler = ({ job }: { job: { id: string } }) => void ran.push(job.id);
  await withWorker({ claim, handler }, async (_, worker, lines) => {
    await eventually(() => worker.stats.completed === 1, "the good one is done");
    assert.deepEqual(ran, ["1"]);
    assert.equal(lines.filter((line) => line.includes("makes no sense")).length, 3);
  });
});

test("renewals: one broken response loses nothing; without any response the lease ends and the handler is aborted", async () => {
  let reason: unknown;
  let told = 0;
  const begin = performance.now();
  const renew: Answer = (_, response, count) => {
    if (count === 1) return json(response, 200, { renewed: "?", lost: "1", cancel: { 1: true } });
    if (count === 2)
      return json(response, 200, {
        renewed: [{ id: 1, lease_expires_in_ms: "30000" }],
        lost: [99],
      });
    response.destroy();
  };
  const handler = async ({ signal }: { signal: AbortSignal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    told = performance.now() - begin;
    reason = signal.reason;
  };
  await withWorker(
    { renew, handler, jobs: [claimed(1, { lease_expires_in_ms: 10_000 })] },
    async (fake, worker) => {
      await eventually(() => reason !== undefined, "the handler is aborted", 60_000);
      assert.match(String(reason), /LeaseLost: job 1: .*could not be renewed in time/);
      assert.ok(
        told > 7000 && told < 10_000,
        `${told} ms: before the server gives it away, not much before`,
      );
      await eventually(() => worker.stats.stale === 1, "the outcome is dropped");
      assert.equal(finishes(fake).length, 0);
    },
  );
});

test("a handler that does not end: a line each minute, and the end of the worker if that is wanted", () => {
  const lines: LogFields[] = [];
  const error = (_: string, fields: LogFields = {}) => void lines.push(fields);
  const job = { id: "1", queue: "q", kind: "k", attempt: 2 };
  const stopReason = new TimedOut("x");
  const attempt = { started: true, ended: false, slots: 2, claimed: { job }, stopReason };
  const early = () => assert.fail("too early");
  const overdue = new Overdue({ ...silent, error }, 150_000, early, () => undefined);
  const asked = now();
  overdue.add(attempt as unknown as Attempt);
  const minutes = (n: number) => asked + n * 60_000 + 10_000;
  assert.ok(overdue.look(asked + 9000).again <= asked + 11_000);
  assert.deepEqual([overdue.stuck, overdue.slots], [0, 0]);
  assert.ok(overdue.look(asked + 59_000).again <= minutes(1));
  assert.deepEqual([overdue.stuck, overdue.slots], [1, 2]);
  assert.equal(lines.length, 0);
  assert.equal(overdue.look(minutes(1)).exits, false);
  assert.equal(overdue.look(minutes(1) + 1000).exits, false);
  assert.equal(overdue.look(minutes(2)).exits, false);
  assert.deepEqual(lines, [
    { job: "1", queue: "q", kind: "k", attempt: 2, for: "70s", reason: "TimedOut" },
    { job: "1", queue: "q", kind: "k", attempt: 2, for: "130s", reason: "TimedOut" },
  ]);
  assert.equal(overdue.look(minutes(3)).exits, true);
  overdue.remove(attempt as unknown as Attempt);
  assert.deepEqual(overdue.look(minutes(4)), { again: Infinity, exits: false });
  assert.equal(overdue.stuck, 0);
});

test("an older or foreign server is named with both versions, at the start and at errors", async () => {
  const html = "<html>welcome</html>";
  const own = { name: "mainspring", version: VERSION, api: "v1" };
  for (const [status, answer, text] of [
    [200, { ...own, version: "0.0.9" }, /^the server is 0\.0\.9, which is older: .*client is [\d.]+$/],
    [200, { ...own, version: "3.0.0", api: "v2" }, /^the server is 3\.0\.0 with API v2; .*with v1$/],
    [200, html, /has no answer to GET \/v1\/version: it is no Mainspring server/],
    [404, html, /has no answer to GET \/v1\/version: it is no Mainspring server/],
    [200, own, undefined],
    [502, html, undefined],
  ] as const) {
    const version: Answer = (_, response) => json(response, status, answer);
    const claim: Answer = (_, response) => json(response, 404, html);
    await withWorker({ version, claim }, async (_, __, lines) => {
      const found = (start: string) => lines.filter((line) => line.startsWith(start));
      await eventually(() => found("cannot claim").length === 1, "the line about claims");
      const [line = ""] = found("cannot claim");
      const known = text !== undefined || answer === own;
      assert.equal(/the server is|no Mainspring/.test(line), known, line);
      if (text !== undefined)
        await eventually(() => lines.some((one) => text.test(one.trim())), String(text));
      else assert.ok(!lines.some((one) => /older|no Mainspring server/.test(one)));
    });
  }
});

test("renewals: a thread that ends is replaced, and the new one renews the leases", async () => {
  let release: () => void = () => undefined;
  const renew: Answer = (_, response) =>
    json(response, 200, { renewed: [{ id: 1, lease_expires_in_ms: 1000 }], lost: [], cancel: [] });
  const handler = () => new Promise<void>((resolve) => (release = resolve));
  await withWorker({ renew, handler }, async (fake, worker, lines) => {
    await eventually(() => worker.stats.running === 1, "it runs");
    const { thread } = (
      worker as unknown as { core: { renewals: { thread: { terminate(): Promise<void> } } } }
    ).core.renewals;
    await thread.terminate();
    const renewals = () => fake.asked.filter(({ path }) => path === "/v1/renew").length;
    const before = renewals();
    await eventually(() => renewals() > before + 2, "renewals by the next thread");
    assert.ok(lines.some((line) => line.includes("starting another one")));
    release();
    await eventually(() => worker.stats.completed === 1, "the outcome counts");
    assert.equal(worker.stats.leaseLost, 0);
  });
});

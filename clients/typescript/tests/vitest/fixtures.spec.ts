// Run by vitest, from vitest.test.ts.
import { describe, expect } from "vitest";
import { defineJob, type } from "@mainspring-jobs/client";
import { assertEnqueued, waitFor } from "@mainspring-jobs/client/testing";
import { test } from "@mainspring-jobs/client/testing/vitest";

const double = defineJob("double", { args: type<{ n: number }>(), result: type<number>() });

describe("fixtures", () => {
  test("a server and a client", async ({ mainspring }) => {
    await using _worker = mainspring.worker().on(double, ({ args }) => args.n * 2);
    const job = await mainspring.enqueue(double, { n: 21 });
    expect(await job.result({ timeout: "10s" })).toBe(42);
  });

  test("a namespace of the test", async ({ mainspring, namespace }) => {
    await mainspring.enqueue(double, { n: 1 }, { queue: namespace.queue() });
    await assertEnqueued(mainspring, double, { queue: namespace.queue() });
  });

  test("the server is that of the file", async ({ mainspring, server }) => {
    expect(server.url).toMatch(/^http:/);
    await waitFor(mainspring.find(1), "completed");
  });
});

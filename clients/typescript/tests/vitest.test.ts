import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";

const root = dirname(dirname(createRequire(import.meta.url).resolve("@mainspring-jobs/client")));

test("vitest: the fixtures start a server and close it", () => {
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const run = spawnSync(
    process.execPath,
    [vitest, "run", "--root", join(root, "tests", "vitest"), "--no-color"],
    {
      encoding: "utf8",
      env: { ...process.env, CI: "1" },
    },
  );
  assert.equal(run.status, 0, run.stdout + run.stderr);
  assert.match(run.stdout, /3 passed/);
});

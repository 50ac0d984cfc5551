import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";

import * as esm from "mainspring";

const require = createRequire(import.meta.url);
const root = dirname(dirname(require.resolve("mainspring")));

test("package: at most 60 KB, no dependencies", () => {
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
      cwd: root,
      encoding: "utf8",
    }),
  ) as { size: number }[];
  assert.ok((packed?.size ?? Infinity) <= 60_000, `${packed?.size} bytes`);
  const description = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<
    string,
    unknown
  >;
  assert.deepEqual(
    [description["dependencies"], description["peerDependencies"]],
    [undefined, undefined],
  );
});

test("package: import and require give the same classes", () => {
  const cjs = require("mainspring") as typeof esm;
  assert.deepEqual(Object.keys(cjs).sort(), Object.keys(esm).sort());
  assert.equal(cjs.LeaseLost, esm.LeaseLost);
  assert.ok(require("mainspring/testing"));
});

test("package: no `any` in the public types", () => {
  const types = readdirSync(join(root, "dist"), { recursive: true })
    .map(String)
    .filter((name) => /\.d\.c?ts$/.test(name));
  assert.ok(types.length > 15);
  for (const name of types) {
    const text = readFileSync(join(root, "dist", name), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
    assert.doesNotMatch(text, /[:<|,(] *any\b/, name);
  }
});

test("package: programs in all module kinds compile, and invalid ones do not", () => {
  const directory = mkdtempSync(join(tmpdir(), "mainspring-types-"));
  try {
    const modules = join(directory, "node_modules");
    mkdirSync(modules);
    symlinkSync(root, join(modules, "mainspring"));
    symlinkSync(join(root, "node_modules", "@types"), join(modules, "@types"));
    const good = `
      import { defineJob, handle, LeaseLost, Mainspring, type, type JobState, complete, newJob, snooze } from "mainspring";
      import { startServer } from "mainspring/testing";
      const job = defineJob("k", { args: type<{ a: number }>(), result: type<{ b: string }>() });
      const plain = defineJob<{ a: number }, string>("p", { queue: "q" });
      const bare = defineJob("bare");
      const optional = defineJob("optional", { args: type<{ a?: number }>() });
      export const made = [newJob(bare), newJob(optional, { a: 1 })];
      export async function main(ms: Mainspring): Promise<string> {
        const text: string = await (await ms.enqueue(plain, { a: 1 })).result();
        handle(job, async ({ args, step }) => (args.a > 1 ? snooze("1s") : { b: await step("s", () => text) }));
        handle(job, () => complete({ b: "x" }));
        const handles = [await ms.enqueue(bare), await ms.enqueue(bare, {}, { key: "k" })];
        handles.push(await ms.enqueue(optional), await ms.enqueue(defineJob<void>("v")));
        await ms.schedules.put("s", { cron: "* * * * *" }, { job: bare });
        await ms.schedules.put("s", { cron: "* * * * *" }, { job, args: { a: 1 } });
        const state: JobState = (await ms.job(1n).get()).state;
        await ms.workflows.start({ name: "w", steps: [{ name: "s", job: { kind: "k", maxAttempts: 3 } }] });
        const next: string | undefined = (await ms.schedules.get("s")).lastJob;
        return (await (await ms.enqueue(job, { a: 1 }, { key: "k" })).result({ timeout: "1s" })).b + state + next + LeaseLost.name + startServer.name;
      }`;
    const bad = [
      `ms.enqueue(job, { a: "1" })`,
      `ms.enqueue(job, {})`,
      `ms.enqueue(job)`,
      `newJob(job)`,
      `ms.enqueue(optional, { b: 1 })`,
      `ms.schedules.put("s", { cron: "* * * * *" }, { job })`,
      `ms.enqueue(job, { a: 1, b: 2 })`,
      `handle(job, () => ({ b: 1 }))`,
      `handle(job, ({ args }) => ({ b: args.c }))`,
      `handle(job, () => complete({ b: 1 }))`,
      `ms.enqueue(job, { a: 1 }, { prioritty: 1 })`,
      `ms.queues.setLimits("q", { perKey: { concurency: 1 } })`,
    ];
    writeFileSync(join(directory, "good.mts"), good);
    writeFileSync(join(directory, "good.cts"), good);
    writeFileSync(
      join(directory, "bad.mts"),
      `import { complete, defineJob, handle, Mainspring, newJob, type } from "mainspring";
       const optional = defineJob("optional", { args: type<{ a?: number }>() });
       const job = defineJob("k", { args: type<{ a: number }>(), result: type<{ b: string }>() });
       declare const ms: Mainspring; void [complete, newJob];\n` +
        bad.map((line) => `// @ts-expect-error\n${line};\n`).join(""),
    );
    const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
    const options = [
      "--strict",
      "--noEmit",
      "--target",
      "es2022",
      "--module",
      "node16",
      "--types",
      "node",
      "--lib",
      "es2022,esnext.disposable",
    ];
    const files = ["good.mts", "good.cts", "bad.mts"].map((name) => join(directory, name));
    const { status, stdout } = spawnSync(process.execPath, [tsc, ...options, ...files], {
      encoding: "utf8",
      cwd: directory,
    });
    assert.equal(status, 0, stdout);
    // A project without @types/node and esnext.disposable, as `tsc --init` makes it.
    rmSync(join(modules, "@types"));
    writeFileSync(join(directory, "plain.mts"), `import { Mainspring } from "mainspring";\nvoid Mainspring;`);
    const plain = [...options.slice(0, 6), join(directory, "plain.mts")];
    const second = spawnSync(process.execPath, [tsc, ...plain], { encoding: "utf8", cwd: directory });
    assert.equal(second.status, 0, second.stdout);
    // A project whose TypeScript does not read "exports" in package.json.
    const old = `import { startServer } from "mainspring/testing";\nvoid startServer;`;
    writeFileSync(join(directory, "old.ts"), old);
    const commonjs = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2022"];
    commonjs.push("--module", "commonjs", "--moduleResolution", "node10", join(directory, "old.ts"));
    const third = spawnSync(process.execPath, [tsc, ...commonjs], { encoding: "utf8", cwd: directory });
    assert.equal(third.status, 0, third.stdout);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

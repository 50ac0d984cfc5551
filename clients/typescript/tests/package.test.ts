import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  existsSync,
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
import { delimiter, dirname, join } from "node:path";
import { after, before, test } from "node:test";

import { build as esbuild } from "esbuild";
import * as esm from "@mainspring-jobs/client";
import { useServer } from "@mainspring-jobs/client/testing";
import { rollup } from "rollup";
import { build as vite } from "vite";

import { VERSION } from "../src/versions.js";

const require = createRequire(import.meta.url);
const root = dirname(dirname(require.resolve("@mainspring-jobs/client")));
const server = useServer({ before, after });

// Readable code for import and require, its maps, and the sources that they name.
const MAX_PACKED = 325_000; // ESM and CJS, not minified, with types and source maps

test("package: at most 325 KB, no dependencies", () => {
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
      cwd: root,
      encoding: "utf8",
    }),
  ) as { size: number }[];
  assert.ok((packed?.size ?? Infinity) <= MAX_PACKED, `${packed?.size} bytes`);
  const description = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<
    string,
    unknown
  >;
  assert.deepEqual(
    [description["dependencies"], description["peerDependencies"]],
    [undefined, undefined],
  );
});

test("package: the client knows its version", () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  assert.equal(VERSION, version);
});

test("package: the copies of import and require work together", async (t) => {
  const cjs = require("@mainspring-jobs/client") as typeof esm;
  assert.deepEqual(Object.keys(cjs).sort(), Object.keys(esm).sort());
  assert.ok(require("@mainspring-jobs/client/testing"));
  assert.notEqual(cjs.LeaseLost, esm.LeaseLost);
  class Mine extends esm.MainspringError {}
  for (const [error, kind, is] of [
    [new cjs.LeaseLost("x"), esm.LeaseLost, true],
    [new cjs.LeaseLost("x"), esm.MainspringError, true],
    [new cjs.LeaseLost("x"), esm.NotFound, false],
    [new cjs.MainspringError("internal", "x"), Mine, false],
    [new Mine("internal", "x"), cjs.MainspringError, true],
    [new Error("x"), cjs.MainspringError, false],
    [cjs.snooze("1s"), esm.Outcome, true],
    [{}, esm.Outcome, false],
  ] as [unknown, new (...args: never[]) => unknown, boolean][])
    assert.equal(error instanceof kind, is, `${String(error)} ${kind.name}`);
  // A handler, its definition and its outcome of one copy in a worker of the other.
  const ms = server.client();
  const job = cjs.defineJob("mixed", { queue: "mixed", result: cjs.type<string>() });
  const worker = ms.worker({ logJobs: false }).on(cjs.handle(job, () => cjs.dead("mixed_copies")));
  t.after(() => worker.stop());
  await assert.rejects((await ms.enqueue(job)).result({ timeout: "20s" }), /mixed_copies/);
});

const PROGRAM = `
  const ms = new Mainspring(process.env.MAINSPRING_SERVER);
  const job = defineJob("packed", { queue: process.env.TEST_QUEUE });
  const worker = ms.worker({ logJobs: false }).on(job, async ({ args, step }) => {
    if (args.first === undefined) throw new LeaseLost("no arguments");
    return args.first + (await step("second", () => "packed"));
  });
  const run = async () => {
    const made = await ms.enqueue(job, { first: "it is " });
    console.log(await made.result({ timeout: "60s" }));
    await worker.stop();
    ms.close();
  };
  void run();`;
const NAMES = "{ defineJob, LeaseLost, Mainspring }";

/** Bundles of the installed package, by bundlers that resolve it as they like. */
async function bundles(directory: string): Promise<string[]> {
  const entry = join(directory, "program.mjs");
  const external = /^node:/;
  const out = (name: string) => join(directory, name);
  await esbuild({
    ...{ entryPoints: [entry], outfile: out("esbuild.mjs"), logLevel: "silent" },
    ...{ bundle: true, format: "esm", platform: "node", minify: true },
  });
  await esbuild({
    ...{ entryPoints: [entry], outfile: out("esbuild.cjs"), logLevel: "silent" },
    ...{ bundle: true, format: "cjs", platform: "node" },
  });
  await vite({
    ...{ root: directory, logLevel: "silent", configFile: false, ssr: { noExternal: true } },
    build: { ssr: entry, outDir: out("vite"), minify: false },
  });
  const installed = join(directory, "node_modules", "@mainspring-jobs", "client", "dist", "index.js");
  const resolveId = (id: string) => (id === "@mainspring-jobs/client" ? installed : null);
  const made = await rollup({ input: entry, external, plugins: [{ name: "installed", resolveId }] });
  await made.write({ file: out("rollup.mjs"), format: "es" });
  await made.write({ file: out("rollup.cjs"), format: "cjs" });
  const all = ["esbuild.mjs", "esbuild.cjs", "vite/program.mjs", "rollup.mjs", "rollup.cjs"];
  return process.env["MAINSPRING_WEBPACK"] ? [...all, ...(await webpacked(directory))] : all;
}

/** By webpack, which is no dependency: MAINSPRING_WEBPACK names its folder in node_modules. */
async function webpacked(directory: string): Promise<string[]> {
  const path = process.env["MAINSPRING_WEBPACK"] ?? "";
  const webpack = createRequire(import.meta.url)(path) as (
    options: object,
    done: (error: Error | null, stats?: { toString(options: object): string }) => void,
  ) => void;
  const base = { mode: "production", target: "node18", context: directory, entry: "./program.mjs" };
  for (const [filename, type] of [["webpack.cjs", "commonjs2"], ["webpack.mjs", "module"]] as const) {
    const module = type === "module";
    const output = { path: directory, filename, module, library: { type } };
    const faults = await new Promise((resolve, reject) =>
      webpack({ ...base, output, experiments: { outputModule: module } }, (error, stats) =>
        error ? reject(error) : resolve(stats?.toString({ all: false, errors: true, warnings: true })),
      ),
    );
    assert.equal(faults, "");
  }
  return ["webpack.cjs", "webpack.mjs"];
}

function onPath(name: string): string[] {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return folders.map((folder) => join(folder, name)).filter((file) => existsSync(file)).slice(0, 1);
}

// More programs of Node.js can be named: MAINSPRING_RUNTIMES=/opt/node18/bin/node:/opt/node22/bin/node
test("package: packed, it runs by import and by require, and in bundles", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "mainspring-packed-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const pack = ["pack", "--ignore-scripts", "--pack-destination", directory];
  execFileSync("npm", pack, { cwd: root, stdio: "pipe" });
  const archive = readdirSync(directory).find((name) => name.endsWith(".tgz")) ?? "";
  const modules = join(directory, "node_modules", "@mainspring-jobs", "client");
  mkdirSync(modules, { recursive: true });
  execFileSync("tar", ["xzf", join(directory, archive), "-C", modules, "--strip-components=1"]);
  for (const map of ["index.js.map", "index.cjs.map", "testing.js.map"]) {
    const { sources } = JSON.parse(readFileSync(join(modules, "dist", map), "utf8")) as {
      sources: string[];
    };
    for (const name of sources.filter((one) => !one.startsWith("thread:")))
      assert.ok(existsSync(join(modules, "dist", name)), `${map}: ${name}`);
  }
  writeFileSync(join(directory, "package.json"), '{"dependencies":{"@mainspring-jobs/client":"*"}}');
  writeFileSync(join(directory, "program.mjs"), `import ${NAMES} from "@mainspring-jobs/client";${PROGRAM}`);
  writeFileSync(
    join(directory, "program.cjs"),
    `const ${NAMES} = require("@mainspring-jobs/client");${PROGRAM}`,
  );
  const files = ["program.mjs", "program.cjs", ...(await bundles(directory))];
  const named = (process.env["MAINSPRING_RUNTIMES"] ?? "").split(delimiter).filter(Boolean);
  const runtimes = [process.execPath, ...onPath("bun"), ...onPath("deno"), ...named];
  for (const runtime of runtimes) {
    const flags = /deno$/.test(runtime) ? ["run", "-A", "--quiet"] : [];
    for (const file of files) {
      const run = spawn(runtime, [...flags, join(directory, file)], {
        cwd: directory,
        env: {
          ...process.env,
          ...{ MAINSPRING_SERVER: server.url, MAINSPRING_ACCESS_TOKEN: server.server.token },
          TEST_QUEUE: `packed-${file.replace(/\W/g, "-")}`,
        },
      });
      t.after(() => run.kill("SIGKILL"));
      let output = "";
      for (const pipe of [run.stdout, run.stderr])
        pipe.on("data", (text) => (output += String(text)));
      const code = await new Promise((resolve) => run.once("close", resolve));
      assert.deepEqual([code, output], [0, "it is packed\n"], `${runtime} ${file}`);
    }
  }
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
    mkdirSync(join(modules, "@mainspring-jobs"), { recursive: true });
    symlinkSync(root, join(modules, "@mainspring-jobs", "client"));
    symlinkSync(join(root, "node_modules", "@types"), join(modules, "@types"));
    const good = `
      import { defineJob, handle, LeaseLost, Mainspring, type, type JobState, complete, newJob, ref, snooze, step } from "@mainspring-jobs/client";
      import { startServer } from "@mainspring-jobs/client/testing";
      const job = defineJob("k", { args: type<{ a: number }>(), result: type<{ b: string }>() });
      const plain = defineJob<{ a: number }, string>("p", { queue: "q" });
      const bare = defineJob("bare");
      const optional = defineJob("optional", { args: type<{ a?: number }>() });
      export const made = [newJob(bare), newJob(optional, { a: 1 })];
      export async function main(ms: Mainspring): Promise<string> {
        const text: string = await (await ms.enqueue(plain, { a: 1 })).result();
        handle(job, async ({ args, step }) => (args.a > 1 ? snooze("1s") : { b: await step("s", () => text) }));
        handle(job, () => complete({ b: "x" }));
        const handles = [await ms.enqueue(bare), await ms.enqueue(bare, {}, { key: "k", keyFor: "1h" })];
        handles.push(await ms.enqueue(optional), await ms.enqueue(defineJob<void>("v")));
        await ms.schedules.put("s", { job: bare }, { cron: "* * * * *" });
        await ms.schedules.put("s", { job, args: { a: 1 } }, { cron: "* * * * *" });
        const state: JobState = (await ms.find(1n).get()).state;
        await ms.workflows.start({ name: "w", steps: [{ name: "s", job: { kind: "k", maxAttempts: 3 } }] });
        const first = step("first", job, { a: ref("input.a") }, { deadline: "1h", undo: newJob(bare) });
        const second = step("second", plain, { a: 1 }, { after: ["first"] });
        const texts = defineJob<{ b: string; whole: { b: string } }>("texts");
        const third = step("third", texts, { b: ref(first, "b"), whole: ref(first) });
        await ms.workflows.start({ name: "w", steps: [first, second, third, step("bare", bare), { name: "nap", sleep: 5 }] });
        const next: string | undefined = (await ms.schedules.get("s")).lastJob;
        return (await (await ms.enqueue(job, { a: 1 }, { key: "k" })).result({ timeout: "1s" })).b + state + next + LeaseLost.name + startServer.name;
      }`;
    const bad = [
      `ms.enqueue(job, { a: "1" })`,
      `ms.enqueue(job, {})`,
      `ms.enqueue(job)`,
      `newJob(job)`,
      `ms.enqueue(optional, { b: 1 })`,
      `ms.schedules.put("s", { job }, { cron: "* * * * *" })`,
      `ms.enqueue(job, { a: 1, b: 2 })`,
      `handle(job, () => ({ b: 1 }))`,
      `handle(job, ({ args }) => ({ b: args.c }))`,
      `handle(job, () => complete({ b: 1 }))`,
      `ms.enqueue(job, { a: 1 }, { prioritty: 1 })`,
      `ms.queues.setLimits("q", { perKey: { concurency: 1 } })`,
      `ms.workflows.start({ name: "w", steps: [{ name: "s" }] })`,
      `ms.workflows.start({ name: "w", steps: [{ name: "s", sleep: "1s", signal: "x" }] })`,
      `ms.workflows.start({ name: "w", steps: [{ name: "s", job: { queue: "q" } }] })`,
      `step("s", job, { a: "1" })`,
      `step("s", job)`,
      `step("s", job, { a: ref(step("t", job, { a: 1 }), "b") })`,
      `step("s", job, { a: ref(step("t", job, { a: 1 }), "c") })`,
    ];
    writeFileSync(join(directory, "good.mts"), good);
    writeFileSync(join(directory, "good.cts"), good);
    writeFileSync(
      join(directory, "bad.mts"),
      `import { complete, defineJob, handle, Mainspring, newJob, ref, step, type } from "@mainspring-jobs/client";
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
    writeFileSync(join(directory, "plain.mts"), `import { Mainspring } from "@mainspring-jobs/client";\nvoid Mainspring;`);
    const plain = [...options.slice(0, 6), join(directory, "plain.mts")];
    const second = spawnSync(process.execPath, [tsc, ...plain], { encoding: "utf8", cwd: directory });
    assert.equal(second.status, 0, second.stdout);
    // A project whose TypeScript does not read "exports" in package.json.
    const old = `import { startServer } from "@mainspring-jobs/client/testing";\nvoid startServer;`;
    writeFileSync(join(directory, "old.ts"), old);
    const commonjs = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2022"];
    commonjs.push("--module", "commonjs", "--moduleResolution", "node10", join(directory, "old.ts"));
    const third = spawnSync(process.execPath, [tsc, ...commonjs], { encoding: "utf8", cwd: directory });
    assert.equal(third.status, 0, third.stdout);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

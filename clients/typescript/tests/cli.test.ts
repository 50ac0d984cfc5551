import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";

import { useServer } from "@mainspring-jobs/client/testing";

import { Changes } from "../src/watch.js";
import { eventually, fakeServer, json } from "./fake.js";

const server = useServer({ before, after });
const root = dirname(dirname(createRequire(import.meta.url).resolve("@mainspring-jobs/client")));
const directory = mkdtempSync(join(tmpdir(), "mainspring-cli-"));
const children: ChildProcess[] = [];

before(() => {
  const modules = join(directory, "node_modules");
  mkdirSync(join(modules, "@mainspring-jobs"), { recursive: true });
  symlinkSync(root, join(modules, "@mainspring-jobs", "client"));
  symlinkSync(join(root, "node_modules", "esbuild"), join(modules, "esbuild"));
});
after(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});

function run(
  args: string[],
  { command = [process.execPath, join(root, "dist", "cli.js")], env: more = {} } = {},
): {
  child: ChildProcess;
  output: () => string;
  ended: Promise<number | null>;
} {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"));
  const env = { ...Object.fromEntries(inherited), MAINSPRING_SERVER: server.url, ...more };
  const [program, ...first] = command as [string, ...string[]];
  const child = spawn(program, [...first, ...args], { env, cwd: directory, detached: true });
  children.push(child);
  let text = "";
  child.stdout?.on("data", (piece) => (text += String(piece)));
  child.stderr?.on("data", (piece) => (text += String(piece)));
  return {
    child,
    output: () => text,
    ended: new Promise((resolve) => child.once("exit", (code) => resolve(code))),
  };
}

const program = (answer: string, queue: string) => `
  import { defineJob, handle, type } from "@mainspring-jobs/client";
  import { suffix } from "./lib/suffix.js";
  interface Args { name: string }
  const greet = defineJob("greet", { queue: "${queue}", args: type<Args>(), result: type<string>() });
  export const jobs = [handle(greet, async ({ args }): Promise<string> => ${answer} + args.name + suffix)];
`;

test("work: runs the handlers of a TypeScript file and stops cleanly at SIGTERM", async () => {
  mkdirSync(join(directory, "lib"), { recursive: true });
  writeFileSync(join(directory, "lib", "suffix.ts"), `export const suffix: string = "!";`);
  writeFileSync(join(directory, "greet.ts"), program('"hello "', "greetings"));
  const { child, ended, output } = run(["work", "greet.ts", "--slots", "2"]);
  const job = await server.client().enqueue("greet", { name: "Ada" }, { queue: "greetings" });
  assert.equal(await job.result({ timeout: "20s" }), "hello Ada!", output());
  child.kill("SIGTERM");
  assert.equal(await ended, 0);
  assert.match(output(), /"job completed","job":"\d+","queue":"greetings"/);
});

test("work: uses the middleware that the file exports, and logs no jobs with --no-log-jobs", async () => {
  const middleware = `export const middleware = [{
    async attempt({ args }, next) { console.log("around " + args.name); await next(); } }];`;
  writeFileSync(join(directory, "around.ts"), program('"hello "', "around") + middleware);
  const { child, ended, output } = run(["work", "around.ts", "--no-log-jobs"]);
  const job = await server.client().enqueue("greet", { name: "Bo" }, { queue: "around" });
  assert.equal(await job.result({ timeout: "20s" }), "hello Bo!", output());
  child.kill("SIGTERM");
  assert.equal(await ended, 0);
  assert.match(output(), /around Bo/);
  assert.doesNotMatch(output(), /job completed/);
});

test("work: SIGTERM releases the job of a stubborn handler; exit code 75", async () => {
  const text = `
    import { defineJob, handle } from "@mainspring-jobs/client";
    export const job = handle(defineJob("hang", { queue: "hangs" }), () => {
      console.log("the handler runs");
      return new Promise<void>(() => {});
    });`;
  writeFileSync(join(directory, "hang.ts"), text);
  const { child, ended, output } = run(["work", "hang.ts", "--stop", "300ms", "--lease", "60s"]);
  const job = await server.client().enqueue("hang", {}, { queue: "hangs" });
  await eventually(() => output().includes("the handler runs"), "the handler", 20_000);
  child.kill("SIGTERM");
  assert.equal(await ended, 75);
  const info = await job.get();
  assert.deepEqual([info.state, info.attempt], ["available", 0]);
});

test("work --exit-when-stuck: exits with 75 when a handler ignores its time limit", async () => {
  const text = `
    import { defineJob, handle } from "@mainspring-jobs/client";
    export const job = handle(
      defineJob("stuck", { queue: "stuck", timeout: "1s" }),
      () => new Promise<void>(() => {}));`;
  writeFileSync(join(directory, "stuck.ts"), text);
  const flags = ["--exit-when-stuck", "50ms", "--stop", "50ms"];
  const { ended, output } = run(["work", "stuck.ts", ...flags]);
  await server.client().enqueue("stuck", {}, { queue: "stuck", timeout: "1s" });
  assert.equal(await ended, 75, output());
  assert.match(output(), /a handler does not end; the worker stops/);
});

// As with npx: a shell is between npm and the program, and SIGTERM ends only the shell.
test("work: ends with the npm that started it, and finishes its job", async () => {
  const text = `
    import { defineJob, handle } from "@mainspring-jobs/client";
    export const job = handle(defineJob("nap", { queue: "naps" }), async () => {
      console.log("the nap begins");
      await new Promise((done) => setTimeout(done, 1000));
      return "rested";
    });`;
  writeFileSync(join(directory, "nap.ts"), text);
  const line = `'${process.execPath}' '${join(root, "dist", "cli.js")}' work nap.ts; true`;
  const started = run([line], { command: ["sh", "-c"], env: { npm_command: "exec" } });
  const job = await server.client().enqueue("nap", {}, { queue: "naps" });
  await eventually(() => started.output().includes("the nap begins"), "the handler", 20_000);
  started.child.kill("SIGTERM");
  assert.equal(await job.result({ timeout: "20s" }), "rested");
  await eventually(() => /npm has ended: stopping/.test(started.output()), "its last words");
  await eventually(() => started.child.stderr?.closed === true, "the end of the worker");
});

test("work: a queue that has never been used is named", async () => {
  writeFileSync(join(directory, "typo.ts"), program('"hello "', "greetings"));
  const { child, ended, output } = run(["work", "typo.ts", "--queue", "greetigns"]);
  await eventually(() => output().includes("never been used"), "the warning");
  assert.match(output(), /warning: queue "greetigns" has never been used: check its name/);
  child.kill("SIGTERM");
  assert.equal(await ended, 0);
});

test("work: a queue that a schedule, timer or trigger names needs no warning", async () => {
  const ms = server.client();
  const jobOf = (queue: string) => ({ kind: "greet", queue, args: { name: "x" } });
  await ms.request("PUT", "/v1/schedules/hourly", { every: "1h", job: jobOf("hourlies") });
  await ms.request("PUT", "/v1/schedules/timer", { every: "1h", continuous: {}, job: jobOf("timers") });
  const ended = { queue: "elsewhere" };
  await ms.request("PUT", "/v1/triggers/after", { ended, job: jobOf("afters") });
  writeFileSync(join(directory, "named.ts"), program('"hello "', "greetings"));
  const queues = ["hourlies", "timers", "afters", "tpyo"].flatMap((one) => ["--queue", one]);
  const worker = run(["work", "named.ts", ...queues]);
  await eventually(() => worker.output().includes('"tpyo" has never'), "the warning", 20_000);
  assert.equal(worker.output().match(/has never been used/g)?.length, 1, worker.output());
  worker.child.kill("SIGTERM");
  await worker.ended;
});

test("work --watch: loads a changed file", async () => {
  const ms = server.client();
  writeFileSync(join(directory, "watched.ts"), program('"one "', "watched"));
  const { child, ended, output } = run(["work", "watched.ts", "--watch"]);
  const ask = async () =>
    await (
      await ms.enqueue("greet", { name: "x" }, { queue: "watched" })
    ).result({ timeout: "20s" });
  assert.equal(await ask(), "one x!", output());
  writeFileSync(join(directory, "watched.ts"), program('"two "', "watched"));
  await eventually(async () => (await ask()) === "two x!", "the new version");
  child.kill("SIGTERM");
  await ended;
});

test("work --watch: sees a file beside the worker's directory, in the same package", async () => {
  const ms = server.client();
  const own = join(directory, "watched_package");
  mkdirSync(join(own, "workers"), { recursive: true });
  writeFileSync(join(own, "package.json"), '{"type":"module"}');
  const shared = (word: string) =>
    writeFileSync(join(own, "word.ts"), `export const word: string = "${word}";`);
  shared("one");
  const text = `
    import { defineJob, handle } from "@mainspring-jobs/client";
    import { word } from "../word.js";
    export const job = handle(defineJob("say", { queue: "package" }), () => word);`;
  writeFileSync(join(own, "workers", "say.ts"), text);
  const { child, ended, output } = run(["work", "watched_package/workers/say.ts", "--watch"]);
  const ask = async () =>
    await (await ms.enqueue("say", {}, { queue: "package" })).result({ timeout: "20s" });
  assert.equal(await ask(), "one", output());
  shared("two");
  await eventually(async () => (await ask()) === "two", "the new word");
  child.kill("SIGTERM");
  await ended;
});

// A handler that ends once its directory has the file of its name.
const gated = (name: string) => `
  import { existsSync } from "node:fs";
  import { defineJob, handle } from "@mainspring-jobs/client";
  export const job = handle(defineJob("${name}", { queue: "${name}" }), async () => {
    console.log("the handler runs");
    while (!existsSync("${name}.open")) await new Promise((done) => setTimeout(done, 20));
    return "finished";
  });`;

for (const [name, args, env] of [
  ["watched_stop", ["--watch"], {}],
  ["npm_stop", [], { npm_command: "run-script" }], // npm sends it again
  ["watched_npm_stop", ["--watch"], { npm_command: "run-script" }],
] as const) {
  test(`work ${args.join(" ")}: one Ctrl-C lets handlers finish (${name})`, async () => {
    writeFileSync(join(directory, `${name}.ts`), gated(name));
    const started = run(["work", `${name}.ts`, ...args], { env });
    const { pid = 0 } = started.child;
    const job = await server.client().enqueue(name, {}, { queue: name });
    await eventually(() => started.output().includes("the handler runs"), "the handler", 20_000);
    process.kill(-pid, "SIGINT"); // as a terminal: to all processes of the group
    await eventually(() => started.output().includes("stopping: 1 job"), "the stop", 20_000);
    if ("npm_command" in env) started.child.kill("SIGINT");
    writeFileSync(join(directory, `${name}.open`), "");
    assert.equal(await started.ended, 0, started.output());
    const info = await job.get();
    assert.deepEqual([info.state, info.result, info.attempt], ["completed", "finished", 1]);
  });
}

test("work: errors that nothing catches: those of handlers fail their attempts, a rejection of no handler is logged, an exception stops the worker", async () => {
  const text = `${gated("strays")}
    export const stray = handle(defineJob("stray", { queue: "strays" }), ({ args }) =>
      new Promise((resolve) => {
        if (args === "rejects") void Promise.reject(new Error("of a handler"));
        else setTimeout(() => { throw new Error("of a handler"); }, 1);
        setTimeout(resolve, 20); // after the other timer
      }));
    setTimeout(() => Promise.reject(new Error("a rejection")), 1);
    export const fail = handle(defineJob("fail", { queue: "strays" }), () => { wake(); });
    let wake = () => undefined;
    void new Promise((resolve) => (wake = resolve)).then(() =>
      queueMicrotask(() => { throw new Error("an exception"); }));`;
  writeFileSync(join(directory, "strays.ts"), text);
  const started = run(["work", "strays.ts"]);
  const ms = server.client();
  const job = await ms.enqueue("strays", {}, { queue: "strays" });
  await eventually(() => started.output().includes("the handler runs"), "the handler", 20_000);
  await eventually(() => started.output().includes("Error: a rejection"), "the rejection", 20_000);
  for (const how of ["rejects", "throws"]) {
    const stray = await ms.enqueue("stray", how, { queue: "strays", maxAttempts: 1 });
    await assert.rejects(stray.result({ timeout: "20s" }), /Error: of a handler/);
  }
  assert.doesNotMatch(started.output(), /stopping|known for it.*of a handler/);
  await ms.enqueue("fail", {}, { queue: "strays" });
  await eventually(() => started.output().includes("Error: an exception"), "the exception", 20_000);
  writeFileSync(join(directory, "strays.open"), "");
  assert.equal(await started.ended, 70, started.output());
  assert.equal((await job.get()).state, "completed");
});

for (const notified of [true, false]) {
  test(`--watch: sees new files and directories, ${notified ? "notified" : "looking again"}`, async (t) => {
    const own = join(directory, `changes_${notified}`);
    const write = (...path: string[]) => {
      mkdirSync(join(own, ...path.slice(0, -1)), { recursive: true });
      writeFileSync(join(own, ...path), `${performance.now()}`);
    };
    write("package.json");
    write("workers", "main.ts");
    write("node_modules", "other", "index.js");
    write("venv", "lib", "site.js");
    const changes = new Changes(join(own, "workers", "main.ts"));
    t.after(() => changes.stop());
    const inside = changes as unknown as { notified: boolean; watchers: Map<string, unknown> };
    assert.equal(inside.notified, true);
    const followed = [own, join(own, "workers")];
    assert.deepEqual([...inside.watchers.keys()], followed); // not the code of others
    inside.notified = notified;
    const sees = async (act: () => void) => {
      const next = changes.next();
      act();
      assert.equal(await next, true);
    };
    await sees(() => write("workers", "main.ts"));
    await sees(() => write("lib", "deep", "new.ts"));
    await sees(() => write("lib", "deep", "new.ts"));
    await sees(() => {
      rmSync(join(own, "lib"), { recursive: true });
      write("lib", "deep", "again.ts");
    });
    await sees(() => write("lib", "deep", "again.ts"));
    const last = changes.next();
    changes.stop();
    assert.equal(await last, false);
  });
}

test("work: says what it works on and how it stops", async () => {
  const text = `
    import { defineJob, handle } from "@mainspring-jobs/client";
    export const job = handle(defineJob("wait", { queue: "told" }), () => {
      console.log("the handler runs");
      return new Promise<void>(() => {});
    });`;
  writeFileSync(join(directory, "told.ts"), text);
  const { child, ended, output } = run(["work", "told.ts", "--slots", "3"]);
  const line = (part: string) => {
    const found = output().split("\n").find((one) => one.includes(part));
    const { message, queues, server: url, slots, running } = JSON.parse(found ?? "{}");
    return [message, queues ?? running, url, slots];
  };
  await eventually(() => output().includes("worker started"), "the start", 20_000);
  const started = ["worker started; Ctrl-C stops it", "told", server.url, 3];
  assert.deepEqual(line("worker started"), started);
  const job = await server.client().enqueue("wait", {}, { queue: "told" });
  await eventually(() => output().includes("the handler runs"), "the handler", 20_000);
  child.kill("SIGINT");
  await eventually(() => output().includes("stopping"), "the stop", 20_000);
  const stopping = "stopping: 1 job may run for another 20s; Ctrl-C again ends it now";
  assert.deepEqual(line("stopping"), [stopping, 1, undefined, undefined]);
  child.kill("SIGINT");
  assert.equal(await ended, null); // by the signal
  await job.cancel();
});

test("work: ends with exit code 77 when the server refuses its token", async () => {
  const error = { code: "unauthenticated", message: "the token is not valid" };
  const fake = await fakeServer((_, response) => json(response, 401, { error }));
  writeFileSync(join(directory, "refused.ts"), program('"hello "', "greetings"));
  const { ended, output } = run(["work", "refused.ts", "--server", fake.url]);
  assert.equal(await ended, 77, output());
  assert.match(output(), /^mainspring: the token is not valid$/m);
  fake.close();
});

test("work: errors name the invalid argument", async () => {
  writeFileSync(join(directory, "empty.ts"), "export const x: number = 1;");
  const handler = 'import { defineJob, handle } from "@mainspring-jobs/client";';
  writeFileSync(
    join(directory, "options.ts"),
    `${handler} export const jobs = [handle(defineJob("k", { queue: "q" }), () => 1)];`,
  );
  for (const [args, text] of [
    [["work", "empty.ts"], /exports no handler/],
    [["work"], /usage/],
    [["work", "nofile.ts"], /nofile\.ts: there is no such file/],
    [["work", "empty.ts", "--slotz", "1"], /slotz/],
    [["work", "options.ts", "--slots", "many"], /slots/],
    [["work", "options.ts", "--lease", "long"], /lease/],
    [["work", "options.ts", "--server", "nowhere"], /url "nowhere"/],
    [["work", "options.ts", "--log-level", "loud"], /--log-level "loud": must be/],
  ] as const) {
    const { ended, output } = run([...args]);
    assert.equal(await ended, 64);
    assert.match(output(), text);
    assert.doesNotMatch(output(), / {4}at /); // no stack
  }
});

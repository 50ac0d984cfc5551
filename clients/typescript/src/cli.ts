#!/usr/bin/env node
// mainspring work FILE: runs the handlers that a file exports.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import * as nodeModule from "node:module";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import {
  type JobHandler,
  jsonLogger,
  type LogLevel,
  type Middleware,
  Mainspring,
  MainspringError,
  type Worker,
} from "./index.js";
import { textOf } from "./reasons.js";
import { isStray } from "./strays.js";
import { Changes } from "./watch.js";
import { startedByNpm } from "./worker_options.js";

const HELP = `Usage: mainspring work FILE [OPTION…]

Run the job handlers that FILE (TypeScript or JavaScript) exports: values of handle(), alone or in
arrays, workers, and as \`middleware\` what ms.use() takes. SIGTERM and Ctrl-C finish running jobs and give back the others. In service
units and containers run node_modules/.bin/mainspring, not npx, which does not wait for the end.

  --slots N         run up to N handlers at once [10]
  --queue NAME      also claim jobs of this queue; may be repeated
  --lease TIME      time without a renewal before jobs go to other workers [30s]
  --stop TIME       maximum time that a stop waits for handlers [25s]
  --exit-when-stuck TIME
                    exit with 75 if a handler has not ended this long after it was asked to
  --server URL      the server [MAINSPRING_SERVER, else http://127.0.0.1:8080]
  --log-level LEVEL debug, info, warn or error [info]
  --no-log-jobs     no line for each attempt
  --watch           start again when a file changes
  --help            print this
  --version         print the version

The access token comes from MAINSPRING_ACCESS_TOKEN.

Exit codes: 70 an exception outside of handlers was not caught, 75 handlers did not end within --stop,
77 the server refuses the access token.
`;

const OPTIONS = {
  slots: { type: "string" },
  queue: { type: "string", multiple: true },
  lease: { type: "string" },
  stop: { type: "string" },
  "exit-when-stuck": { type: "string" },
  server: { type: "string" },
  "log-level": { type: "string" },
  "no-log-jobs": { type: "boolean" },
  watch: { type: "boolean" },
  help: { type: "boolean" },
  version: { type: "boolean" },
} as const;

const LOOK_MS = 300;
const WATCHED = "MAINSPRING_WATCHED"; // set in the worker of --watch
const EXIT_REFUSED = 77; // EX_NOPERM, as the worker of the program mainspring
const EXIT_ABANDONED = 75; // EX_TEMPFAIL
const EXIT_BROKEN = 70; // EX_SOFTWARE

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

function fail(message: string): never {
  process.stderr.write(`mainspring: ${message}\n`);
  process.exit(64);
}

async function main(): Promise<void> {
  const { values, positionals } = read();
  if (values.help === true) return void process.stdout.write(HELP);
  if (values.version === true) return void process.stdout.write(`${version()}\n`);
  const [command, file, ...more] = positionals;
  if (command !== "work" || file === undefined || more.length > 0)
    fail("usage: mainspring work FILE [OPTION…]; see --help");
  if (values.watch === true) await watch(resolve(file));
  else await work(resolve(file), values);
}

function read() {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    fail((error as Error).message);
  }
}

type Values = ReturnType<typeof read>["values"];

function version(): string {
  const require = nodeModule.createRequire(import.meta.url);
  return (require("../package.json") as { version: string }).version;
}

async function work(file: string, values: Values): Promise<void> {
  if (!existsSync(file)) fail(`${file}: there is no such file`);
  loadTypeScript();
  const exported = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  const handlers = new Set<JobHandler>();
  const workers = new Set<Worker>();
  for (const value of Object.values(exported).flatMap((one) =>
    Array.isArray(one) ? (one as unknown[]) : [one],
  )) {
    if (isHandler(value)) handlers.add(value);
    else if (isWorker(value)) workers.add(value);
  }
  if (handlers.size > 0) {
    const slots = values.slots === undefined ? undefined : Number(values.slots);
    const level = (values["log-level"] ?? "info") as LogLevel;
    if (!LEVELS.includes(level)) fail(`--log-level "${level}": must be ${LEVELS.join(", ")}`);
    const client = checked(() => new Mainspring({ url: values.server, log: jsonLogger(level) }));
    const make = () => {
      const used = [exported["middleware"] ?? []].flat() as Middleware[];
      for (const one of used) client.use(one);
      return client.worker({
        ...(slots === undefined ? {} : { slots }),
        ...(values.queue === undefined ? {} : { queues: values.queue }),
        ...(values.lease === undefined ? {} : { lease: values.lease }),
        ...(values.stop === undefined ? {} : { gracefulStop: values.stop }),
        ...(values["exit-when-stuck"] === undefined
          ? {}
          : { exitWhenStuck: values["exit-when-stuck"] }),
        logJobs: values["no-log-jobs"] !== true,
      });
    };
    const worker = checked(make);
    for (const one of handlers) worker.on(one);
    workers.add(worker);
    void warnOfUnused(client, values.queue ?? []);
  }
  if (workers.size === 0) fail(`${file}: exports no handler: export handle(job, …)`);
  const end = new AbortController();
  stopWithNpm(() => end.abort());
  stopWithWatcher(() => end.abort());
  const running = { giveBack: true, signal: end.signal };
  let abandoned = 0;
  let broken = false;
  const log = jsonLogger();
  process.on("unhandledRejection", (reason) => {
    if (isStray()) return;
    log.error("nothing caught a rejection; no job is known for it", { error: textOf(reason) });
  });
  process.on("uncaughtException", (error, origin) => {
    if (isStray() || origin !== "uncaughtException") return;
    log.error("nothing caught an exception; no job is known for it: stopping", {
      error: textOf(error),
    });
    broken = true;
    end.abort();
  });
  try {
    await Promise.all([...workers].map((worker) => worker.run(running)));
    for (const worker of workers) abandoned += (await worker.stop()).abandoned;
  } catch (error) {
    if (!(error instanceof MainspringError)) throw error;
    process.stderr.write(`mainspring: ${error.message}\n`);
    process.exit(EXIT_REFUSED);
  }
  process.exit(abandoned > 0 ? EXIT_ABANDONED : broken ? EXIT_BROKEN : 0);
}

// A Node.js that runs TypeScript itself still does not find ./x.ts where a file imports ./x.js.
function loadTypeScript(): void {
  if ("Bun" in globalThis || "Deno" in globalThis) return;
  const feature = (process.features as unknown as Record<string, unknown>)["typescript"];
  const native = feature !== undefined && feature !== false;
  nodeModule.register(new URL("./ts_hooks.js", import.meta.url), { data: { native } });
}

// npm and npx do not pass SIGTERM on to the program that they run: they end, and it keeps running.
function stopWithNpm(stop: () => void): void {
  const parent = process.ppid;
  if (!startedByNpm() || "Bun" in globalThis || "Deno" in globalThis) return;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.stderr.write("mainspring: npm has ended: stopping\n");
    stop();
  }, LOOK_MS);
  timer.unref();
}

// With --watch: a signal would count as the second one after a Ctrl-C, which the terminal sends to the
// watcher and to the worker.
function stopWithWatcher(stop: () => void): void {
  if (process.env[WATCHED] === undefined || process.send === undefined) return;
  delete process.env[WATCHED];
  process.once("message", stop);
  process.once("disconnect", stop); // the watcher has died
  (process as { channel?: { unref?(): void } }).channel?.unref?.();
}

// Warns of a mistyped --queue, which would wait forever.
async function warnOfUnused(client: Mainspring, queues: string[]): Promise<void> {
  for (const queue of queues) {
    const path = `/v1/queues/${encodeURIComponent(queue)}`;
    const error = await client.request("GET", path).catch((one: unknown) => one);
    if (!(error instanceof MainspringError) || error.code !== "not_found") continue;
    if (await isNamed(client, queue)) continue;
    process.stderr.write(
      `mainspring: warning: queue "${queue}" has never been used: check its name\n`,
    );
  }
}

// Whether a schedule, timer or trigger makes jobs for the queue. True if that is not known.
async function isNamed(client: Mainspring, queue: string): Promise<boolean> {
  try {
    // A timer is a schedule.
    for (const what of ["schedules", "triggers"]) {
      let after = "";
      do {
        const path = `/v1/${what}?limit=1000${after}`;
        const page = await client.request("GET", path);
        const named = page[what] as { job: { queue?: string } }[];
        if (named.some(({ job }) => (job.queue ?? "default") === queue)) return true;
        const { next } = page;
        after = typeof next === "string" ? `&after=${encodeURIComponent(next)}` : "";
      } while (after !== "");
    }
    return false;
  } catch {
    return true;
  }
}

// A mistake in an option needs no stack trace.
function checked<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError || error instanceof MainspringError)
      fail(error.message);
    throw error;
  }
}

// Not by instanceof: the file may have another copy of this package.
function isHandler(value: unknown): value is JobHandler {
  return typeof value === "object" && value !== null && "definition" in value && "handler" in value;
}
function isWorker(value: unknown): value is Worker {
  return (
    typeof value === "object" &&
    value !== null &&
    "run" in value &&
    "stop" in value &&
    "stats" in value
  );
}

/** Runs the same command in a child without --watch, and again whenever a source file changes. */
async function watch(file: string): Promise<void> {
  const args = process.argv.slice(2).filter((one) => one !== "--watch");
  const changes = new Changes(file);
  let stopping = false;
  let child: ChildProcess | undefined;
  const end = () => {
    if (child?.connected === true) child.send("stop");
    else child?.kill("SIGTERM");
  };
  const stop = (signal?: NodeJS.Signals) => {
    if (stopping && signal !== undefined) child?.kill(signal);
    else if (!stopping) end();
    stopping = true;
    changes.stop();
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  stopWithNpm(stop);
  while (!stopping) {
    const program = fileURLToPath(import.meta.url);
    child = spawn(process.execPath, [...process.execArgv, program, ...args], {
      stdio: ["inherit", "inherit", "inherit", "ipc"],
      env: { ...process.env, [WATCHED]: "1" },
    });
    const ended = new Promise<void>((done) => child?.once("exit", () => done()));
    let gone = false;
    void ended.then(() => (gone = true));
    const changed = await changes.next();
    if (!gone && changed) end();
    await ended;
  }
}

await main();

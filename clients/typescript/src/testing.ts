// Helpers for tests: a server of one's own in a temporary directory, on a free port.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

import {
  type Duration,
  durationMs,
  type JobHandle,
  type JobInfo,
  type JobState,
  type Logger,
  Mainspring,
  type MainspringOptions,
  WaitTimeout,
} from "./index.js";

const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose");

export interface TestServerOptions {
  /** The server's program. Default: MAINSPRING_BINARY, else `mainspring` on the PATH. */
  binary?: string;
  /** More arguments of `mainspring serve`. */
  args?: readonly string[];
}

/** A server that ends, and whose data are removed, with `stop()` or `await using`. */
export class TestServer {
  private readonly clients: Mainspring[] = [];
  private stopping: Promise<void> | undefined;

  /** @internal */
  constructor(
    readonly url: string,
    readonly pid: number,
    private readonly process: ChildProcess,
    private readonly directory: string,
  ) {}

  /** A client without log lines; closed with the server. */
  client(options: MainspringOptions = {}): Mainspring {
    const client = new Mainspring({ log: silent, url: this.url, ...options });
    this.clients.push(client);
    return client;
  }

  /** Ends the server: at once with SIGKILL, in good order with SIGTERM. */
  stop(signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): Promise<void> {
    this.stopping ??= this.stopNow(signal);
    return this.stopping;
  }

  async [asyncDispose](): Promise<void> {
    await this.stop();
  }

  private async stopNow(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    for (const client of this.clients) client.close();
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.ref(); // or Node.js would end before it
      const ended = new Promise((resolve) => this.process.once("exit", resolve));
      this.process.kill(signal);
      await ended;
    }
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** Takes no log lines. */
export const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

// The one place that knows how a server for tests is started.
function commandLine(directory: string, more: readonly string[]): string[] {
  return [
    "serve",
    "--data",
    join(directory, "store"),
    "--listen",
    "127.0.0.1:0",
    "--json",
    ...more,
  ];
}

// npm puts node_modules/.bin first, where `mainspring` is this package's own command.
function environment(): NodeJS.ProcessEnv {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const isNpm = (folder: string) => /node_modules[\\/]\.bin[\\/]?$/.test(folder);
  return { ...process.env, PATH: folders.filter((folder) => !isNpm(folder)).join(delimiter) };
}

/** Starts a server. Resolves when it takes requests. */
export async function startServer(options: TestServerOptions = {}): Promise<TestServer> {
  const binary = options.binary ?? process.env["MAINSPRING_BINARY"] ?? "mainspring";
  const directory = await mkdtemp(join(tmpdir(), "mainspring-test-"));
  const child = spawn(binary, commandLine(directory, options.args ?? []), {
    stdio: ["ignore", "pipe", "pipe"],
    env: environment(),
  });
  let output = "";
  let problems = "";
  child.stderr
    .setEncoding("utf8")
    .on("data", (text: string) => (problems = (problems + text).slice(-4000)));
  // A server must not outlive the tests that are interrupted.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.removeListener("exit", kill));
  try {
    const url = await new Promise<string>((resolve, reject) => {
      child.once("error", (error) => reject(new Error(`starting ${binary}: ${error.message}`)));
      child.once("exit", (code) => reject(new Error(`${binary} ended with ${code}: ${problems}`)));
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        output += text;
        const end = output.indexOf("\n");
        if (end < 0) return;
        const started: unknown = JSON.parse(output.slice(0, end));
        resolve((started as { url: string }).url);
      });
    });
    child.unref();
    for (const pipe of [child.stdout, child.stderr])
      (pipe as unknown as { unref?: () => void }).unref?.();
    return new TestServer(url, child.pid ?? 0, child, directory);
  } catch (error) {
    child.kill("SIGKILL");
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

/**
 * A server for all tests of a file: `const server = useServer({ before, after })` of node:test or
 * vitest.
 */
export function useServer(
  hooks: { before?: Hook; beforeAll?: Hook; after?: Hook; afterAll?: Hook },
  options: TestServerOptions = {},
): {
  readonly url: string;
  client(options?: MainspringOptions): Mainspring;
  readonly server: TestServer;
} {
  let server: TestServer | undefined;
  const before = hooks.before ?? hooks.beforeAll;
  const after = hooks.after ?? hooks.afterAll;
  if (before === undefined || after === undefined)
    throw new TypeError("hooks: must have before and after");
  before(async () => void (server = await startServer(options)));
  after(async () => server?.stop());
  const running = () => {
    if (server === undefined)
      throw new Error("the test server has not been started: use it inside a test");
    return server;
  };
  return {
    get url() {
      return running().url;
    },
    get server() {
      return running();
    },
    client: (more) => running().client(more),
  };
}

type Hook = (run: () => Promise<void>) => void;

/** Waits until the job has this state. Throws WaitTimeout after 10 s, or `timeout`. */
export async function waitFor(
  job: JobHandle<unknown>,
  state: JobState,
  options: { timeout?: Duration } = {},
): Promise<JobInfo> {
  const end = performance.now() + durationMs(options.timeout ?? "10s");
  for (;;) {
    const info = await job.get();
    if (info.state === state) return info;
    if (performance.now() >= end)
      throw new WaitTimeout(`job ${job.id} is ${info.state}, not ${state}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

// The code of the guide and of both READMEs compiles and runs.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";

import { useServer } from "@mainspring-jobs/client/testing";

const root = dirname(dirname(createRequire(import.meta.url).resolve("@mainspring-jobs/client")));
// A copy of the documents, or those of the source tree.
const copies = process.env["MAINSPRING_DOCS"];
const tree = join(root, "..", "..");
const guide = join(copies ?? join(tree, "docs", "guides"), "typescript.md");
const testing = join(copies ?? join(tree, "docs", "guides"), "testing.md");
const readme = join(copies ?? tree, "README.md");
const directory = mkdtempSync(join(tmpdir(), "mainspring-guide-"));
const server = useServer({ before, after });
after(() => rmSync(directory, { recursive: true, force: true }));

const PREAMBLE = `import { Unauthenticated, cancel, complete, dead, defer, defineJob, handle, Mainspring, ref, retry, snooze, step, type } from "@mainspring-jobs/client";
import { thumbnail } from "./jobs.js";
const ms = new Mainspring(process.env.MAINSPRING_SERVER);
void [Unauthenticated, cancel, complete, dead, defer, defineJob, handle, ref, retry, snooze, step, type, thumbnail];
`;

/** Blocks with a name are files; the others are run together, each in a scope of its own. */
function writeBlocks(): string[] {
  const names: string[] = [];
  let parts = PREAMBLE;
  for (const document of [guide, testing, readme, join(root, "README.md")]) {
    for (const [, name, code] of readFileSync(document, "utf8").matchAll(
      /^```ts(?: file=(\S+))?\n([\s\S]*?)^```/gm,
    )) {
      if (name === undefined) {
        parts += `{\n${code}\n}\n`;
        continue;
      }
      names.push(name);
      writeFileSync(join(directory, name), code ?? "");
    }
  }
  writeFileSync(join(directory, "parts.ts"), `${parts}ms.close();\n`);
  return [...names, "parts.ts"];
}

function link(): void {
  const scope = join(directory, "node_modules", "@mainspring-jobs");
  mkdirSync(scope, { recursive: true });
  symlinkSync(root, join(scope, "client"));
  for (const name of ["zod", "@types", "esbuild"]) {
    symlinkSync(join(root, "node_modules", name), join(directory, "node_modules", name));
  }
  writeFileSync(join(directory, "package.json"), '{"type":"module"}');
}

test(
  "the guide: its code compiles and does what it says",
  { skip: !existsSync(guide) && "the guide is not here" },
  async () => {
    link();
    const names = writeBlocks();
    assert.deepEqual(names, [
      "jobs.ts",
      "worker.ts",
      "producer.ts",
      "thumbnail.test.ts",
      "mails.test.ts",
      "greetings.ts",
      "caller.ts",
      "readme.ts",
      "parts.ts",
    ]);
    const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
    const options = [
      "--strict",
      "--skipLibCheck",
      "--target",
      "es2022",
      "--module",
      "node16",
      "--types",
      "node",
      "--lib",
      "es2022,esnext.disposable",
    ];
    const compiled = spawnSync(process.execPath, [tsc, ...options, ...names], {
      encoding: "utf8",
      cwd: directory,
    });
    assert.equal(compiled.status, 0, compiled.stdout);

    const env = { ...process.env, MAINSPRING_SERVER: server.url };
    const run = async (...args: string[]) => {
      const child = spawn(process.execPath, args, { env, cwd: directory });
      let output = "";
      for (const pipe of [child.stdout, child.stderr])
        pipe.on("data", (text) => (output += String(text)));
      const code = await new Promise<number | null>((resolve) => child.once("exit", resolve));
      assert.equal(code, 0, output);
      return output;
    };
    const workers = ["worker.ts", "greetings.ts"].map((name) =>
      spawn(process.execPath, [join(root, "dist", "cli.js"), "work", name], {
        env,
        cwd: directory,
      }),
    );
    try {
      assert.match(await run("producer.js"), /^\d+ 200\n$/);
      assert.equal(await run("caller.js"), "hello you\n");
      assert.match(await run("readme.js"), /sent to ada@example.com/);
      await run("--test", "thumbnail.test.js");
      await run("--test", "mails.test.js");
    } finally {
      for (const worker of workers) {
        worker.kill("SIGTERM");
        await new Promise((resolve) => worker.once("exit", resolve));
      }
    }
    await run("parts.js");
  },
);

test(
  "the guide: at most 1,200 words",
  { skip: !existsSync(guide) && "the guide is not here" },
  () => {
    const words = readFileSync(guide, "utf8").split(/\s+/).length;
    assert.ok(words <= 1200, `${words} words`);
  },
);

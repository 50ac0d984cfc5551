// The code of the recipes compiles and works as described.
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
const recipes = join(copies ?? join(root, "..", "..", "docs", "guides"), "recipes");
const skip = !existsSync(recipes) && "the recipes are not here";
const directory = mkdtempSync(join(tmpdir(), "mainspring-recipes-"));
const server = useServer({ before, after });

const CHECK = `
  import { app as hono } from "./hono_app.js";
  import { app as express } from "./express_app.js";
  import { ms } from "./photo_api.js";

  const headers = { "content-type": "application/json" };
  async function check(ask) {
    const made = await ask("/thumbnails", { method: "POST", headers, body: '{"path":"a.jpg"}' });
    const { job } = await made.json();
    const shown = await (await ask("/thumbnails/" + job + "?wait=20")).json();
    const missing = await ask("/thumbnails/999999999");
    console.log(made.status, shown.state, shown.result.width, missing.status, (await ask("/thumbnails/x")).status);
  }
  await check((path, options) => hono.request(path, options));
  const listening = express.listen(0, "127.0.0.1");
  await new Promise((done) => listening.once("listening", done));
  const url = "http://127.0.0.1:" + listening.address().port;
  await check((path, options) => fetch(url + path, options));
  listening.closeAllConnections();
  listening.close();
  ms.close();
`;

before(() => {
  const scope = join(directory, "node_modules", "@mainspring-jobs");
  mkdirSync(scope, { recursive: true });
  symlinkSync(root, join(scope, "client"));
  for (const name of ["hono", "express", "@types", "esbuild"])
    symlinkSync(join(root, "node_modules", name), join(directory, "node_modules", name));
  writeFileSync(join(directory, "package.json"), '{"type":"module"}');
  writeFileSync(join(directory, "check.js"), CHECK);
});
after(() => rmSync(directory, { recursive: true, force: true }));

function read(name: string): string {
  const text = readFileSync(join(recipes, name), "utf8");
  const words = text.trim().split(/\s+/).length;
  assert.ok(words <= 600, `${name}: ${words} words`);
  return text;
}

function compile(): void {
  const names: string[] = [];
  for (const document of ["express.md", "bullmq.md"]) {
    for (const [, name = "", code = ""] of read(document).matchAll(
      /^```(?:ts|js) file=(\S+)\n([\s\S]*?)^```/gm,
    )) {
      writeFileSync(join(directory, name), code);
      if (name.endsWith(".ts")) names.push(name);
    }
  }
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const options = ["--strict", "--skipLibCheck", "--target", "es2022", "--module", "node16"];
  const types = ["--types", "node", "--lib", "es2022,esnext.disposable"];
  const compiled = spawnSync(process.execPath, [tsc, ...options, ...types, ...names], {
    encoding: "utf8",
    cwd: directory,
  });
  assert.equal(compiled.status, 0, compiled.stdout);
}

async function run(...args: string[]): Promise<string> {
  const env = { ...process.env, MAINSPRING_SERVER: server.url };
  const child = spawn(process.execPath, args, { env, cwd: directory });
  let output = "";
  for (const pipe of [child.stdout, child.stderr])
    pipe.on("data", (text) => (output += String(text)));
  const code = await new Promise<number | null>((resolve) => child.once("exit", resolve));
  assert.equal(code, 0, output);
  return output;
}

test("the recipes: their code compiles and works as described", { skip }, async () => {
  compile();
  assert.match(await run("moved.js"), /{ width: 400 }/);
  const env = { ...process.env, MAINSPRING_SERVER: server.url };
  const command = [join(root, "dist", "cli.js"), "work", "photo_jobs.ts"];
  const worker = spawn(process.execPath, command, { env, cwd: directory });
  try {
    const line = "202 completed 200 404 404\n";
    assert.equal(await run("check.js"), line + line);
  } finally {
    worker.kill("SIGTERM");
    await new Promise((resolve) => worker.once("exit", resolve));
  }
});

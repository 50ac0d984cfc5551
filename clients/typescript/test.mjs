// Runs the tests: node test.mjs [NAME…]. Needs the server's program: MAINSPRING_BINARY, or on the
// PATH.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const bin = (name) => join(here, "node_modules", name);
const run = (command, args) => {
  const { status } = spawnSync(command, args, { stdio: "inherit", cwd: here });
  if (status !== 0) process.exit(status ?? 1);
};

const wanted = process.argv.slice(2);
if (!existsSync(join(here, "dist"))) run(process.execPath, ["build.mjs"]);
const files = readdirSync(join(here, "tests")).filter((name) => name.endsWith(".test.ts"));
const output = join(here, "build");
rmSync(output, { recursive: true, force: true });
await build({
  entryPoints: [...files, "driver.ts"].map((name) => join(here, "tests", name)),
  ...{
    outdir: output,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node18",
  },
  ...{ packages: "external", sourcemap: "inline", logLevel: "warning" },
});
if (wanted.length === 0)
  run(process.execPath, [bin("typescript/bin/tsc"), "--noEmit", "-p", join(here, "tests")]);
const compiled = readdirSync(output)
  .filter((name) => name.endsWith(".test.mjs"))
  .filter((name) => wanted.length === 0 || wanted.some((one) => name.startsWith(one)))
  .map((name) => join(output, name));
run(process.execPath, ["--test", "--enable-source-maps", ...compiled]);

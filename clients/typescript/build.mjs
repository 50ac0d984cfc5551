// Builds the package into dist/: ES modules, CommonJS, and their types. node build.mjs
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const source = (name) => join(here, "src", name);
const dist = join(here, "dist");
const common = {
  bundle: true,
  platform: "node",
  target: "node18",
  logLevel: "warning",
  legalComments: "none",
};

// The thread that renews leases, as a text inside the package: it works whatever bundles the
// program.
const thread = await build({
  ...common,
  entryPoints: [source("renew_thread.ts")],
  format: "cjs",
  minify: true,
  write: false,
});
const threadPlugin = {
  name: "thread",
  setup(made) {
    made.onResolve({ filter: /^mainspring:renew_thread$/ }, () => ({
      path: "renew_thread",
      namespace: "thread",
    }));
    made.onLoad({ filter: /.*/, namespace: "thread" }, () => ({
      contents: thread.outputFiles[0].text,
      loader: "text",
    }));
  },
};

rmSync(dist, { recursive: true, force: true });
// Readable, with maps to src/: a program's stack traces and debugger show this code.
const whole = { ...common, outdir: dist, sourcemap: true, sourcesContent: false };
const others = (extension) => ({
  name: "others",
  setup(made) {
    made.onResolve({ filter: /^\.\/(index|testing)\.js$/ }, ({ path }) => ({
      path: path.replace(/\.js$/, extension),
      external: true,
    }));
  },
});
const values = {};
for (const [format, extension] of [
  ["esm", ".js"],
  ["cjs", ".cjs"],
]) {
  const options = { ...whole, format, outExtension: { ".js": extension }, metafile: true };
  const plugins = [threadPlugin];
  const index = await build({ ...options, plugins, entryPoints: [source("index.ts")] });
  const testing = await build({
    ...options,
    entryPoints: [source("testing.ts")],
    plugins: [others(extension)],
  });
  if (format === "esm") {
    values.index = exportsOf(index);
    values.testing = exportsOf(testing);
  }
}
await build({
  ...whole,
  format: "esm",
  plugins: [others(".js")],
  external: ["vitest"],
  entryPoints: {
    vitest: source("vitest.ts"),
    cli: source("cli.ts"),
    ts_hooks: source("ts_hooks.ts"),
  },
});

function exportsOf({ metafile }) {
  const { exports } = Object.values(metafile.outputs).find((one) => one.exports.length > 0);
  return exports.sort();
}
chmodSync(join(dist, "cli.js"), 0o755);

const tsc = join(here, "node_modules", "typescript", "bin", "tsc");
execFileSync(process.execPath, [tsc, "--emitDeclarationOnly", "-p", here], { stdio: "inherit" });
dropUnreachable(["index", "testing", "vitest"]);
for (const name of ["index", "testing"]) writeCommonTypes(name);

// The types for require(), which must not be those of a module of the other kind: names for the
// same types, and the values with their types.
function writeCommonTypes(name) {
  const text = readdirSync(dist)
    .filter((file) => file.endsWith(".d.ts"))
    .map((file) => readFileSync(join(dist, file), "utf8"))
    .join("\n");
  const from = `"./${name}.js" with { "resolution-mode": "import" }`;
  const lines = [`import type * as whole from ${from};`, `export type * from ${from};`];
  for (const value of values[name]) {
    lines.push(`export declare const ${value}: typeof whole.${value};`);
    const type = text.match(new RegExp(`export declare class ${value}(?:<(\\w+)( = \\w+)?>)?`));
    if (type === null) continue;
    const [, parameter, fallback = ""] = type;
    const given = parameter === undefined ? "" : `<${parameter}>`;
    const taken = parameter === undefined ? "" : `<${parameter}${fallback}>`;
    lines.push(`export type ${value}${taken} = whole.${value}${given};`);
  }
  writeFileSync(join(dist, `${name}.d.cts`), `${lines.join("\n")}\n`);
}

// Declarations that no entry refers to are of no use to anybody.
function dropUnreachable(roots) {
  const seen = new Set();
  const visit = (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    const text = readFileSync(join(dist, `${name}.d.ts`), "utf8");
    for (const [, other] of text.matchAll(/(?:from |import\()"\.\/([^"]+)\.js"/g)) visit(other);
  };
  roots.forEach(visit);
  for (const name of readdirSync(dist, { recursive: true })) {
    if (name.endsWith(".d.ts") && !seen.has(name.slice(0, -5))) rmSync(join(dist, name));
  }
}

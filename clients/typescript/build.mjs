// Builds the package into dist/: ES modules, CommonJS, and their types. node build.mjs
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const source = (name) => join(here, "src", name);
const dist = join(here, "dist");
const common = { bundle: true, platform: "node", target: "node18", logLevel: "warning", legalComments: "none" };

// The thread that renews leases, as a text inside the package: it works whatever bundles the program.
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
    made.onResolve({ filter: /^mainspring:renew_thread$/ }, () => ({ path: "renew_thread", namespace: "thread" }));
    made.onLoad({ filter: /.*/, namespace: "thread" }, () => ({ contents: thread.outputFiles[0].text, loader: "text" }));
  },
};

rmSync(dist, { recursive: true, force: true });
// One implementation, in CommonJS: a program that uses both import and require has one set of classes.
const cjs = { ...common, format: "cjs", outdir: dist, outExtension: { ".js": ".cjs" }, minify: true };
await build({ ...cjs, entryPoints: [source("index.ts")], plugins: [threadPlugin] });
const wholePlugin = {
  name: "whole",
  setup(made) {
    made.onResolve({ filter: /^\.\/index\.js$/ }, () => ({ path: "./index.cjs", external: true }));
  },
};
await build({ ...cjs, entryPoints: [source("testing.ts")], plugins: [wholePlugin] });
const exported = async (entry) => {
  const names = await build({ ...common, format: "esm", entryPoints: [source(entry)], write: false, metafile: true, outdir: dist, plugins: [threadPlugin] });
  return Object.values(names.metafile.outputs)[0].exports.sort();
};
for (const name of ["index", "testing"]) {
  const list = (await exported(`${name}.ts`)).join(", ");
  writeFileSync(join(dist, `${name}.js`), `import whole from "./${name}.cjs";\nexport const { ${list} } = whole;\n`);
}
const wrapperPlugin = {
  name: "wrapper",
  setup(made) {
    made.onResolve({ filter: /^\.\/(index|testing)\.js$/ }, ({ path }) => ({ path, external: true }));
  },
};
await build({
  ...{ ...common, format: "esm", outdir: dist, minify: true, plugins: [wrapperPlugin], external: ["vitest"] },
  entryPoints: { vitest: source("vitest.ts"), cli: source("cli.ts"), ts_hooks: source("ts_hooks.ts") },
});
chmodSync(join(dist, "cli.js"), 0o755);

const tsc = join(here, "node_modules", "typescript", "bin", "tsc");
execFileSync(process.execPath, [tsc, "--emitDeclarationOnly", "-p", here], { stdio: "inherit" });
dropUnreachable(["index", "testing", "vitest"]);
// The same types for require(): a file that is a module of the other kind cannot be used for it.
const types = readdirSync(dist, { recursive: true }).filter((name) => name.endsWith(".d.ts"));
for (const name of types) {
  const text = readFileSync(join(dist, name), "utf8");
  if (name === "vitest.d.ts") continue;
  if (name.startsWith("api")) continue;
  const changed = text.replace(/(from |import\()"(\.[^"]+)\.js"/g, '$1"$2.cjs"');
  const shared = changed.replace(/from "\.\/api\/schema\.cjs"/g, 'from "./api/schema.js" with { "resolution-mode": "import" }');
  writeFileSync(join(dist, name.replace(/\.d\.ts$/, ".d.cts")), shared);
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

// Bundles the dashboard: node build.mjs SOURCE_DIRECTORY OUTPUT_DIRECTORY
// Writes app.js, app.css and index.html, each with a gzip copy beside it. The libraries come from node_modules beside
// this file, so that a build can keep a copy of it, and them, outside the source tree.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const source = process.argv[2] ?? here;
const output = process.argv[3] ?? join(here, "dist");
// The bundle with all pages must load fast over a slow connection.
const MAX_GZIP_BYTES = 100 * 1024;

mkdirSync(output, { recursive: true });
await build({
  entryPoints: { app: join(source, "src/main.tsx") },
  outdir: output,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  nodePaths: [join(here, "node_modules")],
  legalComments: "none",
  logLevel: "warning",
});
copyFileSync(join(source, "src/index.html"), join(output, "index.html"));

let total = 0;
for (const name of ["index.html", "app.js", "app.css"]) {
  const packed = gzipSync(readFileSync(join(output, name)), { level: 9 });
  writeFileSync(join(output, `${name}.gz`), packed);
  total += packed.length;
}
console.log(`dashboard: ${total} bytes gzip`);
if (total > MAX_GZIP_BYTES) {
  console.error(`dashboard: ${total} bytes gzip, the limit is ${MAX_GZIP_BYTES}`);
  process.exit(1);
}

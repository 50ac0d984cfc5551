// lint_test.mjs WEB MAINSPRING: /openapi.json satisfies the rules "recommended-strict" of Redocly's linter.
// WEB has the node_modules of the dashboard.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [web, mainspring] = process.argv.slice(2);
const { createConfig, lintFromString } = createRequire(join(web, "package.json"))("@redocly/openapi-core");

const RULES = {
  "info-license": "off", // the document is part of the program
  "no-unused-components": "error",
};
// The dashboard is not part of the API: a page that ends with a slash, and redirects to it.
const PAGES = /^#\/paths\/~1(ui(~1[^/]*)?)?(\/|$)/;

async function served() {
  const directory = mkdtempSync(join(tmpdir(), "mainspring-openapi-"));
  const server = spawn(mainspring, ["serve", "--data", directory, "--listen", "127.0.0.1:0", "--json"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    for await (const line of createInterface(server.stdout)) {
      const url = /https?:\/\/[^"\s]+/.exec(line);
      if (url !== null) return await (await fetch(`${url[0]}/openapi.json`)).text();
    }
    throw new Error("the server did not start");
  } finally {
    const ended = new Promise((done) => server.once("exit", done));
    server.kill("SIGKILL");
    await ended;
    rmSync(directory, { recursive: true, force: true });
  }
}

async function lint(source) {
  const config = await createConfig({ extends: ["recommended-strict"], rules: RULES });
  const found = await lintFromString({ source, absoluteRef: "/openapi.json", config });
  return found
    .map(({ ruleId, message, location }) => ({ ruleId, message, at: location[0]?.pointer ?? "#" }))
    .filter(({ at }) => !PAGES.test(at));
}

const source = await served();
const problems = await lint(source);
for (const { ruleId, message, at } of problems) console.log(`${ruleId}: ${at}: ${message}`);

// The linter finds what it must find: a canary for each promise.
const canaries = {
  "operation-operationId-unique": (d) => {
    const [first, second] = Object.values(d.paths).map((path) => Object.values(path)[0]);
    second.operationId = first.operationId;
  },
  "path-parameters-defined": (d) => (d.paths["/v1/canary/{key}"] = { get: Object.values(d.paths)[0].get }),
  "no-unresolved-refs": (d) => (d.components.schemas.Canary = { $ref: "#/components/schemas/NoSuchSchema" }),
  "security-defined": (d) => {
    for (const path of Object.values(d.paths)) for (const one of Object.values(path)) delete one.security;
  },
};
for (const [rule, breakIt] of Object.entries(canaries)) {
  const broken = JSON.parse(source);
  breakIt(broken);
  const seen = (await lint(JSON.stringify(broken))).some(({ ruleId }) => ruleId === rule);
  if (seen) continue;
  problems.push(rule);
  console.log(`the linter does not find a broken ${rule}`);
}
console.log(`${problems.length} problems`);
process.exit(problems.length === 0 ? 0 : 1);

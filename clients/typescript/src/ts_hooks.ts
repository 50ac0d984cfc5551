// Lets a Node.js that does not run TypeScript itself load it, with the compiler that the project
// has.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

interface Resolved {
  url: string;
  format?: string | null;
  shortCircuit?: boolean;
}
interface Loaded {
  format: string;
  source: string;
  shortCircuit: boolean;
}
type Next<C, T> = (what: string, context?: C) => Promise<T>;

const TYPESCRIPT = /\.[mc]?tsx?$/;

let native = false;

/** `native`: Node.js compiles TypeScript itself, so that names alone are looked up here. */
export function initialize(data?: { native?: boolean }): void {
  native = data?.native === true;
}

/** `./x.js` may be `./x.ts`, and `./x` too. */
export async function resolve(
  specifier: string,
  context: { parentURL?: string },
  next: Next<unknown, Resolved>,
): Promise<Resolved> {
  if (/^\.\.?\//.test(specifier) && context.parentURL?.startsWith("file:") === true) {
    const path = fileURLToPath(new URL(specifier, context.parentURL));
    const names = [path.replace(/\.([mc]?)js$/, ".$1ts"), `${path}.ts`, `${path}/index.ts`];
    const found =
      existsSync(path) && /\.\w+$/.test(path)
        ? undefined
        : names.find((name) => TYPESCRIPT.test(name) && existsSync(name));
    if (found !== undefined) return { url: pathToFileURL(found).href, shortCircuit: true };
  }
  return await next(specifier, context);
}

export async function load(
  url: string,
  context: unknown,
  next: Next<unknown, Loaded>,
): Promise<Loaded> {
  if (native || !url.startsWith("file:") || !TYPESCRIPT.test(new URL(url).pathname))
    return await next(url, context);
  const file = fileURLToPath(url);
  const source = compile(file, await readFile(file, "utf8"));
  return { format: file.endsWith(".cts") ? "commonjs" : "module", source, shortCircuit: true };
}

interface Esbuild {
  transformSync(text: string, options: Record<string, unknown>): { code: string };
}
interface TypeScript {
  transpileModule(text: string, options: Record<string, unknown>): { outputText: string };
  ScriptTarget: Record<string, number>;
  ModuleKind: Record<string, number>;
}

function compile(file: string, text: string): string {
  const require = createRequire(file);
  const esbuild = optional<Esbuild>(require, "esbuild");
  const commonjs = file.endsWith(".cts");
  if (esbuild) {
    const format = commonjs ? "cjs" : "esm";
    const options = {
      loader: file.endsWith("x") ? "tsx" : "ts",
      format,
      target: "es2022",
      sourcemap: "inline",
    };
    return esbuild.transformSync(text, { ...options, sourcefile: file }).code;
  }
  const typescript = optional<TypeScript>(require, "typescript");
  if (typescript) {
    const { ScriptTarget, ModuleKind } = typescript;
    const module = commonjs ? ModuleKind["CommonJS"] : ModuleKind["ESNext"];
    const compilerOptions = { target: ScriptTarget["ES2022"], module, inlineSourceMap: true };
    return typescript.transpileModule(text, { fileName: file, compilerOptions }).outputText;
  }
  throw new Error(
    `${file}: Node.js ${process.version} does not run TypeScript: use Node.js 22.18, or install esbuild or typescript`,
  );
}

function optional<T>(require: NodeRequire, name: string): T | undefined {
  try {
    return require(name) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

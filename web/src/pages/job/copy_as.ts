// The job as a request: for a shell, and for a program.
import { apiRoot, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";

const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
// A string literal of C++, Python and TypeScript.
const quote = (text: string): string => JSON.stringify(text);

// Headers that the engine sets.
const OWN_HEADER = /^(cloned_from$|mainspring-)/;
const DEFAULT_ATTEMPTS = 20;
const DEFAULT_TIMEOUT = "15m";

interface Options {
  tags?: string[];
  headers?: Record<string, string>;
  correlation_id?: string;
  session?: string;
  session_on_dead?: string;
  limit_key?: string;
  unique_key?: string;
  max_attempts?: number;
  timeout?: string;
  reply_to?: string;
  reply_session?: string;
}

// What another job of the same request would be given. Times and follow-ups belong to the one request.
function optionsOf(job: Schemas["Job"]): Options {
  const headers = Object.entries((job.headers ?? {}) as Record<string, string>).filter(([name]) => !OWN_HEADER.test(name));
  const options: Options = {
    tags: job.tags?.length ? job.tags : undefined,
    headers: headers.length > 0 ? Object.fromEntries(headers) : undefined,
    correlation_id: job.correlation_id,
    session: job.session,
    session_on_dead: job.session === undefined ? undefined : job.session_on_dead,
    limit_key: job.limit_key,
    unique_key: job.unique_key,
    max_attempts: job.max_attempts === DEFAULT_ATTEMPTS ? undefined : job.max_attempts,
    timeout: job.timeout === DEFAULT_TIMEOUT ? undefined : job.timeout,
    reply_to: job.reply_to,
    reply_session: job.reply_session,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value)) as Options;
}

// One flag for each value.
function flagsOf(options: Options): string {
  const { headers, tags, ...others } = options;
  const flags: [string, string][] = [
    ...Object.entries(others).map(([name, value]): [string, string] => [name === "unique_key" ? "unique" : name.replaceAll("_", "-"), String(value)]),
    ...(tags ?? []).map((tag): [string, string] => ["tag", tag]),
    ...Object.entries(headers ?? {}).map(([name, value]): [string, string] => ["header", `${name}=${value}`]),
  ];
  return flags.map(([name, value]) => ` --${name} ${shell(value)}`).join("");
}

// ", NAME=VALUE" for each option, as keyword arguments.
const python = (options: Options): string =>
  Object.entries(options).map(([name, value]) => `, ${name === "unique_key" ? "key" : name}=${formatJson(value, 0)}`).join("");

const camel = (name: string): string => (name === "unique_key" ? "key" : name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()));
const typescript = (options: Options): string =>
  Object.entries(options).map(([name, value]) => `, ${camel(name)}: ${formatJson(value, 0)}`).join("");

// Designated initializers, in the order of NewJob. A time limit is a duration: the text is not one.
function cpp(options: Options): string {
  const text = (name: string, value?: string) => (value === undefined ? "" : `, .${name} = ${quote(value)}`);
  return [
    options.max_attempts === undefined ? "" : `, .max_attempts = ${options.max_attempts}`,
    options.unique_key === undefined ? "" : `, .unique = mainspring::Unique{.key = ${quote(options.unique_key)}}`,
    options.tags === undefined ? "" : `, .tags = {${options.tags.map(quote).join(", ")}}`,
    options.headers === undefined ? "" : `, .headers = R"json(${formatJson(options.headers, 0)})json"`,
    text("correlation_id", options.correlation_id),
    text("reply_to", options.reply_to),
    text("reply_session", options.reply_session),
    text("session", options.session),
    options.session_on_dead === undefined ? "" : `, .on_dead = mainspring::OnDead::${options.session_on_dead}`,
    text("limit_key", options.limit_key),
  ].join("");
}

// As the API takes it.
function bodyOf(job: Schemas["Job"], options: Options): string {
  const { unique_key, ...others } = options;
  const unique = unique_key === undefined ? {} : { unique: { key: unique_key } };
  return formatJson({ queue: job.queue, kind: job.kind, args: job.args ?? {}, priority: job.priority ?? 5, ...others, ...unique }, 0);
}

export function copyChoices(job: Schemas["Job"]): { name: string; text: string }[] {
  const { queue, kind } = job;
  const priority = job.priority ?? 5;
  const args = formatJson(job.args ?? {}, 0);
  const options = optionsOf(job);
  return [
    { name: "id", text: String(job.id) },
    { name: "URL", text: location.href },
    { name: "curl", text: `curl -X POST ${shell(`${apiRoot.href}v1/jobs`)} -H 'Content-Type: application/json' -d ${shell(bodyOf(job, options))}` },
    { name: "mainspring", text: `mainspring enqueue ${shell(queue)} ${shell(kind)} ${shell(args)} --priority ${priority}${flagsOf(options)}` },
    { name: "C++", text: `client.enqueue({.queue = ${quote(queue)}, .kind = ${quote(kind)}, .args = R"json(${args})json", .priority = ${priority}${cpp(options)}});` },
    { name: "Python", text: `ms.enqueue(ms.new(${quote(kind)}, json.loads(${quote(args)}), queue=${quote(queue)}, priority=${priority}${python(options)}))` },
    { name: "TypeScript", text: `await ms.enqueue(defineJob(${quote(kind)}, { queue: ${quote(queue)} }), ${args}, { priority: ${priority}${typescript(options)} });` },
    { name: "JSON", text: formatJson(job) },
  ];
}

// Parameters of /v1/jobs whose flags have other names.
const FLAGS: Record<string, string> = { q: "search", from: "since", to: "until" };

// The jobs of a filter.
export function copyFilterChoices(query: [string, string][]): { name: string; text: string }[] {
  const search = new URLSearchParams(query).toString();
  const flags = query.map(([name, value]) => `--${FLAGS[name] ?? name} ${shell(value)}`).join(" ");
  return [
    { name: "URL", text: location.href },
    { name: "curl", text: `curl ${shell(`${apiRoot.href}v1/jobs?${search}`)}` },
    { name: "mainspring", text: `mainspring jobs list ${flags}`.trim() },
  ];
}

// The job as a request: for a shell, and for a program.
import { apiRoot, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";

const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
// A string literal of C++, Python and TypeScript.
const quote = (text: string): string => JSON.stringify(text);

export function copyChoices(job: Schemas["Job"]): { name: string; text: string }[] {
  const { queue, kind } = job;
  const priority = job.priority ?? 5;
  const args = formatJson(job.args ?? {}, 0);
  const body = formatJson({ queue, kind, args: job.args ?? {}, priority }, 0);
  return [
    { name: "id", text: String(job.id) },
    { name: "URL", text: location.href },
    { name: "curl", text: `curl -X POST ${shell(`${apiRoot.href}v1/jobs`)} -H 'Content-Type: application/json' -d ${shell(body)}` },
    { name: "mainspring", text: `mainspring enqueue ${shell(queue)} ${shell(kind)} ${shell(args)} --priority ${priority}` },
    { name: "C++", text: `client.enqueue({.queue = ${quote(queue)}, .kind = ${quote(kind)}, .args = R"json(${args})json", .priority = ${priority}});` },
    { name: "Python", text: `ms.enqueue(ms.new(${quote(kind)}, json.loads(${quote(args)}), queue=${quote(queue)}, priority=${priority}))` },
    { name: "TypeScript", text: `await ms.enqueue(defineJob(${quote(kind)}, { queue: ${quote(queue)} }), ${args}, { priority: ${priority} });` },
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

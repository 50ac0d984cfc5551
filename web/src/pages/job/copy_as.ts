// The job as a request: for a shell, and for a program.
import { apiRoot, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";

const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function copyChoices(job: Schemas["Job"]): { name: string; text: string }[] {
  const body = formatJson({ queue: job.queue, kind: job.kind, args: job.args ?? {}, priority: job.priority ?? 5 }, 0);
  const args = formatJson(job.args ?? {}, 0);
  return [
    { name: "id", text: String(job.id) },
    { name: "URL", text: location.href },
    {
      name: "curl",
      text: `curl -X POST ${shell(`${apiRoot.href}v1/jobs`)} -H 'Content-Type: application/json' -d ${shell(body)}`,
    },
    { name: "mainspring", text: `mainspring enqueue ${shell(job.queue)} ${shell(job.kind)} ${shell(args)}` },
    {
      name: "C++",
      text: `client.enqueue({.queue = ${cpp(job.queue)}, .kind = ${cpp(job.kind)}, .args = R"json(${args})json"});`,
    },
    { name: "JSON", text: formatJson(job) },
  ];
}

const cpp = (text: string): string => JSON.stringify(text);

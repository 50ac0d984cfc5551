// What the viewer's token allows. The server decides; the pages only show what it would refuse.
import type { Schemas } from "./api/client";

type Session = Schemas["DashboardSession"];
export type Verb = "enqueue" | "work" | "lease" | "read:payload" | "schedule" | "admin" | "define-exec";
// A verb, and the queues, locks or folders it is needed for; "*" is all of them, none is any of them.
export type Need = readonly [verb: Verb, ...names: (string | undefined)[]];

let session: Session | undefined;
export function setSession(next: Session | undefined): void {
  session = next;
}

// Whose session it is; empty: a viewer without a token.
export const sessionName = (): string => (session?.everything ? "" : (session?.who ?? ""));

// A pattern is a name, a prefix with *, or * alone.
const covers = (pattern: string, name: string): boolean =>
  pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

const patternsOf = (verb: Verb): string[] =>
  (session?.scopes ?? []).filter((scope) => scope === verb || scope.startsWith(`${verb}=`)).map((scope) => scope.slice(verb.length + 1) || "*");

// A name that is not known yet is left to the server.
export function may([verb, ...names]: Need): boolean {
  if (!session || session.everything) return true;
  const patterns = patternsOf(verb);
  const known = names.filter((name) => name !== undefined);
  if (known.length === 0) return patterns.length > 0;
  return known.every((name) => patterns.some((pattern) => (name === "*" ? pattern === "*" : covers(pattern, name))));
}

// The queue that the verb is limited to; undefined: it is not limited to a single one.
export function onlyQueue(verb: Verb): string | undefined {
  if (!session || session.everything) return undefined;
  const [pattern, ...more] = patternsOf(verb);
  return pattern === undefined || more.length > 0 || pattern.endsWith("*") ? undefined : pattern;
}

const CHANGES: Verb[] = ["enqueue", "schedule", "admin", "define-exec", "lease"];
export const readOnly = (): boolean => CHANGES.every((verb) => !may([verb]));

// The search box: free text and tokens, with completion of tokens and of their values.
import { useEffect, useRef, useState } from "preact/hooks";

import { get, getNamed, type Schemas } from "../../api/client";
import { t } from "../../texts";
import { STATES } from "./filter";

type Job = Schemas["Job"];
const TOKENS = Object.keys(t.search.tokens);
const MAX_SHOWN = 10;

// The token at the end of the text, while it is typed: its name, and its value after the colon.
export function lastToken(text: string): { start: number; name: string; value?: string } | undefined {
  const start = text.search(/[^\s"]*(?:"[^"]*)?$/);
  const word = text.slice(start);
  if (word === "") return undefined;
  const colon = word.indexOf(":");
  return colon < 0 ? { start, name: word } : { start, name: word.slice(0, colon), value: word.slice(colon + 1).replace(/^"/, "") };
}

export const quoted = (value: string): string => (/^[\w.\-/@+]+$/.test(value) ? value : JSON.stringify(value));

interface Choice {
  text: string; // what is shown
  help?: string;
  insert: string; // what replaces the token
}

async function namesOf(token: string, rows: Job[], queues: string[]): Promise<string[]> {
  const of = (value: (job: Job) => string | undefined) => rows.map(value).filter((one) => one !== undefined);
  switch (token) {
    case "state": return [...STATES];
    case "queue": return queues;
    case "kind": return of((job) => job.kind);
    case "tag": return rows.flatMap((job) => job.tags ?? []);
    case "session": return of((job) => job.session);
    case "limit_key": return of((job) => job.limit_key);
    case "correlation": return of((job) => job.correlation_id);
    case "worker": return (await get<Schemas["WorkerList"]>("/v1/workers")).workers.map((one) => one.id ?? "");
    case "schedule": return (await getNamed<Schemas["ScheduleList"]>("/v1/schedules", "schedules")).schedules.map((one) => one.name);
    case "before": case "after": return ["15m", "1h", "24h", "7d"];
    default: return [];
  }
}

export function SearchBox(props: { value: string; rows: Job[]; queues: string[]; onSearch: (text: string) => void }) {
  const { rows, queues, onSearch } = props;
  const [text, setText] = useState(props.value);
  const [choices, setChoices] = useState<Choice[]>([]);
  const [at, setAt] = useState(-1);
  const [open, setOpen] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setText(props.value), [props.value]);
  useEffect(() => {
    if (!open) return;
    let current = true;
    const token = lastToken(text);
    const show = (list: Choice[]) => current && (setChoices(list.slice(0, MAX_SHOWN)), setAt(-1));
    if (token?.value === undefined) {
      const word = token?.name.toLowerCase() ?? "";
      show(TOKENS.filter((name) => name.startsWith(word)).map((name) => ({ text: name, help: t.search.tokens[name], insert: name })));
    } else {
      const value = token.value.toLowerCase();
      namesOf(token.name, rows, queues).then(
        (names) => {
          const fitting = [...new Set(names)].filter((name) => name.toLowerCase().includes(value) && name.toLowerCase() !== value);
          show(fitting.sort().map((name) => ({ text: name, insert: `${token.name}:${quoted(name)} ` })));
        },
        () => show([]),
      );
    }
    return () => void (current = false);
  }, [text, open, rows, queues.length]);

  const choose = (choice: Choice) => {
    const start = lastToken(text)?.start ?? text.length;
    setText(text.slice(0, start) + choice.insert);
    input.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && open) setOpen(false);
    else if (event.key === "ArrowDown" && choices.length > 0) setOpen(true), setAt(Math.min(at + 1, choices.length - 1));
    else if (event.key === "ArrowUp" && at >= 0) setAt(at - 1);
    else if ((event.key === "Enter" || event.key === "Tab") && open && choices[at]) choose(choices[at]!);
    else return;
    event.preventDefault();
  };
  const listed = open && choices.length > 0;
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        setOpen(false);
        onSearch(text.trim());
      }}
    >
      <input
        ref={input}
        id="job-search"
        type="text"
        role="combobox"
        aria-label={t.search.label}
        aria-expanded={listed}
        aria-controls="search-choices"
        aria-autocomplete="list"
        aria-activedescendant={listed && at >= 0 ? `search-${at}` : undefined}
        placeholder={t.search.placeholder}
        spellcheck={false}
        autoComplete="off"
        value={text}
        onInput={(e) => (setText(e.currentTarget.value), setOpen(true))}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      <ul id="search-choices" role="listbox" aria-label={t.search.choices} class="choices-list" hidden={!listed}>
        {listed &&
          choices.map((choice, i) => (
            // The input keeps the focus, so that the list stays open.
            <li key={choice.text} id={`search-${i}`} role="option" aria-selected={i === at} onPointerDown={(e) => (e.preventDefault(), choose(choice))}>
              <code>{choice.text}</code> {choice.help && <span class="note">{choice.help}</span>}
            </li>
          ))}
      </ul>
      <button type="submit" class="button primary">
        {t.search.action}
      </button>
    </form>
  );
}

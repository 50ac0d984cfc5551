// Ctrl-K: type a page, a queue or the id of a job; Enter goes there.
import { useEffect, useRef, useState } from "preact/hooks";

import { get, type Schemas } from "../api/client";
import { link, navigate } from "../router";
import { t } from "../texts";

export interface Command {
  text: string;
  run: () => void;
}

// Commands of the page that is shown now.
let pageCommands: Command[] = [];
export function usePageCommands(commands: Command[]): void {
  useEffect(() => {
    pageCommands = commands;
    return () => void (pageCommands = []);
  });
}

let show: () => void = () => {};
export const openPalette = (): void => show();

const MAX_SHOWN = 12;

function commandsFor(text: string, queues: string[]): Command[] {
  const word = text.trim().toLowerCase();
  const out: Command[] = [];
  if (/^\d{1,19}$/.test(word)) out.push({ text: t.palette.job(word), run: () => navigate(link(["jobs", word])) });
  out.push(...pageCommands);
  for (const [key, title] of Object.entries(t.pages)) {
    out.push({ text: title, run: () => navigate(link(key === "overview" ? [] : [key])) });
  }
  for (const name of queues) out.push({ text: t.palette.queue(name), run: () => navigate(link(["queues", name])) });
  return out.filter((c, i) => (i === 0 && /^\d+$/.test(word)) || c.text.toLowerCase().includes(word)).slice(0, MAX_SHOWN);
}

export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [queues, setQueues] = useState<string[]>([]);
  show = () => {
    setText("");
    setAt(0);
    setOpen(true);
    get<Schemas["QueueList"]>("/v1/queues").then(
      (list) => setQueues(list.queues.map((queue) => queue.name)),
      () => {},
    );
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        show();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
  }, [open]);
  if (!open) return null;
  const commands = commandsFor(text, queues);
  const chosen = Math.min(at, commands.length - 1);
  const close = () => {
    dialog.current?.close();
    setOpen(false);
  };
  const run = (command?: Command) => {
    close();
    command?.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, commands.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
    else if (event.key === "Enter") run(commands[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label={t.layout.palette} onCancel={(e) => (e.preventDefault(), close())}>
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={commands.length > 0 ? `palette-${chosen}` : undefined}
        aria-label={t.palette.label}
        placeholder={t.palette.placeholder}
        value={text}
        autoFocus
        onInput={(e) => (setText(e.currentTarget.value), setAt(0))}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-list" role="listbox" aria-label={t.layout.palette}>
        {commands.map((command, i) => (
          <li key={command.text} id={`palette-${i}`} role="option" aria-selected={i === chosen} onClick={() => run(command)}>
            {command.text}
          </li>
        ))}
      </ul>
      {commands.length === 0 && <p class="note">{t.palette.nothing}</p>}
    </dialog>
  );
}

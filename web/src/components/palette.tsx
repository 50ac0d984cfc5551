// Ctrl-K: type a page, a queue, the id of a job, an action of the page or what to search for; Enter goes there or runs it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { getIfThere, getQueues } from "../api/client";
import type { View } from "../api/shapes";
import { link, navigate } from "../router";
import { may, type Need } from "../session";
import { t } from "../texts";
import { HIDDEN_KEYS_VIEW } from "./secrets";
import { viewLink } from "./views";

export interface Command {
  text: string;
  run: () => void;
  needs?: Need;
}

// Every button of the page is a command too; one in a table says of which row.
const MAX_BUTTONS = 300;
function buttonCommands(): Command[] {
  const out = new Map<string, Command>();
  const all = document.querySelectorAll<HTMLElement>("main button.button:not([disabled]), main a.button, main summary.button");
  for (const one of [...all].slice(0, MAX_BUTTONS)) {
    const text = one.getAttribute("aria-label") ?? one.textContent?.trim() ?? "";
    const row = one.closest("tr")?.querySelector("td:not(.select)")?.textContent?.trim();
    const name = row === undefined || text.includes(row) ? text : `${text} · ${row}`;
    if (name !== "" && !out.has(name)) out.set(name, { text: name, run: () => (one.click(), one.focus()) });
  }
  return [...out.values()];
}

// Commands of the page that have no button.
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

function commandsFor(text: string, queues: string[], views: View[], buttons: Command[]): Command[] {
  const word = text.trim().toLowerCase();
  const out: Command[] = [];
  const isId = /^\d{1,19}$/.test(word); // of a job; it leads there whatever else it fits
  if (isId) out.push({ text: t.palette.job(word), run: () => navigate(link(["jobs", word])) });
  const named = new Set(buttons.map((command) => command.text));
  out.push(...buttons, ...pageCommands.filter((command) => !named.has(command.text) && (!command.needs || may(command.needs))));
  for (const [key, title] of Object.entries(t.pages)) {
    out.push({ text: title, run: () => navigate(link(key === "overview" ? [] : [key])) });
  }
  for (const name of queues) out.push({ text: t.palette.queue(name), run: () => navigate(link(["queues", name])) });
  for (const view of views) out.push({ text: t.palette.view(view.name), run: () => navigate(viewLink(view)) });
  const fitting = out.filter((c, i) => (i === 0 && isId) || c.text.toLowerCase().includes(word)).slice(0, MAX_SHOWN);
  const query = text.trim();
  if (query !== "") fitting.push({ text: t.palette.search(query), run: () => navigate(link(["jobs"], { q: query })) });
  return fitting;
}

export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [queues, setQueues] = useState<string[]>([]);
  const [views, setViews] = useState<View[]>([]);
  const [buttons, setButtons] = useState<Command[]>([]);
  show = () => {
    setText("");
    setAt(0);
    setButtons(buttonCommands());
    setOpen(true);
    getQueues().then(
      (list) => setQueues(list.queues.map((queue) => queue.name)),
      () => {},
    );
    getIfThere<{ views: View[] }>("/v1/views").then(
      (list) => setViews(list?.views.filter((view) => view.name !== HIDDEN_KEYS_VIEW) ?? []),
      () => {},
    );
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        show();
      } else if (event.key === "/" && !isTyping(event.target)) {
        event.preventDefault();
        const search = document.querySelector<HTMLElement>("main [role=search] input");
        search ? search.focus() : show();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  // Before the next frame: what the viewer types meanwhile belongs to the dialog.
  useLayoutEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
  }, [open]);
  if (!open) return null;
  const commands = commandsFor(text, queues, views, buttons);
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
      <p class="note">{t.palette.keys}</p>
    </dialog>
  );
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest("input, textarea, select, dialog") !== null;

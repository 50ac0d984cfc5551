// Answers to what the viewer does: short notes, and questions before something is destroyed.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { ApiError } from "../api/client";
import { t } from "../texts";
import { Button } from "./basics";

interface Note {
  id: number;
  text: string;
  bad: boolean;
}
const NOTE_MS = 6_000;
const MAX_NOTES = 4;
let notes: Note[] = [];
let nextId = 1;
let redrawNotes: () => void = () => {};

export function notify(text: string, bad = false): void {
  const note = { id: nextId++, text, bad };
  notes = [...notes, note].slice(-MAX_NOTES);
  redrawNotes();
  if (!bad) setTimeout(() => dismiss(note.id), NOTE_MS);
}

function dismiss(id: number): void {
  notes = notes.filter((note) => note.id !== id);
  redrawNotes();
}

export function Notes() {
  const [, redraw] = useState(0);
  redrawNotes = () => redraw((n) => n + 1);
  return (
    <div class="notes" aria-live="polite">
      {notes.map((note) => (
        <div key={note.id} class={`note-box ${note.bad ? "bad" : ""}`} role={note.bad ? "alert" : "status"}>
          <span>{note.text}</span>
          <button type="button" aria-label={t.dismiss} onClick={() => dismiss(note.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

interface Question {
  title: string;
  text: ComponentChildren;
  action: string;
  danger?: boolean;
}
let ask: (question: Question) => Promise<boolean> = () => Promise.resolve(false);

// True if the viewer confirmed.
export const confirm = (question: Question): Promise<boolean> => ask(question);

export function ConfirmDialog() {
  const [open, setOpen] = useState<{ question: Question; answer: (yes: boolean) => void }>();
  const dialog = useRef<HTMLDialogElement>(null);
  ask = (question) =>
    new Promise((answer) => {
      setOpen({ question, answer });
    });
  // Before the next frame: what the viewer types meanwhile belongs to the dialog.
  useLayoutEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
  }, [open]);
  if (!open) return null;
  const close = (yes: boolean) => {
    dialog.current?.close();
    setOpen(undefined);
    open.answer(yes);
  };
  const { question } = open;
  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onCancel={(e) => (e.preventDefault(), close(false))}>
      <h2 id="confirm-title">{question.title}</h2>
      <div class="dialog-text">{question.text}</div>
      <div class="actions">
        <Button onClick={() => close(false)}>{t.cancelDialog}</Button>
        <Button kind={question.danger ? "danger" : "primary"} onClick={() => close(true)}>
          {question.action}
        </Button>
      </div>
    </dialog>
  );
}

// True if no object has this name, or the viewer confirmed that it is replaced: a PUT replaces without a question.
export async function mayCreate(name: string, find: () => Promise<unknown>): Promise<boolean> {
  let text = t.replace.exists;
  try {
    if ((await find()) === undefined) return true;
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    if (problem.status === 404) return true;
    if (problem.status !== 403) throw problem;
    text = t.replace.unknown;
  }
  return confirm({ title: t.replace.title(name), text, action: t.replace.action, danger: true });
}

// A dialog with a form. It stays open if `onSubmit` throws or returns false.
export function FormDialog(props: {
  title: string;
  action: string;
  wide?: boolean;
  danger?: boolean;
  disabled?: boolean;
  onClose: () => void;
  onSubmit: () => Promise<void | false>;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    const shown = dialog.current!;
    shown.showModal();
    // Typing replaces the first value.
    shown.querySelector<HTMLInputElement>("input:not([type=checkbox])")?.select();
    // Closing gives the focus back to the button that opened it; removing does not.
    return () => shown.close();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      if ((await props.onSubmit()) !== false) props.onClose();
    } catch (problem) {
      setError(messageOf(problem));
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog
      ref={dialog}
      class={props.wide ? "wide" : undefined}
      aria-label={props.title}
      onCancel={(e) => (e.preventDefault(), props.onClose())}
    >
      <form onSubmit={submit}>
        <h2>{props.title}</h2>
        {props.children}
        {error && (
          <p class="field-error" role="alert">
            {error}
          </p>
        )}
        <div class="actions">
          <Button onClick={props.onClose}>{t.cancelDialog}</Button>
          <button type="submit" class={`button ${props.danger ? "danger" : "primary"}`} disabled={busy || props.disabled}>
            {props.action}
          </button>
        </div>
      </form>
    </dialog>
  );
}

export function messageOf(problem: unknown): string {
  if (!(problem instanceof ApiError)) return String(problem);
  const text = t.errorText(problem.status, problem.code, problem.message);
  return problem.field ? `${problem.field}: ${text}` : text;
}

// Runs an action and says how it ended. True if it succeeded.
export async function act(action: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await action();
    notify(done);
    return true;
  } catch (problem) {
    notify(messageOf(problem), true);
    return false;
  }
}

// Works over plain HTTP too, where browsers offer no clipboard.
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "off-screen";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  notify(t.copied);
}

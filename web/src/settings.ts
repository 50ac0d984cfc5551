// What the viewer chose, kept in this browser.
import { useEffect, useState } from "preact/hooks";

export type Theme = "auto" | "light" | "dark";
export type Zone = "local" | "utc";
export interface Settings {
  theme: Theme;
  zone: Zone;
  columns: Record<string, string[] | undefined>; // by page; undefined: the usual ones
}

const KEY = "mainspring-ui";
const DEFAULTS: Settings = { theme: "auto", zone: "local", columns: {} };
const listeners = new Set<() => void>();
let settings: Settings = read();

function read(): Settings {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Settings>;
    return {
      theme: stored.theme === "light" || stored.theme === "dark" ? stored.theme : "auto",
      zone: stored.zone === "utc" ? "utc" : "local",
      columns: columnsOf(stored.columns),
    };
  } catch {
    return DEFAULTS; // no storage, or what another program wrote there
  }
}

function columnsOf(stored: unknown): Settings["columns"] {
  const pages = Object.entries(typeof stored === "object" && stored !== null ? stored : {});
  return Object.fromEntries(pages.filter(([, keys]) => Array.isArray(keys)).map(([page, keys]) => [page, (keys as unknown[]).map(String)]));
}

export function applyTheme(): void {
  if (settings.theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = settings.theme;
}

export function change(changes: Partial<Settings>): void {
  settings = { ...settings, ...changes };
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Kept for this tab only.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

export function useSettings(): Settings {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((n) => n + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return settings;
}

export const currentZone = (): Zone => settings.zone;

// The frame around every page: menu, commands, connection, theme.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { onStreamState, type StreamState } from "../api/events";
import { link, type Route } from "../router";
import { readOnly } from "../session";
import { change, useSettings, type Theme, type Zone } from "../settings";
import { t } from "../texts";
import { ConfirmDialog, Notes } from "./feedback";
import { openPalette, Palette } from "./palette";

type PageKey = keyof typeof t.pages;
export const MENU: { group: keyof typeof t.layout.groups; pages: PageKey[] }[] = [
  { group: "work", pages: ["overview", "jobs", "queues", "errors", "workers"] },
  { group: "timing", pages: ["schedules", "timers", "triggers"] },
  { group: "coordination", pages: ["workflows", "sessions", "locks", "breakers", "quarantine"] },
  { group: "host", pages: ["folders"] },
  { group: "system", pages: ["audit", "tokens", "system"] },
];

const THEMES: Theme[] = ["auto", "light", "dark"];

export function Layout(props: { route: Route; children: ComponentChildren; who: string; onSignOut: () => void }) {
  const [open, setOpen] = useState(false);
  const current = props.route.path[0] ?? "overview";
  useEffect(() => setOpen(false), [props.route]);
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>
        {t.layout.skip}
      </a>
      <header class="top">
        <button type="button" class="menu-button" aria-expanded={open} aria-controls="menu" onClick={() => setOpen(!open)}>
          <span aria-hidden="true">☰</span> {t.layout.menu}
        </button>
        <a class="brand" href="#/">
          {t.product}
        </a>
        <Stream />
        {readOnly() && (
          <span class="badge" title={t.layout.readOnlyHint}>
            {t.layout.readOnly}
          </span>
        )}
        <span class="spring" />
        <button type="button" class="button plain" onClick={openPalette}>
          {t.layout.palette} <kbd>{t.layout.paletteHint}</kbd>
        </button>
      </header>
      <nav id="menu" class={open ? "menu open" : "menu"} aria-label={t.layout.navigation}>
        {MENU.map(({ group, pages }) => (
          <div key={group}>
            <h2>{t.layout.groups[group]}</h2>
            {pages.map((page) => (
              <a key={page} href={link(page === "overview" ? [] : [page])} aria-current={page === current ? "page" : undefined}>
                {t.pages[page]}
              </a>
            ))}
          </div>
        ))}
        <div class="choices">
          <Choices />
          {props.who && (
            <button type="button" class="button plain" onClick={props.onSignOut}>
              <span class="long">{t.layout.signOut(props.who)}</span>
            </button>
          )}
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        {props.children}
      </main>
      <Notes />
      <ConfirmDialog />
      <Palette />
    </div>
  );
}

function Stream() {
  const [state, setState] = useState<StreamState>("off");
  useEffect(() => onStreamState(setState), []);
  return (
    <span class={`stream ${state}`} role="status">
      {t.layout.stream[state]}
    </span>
  );
}

function Choices() {
  const { theme, zone } = useSettings();
  return (
    <>
      <select aria-label={t.layout.zone} value={zone} onChange={(e) => change({ zone: e.currentTarget.value as Zone })}>
        {(["local", "utc"] as Zone[]).map((one) => (
          <option key={one} value={one}>
            {t.layout.zones[one]}
          </option>
        ))}
      </select>
      <select aria-label={t.layout.theme} value={theme} onChange={(e) => change({ theme: e.currentTarget.value as Theme })}>
        {THEMES.map((one) => (
          <option key={one} value={one}>
            {t.layout.themes[one]}
          </option>
        ))}
      </select>
    </>
  );
}

// Small parts that every page uses.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { ApiError } from "../api/client";
import { dateTime, relative } from "../format";
import { may, type Need } from "../session";
import { useSettings } from "../settings";
import { t } from "../texts";

// A page that is loading has another heading than the loaded one: the focus moves to it.
let headingHadFocus = false;
function useKeptFocus() {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    const one = heading.current!;
    if (headingHadFocus && (document.activeElement ?? document.body) === document.body) one.focus({ preventScroll: true });
    headingHadFocus = false;
    return () => void (headingHadFocus = document.activeElement === one);
  }, []);
  return heading;
}

export function Page(props: { title: string; note?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  const heading = useKeptFocus();
  useEffect(() => {
    document.title = `${props.title} · ${t.product}`;
  }, [props.title]);
  return (
    <>
      <header class="page-head">
        <div>
          <h1 ref={heading} tabIndex={-1}>{props.title}</h1>
          {props.note && <p class="note">{props.note}</p>}
        </div>
        {props.actions && <div class="actions">{props.actions}</div>}
      </header>
      {props.children}
    </>
  );
}

export function Panel(props: { title?: string; actions?: ComponentChildren; children: ComponentChildren; id?: string }) {
  return (
    <section class="panel" id={props.id} aria-label={props.title}>
      {props.title && (
        <header>
          <h2>{props.title}</h2>
          {props.actions && <div class="actions">{props.actions}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

type ButtonProps = JSX.IntrinsicElements["button"] & { kind?: "primary" | "danger" | "plain"; disabled?: boolean; needs?: Need };
// `needs`: without that scope the button is disabled, and says which scope is missing.
export function Button({ kind = "plain", class: extra, needs, ...rest }: ButtonProps) {
  const refused = needs !== undefined && !may(needs);
  return <button type="button" class={`button ${kind} ${extra ?? ""}`} {...rest} {...(refused && { disabled: true, title: t.needs(needs) })} />;
}

// State, by colour and by word: colour alone says nothing to some readers.
export function StateBadge(props: { state: string; detail?: string }) {
  return (
    <span class={`badge state-${props.state.toLowerCase().replace(/[^a-z_]/g, "")}`}>
      {t.states[props.state] ?? props.state}
      {props.detail && <span class="badge-detail"> {props.detail}</span>}
    </span>
  );
}

// One clock for all relative times of the page. With more of them than MANY_TIMES it is coarse: 2,000 rows that are drawn
// each second take a fifth of a core.
const MANY_TIMES = 200;
const COARSE_SECONDS = 10;
const ticks = new Set<() => void>();
let seconds = 0;
setInterval(() => {
  ++seconds;
  if (document.hidden || (ticks.size > MANY_TIMES && seconds % COARSE_SECONDS !== 0)) return;
  for (const tick of ticks) tick();
}, 1_000);

export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const tick = () => setNow(Date.now());
    ticks.add(tick);
    return () => void ticks.delete(tick);
  }, []);
  return now;
}

// A text that depends on the time. It is drawn again only when it differs.
export function useTimeText(text: (now: number) => string): string {
  const [, setDrawn] = useState("");
  const latest = useRef(text);
  latest.current = text;
  useEffect(() => {
    const tick = () => setDrawn(latest.current(Date.now()));
    ticks.add(tick);
    return () => void ticks.delete(tick);
  }, []);
  return text(Date.now());
}

// A relative time; the exact one is its title.
export const Ago = (props: { at?: string | null }) => (props.at ? <Relative at={props.at} /> : <>{t.none}</>);

function Relative(props: { at: string }) {
  const text = useTimeText((now) => relative(props.at, now));
  useSettings();
  return (
    <time dateTime={props.at} title={dateTime(props.at)}>
      {text}
    </time>
  );
}

export function At(props: { at?: string | null; zone?: string }) {
  useSettings();
  if (!props.at) return <>{t.none}</>;
  return (
    <time dateTime={props.at} title={props.at}>
      {dateTime(props.at, props.zone)}
    </time>
  );
}

export function ErrorBox(props: { error: ApiError; retry?: () => void }) {
  const { error } = props;
  return (
    <div class="message error" role="alert">
      <p>
        <strong>{t.errorTitle(error.status, error.code)}</strong> {t.errorText(error.status, error.code, error.message)}
      </p>
      {props.retry && <Button onClick={props.retry}>{t.retryRequest}</Button>}
    </div>
  );
}

// What would be here, and how it gets here.
export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children && <p>{props.children}</p>}
    </div>
  );
}

export const Loading = () => (
  <p class="loading" role="status">
    {t.loading}
  </p>
);

// Shows the data, or why there is none. Old data stays visible, marked, when a later read fails.
export function Show<T>(props: {
  of: { data?: T; error?: ApiError; loading: boolean; reload: () => void };
  children: (data: T) => ComponentChildren;
}) {
  const { data, error, reload } = props.of;
  return (
    <>
      {error && <ErrorBox error={error} retry={reload} />}
      {data !== undefined ? props.children(data) : !error && <Loading />}
    </>
  );
}

// A page whose data is read or missing has a heading too, and the tab its title.
export function ShowPage<T>(props: {
  title: string;
  of: { data?: T; error?: ApiError; loading: boolean; reload: () => void };
  children: (data: T) => ComponentChildren;
}) {
  const { data, error, reload } = props.of;
  if (data !== undefined) return <Show of={props.of}>{props.children}</Show>;
  return <Page title={props.title}>{error ? <ErrorBox error={error} retry={reload} /> : <Loading />}</Page>;
}

export function Facts(props: { rows: [string, ComponentChildren][] }) {
  const rows = props.rows.filter(([, value]) => value !== undefined && value !== null && value !== false && value !== "" && !(Array.isArray(value) && value.length === 0));
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Tabs(props: { label: string; tabs: { key: string; text: ComponentChildren; href: string }[]; current: string }) {
  return (
    <nav class="tabs" aria-label={props.label}>
      {props.tabs.map((tab) => (
        <a key={tab.key} href={tab.href} aria-current={tab.key === props.current ? "page" : undefined}>
          {tab.text}
        </a>
      ))}
    </nav>
  );
}

export function Field(props: { label: string; hint?: string; error?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span class="field-label">{props.label}</span>
      {props.children}
      {props.hint && !props.error && <span class="field-hint">{props.hint}</span>}
      {props.error && (
        <span class="field-error" role="alert">
          {props.error}
        </span>
      )}
    </label>
  );
}

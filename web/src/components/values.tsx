// Payloads: shown as text only, whatever is in them.
import { useState } from "preact/hooks";

import { formatJson } from "../api/json";
import { t } from "../texts";
import { Button, Panel } from "./basics";
import { copyText } from "./feedback";

// More than this is cut on screen; copying takes all of it.
const MAX_SHOWN = 100_000;

export function JsonPanel(props: { title: string; value: unknown; masked?: boolean }) {
  const [wrap, setWrap] = useState(false);
  if (props.value === undefined) return null;
  if (props.value === null && props.masked) {
    return (
      <Panel title={props.title}>
        <p class="note">{t.job.hidden}</p>
      </Panel>
    );
  }
  const text = formatJson(props.value);
  return (
    <Panel
      title={props.title}
      actions={
        <>
          <label class="inline">
            <input type="checkbox" checked={wrap} onChange={() => setWrap(!wrap)} /> {t.job.wrap}
          </label>
          <Button onClick={() => copyText(text)}>{t.copy}</Button>
        </>
      }
    >
      <Pre text={text} wrap={wrap} label={props.title} />
    </Panel>
  );
}

export function Pre(props: { text: string; wrap?: boolean; label: string }) {
  const cut = props.text.length > MAX_SHOWN;
  return (
    <pre class={props.wrap ? "value wrap" : "value"} tabIndex={0} role="region" aria-label={props.label}>
      {cut ? `${props.text.slice(0, MAX_SHOWN)}…` : props.text}
    </pre>
  );
}

// A value in one short line, for lists.
export function shortJson(value: unknown, max = 80): string {
  const text = formatJson(value, 0);
  return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}

// Payloads: shown as text only, whatever is in them.
import { useState } from "preact/hooks";

import { formatJson } from "../api/json";
import { t } from "../texts";
import { Button, Panel } from "./basics";
import { copyText } from "./feedback";
import { cover } from "./secrets";

// More than this is cut on screen; copying takes all of it.
const MAX_SHOWN = 100_000;

// `kind`: of the job, whose hidden keys are covered.
export function JsonPanel(props: { title: string; value: unknown; kind?: string; masked?: boolean }) {
  const [wrap, setWrap] = useState(false);
  const [open, setOpen] = useState(false);
  if (props.value === undefined) return null;
  if (props.value === null && props.masked) {
    return (
      <Panel title={props.title}>
        <p class="note">{t.job.hidden}</p>
      </Panel>
    );
  }
  const { shown, covered } = cover(props.value, props.kind);
  return (
    <Panel
      title={props.title}
      actions={
        <>
          {covered > 0 && (
            <label class="inline" title={t.job.coveredHint}>
              <input type="checkbox" checked={open} onChange={() => setOpen(!open)} /> {t.job.showCovered(covered)}
            </label>
          )}
          <label class="inline">
            <input type="checkbox" checked={wrap} onChange={() => setWrap(!wrap)} /> {t.job.wrap}
          </label>
          <Button onClick={() => copyText(formatJson(props.value))}>{t.copy}</Button>
        </>
      }
    >
      <Pre text={formatJson(open ? props.value : shown)} wrap={wrap} label={props.title} />
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
export function shortJson(value: unknown, max = 80, kind?: string): string {
  const text = formatJson(cover(value, kind).shown, 0);
  return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}

// One action on many jobs: it is counted first, and runs on the server, where it can be followed and stopped.
import { useEffect, useRef, useState } from "preact/hooks";

import { ApiError, getIfThere, post } from "../../api/client";
import { changes, viewerIsActive, type ServerEvent } from "../../api/events";
import type { Bulk, BulkPreview } from "../../api/shapes";
import { Ago, Button, ErrorBox, Field, Panel, StateBadge } from "../../components/basics";
import { act, FormDialog, notify } from "../../components/feedback";
import { useData, type Loaded } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

export type BulkAction = "retry" | "cancel" | "delete" | "reprioritise";
export const BULK_ACTIONS: BulkAction[] = ["retry", "cancel", "delete", "reprioritise"];
// A bulk action is a job of this queue: its events say how far it is.
const BULK_QUEUE = "mainspring.redrives";
const ENDED = new Set(["done", "stopped", "failed"]);
const WORKS = new Set(["queued", "running"]);
const SHOW_ENDED_MS = 10 * 60_000;

// The states whose jobs an action changes. The server refuses a filter without any of them.
const CHANGES: Record<BulkAction, string[]> = {
  cancel: ["waiting", "scheduled", "available", "running", "retryable"],
  retry: ["scheduled", "retryable", "cancelled", "dead"],
  delete: ["completed", "cancelled", "dead"],
  reprioritise: ["waiting", "scheduled", "available", "retryable"],
};

function applies(action: BulkAction, filter: Record<string, unknown>): boolean {
  return !Array.isArray(filter.state) || filter.state.some((state) => CHANGES[action].includes(String(state)));
}

export function BulkDialog(props: { action: BulkAction; filters: Record<string, unknown>[]; onClose: () => void; done: () => void }) {
  const { action } = props;
  // The filters are fixed when the dialog opens, so that the count is that of what is done. The page passes other ones,
  // which end later, each time that it is drawn.
  const [filters] = useState(props.filters.filter((one) => applies(action, one)));
  const [previews, setPreviews] = useState<BulkPreview[]>();
  const preview = previews && sumOf(previews);
  const [problem, setProblem] = useState<ApiError>();
  const [priority, setPriority] = useState("5");
  const [rate, setRate] = useState("100/s");
  const [canary, setCanary] = useState("");
  const [reason, setReason] = useState("");
  const body = (filter: object, extra: object) => ({ action, filter, ...(action === "reprioritise" ? { priority: Number(priority) } : {}), ...extra });
  useEffect(() => {
    const ask = (filter: object) => post<BulkPreview>("/v1/bulk", body(filter, { dry_run: true }));
    Promise.all(filters.map(ask)).then(setPreviews, (error) => setProblem(error as ApiError));
  }, []);
  const submit = async () => {
    const extra: Record<string, unknown> = {};
    if (rate.trim() !== "") extra.rate = rate.trim();
    if (canary.trim() !== "") extra.canary = Number(canary);
    if (reason.trim() !== "") extra.reason = reason.trim();
    for (const [i, filter] of filters.entries()) {
      if (previews?.[i]?.matched !== 0) await post<Bulk>("/v1/bulk", body(filter, extra));
    }
    notify(t.bulk.started(t.bulk.actions[action]));
    props.done();
  };
  const n = problem ? t.none : preview === undefined ? t.bulk.counting : (preview.exact === false ? t.bulk.atLeast : "") + count(preview.matched);
  return (
    <FormDialog
      title={t.bulk.title(t.bulk.actions[action], n)}
      action={t.bulk.run(t.bulk.actions[action], n)}
      danger={action === "cancel" || action === "delete"}
      disabled={!preview || preview.matched === 0}
      onClose={props.onClose}
      onSubmit={submit}
    >
      {problem && <ErrorBox error={problem} />}
      <p>{t.bulk.texts[action]}</p>
      {preview && (
        <p class="note">
          {t.bulk.sample}{" "}
          {preview.sample?.slice(0, 5).map((id) => (
            <a key={String(id)} class="tag" href={link(["jobs", id])} target="_blank" rel="noreferrer">
              {String(id)}
            </a>
          ))}
        </p>
      )}
      {action === "reprioritise" && (
        <Field label={t.jobs.priority} hint={t.jobs.priorityHint}>
          <input type="number" min={0} max={9} required value={priority} onInput={(e) => setPriority(e.currentTarget.value)} />
        </Field>
      )}
      <div class="form-row">
        <Field label={t.bulk.rate} hint={t.bulk.rateHint}>
          <input value={rate} onInput={(e) => setRate(e.currentTarget.value)} />
        </Field>
        <Field label={t.bulk.canary} hint={t.bulk.canaryHint}>
          <input type="number" min={1} value={canary} onInput={(e) => setCanary(e.currentTarget.value)} />
        </Field>
      </div>
      <Field label={t.reason} hint={t.bulk.reasonHint}>
        <input maxLength={200} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

function sumOf(previews: BulkPreview[]): BulkPreview {
  return {
    matched: previews.reduce((sum, one) => sum + one.matched, 0),
    exact: previews.every((one) => one.exact !== false),
    sample: previews.flatMap((one) => one.sample ?? []),
  };
}

const isRecent = (one: Bulk, now: number): boolean =>
  !ENDED.has(one.state) || (one.finished_at !== undefined && now - Date.parse(one.finished_at) < SHOW_ENDED_MS);

// What one does to a job. A token for some queues sees no event of BULK_QUEUE.
const isEffect = (event: ServerEvent): boolean => event.type === "retrying" || event.type === "cancelled" || changes(event, "job");

const progressOf = (one: Bulk): string =>
  one.matched == null
    ? t.bulk.counting
    : t.bulk.progress(count(one.changed ?? 0), count(one.matched), count(one.skipped ?? 0), count(one.failed ?? 0));

// Bulk actions that run, and those of the last minutes. `version` grows when one was started here.
export function BulkPanel(props: { version: number; ended: () => void }) {
  const bulks: Loaded<Bulk[]> = useData(
    `bulk ${props.version}`,
    async (signal) => (await getIfThere<{ bulks: Bulk[] }>("/v1/bulk", {}, signal))?.bulks ?? [],
    (event) =>
      event.queue === BULK_QUEUE || viewerIsActive(event) || (isEffect(event) && (bulks.data ?? []).some((one) => WORKS.has(one.state))),
  );
  // A short one ends before it is seen running.
  const ended = bulks.data?.filter((one) => ENDED.has(one.state)).map((one) => String(one.id)).join();
  const before = useRef<string | undefined>(undefined);
  useEffect(() => {
    if (before.current !== undefined && ended !== undefined && ended !== before.current) props.ended();
    before.current = ended ?? before.current;
  }, [ended]);
  const shown = (bulks.data ?? []).filter((one) => isRecent(one, Date.now())).sort((a, b) => Number(b.id) - Number(a.id)).slice(0, 5);
  if (shown.length === 0) return null;
  const run = async (one: Bulk, verb: "stop" | "continue") => {
    if (await act(() => post(`/v1/bulk/${one.id}/${verb}`), t.bulk.done(String(one.id)))) bulks.reload();
  };
  return (
    <Panel title={t.bulk.panel}>
      <ul class="plain-list">
        {shown.map((one) => {
          const handled = (one.changed ?? 0) + (one.skipped ?? 0) + (one.failed ?? 0);
          return (
            <li key={one.id}>
              <span>
                <StateBadge state={one.state === "done" ? "completed" : one.state} detail={one.state === "waiting" ? t.bulk.afterCanary : undefined} /> {t.bulk.actions[one.action as BulkAction] ?? one.action}{" "}
                <span class="note">{progressOf(one)}</span>
                {one.error && <span class="field-error"> {one.error}</span>}
              </span>
              <span class="note">
                {one.by} <Ago at={one.started_at} /> · <a href={link(["jobs", one.id])}>{t.job.title(String(one.id))}</a> · <a href={link(["audit"], { object: `job/${one.id}` })}>{t.pages.audit}</a>
              </span>
              {!ENDED.has(one.state) && (
                <span class="actions">
                  <progress max={Math.max(1, one.matched ?? 1)} value={handled} aria-label={t.bulk.panel} />
                  {one.state === "waiting" && (
                    <Button kind="primary" needs={["admin"]} onClick={() => run(one, "continue")}>
                      {t.bulk.continue}
                    </Button>
                  )}
                  <Button kind="danger" needs={["admin"]} onClick={() => run(one, "stop")}>
                    {t.bulk.stop}
                  </Button>
                </span>
              )}
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}

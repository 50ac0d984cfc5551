// Two jobs, or two failed attempts of one job, side by side.
import { useState } from "preact/hooks";

import { get, segment, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";
import { At, Page, Panel, Show } from "../../components/basics";
import { Diff } from "../../components/diff";
import { cover } from "../../components/secrets";
import { useData } from "../../data";
import { bytes, duration } from "../../format";
import { link, navigate } from "../../router";
import { t } from "../../texts";

type Job = Schemas["Job"];
type AttemptError = Schemas["AttemptError"];

export function CompareAttempts({ errors }: { errors: AttemptError[] }) {
  const [left, setLeft] = useState(errors.length - 2);
  const [right, setRight] = useState(errors.length - 1);
  const [a, b] = [errors[left], errors[right]];
  if (!a || !b) return null;
  const choice = (label: string, value: number, set: (n: number) => void) => (
    <label class="inline">
      {label}{" "}
      <select value={value} onChange={(e) => set(Number(e.currentTarget.value))}>
        {errors.map((error, i) => (
          <option key={i} value={i}>
            {t.compare.attempt(error.attempt ?? i + 1)}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <Panel title={t.job.compare}>
      <div class="filters">
        {choice(t.compare.first, left, setLeft)}
        {choice(t.compare.second, right, setRight)}
      </div>
      <Rows
        rows={[
          [t.job.ended, <At at={a.at} />, <At at={b.at} />],
          [t.job.worker, a.worker, b.worker],
          [t.compare.after, a.after_ms == null ? t.none : duration(a.after_ms), b.after_ms == null ? t.none : duration(b.after_ms)],
          [t.folders.exit, a.exit_code, b.exit_code],
          [t.compare.signal, a.signal, b.signal],
          [t.job.memory, a.peak_memory === undefined ? undefined : bytes(a.peak_memory), b.peak_memory === undefined ? undefined : bytes(b.peak_memory)],
        ]}
        left={t.compare.attempt(a.attempt ?? 0)}
        right={t.compare.attempt(b.attempt ?? 0)}
      />
      <Diff label={t.job.compare} left={a.message ?? ""} right={b.message ?? ""} />
    </Panel>
  );
}

type Row = [string, preact.ComponentChildren, preact.ComponentChildren];

function Rows(props: { rows: Row[]; left: string; right: string }) {
  const shown = props.rows.filter(([, a, b]) => (a !== undefined && a !== null) || (b !== undefined && b !== null));
  return (
    <div class="table-frame">
      <table aria-label={t.compare.facts}>
        <thead>
          <tr>
            <th scope="col">{t.compare.fact}</th>
            <th scope="col">{props.left}</th>
            <th scope="col">{props.right}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(([name, a, b]) => (
            <tr key={name}>
              <td class="wide" data-title={t.compare.fact}>{name}</td>
              <td data-title={props.left}>{a ?? t.none}</td>
              <td data-title={props.right}>{b ?? t.none}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const ran = (job: Job): string | undefined =>
  job.started_at && job.finished_at ? duration(Date.parse(job.finished_at) - Date.parse(job.started_at)) : undefined;

// #/jobs/ID/compare/OTHER
export function ComparePage(props: { id: string; other?: string }) {
  const { id, other } = props;
  const [typed, setTyped] = useState(other ?? "");
  const read = (which: string | undefined) => (signal: AbortSignal) =>
    which ? get<Job>(`/v1/jobs/${segment(which)}`, {}, signal) : Promise.resolve(undefined);
  const left = useData(`job ${id}`, read(id));
  const right = useData(`job ${other}`, read(other));
  return (
    <Page title={t.compare.title} note={<a href={link(["jobs", id])}>{t.job.title(id)}</a>}>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          navigate(link(["jobs", id, "compare", typed.trim()]));
        }}
      >
        <label>
          {t.compare.with} <input required inputMode="numeric" pattern="\s*\d+\s*" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />
        </label>
        <button type="submit" class="button primary">
          {t.compare.action}
        </button>
      </form>
      <Show of={left}>
        {(a) => a && <Show of={right}>{(b) => b && <Comparison a={a} b={b} />}</Show>}
      </Show>
    </Page>
  );
}

function Comparison({ a, b }: { a: Job; b: Job }) {
  const texts = (value: unknown, kind: string) => (value === undefined ? "" : formatJson(cover(value, kind).shown));
  const errorOf = (job: Job) => job.errors?.at(-1)?.message ?? job.description ?? "";
  return (
    <>
      <Rows
        left={t.job.title(String(a.id))}
        right={t.job.title(String(b.id))}
        rows={[
          [t.jobs.state, t.states[a.state], t.states[b.state]],
          [t.jobs.kind, a.kind, b.kind],
          [t.jobs.queue, a.queue, b.queue],
          [t.job.attempt, a.attempt, b.attempt],
          [t.job.worker, a.worker, b.worker],
          [t.job.created, <At at={a.created_at} />, <At at={b.created_at} />],
          [t.job.ran, ran(a), ran(b)],
          [t.reason, a.reason, b.reason],
        ]}
      />
      <Panel title={t.job.args}>
        <Diff label={t.job.args} left={texts(a.args, a.kind)} right={texts(b.args, b.kind)} />
      </Panel>
      <Panel title={t.job.result}>
        <Diff label={t.job.result} left={texts(a.result, a.kind)} right={texts(b.result, b.kind)} />
      </Panel>
      <Panel title={t.job.errors}>
        <Diff label={t.job.errors} left={errorOf(a)} right={errorOf(b)} />
      </Panel>
    </>
  );
}

// One job: where it is and why, what happened to it, what it carries.
import { useState } from "preact/hooks";

import { get, post, segment, type Schemas } from "../../api/client";
import { Ago, At, Button, Facts, Page, Panel, Show, StateBadge } from "../../components/basics";
import { act, confirm, copyText, messageOf, notify } from "../../components/feedback";
import { usePageCommands } from "../../components/palette";
import { JsonPanel, Pre } from "../../components/values";
import { useData } from "../../data";
import { bytes, count, duration } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";
import { NewJobDialog } from "../jobs/new_job";
import { copyChoices } from "./copy_as";

type Job = Schemas["Job"];
const ENDED = new Set(["completed", "cancelled", "dead"]);

export function JobPage(props: { id: string }) {
  const { id } = props;
  const job = useData(id, (signal) => get<Job>(`/v1/jobs/${segment(id)}`, {}, signal), (event) => String(event.job) === id);
  return (
    <Show of={job}>{(data) => <JobView job={data} reload={job.reload} />}</Show>
  );
}

function JobView(props: { job: Job; reload: () => void }) {
  const { job, reload } = props;
  const id = String(job.id);
  const ended = ENDED.has(job.state);
  const [cloning, setCloning] = useState(false);
  const retry = async () => {
    if (await act(() => post(`/v1/jobs/${id}/retry`), t.job.retried)) reload();
  };
  const cancel = async () => {
    const yes = await confirm({
      title: t.job.confirmCancel(id), text: t.jobs.confirmCancelText, action: t.job.cancel, danger: true,
    });
    if (!yes) return;
    try {
      await post(`/v1/jobs/${id}/cancel`);
      notify(job.state === "running" ? t.job.cancelAsked : t.job.cancelled);
      reload();
    } catch (problem) {
      notify(messageOf(problem), true);
    }
  };
  const commands = [
    { text: t.job.clone, run: () => setCloning(true) },
    ...(job.state !== "running" && job.state !== "completed" ? [{ text: t.job.retry, run: retry }] : []),
    ...(ended ? [] : [{ text: t.job.cancel, run: cancel }]),
  ];
  usePageCommands(commands);
  return (
    <Page
      title={t.job.title(id)}
      note={
        <>
          <StateBadge state={job.state} /> {job.kind} · <a href={link(["queues", job.queue])}>{job.queue}</a>
        </>
      }
      actions={
        <>
          {(job.state === "dead" || job.state === "cancelled" || job.state === "retryable" || job.state === "scheduled") && (
            <Button kind="primary" onClick={retry}>
              {t.job.retry}
            </Button>
          )}
          {!ended && (
            <Button kind="danger" onClick={cancel}>
              {t.job.cancel}
            </Button>
          )}
          <Button onClick={() => setCloning(true)}>{t.job.clone}</Button>
          <CopyAs job={job} />
        </>
      }
    >
      {job.reason && (
        <p class="message error">
          <strong>{job.reason}</strong> {job.description}
        </p>
      )}
      {!ended && <WhyPanel job={job} />}
      <div class="columns">
        <FactsPanel job={job} />
        <Timeline job={job} />
      </div>
      {job.progress && (
        <Panel title={t.job.progress}>
          {job.progress.value !== undefined && <progress max={1} value={job.progress.value} aria-label={t.job.progress} />}
          <p>{job.progress.text}</p>
        </Panel>
      )}
      <Errors job={job} />
      <JsonPanel title={t.job.args} value={job.args} masked />
      <JsonPanel title={t.job.result} value={job.result} masked />
      <JsonPanel title={t.job.checkpoint} value={job.checkpoint} masked />
      <JsonPanel title={t.job.headers} value={job.headers} />
      <JsonPanel title={t.job.then} value={job.then?.length ? job.then : undefined} />
      {cloning && <NewJobDialog like={job} onClose={() => setCloning(false)} />}
    </Page>
  );
}

function CopyAs({ job }: { job: Job }) {
  return (
    <select
      aria-label={t.job.copyAs}
      value=""
      onChange={(e) => {
        const choice = copyChoices(job).find((one) => one.name === e.currentTarget.value);
        e.currentTarget.value = "";
        if (choice) void copyText(choice.text);
      }}
    >
      <option value="">{t.job.copyAs}</option>
      {copyChoices(job).map((choice) => (
        <option key={choice.name} value={choice.name}>
          {choice.name}
        </option>
      ))}
    </select>
  );
}

// Which gate holds the job, from the server, as of now. Any event of its queue may open the gate.
function WhyPanel({ job }: { job: Job }) {
  const why = useData(
    `${job.id} ${job.version ?? 0}`,
    (signal) => get<Schemas["Why"]>(`/v1/jobs/${segment(job.id)}/why`, {}, signal),
    (event) => event.queue === job.queue || event.type.startsWith("queue_") || event.type.startsWith("breaker_"),
  );
  return (
    <Panel title={job.state === "running" ? t.job.whyRunning : t.job.why}>
      <Show of={why}>
        {(data) => (
          <>
            <p class="why">{data.why}</p>
            <p class="note">
              {data.until && (
                <>
                  {t.job.until} <Ago at={data.until} />.{" "}
                </>
              )}
              {data.ahead !== undefined && data.ahead > 0 && <>{t.job.ahead(data.ahead)}. </>}
              {data.estimated_start && (
                <>
                  {t.job.estimated} <Ago at={data.estimated_start} />.
                </>
              )}
            </p>
          </>
        )}
      </Show>
    </Panel>
  );
}

function FactsPanel({ job }: { job: Job }) {
  const started = job.started_at ? Date.parse(job.started_at) : undefined;
  const from = Math.max(Date.parse(job.created_at ?? ""), Date.parse(job.run_at ?? job.created_at ?? ""));
  const ran = started !== undefined && job.finished_at ? Date.parse(job.finished_at) - started : undefined;
  return (
    <Panel title={t.job.facts}>
      <Facts
        rows={[
          [t.job.attempt, t.jobs.attempts(job.attempt ?? 0, job.max_attempts ?? 0)],
          [t.job.priority, job.priority],
          [t.job.worker, job.worker && <code>{job.worker}</code>],
          [t.job.timeout, job.timeout],
          [t.job.waited, started !== undefined && (job.attempt ?? 0) <= 1 && started > from ? duration(started - from) : undefined],
          [t.job.ran, ran !== undefined && ran >= 0 ? duration(ran) : undefined],
          [t.job.runAt, job.state === "scheduled" || job.state === "retryable" ? <Ago at={job.run_at} /> : undefined],
          [t.job.expires, job.expires_at && <Ago at={job.expires_at} />],
          [t.job.uniqueKey, job.unique_key],
          [t.job.limitKey, job.limit_key],
          [t.job.session, job.session],
          [t.job.correlation, job.correlation_id],
          [t.job.replyTo, job.reply_to],
          [t.job.tags, job.tags?.map((tag) => <a key={tag} class="tag" href={link(["jobs"], { tag })}>{tag}</a>)],
        ]}
      />
    </Panel>
  );
}

function Timeline({ job }: { job: Job }) {
  const rows: [string, string | undefined, string?][] = [[t.job.created, job.created_at]];
  for (const error of job.errors ?? []) {
    const after = error.after_ms === undefined || error.after_ms === null ? undefined : t.job.after(duration(error.after_ms));
    rows.push([t.job.failed(error.attempt ?? 0), error.at, after]);
  }
  if (job.started_at && (job.state === "running" || job.state === "completed")) rows.push([t.job.started, job.started_at]);
  if (job.state === "scheduled" || job.state === "retryable") rows.push([t.job.scheduledFor, job.run_at]);
  if (job.finished_at) rows.push([t.states[job.state] ?? job.state, job.finished_at]);
  return (
    <Panel title={t.job.timeline}>
      <ol class="timeline">
        {rows.map(([what, at, detail]) => (
          <li key={`${what} ${at}`}>
            <span>
              {what} {detail && <span class="note">{detail}</span>}
            </span>
            <At at={at} />
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function Errors({ job }: { job: Job }) {
  const errors = [...(job.errors ?? [])].reverse();
  if (errors.length === 0) return null;
  return (
    <Panel title={`${t.job.errors} (${count(errors.length)})`}>
      {errors.map((error, i) => (
        <details key={error.attempt ?? i} open={i === 0}>
          <summary>
            <strong>{t.job.failed(error.attempt ?? 0)}</strong> <Ago at={error.at} />
            <span class="note">
              {error.exit_code !== undefined && ` · ${t.job.exit(error.exit_code)}`}
              {error.signal && ` · ${t.job.signal(error.signal)}`}
              {error.oom && ` · ${t.job.oom}`}
              {error.peak_memory !== undefined && ` · ${t.job.memory} ${bytes(error.peak_memory)}`}
              {error.after_ms != null && ` · ${t.job.after(duration(error.after_ms))}`}
            </span>
          </summary>
          <Pre text={error.message ?? ""} wrap label={t.job.failed(error.attempt ?? 0)} />
        </details>
      ))}
    </Panel>
  );
}

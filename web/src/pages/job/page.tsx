// One job: where it is and why, what happened to it, what it carries.
import { useEffect, useState } from "preact/hooks";

import { get, post, remove, segment, type Schemas } from "../../api/client";
import { changes, listen } from "../../api/events";
import { Ago, At, Button, Facts, Page, Panel, ShowPage, StateBadge, useNow } from "../../components/basics";
import { CopyAs } from "../../components/copy_as";
import { act, confirm, messageOf, notify } from "../../components/feedback";
import { LogPanel } from "../../components/log";
import { usePageCommands, type Command } from "../../components/palette";
import { JsonPanel, Pre } from "../../components/values";
import { useData, type Loaded } from "../../data";
import { bytes, capital, count, duration } from "../../format";
import { lastJobList, link, navigate } from "../../router";
import { may, type Need } from "../../session";
import { t } from "../../texts";
import { NewJobDialog } from "../jobs/new_job";
import { quoted } from "../jobs/search";
import { LimitsDialog } from "../queues/limits";
import { CompareAttempts } from "./compare";
import { copyChoices } from "./copy_as";
import { EditJobDialog } from "./edit";
import { headerOf, WhyPanel } from "./why";

type Job = Schemas["Job"];
const FOLDER_QUEUE = "host"; // of job folders
const ENDED = new Set(["completed", "cancelled", "dead"]);

export function JobPage(props: { id: string }) {
  const { id } = props;
  const job: Loaded<Job> = useData(
    id,
    (signal) => get<Job>(`/v1/jobs/${segment(id)}`, {}, signal),
    // A job that becomes due makes an event of its queue. The timer alone would trust the browser's clock.
    (event) => String(event.job) === id || (waitsForTime(job.data) && changes(event, `queue/${job.data?.queue}`)),
  );
  useReloadWhenDue(job.data, job.reload);
  return (
    <ShowPage title={t.job.title(id)} of={job}>
      {(data) => <JobView job={data} reload={job.reload} />}
    </ShowPage>
  );
}

function JobView(props: { job: Job; reload: () => void }) {
  const { job, reload } = props;
  const id = String(job.id);
  const ended = ENDED.has(job.state);
  const [dialog, setDialog] = useState<"clone" | "edit" | "limits">();
  const close = () => setDialog(undefined);
  // The server leaves these to the workflow.
  const workflow = workflowOf(job);
  const stepOfWorkflow = workflow !== undefined && !job.deferred && !job.quarantined;
  const editable = job.state === "available" || job.state === "scheduled" || job.state === "waiting" || job.state === "retryable";
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
  const takeBack = async () => {
    const yes = await confirm({ title: t.job.confirmTakeBack(id), text: t.job.confirmTakeBackText, action: t.job.takeBack, danger: true });
    if (yes && (await act(() => post(`/v1/jobs/${id}/take-back`), t.job.takenBack))) reload();
  };
  const drop = async () => {
    const yes = await confirm({ title: t.job.confirmDelete(id), text: t.job.confirmDeleteText, action: t.job.delete, danger: true });
    if (!yes) return;
    const removeShown = async () => {
      const now = await get<Job>(`/v1/jobs/${id}`); // retried since, it may have a result
      if (now.state !== job.state || now.attempt !== job.attempt) throw t.job.notDeleted(id, t.states[now.state]!);
      await remove(`/v1/jobs/${id}`);
    };
    if (await act(removeShown, t.job.deleted(id))) navigate(lastJobList() || link(["jobs"], { queue: job.queue }));
    else reload();
  };
  const change: Need = ["admin", job.queue];
  const enqueue: Need = ["enqueue", job.queue];
  const commands: Command[] = [
    { text: t.job.clone, run: () => setDialog("clone"), needs: enqueue },
    { text: t.queues.edit, run: () => setDialog("limits"), needs: change },
    { text: t.job.compareWith, run: () => navigate(link(["jobs", id, "compare"])) },
    ...(editable ? [{ text: t.job.edit, run: () => setDialog("edit"), needs: change }] : []),
    ...(ended ? [{ text: t.job.delete, run: drop, needs: change }] : []),
    ...(job.state !== "running" && job.state !== "completed" && !stepOfWorkflow ? [{ text: t.job.retry, run: retry, needs: change }] : []),
    ...(job.state === "running" ? [{ text: t.job.takeBack, run: takeBack, needs: change }] : []),
    ...(ended ? [] : [{ text: t.job.cancel, run: cancel, needs: change }]),
  ];
  usePageCommands(commands);
  return (
    <Page
      title={t.job.title(id)}
      note={
        <>
          <StateBadge state={job.state} /> {job.kind} · <a href={link(["queues", job.queue])}>{job.queue}</a>
          {lastJobList() && (
            <>
              {" · "}
              <a href={lastJobList()}>{t.job.backToList}</a>
            </>
          )}
        </>
      }
      actions={
        <>
          {(job.state === "dead" || job.state === "cancelled" || job.state === "retryable" || job.state === "scheduled") && (
            <Button kind="primary" needs={change} disabled={stepOfWorkflow} title={stepOfWorkflow ? t.job.retryWorkflow(workflow) : undefined} onClick={retry}>
              {job.state === "scheduled" || job.state === "retryable" ? t.job.runNow : t.job.retry}
            </Button>
          )}
          {!ended && (
            <Button kind="danger" needs={change} onClick={cancel}>
              {t.job.cancel}
            </Button>
          )}
          {job.state === "running" && <Button kind="danger" needs={change} onClick={takeBack}>{t.job.takeBack}</Button>}
          {editable && <Button needs={change} onClick={() => setDialog("edit")}>{t.job.edit}</Button>}
          <Button needs={enqueue} onClick={() => setDialog("clone")}>{t.job.clone}</Button>
          <a class="button plain" href={link(["jobs", id, "compare"])}>
            {t.job.compareWith}
          </a>
          {ended && (
            <Button kind="danger" needs={change} onClick={drop}>
              {t.job.delete}
            </Button>
          )}
          <CopyAs choices={() => copyChoices(job)} />
        </>
      }
    >
      {job.reason && (
        <p class={`message outcome ${job.state === "dead" ? "error" : "warning"}`}>
          <strong>{reasonText(job.reason)}
          {job.description && ":"}</strong> <span class="long">{job.description}</span>
        </p>
      )}
      {job.warning && (
        <p class="message warning outcome">
          <strong>{t.job.warning}</strong> <span class="long">{job.warning}</span>
        </p>
      )}
      {!ended && <WhyPanel job={job} />}
      <div class="columns">
        <FactsPanel job={job} />
        <Timeline job={job} />
      </div>
      <ProgressPanel job={job} />
      <Errors job={job} />
      <FolderLogs job={job} />
      {(job.errors?.length ?? 0) > 1 && <CompareAttempts errors={job.errors!} />}
      <JsonPanel title={t.job.args} value={job.args} kind={job.kind} masked />
      <JsonPanel title={t.job.result} value={job.result} kind={job.kind} masked />
      <JsonPanel title={t.job.checkpoint} value={job.checkpoint} kind={job.kind} masked />
      <JsonPanel title={t.job.headers} value={job.headers} />
      <JsonPanel title={t.job.then} value={job.then?.length ? job.then : undefined} />
      <Memos job={job} />
      {dialog === "clone" && <NewJobDialog like={job} onClose={close} />}
      {dialog === "edit" && <EditJobDialog job={job} onClose={close} done={reload} />}
      {dialog === "limits" && <LimitsOf queue={job.queue} onClose={close} />}
    </Page>
  );
}

// The server's reasons are words with underscores; workers and operators give any text.
function reasonText(reason: string): string {
  if (Object.hasOwn(t.job.reasons, reason)) return t.job.reasons[reason]!;
  return /^[a-z_]+$/.test(reason) ? capital(reason.replaceAll("_", " ")) : reason;
}

const MAX_PROGRESS = 200;

// The last progress, and the texts before it that came while the page was open: the server keeps one.
function ProgressPanel({ job }: { job: Job }) {
  const [log, setLog] = useState<{ at: string; text: string }[]>([]);
  const id = String(job.id);
  useEffect(
    () =>
      listen((event) => {
        if (event.type !== "progress" || String(event.job) !== id) return;
        const text = (event.progress as Schemas["Progress"] | undefined)?.text;
        if (text) setLog((old) => [...old, { at: new Date().toISOString(), text }].slice(-MAX_PROGRESS));
      }),
    [id],
  );
  if (!job.progress && log.length === 0) return null;
  return (
    <Panel title={t.job.progress}>
      {job.progress?.value !== undefined && <progress max={1} value={job.progress.value} aria-label={t.job.progress} />}
      <p>{job.progress?.text}</p>
      {log.length > 0 && (
        <details>
          <summary>{t.job.progressSince}</summary>
          <ol class="timeline">
            {log.map((one, i) => (
              <li key={i}>
                <span class="long">{one.text}</span> <At at={one.at} />
              </li>
            ))}
          </ol>
        </details>
      )}
    </Panel>
  );
}

// Of the W3C header traceparent: VERSION-TRACE-SPAN-FLAGS.
const traceOf = (job: Job): string | undefined => /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(headerOf(job, "traceparent") ?? "")?.[1];

function LimitsOf(props: { queue: string; onClose: () => void }) {
  const queue = useData(`limits ${props.queue}`, (signal) => get<Schemas["Queue"]>(`/v1/queues/${segment(props.queue)}`, {}, signal));
  return queue.data ? <LimitsDialog queue={queue.data} onClose={props.onClose} done={() => {}} /> : null;
}

const folderOf = (job: Job): string | undefined => (job.queue === FOLDER_QUEUE ? /^triggered\/(.+)$/.exec(job.kind)?.[1] : undefined);

// What each run of a job folder wrote: the newest run's log, and links to the others. A viewer without read:payload sees none.
function FolderLogs({ job }: { job: Job }) {
  const folder = folderOf(job);
  const path = `/v1/host/jobs/triggered/${segment(folder ?? "")}`;
  const runs = useData(`runs ${job.id} ${job.version} ${job.state}`, async (signal) => {
    if (folder === undefined || !may(["read:payload", `folder/${folder}`])) return [];
    const history = await get<Schemas["HostHistory"]>(`${path}/history`, {}, signal).catch(() => undefined);
    return history?.runs.filter((run) => run.job !== undefined && BigInt(run.job) === BigInt(job.id)) ?? [];
  });
  const [newest, ...others] = [...(runs.data ?? [])].sort((a, b) => Date.parse(b.started) - Date.parse(a.started));
  if (!newest) return null;
  return (
    <>
      <LogPanel path={path} run={newest.id} />
      {others.length > 0 && (
        <p class="note">
          {t.job.earlierRuns}:{" "}
          {others.map((run) => (
            <a key={run.id} class="tag" href={link(["folders", "triggered", folder!], { run: run.id })}>
              {run.id}
            </a>
          ))}
        </p>
      )}
    </>
  );
}

// Saved step results. A viewer who may not read payloads sees none.
function Memos({ job }: { job: Job }) {
  const memos = useData(`memos ${job.id} ${job.version}`, (signal) =>
    get<Schemas["MemoPage"]>(`/v1/jobs/${segment(job.id)}/memos`, { limit: 100 }, signal).then((page) => page.memos, () => []),
  );
  if (!memos.data?.length) return null;
  return <JsonPanel title={t.job.steps} kind={job.kind} value={Object.fromEntries(memos.data.map((memo) => [memo.name, memo.result]))} />;
}

function FactsPanel({ job }: { job: Job }) {
  const started = job.started_at ? Date.parse(job.started_at) : undefined;
  const from = Math.max(Date.parse(job.created_at ?? ""), Date.parse(job.run_at ?? job.created_at ?? ""));
  const ran = started !== undefined && job.finished_at ? Date.parse(job.finished_at) - started : undefined;
  const schedule = headerOf(job, "mainspring-schedule");
  const copied = headerOf(job, "cloned_from");
  const folder = folderOf(job);
  return (
    <Panel title={t.job.facts}>
      <Facts
        rows={[
          [t.job.attempt, t.jobs.attempts(job.attempt ?? 0, job.max_attempts ?? 0)],
          [t.job.priority, job.priority],
          [t.job.worker, job.worker && <a href={search("worker", job.worker)}><code>{job.worker}</code></a>],
          [t.job.timeout, job.timeout],
          [t.job.waited, started !== undefined && (job.attempt ?? 0) <= 1 && started > from ? duration(started - from) : undefined],
          [t.job.ran, ran !== undefined && ran >= 0 ? duration(ran) : undefined],
          [t.job.runAt, job.state === "scheduled" || job.state === "retryable" ? <Ago at={job.run_at} /> : undefined],
          [t.job.expires, job.expires_at && <Ago at={job.expires_at} />],
          [t.job.uniqueKey, job.unique_key],
          [t.job.limitKey, job.limit_key && <a href={link(["queues", job.queue, "keys", job.limit_key])}>{job.limit_key}</a>],
          [t.job.session, job.session && <a href={search("session", job.session, job.queue)}>{job.session}</a>],
          [t.workflows.id, workflowOf(job) && <a href={link(["workflows", workflowOf(job)!])}>{workflowOf(job)}</a>],
          [t.job.correlation, job.correlation_id && <a href={search("correlation", job.correlation_id)}>{job.correlation_id}</a>],
          [t.job.replyTo, job.reply_to && <a href={link(["queues", job.reply_to])}>{job.reply_to}</a>],
          [t.job.schedule, schedule && <a href={link(["schedules", schedule])}>{schedule}</a>],
          [t.job.folder, folder && <a href={link(["folders", "triggered", folder])}>{folder}</a>],
          [t.job.trace, traceOf(job) && <code>{traceOf(job)}</code>],
          [t.job.copiedFrom, copied && <a href={link(["jobs", copied])}>{copied}</a>],
          [t.job.tags, job.tags?.map((tag) => <a key={tag} class="tag" href={link(["jobs"], { tag })}>{tag}</a>)],
        ]}
      />
    </Panel>
  );
}

const search = (token: string, value: string, queue?: string): string => link(["jobs"], { queue, q: `${token}:${quoted(value)}` });

// A job may have failed a thousand times: the newest attempts are shown, the others on demand.
const MAX_ERRORS = 20;

function Timeline({ job }: { job: Job }) {
  const rows: [string, string | undefined, string?, string?][] = [[t.job.created, job.created_at]];
  const errors = job.errors ?? [];
  const hidden = errors.length - MAX_ERRORS;
  if (hidden > 0) rows.push([t.job.earlierAttempts(count(hidden)), errors[0]!.at, undefined, "bad"]);
  for (const error of errors.slice(-MAX_ERRORS)) {
    const after = error.after_ms === undefined || error.after_ms === null ? undefined : t.job.after(duration(error.after_ms));
    rows.push([t.job.failed(error.attempt ?? 0), error.at, after, "bad"]);
  }
  if (job.started_at && (job.state === "running" || job.state === "completed")) rows.push([t.job.started, job.started_at]);
  if (job.state === "scheduled" || job.state === "retryable") rows.push([t.job.scheduledFor, job.run_at]);
  if (job.finished_at) rows.push([capital(t.states[job.state] ?? job.state), job.finished_at, undefined, job.state === "completed" ? "good" : "bad"]);
  return (
    <Panel title={t.job.timeline}>
      <Phases job={job} />
      <ol class="timeline">
        {rows.map(([what, at, detail, tone]) => (
          <li key={`${what} ${at}`} class={tone}>
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

const waitsForTime = (job: Job | undefined): boolean => job?.state === "scheduled" || job?.state === "retryable";

// A viewer who may not read the whole queue gets no event of it when a job becomes due.
const DUE_MARGIN_MS = 300;
const LONGEST_TIMER_MS = 24 * 3600_000;
function useReloadWhenDue(job: Job | undefined, reload: () => void): void {
  const due = waitsForTime(job) && job?.run_at ? Date.parse(job.run_at) : undefined;
  useEffect(() => {
    const left = due === undefined ? undefined : due - Date.now();
    if (left === undefined || left < -DUE_MARGIN_MS || left > LONGEST_TIMER_MS) return;
    const timer = setTimeout(reload, left + DUE_MARGIN_MS);
    return () => clearTimeout(timer);
  }, [due]);
}

// Steps of a workflow have its number in their correlation id.
const workflowOf = (job: Job): string | undefined => /^workflow-(\d+)$/.exec(job.correlation_id ?? "")?.[1];

// Waiting and running over the job's life, as a bar.
function Phases({ job }: { job: Job }) {
  const now = useNow();
  const from = Date.parse(job.created_at ?? "");
  const to = job.finished_at ? Date.parse(job.finished_at) : now;
  if (!(to > from)) return null;
  const runs = (job.errors ?? [])
    .filter((error) => error.at && error.after_ms != null)
    .map((error) => ({ from: Date.parse(error.at!) - error.after_ms!, to: Date.parse(error.at!), tone: "bad" }));
  if (job.started_at && (job.state === "running" || job.state === "completed")) {
    runs.push({ from: Date.parse(job.started_at), to, tone: job.state === "completed" ? "good" : "accent" });
  }
  const x = (time: number) => (100 * Math.min(Math.max(time - from, 0), to - from)) / (to - from);
  const ran = runs.reduce((sum, run) => sum + Math.max(0, run.to - run.from), 0);
  // As in the facts: a wanted delay is not a wait.
  const due = (job.attempt ?? 0) <= 1 && job.run_at ? Math.min(to, Math.max(from, Date.parse(job.run_at))) : from;
  const text = t.job.phases(duration(Math.max(0, to - due - ran)), runs.length === 0 && !job.finished_at ? undefined : duration(ran));
  return (
    <div class="phases">
      <svg width="100%" height="10" role="img" aria-label={text}>
        <rect class="phase-wait" width="100%" height="10" />
        {runs.map((run, i) => (
          <rect key={i} class={`phase-${run.tone}`} x={`${x(run.from)}%`} width={`${Math.max(0.5, x(run.to) - x(run.from))}%`} height="10" />
        ))}
      </svg>
      <p class="note">{text}</p>
    </div>
  );
}

function Errors({ job }: { job: Job }) {
  const [all, setAll] = useState(false);
  const errors = [...(job.errors ?? [])].reverse();
  if (errors.length === 0) return null;
  return (
    <Panel
      title={`${t.job.errors} (${count(errors.length)})`}
      actions={errors.length > MAX_ERRORS && !all && <Button onClick={() => setAll(true)}>{t.job.showAll(count(errors.length))}</Button>}
    >
      {errors.slice(0, all ? undefined : MAX_ERRORS).map((error, i) => (
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

// Queues, and one queue: counts, how long its oldest job waits, pause, limits.
import { useState } from "preact/hooks";

import { ApiError, get, post, put, segment, type Schemas } from "../../api/client";
import type { ServerEvent } from "../../api/events";
import { Ago, Button, Empty, Facts, Field, Page, Panel, Show, StateBadge } from "../../components/basics";
import { act, confirm, FormDialog, notify } from "../../components/feedback";
import { usePageCommands } from "../../components/palette";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

type Queue = Schemas["Queue"];
export const COUNTED = ["available", "running", "scheduled", "retryable", "waiting", "dead"] as const;

const concernsQueues = (event: ServerEvent): boolean => event.queue !== undefined;

export function QueuesPage() {
  const queues = useData("queues", (signal) => get<Schemas["QueueList"]>("/v1/queues", {}, signal), concernsQueues);
  return (
    <Page title={t.pages.queues} note={t.queues.note}>
      <Show of={queues}>
        {({ queues: rows }) =>
          rows.length === 0 ? (
            <Empty title={t.queues.empty}>{t.queues.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.queues} columns={columns(queues.reload)} rows={rows} id={(queue) => queue.name} />
          )
        }
      </Show>
    </Page>
  );
}

function columns(reload: () => void): Column<Queue>[] {
  return [
    {
      key: "name",
      title: t.jobs.queue,
      cell: (queue) => (
        <>
          <a href={link(["queues", queue.name])}>{queue.name}</a> {queue.paused && <StateBadge state={t.queues.paused} />}
        </>
      ),
    },
    ...COUNTED.map((state) => ({
      key: state,
      title: t.states[state]!,
      numeric: true,
      cell: (queue: Queue) => <StateCount queue={queue} state={state} />,
    })),
    { key: "oldest", title: t.queues.oldest, cell: (queue) => <Waiting at={queue.oldest_available_at} /> },
    { key: "actions", title: t.actions, cell: (queue) => <PauseButton queue={queue} reload={reload} /> },
  ];
}

function StateCount(props: { queue: Queue; state: string }) {
  const n = props.queue.counts[props.state] ?? 0;
  if (n === 0) return <span class="note">0</span>;
  return <a href={link(["jobs"], { queue: props.queue.name, state: props.state })}>{count(n)}</a>;
}

export function Waiting(props: { at?: string }) {
  return props.at ? <Ago at={props.at} /> : <span class="note">{t.none}</span>;
}

async function pause(queue: Queue): Promise<boolean> {
  const yes = await confirm({
    title: t.queues.confirmPause(queue.name), text: t.queues.confirmPauseText, action: t.queues.pause, danger: true,
  });
  return yes && act(() => post(`/v1/queues/${segment(queue.name)}/pause`), t.queues.pausedNow(queue.name));
}

const resume = (queue: Queue): Promise<boolean> =>
  act(() => post(`/v1/queues/${segment(queue.name)}/resume`), t.queues.resumedNow(queue.name));

function PauseButton(props: { queue: Queue; reload: () => void }) {
  const { queue, reload } = props;
  const run = async () => {
    if (await (queue.paused ? resume(queue) : pause(queue))) reload();
  };
  return <Button onClick={run}>{queue.paused ? t.queues.resume : t.queues.pause}</Button>;
}

export function QueuePage(props: { name: string }) {
  const { name } = props;
  const queue = useData(
    name,
    (signal) => get<Queue>(`/v1/queues/${segment(name)}`, {}, signal),
    (event) => event.queue === name,
  );
  return <Show of={queue}>{(data) => <QueueView queue={data} reload={queue.reload} />}</Show>;
}

function QueueView(props: { queue: Queue; reload: () => void }) {
  const { queue, reload } = props;
  const [editing, setEditing] = useState(false);
  const toggle = async () => {
    if (await (queue.paused ? resume(queue) : pause(queue))) reload();
  };
  usePageCommands([
    { text: queue.paused ? t.queues.resume : t.queues.pause, run: toggle },
    { text: t.queues.edit, run: () => setEditing(true) },
  ]);
  const limits = queue.limits;
  return (
    <Page
      title={queue.name}
      note={queue.paused ? <StateBadge state={t.queues.paused} /> : undefined}
      actions={
        <>
          <Button onClick={toggle}>{queue.paused ? t.queues.resume : t.queues.pause}</Button>
          <a class="button plain" href={link(["jobs"], { queue: queue.name })}>
            {t.queues.showJobs}
          </a>
        </>
      }
    >
      <Panel title={t.queues.states}>
        <div class="numbers">
          {Object.keys(queue.counts).map((state) => (
            <a key={state} class="number" href={link(["jobs"], { queue: queue.name, state })}>
              <span class="number-value">{count(queue.counts[state] ?? 0)}</span>
              <span>{t.states[state] ?? state}</span>
            </a>
          ))}
        </div>
        <Facts
          rows={[
            [t.queues.oldest, queue.oldest_available_at && <Ago at={queue.oldest_available_at} />],
            [t.queues.enqueued, count(queue.enqueued ?? 0)],
            [t.queues.keepCompleted, queue.retention?.completed ?? t.queues.serverDefault],
            [t.queues.keepDead, queue.retention?.dead ?? t.queues.serverDefault],
          ]}
        />
      </Panel>
      <Panel title={t.queues.limits} actions={<Button onClick={() => setEditing(true)}>{t.queues.edit}</Button>}>
        {limits ? (
          <Facts
            rows={[
              [t.queues.concurrency, limits.concurrency],
              [t.queues.rate, limits.rate && `${limits.rate.count} ${t.queues.ratePer} ${limits.rate.per}`],
              [t.queues.keyConcurrency, limits.per_key?.concurrency],
              [t.queues.breaker, limits.breaker && <a href={link(["breakers"])}>{limits.breaker}</a>],
              [t.queues.ageing, limits.ageing],
            ]}
          />
        ) : (
          <p class="note">{t.queues.noLimits}</p>
        )}
      </Panel>
      {editing && <LimitsDialog queue={queue} onClose={() => setEditing(false)} done={reload} />}
    </Page>
  );
}

// Changes the two numbers that operators change most, and leaves the other limits as they are.
function LimitsDialog(props: { queue: Queue; onClose: () => void; done: () => void }) {
  const { queue } = props;
  const limits = queue.limits;
  const [concurrency, setConcurrency] = useState(String(limits?.concurrency ?? ""));
  const [perKey, setPerKey] = useState(String(limits?.per_key?.concurrency ?? ""));
  const submit = async () => {
    await put(`/v1/queues/${segment(queue.name)}/limits`, {
      ...limits,
      concurrency: numberOf(t.queues.concurrency, concurrency),
      per_key: limits?.per_key || perKey.trim() !== "" ? { ...limits?.per_key, concurrency: numberOf(t.queues.keyConcurrency, perKey) } : null,
    });
    notify(t.queues.changed);
    props.done();
  };
  return (
    <FormDialog title={t.queues.edit} action={t.save} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.queues.concurrency} hint={t.queues.concurrencyHint}>
        <input inputMode="numeric" value={concurrency} onInput={(e) => setConcurrency(e.currentTarget.value)} />
      </Field>
      <Field label={t.queues.keyConcurrency} hint={t.queues.concurrencyHint}>
        <input inputMode="numeric" value={perKey} onInput={(e) => setPerKey(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

function numberOf(field: string, text: string): number | null {
  if (text.trim() === "") return null;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new ApiError(400, "invalid_argument", t.queues.notNumber(field, text));
  return value;
}

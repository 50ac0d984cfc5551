// Triggers: what fires them, what they made, and their ledger.
import { useState } from "preact/hooks";

import { get, getNamed, post, remove, segment, type Schemas } from "../../api/client";
import { changes, viewerIsActive } from "../../api/events";
import { Ago, Button, Empty, Facts, Page, Panel, Show, ShowPage, StateBadge } from "../../components/basics";
import { DefinitionDialog } from "../../components/definition";
import { EditButton } from "../../components/edit_button";
import { act, confirm, copyText } from "../../components/feedback";
import { Pager } from "../../components/pager";
import { PauseDialog } from "../../components/pause_dialog";
import { Table, type Column } from "../../components/table";
import { JsonPanel } from "../../components/values";
import { COSTLY_MS, useData } from "../../data";
import { count } from "../../format";
import { link, navigate, useRoute } from "../../router";
import { t } from "../../texts";
import { FireDialog } from "./fire";

type Trigger = Schemas["Trigger"];

const sourceOf = (trigger: Trigger): string =>
  trigger.http ? t.triggers.http(trigger.name) : trigger.folder ? t.triggers.folder(trigger.folder.path) : t.triggers.ended(trigger.ended?.queue ?? t.all);

export function TriggersPage() {
  const [creating, setCreating] = useState(false);
  const [secret, setSecret] = useState("");
  const created = (answer: unknown) => {
    setSecret(secretOf(answer));
    triggers.reload();
  };
  const triggers = useData(
    "triggers",
    (signal) => getNamed<Schemas["TriggerList"]>("/v1/triggers", "triggers", signal),
    (event) => event.type === "enqueued" || changes(event, "trigger") || viewerIsActive(event),
    COSTLY_MS,
  );
  const columns: Column<Trigger>[] = [
    {
      key: "name",
      title: t.name,
      sort: (one) => one.name,
      cell: (one) => (
        <>
          <a class="name" href={link(["triggers", one.name])}>{one.name}</a> {one.paused && <StateBadge state={t.queues.paused} detail={one.paused_reason} />}
        </>
      ),
    },
    { key: "source", title: t.triggers.source, cell: sourceOf, sort: sourceOf },
    { key: "queue", title: t.jobs.queue, cell: (one) => one.job.queue, sort: (one) => one.job.queue },
    { key: "fired", title: t.triggers.fired, numeric: true, cell: (one) => count(one.fired), sort: (one) => one.fired },
    { key: "last", title: t.schedules.last, cell: (one) => <Ago at={one.last_fired} />, sort: (one) => one.last_fired },
  ];
  return (
    <Page
      title={t.pages.triggers}
      note={t.triggers.note}
      actions={
        <Button kind="primary" needs={["schedule"]} onClick={() => setCreating(true)}>
          {t.triggers.create}
        </Button>
      }
    >
      <Secret text={secret} />
      <Show of={triggers}>
        {(data) =>
          data.triggers.length === 0 ? (
            <Empty title={t.triggers.empty}>{t.triggers.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.triggers} columns={columns} rows={data.triggers} id={(one) => one.name} rowClass={(one) => (one.paused ? "off" : undefined)} />
          )
        }
      </Show>
      {creating && <TriggerDialog title={t.triggers.create} value={NEW_TRIGGER} onClose={() => setCreating(false)} done={created} />}
    </Page>
  );
}

// The server makes a secret for a trigger that becomes one over HTTP, and returns it only once.
const secretOf = (answer: unknown): string => (answer as { secret?: string }).secret ?? "";

function Secret({ text }: { text: string }) {
  if (text === "") return null;
  return (
    <div class="message once" role="status">
      <span>
        {t.triggers.secretOnce} <code>{text}</code>
      </span>
      <Button onClick={() => copyText(text)}>{t.copy}</Button>
    </div>
  );
}

const NEW_TRIGGER = { http: {}, job: { queue: "default", kind: "import" } };
// What the server adds to a definition.
const STATE_FIELDS = new Set(["name", "version", "paused", "paused_reason", "fired", "refused", "last_fired", "last_job", "last_event", "created_at", "updated_at"]);

function TriggerDialog(props: { title: string; name?: string; value: object; onClose: () => void; done: (answer: unknown) => void }) {
  const definition = Object.fromEntries(Object.entries(props.value).filter(([key]) => !STATE_FIELDS.has(key)));
  return <DefinitionDialog {...props} value={definition} hint={t.triggers.hint} path={(name) => `/v1/triggers/${segment(name)}`} />;
}

export function TriggerPage(props: { name: string }) {
  const [dialog, setDialog] = useState<"pause" | "fire">();
  const [editing, setEditing] = useState(false);
  const [secret, setSecret] = useState("");
  const path = `/v1/triggers/${segment(props.name)}`;
  const trigger = useData(props.name, (signal) => get<Trigger>(path, {}, signal), (event) => event.type === "enqueued" || changes(event, `trigger/${props.name}`) || viewerIsActive(event));
  const resume = async () => {
    if (await act(() => post(`${path}/resume`), t.schedules.done(props.name))) trigger.reload();
  };
  const drop = async () => {
    const yes = await confirm({ title: t.triggers.confirmRemove(props.name), text: t.triggers.confirmRemoveText, action: t.remove, danger: true });
    if (yes && (await act(() => remove(path), t.triggers.removed(props.name)))) navigate(link(["triggers"]));
  };
  const edited = (answer: unknown) => {
    setSecret(secretOf(answer));
    trigger.reload();
  };
  return (
    <ShowPage title={props.name} of={trigger}>
      {(one) => (
        <Page
          title={one.name}
          note={one.paused ? <StateBadge state={t.queues.paused} detail={one.paused_reason} /> : sourceOf(one)}
          actions={
            <>
              <Button needs={["schedule", one.job.queue]} onClick={() => setDialog("fire")}>{t.triggers.fire}</Button>
              <Button needs={["schedule", one.job.queue]} onClick={() => (one.paused ? resume() : setDialog("pause"))}>{one.paused ? t.queues.resume : t.queues.pause}</Button>
              <EditButton queue={one.job.queue} onClick={() => setEditing(true)}>{t.job.edit}</EditButton>
              <Button kind="danger" needs={["schedule", one.job.queue]} onClick={drop}>
                {t.remove}
              </Button>
            </>
          }
        >
          <Secret text={secret} />
          <Panel title={t.job.facts}>
            <Facts
              rows={[
                [t.triggers.source, sourceOf(one)],
                [t.jobs.queue, <a href={link(["queues", one.job.queue])}>{one.job.queue}</a>],
                [t.jobs.kind, one.job.kind],
                [t.triggers.fired, count(one.fired)],
                [t.triggers.refused, one.refused],
                [t.schedules.last, one.last_fired && <Ago at={one.last_fired} />],
              ]}
            />
          </Panel>
          <Ledger name={one.name} path={path} />
          <JsonPanel title={t.job.args} value={one.job.args} kind={one.job.kind} masked />
          {dialog === "fire" && <FireDialog trigger={one} onClose={() => setDialog(undefined)} done={trigger.reload} />}
          {dialog === "pause" && (
            <PauseDialog name={one.name} path={path} text={t.triggers.confirmPauseText} onClose={() => setDialog(undefined)} done={trigger.reload} />
          )}
          {editing && <TriggerDialog title={t.job.edit} name={one.name} value={one} onClose={() => setEditing(false)} done={edited} />}
        </Page>
      )}
    </ShowPage>
  );
}

function Ledger(props: { name: string; path: string }) {
  const { name, path } = props;
  const before = useRoute().query.get("before") ?? "";
  const ledger = useData(
    `ledger ${name} ${before}`,
    (signal) => get<Schemas["TriggerLedger"]>(`${path}/ledger`, { limit: 50, before }, signal),
    (event) => before === "" && (event.type === "enqueued" || changes(event, `trigger/${name}`)),
  );
  return (
    <Panel title={t.schedules.ledger}>
      <Show of={ledger}>
        {(data) =>
          data.events.length === 0 ? (
            <p class="note">{t.triggers.ledgerEmpty}</p>
          ) : (
            <ul class="plain-list">
              {data.events.map((event) => (
                <li key={String(event.seq)}>
                  <Ago at={event.fired_at} /> <code>{event.event}</code>
                  {event.job ? <a href={link(["jobs", event.job])}>{String(event.job)}</a> : <span>{event.reason}</span>}
                </li>
              ))}
            </ul>
          )
        }
      </Show>
      <Pager label={t.schedules.ledger} parameter="before" next={ledger.data?.next} />
    </Panel>
  );
}

// Workflows: all of them, by state.
import { useState } from "preact/hooks";

import { get, post, type Schemas } from "../../api/client";
import { changes } from "../../api/events";
import { formatJson } from "../../api/json";
import { typedJson } from "../../api/typed_json";
import { Ago, Button, Empty, Page, Show, StateBadge, Tabs } from "../../components/basics";
import { FormDialog, notify } from "../../components/feedback";
import { JsonField } from "../../components/json_field";
import { Pager } from "../../components/pager";
import { Table, type Column } from "../../components/table";
import { Views } from "../../components/views";
import { COSTLY_MS, useData } from "../../data";
import { count } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { t } from "../../texts";

export type Workflow = Schemas["Workflow"];
const STATES = ["running", "undoing", "parked", "completed", "failed", "undone", "cancelled"] as const;

const COLUMNS: Column<Workflow>[] = [
  { key: "id", title: t.workflows.id, numeric: true, cell: (one) => <a href={link(["workflows", one.id])}>{String(one.id)}</a>, sort: (one) => one.id },
  { key: "name", title: t.name, cell: (one) => <a href={link(["workflows", one.id])}>{one.name}</a>, sort: (one) => one.name },
  { key: "key", title: t.workflows.key, cell: (one) => one.key, sort: (one) => one.key },
  { key: "state", title: t.jobs.state, cell: (one) => <StateBadge state={one.state} detail={one.paused ? t.queues.paused : undefined} />, sort: (one) => one.state },
  {
    key: "steps",
    title: t.workflows.progress,
    sort: (one) => ((one.steps.completed ?? 0) + (one.steps.skipped ?? 0)) / (one.steps.all ?? 1),
    cell: (one) => (
      <>
        <progress max={one.steps.all ?? 1} value={(one.steps.completed ?? 0) + (one.steps.skipped ?? 0)} aria-label={t.workflows.progress} />
        <span class="note">{t.workflows.stepsDone(count(one.steps.completed ?? 0), count(one.steps.all ?? 0))}</span>
      </>
    ),
  },
  { key: "started", title: t.workflows.started, cell: (one) => <Ago at={one.started_at} />, sort: (one) => one.started_at },
  { key: "reason", title: t.reason, cell: (one) => one.reason, sort: (one) => one.reason, wide: true },
];

export function WorkflowsPage(props: { route: Route }) {
  const { route } = props;
  const [starting, setStarting] = useState(false);
  const state = route.query.get("state") ?? "";
  const before = route.query.get("before") ?? "";
  const workflows = useData(
    `${state} ${before}`,
    (signal) => get<Schemas["WorkflowList"]>("/v1/workflows", { state, before, limit: 50 }, signal),
    (event) => event.type === "completed" || event.type === "dead" || event.type === "started" || changes(event, "workflow"),
    COSTLY_MS,
  );
  return (
    <Page
      title={t.pages.workflows}
      note={t.workflows.note}
      actions={
        <>
          <Views page="workflows" route={route} />
          <Button kind="primary" needs={["enqueue"]} onClick={() => setStarting(true)}>
            {t.workflows.start}
          </Button>
        </>
      }
    >
      <Tabs
        label={t.jobs.state}
        current={state || "any"}
        tabs={["any", ...STATES].map((one) => ({
          key: one,
          text: one === "any" ? t.jobs.any : one,
          href: withQuery(route, { state: one === "any" ? undefined : one, before: undefined }),
        }))}
      />
      <Show of={workflows}>
        {(data) =>
          data.workflows.length === 0 ? (
            <Empty title={t.workflows.empty}>{t.workflows.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.workflows} columns={COLUMNS} rows={data.workflows} id={(one) => String(one.id)} />
          )
        }
      </Show>
      <Pager label={t.pages.workflows} parameter="before" next={workflows.data?.next} />
      {starting && <StartDialog onClose={() => setStarting(false)} />}
    </Page>
  );
}

const NEW_WORKFLOW = {
  name: "order",
  input: {},
  steps: [
    { name: "reserve", job: { queue: "default", kind: "reserve" } },
    { name: "pay", after: ["reserve"], job: { queue: "default", kind: "pay" } },
  ],
};

function StartDialog(props: { onClose: () => void }) {
  const [text, setText] = useState(formatJson(NEW_WORKFLOW));
  const submit = async () => {
    const made = await post<Schemas["WorkflowStarted"]>("/v1/workflows", typedJson("definition", text) ?? {});
    notify(t.workflows.forked(String(made.id)));
    navigate(link(["workflows", made.id]));
  };
  return (
    <FormDialog title={t.workflows.start} action={t.workflows.start} onClose={props.onClose} onSubmit={submit} wide>
      <JsonField label={t.definition.label} rows={16} value={text} onInput={setText} />
    </FormDialog>
  );
}

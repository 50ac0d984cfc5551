// One workflow: its steps as a graph and a table, and what can be done with it.
import { useState } from "preact/hooks";

import { get, post, segment, type Schemas } from "../../api/client";
import { changes, type ServerEvent } from "../../api/events";
import { formatJson } from "../../api/json";
import { typedJson } from "../../api/typed_json";
import { Ago, Button, Facts, Field, Page, Panel, Show, ShowPage, StateBadge } from "../../components/basics";
import { act, confirm, FormDialog, notify } from "../../components/feedback";
import { JsonField } from "../../components/json_field";
import { Table, type Column } from "../../components/table";
import { JsonPanel, shortJson } from "../../components/values";
import { COSTLY_MS, useData, type Loaded } from "../../data";
import { duration } from "../../format";
import { link, navigate } from "../../router";
import { t } from "../../texts";
import { Graph, MAX_GRAPH_STEPS, shownState } from "./graph";
import type { Workflow } from "./page";

type Step = Schemas["WorkflowStep"];
const ENDED = new Set(["completed", "failed", "undone", "cancelled"]);

export function WorkflowPage(props: { id: string }) {
  const path = `/v1/workflows/${segment(props.id)}`;
  const relevant = (event: ServerEvent) => event.job !== undefined || changes(event, `workflow/${props.id}`);
  const workflow = useData(path, (signal) => get<Workflow>(path, {}, signal), relevant);
  const steps = useData(`${path} steps`, (signal) => get<Schemas["WorkflowStepList"]>(`${path}/steps`, { limit: 1000 }, signal), relevant, COSTLY_MS);
  return (
    <ShowPage title={`${t.workflows.id} ${props.id}`} of={workflow}>
      {(data) => <WorkflowView workflow={data} steps={steps} path={path} reload={workflow.reload} />}
    </ShowPage>
  );
}

function WorkflowView(props: { workflow: Workflow; steps: Loaded<Schemas["WorkflowStepList"]>; path: string; reload: () => void }) {
  const { workflow, path, reload } = props;
  const steps = props.steps.data?.steps;
  const id = String(workflow.id);
  const [dialog, setDialog] = useState<"signal" | "fork" | "hand" | undefined>();
  const run = async (verb: "pause" | "resume" | "retry") => {
    if (await act(() => post(`${path}/${verb}`, verb === "retry" ? {} : undefined), t.workflows.done(id))) reload();
  };
  const cancel = async () => {
    const yes = await confirm({ title: t.workflows.confirmCancel(id), text: t.workflows.confirmCancelText, action: t.job.cancel, danger: true });
    if (yes && (await act(() => post(`${path}/cancel`), t.workflows.done(id)))) reload();
  };
  return (
    <Page
      title={`${workflow.name} ${id}`}
      note={
        <>
          <StateBadge state={workflow.state} detail={workflow.paused ? t.queues.paused : undefined} /> {workflow.reason}
        </>
      }
      actions={
        <>
          {workflow.state === "parked" && (
            <Button kind="primary" needs={["admin"]} onClick={() => run("retry")}>
              {t.job.retry}
            </Button>
          )}
          {workflow.state === "parked" && <Button needs={["admin"]} disabled={!steps} onClick={() => setDialog("hand")}>{t.workflows.byHand}</Button>}
          {!ENDED.has(workflow.state) && (
            <>
              <Button needs={["admin"]} onClick={() => run(workflow.paused ? "resume" : "pause")}>{workflow.paused ? t.queues.resume : t.queues.pause}</Button>
              <Button needs={["admin"]} onClick={() => setDialog("signal")}>{t.workflows.signal}</Button>
              <Button kind="danger" needs={["admin"]} onClick={cancel}>
                {t.job.cancel}
              </Button>
            </>
          )}
          {ENDED.has(workflow.state) && <Button needs={["admin"]} disabled={!steps} onClick={() => setDialog("fork")}>{t.workflows.fork}</Button>}
        </>
      }
    >
      <Panel title={t.job.facts}>
        <Facts
          rows={[
            [t.workflows.key, workflow.key],
            [t.workflows.progress, t.workflows.stepsDone(String(workflow.steps.completed ?? 0), String(workflow.steps.all ?? 0))],
            [t.workflows.started, <Ago at={workflow.started_at} />],
            [t.workflows.finished, workflow.finished_at && <Ago at={workflow.finished_at} />],
            [t.workflows.deadline, workflow.deadline_at && <Ago at={workflow.deadline_at} />],
            [t.workflows.parent, workflow.parent && <a href={link(["workflows", workflow.parent.workflow])}>{`${workflow.parent.workflow} ${workflow.parent.step}`}</a>],
            [t.workflows.forkedFrom, workflow.forked_from && <a href={link(["workflows", workflow.forked_from.id])}>{String(workflow.forked_from.id)}</a>],
          ]}
        />
      </Panel>
      <Panel title={t.workflows.steps}>
        <Show of={props.steps}>{(list) => <Steps steps={list.steps} more={list.next != null} />}</Show>
      </Panel>
      <JsonPanel title={t.workflows.input} value={workflow.input} masked />
      <JsonPanel title={t.job.result} value={workflow.result} masked />
      {dialog === "signal" && <SignalDialog path={path} onClose={() => setDialog(undefined)} done={reload} />}
      {dialog === "hand" && steps && <ByHandDialog steps={steps} path={path} onClose={() => setDialog(undefined)} done={reload} />}
      {dialog === "fork" && steps && <ForkDialog workflow={workflow} steps={steps} path={path} onClose={() => setDialog(undefined)} />}
    </Page>
  );
}

function Steps({ steps, more }: { steps: Step[]; more: boolean }) {
  return (
    <>
      {steps.length > 0 && steps.length <= MAX_GRAPH_STEPS && <Graph steps={steps} />}
      {more && <p class="note">{t.workflows.cut(steps.length)}</p>}
      <Table label={t.workflows.steps} columns={STEP_COLUMNS} rows={steps} id={(step) => String(step.number)} />
      {steps.filter((step) => step.workflow).slice(0, MAX_NESTED).map((step) => (
        <Nested key={step.number} id={String(step.workflow)} />
      ))}
    </>
  );
}

// Sub-workflows in place; their steps are read when one is opened.
const MAX_NESTED = 20;
function Nested({ id }: { id: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{t.workflows.nested(id)}</summary>
      {open && <NestedSteps id={id} />}
    </details>
  );
}
function NestedSteps({ id }: { id: string }) {
  const path = `/v1/workflows/${segment(id)}/steps`;
  const steps = useData(path, (signal) => get<Schemas["WorkflowStepList"]>(path, { limit: MAX_GRAPH_STEPS }, signal), (event) => event.job !== undefined || changes(event, "workflow"), 1_000);
  return (
    <Show of={steps}>
      {(data) => (
        <>
          <Graph steps={data.steps} />
          <a href={link(["workflows", id])}>{`${t.workflows.id} ${id}`}</a>
        </>
      )}
    </Show>
  );
}

function ByHandDialog(props: { steps: Step[]; path: string; onClose: () => void; done: () => void }) {
  const failed = props.steps.filter((step) => step.state === "failed" || step.state === "undo_failed");
  const [step, setStep] = useState(failed[0]?.name ?? "");
  const [result, setResult] = useState("");
  const submit = async () => {
    const value = typedJson("result", result);
    await post(`${props.path}/retry`, { step, by_hand: true, ...(value === undefined ? {} : { result: value }) });
    notify(t.workflows.byHand);
    props.done();
  };
  return (
    <FormDialog title={t.workflows.byHand} action={t.workflows.byHand} onClose={props.onClose} onSubmit={submit}>
      <p>{t.workflows.byHandText}</p>
      <Field label={t.workflows.step}>
        <select value={step} onChange={(e) => setStep(e.currentTarget.value)}>
          {failed.map((one) => (
            <option key={one.number} value={one.name}>
              {one.name}
            </option>
          ))}
        </select>
      </Field>
      <JsonField label={t.job.result} rows={3} value={result} onInput={setResult} />
    </FormDialog>
  );
}

const tookMs = (step: Step): number | undefined =>
  step.started_at && step.ended_at ? Date.parse(step.ended_at) - Date.parse(step.started_at) : undefined;

const StepState = ({ step }: { step: Step }) => (
  <>
    <StateBadge state={shownState(step)} detail={step.taken_over ? t.workflows.takenOver : undefined} />
    {shownState(step) === "available" && <span class="note"> {t.workflows.waitsForWorker}</span>}
  </>
);

const STEP_COLUMNS: Column<Step>[] = [
  { key: "name", title: t.workflows.step, cell: (step) => step.name, sort: (step) => step.name },
  { key: "state", title: t.jobs.state, cell: (step) => <StepState step={step} />, sort: shownState },
  {
    key: "job",
    title: t.jobs.id,
    numeric: true,
    sort: (step) => step.workflow ?? step.job,
    cell: (step) =>
      step.workflow ? (
        <a href={link(["workflows", step.workflow])}>{`${t.workflows.child} ${step.workflow}`}</a>
      ) : step.job ? (
        <a href={link(["jobs", step.job])}>{String(step.job)}</a>
      ) : (
        t.none
      ),
  },
  {
    key: "took",
    title: t.folders.took,
    numeric: true,
    sort: tookMs,
    cell: (step) => (tookMs(step) === undefined ? t.none : duration(tookMs(step)!)),
  },
  { key: "result", title: t.job.result, cell: (step) => (step.result == null ? t.none : <code class="args" title={shortJson(step.result, 1000)}>{shortJson(step.result, 200)}</code>), wide: true },
  { key: "reason", title: t.reason, cell: (step) => step.reason, sort: (step) => step.reason, wide: true },
  { key: "undo", title: t.workflows.undo, numeric: true, cell: (step) => (step.undo_job ? <a href={link(["jobs", step.undo_job])}>{String(step.undo_job)}</a> : t.none) },
];

function SignalDialog(props: { path: string; onClose: () => void; done: () => void }) {
  const [name, setName] = useState("");
  const [payload, setPayload] = useState("");
  const submit = async () => {
    const value = typedJson("payload", payload);
    await post(`${props.path}/signal`, value === undefined ? { name } : { name, payload: value });
    notify(t.workflows.signalled(name));
    props.done();
  };
  return (
    <FormDialog title={t.workflows.signal} action={t.workflows.signal} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.name}>
        <input required value={name} onInput={(e) => setName(e.currentTarget.value)} />
      </Field>
      <JsonField label={t.workflows.payload} rows={4} value={payload} onInput={setPayload} />
    </FormDialog>
  );
}

function ForkDialog(props: { workflow: Workflow; steps: Step[]; path: string; onClose: () => void }) {
  const [step, setStep] = useState(props.steps[0]?.name ?? "");
  // Without read:payload the input is hidden. If it is not changed, it is not sent: the server then copies the original.
  const [before] = useState(() => (props.workflow.input == null ? "" : formatJson(props.workflow.input)));
  const [input, setInput] = useState(before);
  const submit = async () => {
    const value = input === before ? undefined : typedJson("input", input);
    const made = await post<Schemas["WorkflowStarted"]>(`${props.path}/fork`, value === undefined ? { step } : { step, input: value });
    notify(t.workflows.forked(String(made.id)));
    navigate(link(["workflows", made.id]));
  };
  return (
    <FormDialog title={t.workflows.fork} action={t.workflows.fork} onClose={props.onClose} onSubmit={submit} wide>
      <p>{t.workflows.forkText}</p>
      <Field label={t.workflows.step}>
        <select value={step} onChange={(e) => setStep(e.currentTarget.value)}>
          {props.steps.map((one) => (
            <option key={one.number} value={one.name}>
              {one.name}
            </option>
          ))}
        </select>
      </Field>
      <JsonField label={t.workflows.input} hint={t.workflows.inputHint} rows={6} value={input} onInput={setInput} />
    </FormDialog>
  );
}

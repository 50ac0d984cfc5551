// One job folder: start, stop, run, settings, deployment, runs and the log as it grows.
import { useEffect, useRef, useState } from "preact/hooks";

import { ApiError, get, post, put, request, remove, segment, type Schemas } from "../../api/client";
import { changes } from "../../api/events";
import { formatJson } from "../../api/json";
import { typedJson } from "../../api/typed_json";
import { Ago, Button, Facts, Field, Page, Panel, Show, ShowPage, StateBadge } from "../../components/basics";
import { act, confirm, FormDialog, notify } from "../../components/feedback";
import { JsonField } from "../../components/json_field";
import { LogPanel } from "../../components/log";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { bytes, capital, duration } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { t } from "../../texts";
import { statusOf, type HostJob } from "./page";

type Run = Schemas["HostRun"];
const RUN_REFRESH_MS = 2_000;

export function FolderPage(props: { type: string; name: string; route: Route }) {
  const { type, name } = props;
  const path = `/v1/host/jobs/${segment(type)}/${segment(name)}`;
  const job = useData(path, (signal) => get<HostJob>(path, {}, signal), (event) => event.queue !== undefined || changes(event, "folder"));
  // A run changes its state without an event.
  const runs = job.data?.latest_run !== undefined && job.data.latest_run.ended === undefined;
  useEffect(() => {
    if (!runs) return;
    const timer = setInterval(() => document.hidden || job.reload(), RUN_REFRESH_MS);
    return () => clearInterval(timer);
  }, [runs]);
  return (
    <ShowPage title={name} of={job}>
      {(data) => <FolderView job={data} path={path} route={props.route} reload={job.reload} />}
    </ShowPage>
  );
}

function FolderView(props: { job: HostJob; path: string; route: Route; reload: () => void }) {
  const { job, path, route, reload } = props;
  const [dialog, setDialog] = useState<"run" | "settings" | undefined>();
  const name = `folder/${job.name}`; // of its scopes
  const upload = useRef<HTMLInputElement>(null);
  const run = async (verb: "start" | "stop") => {
    if (verb === "stop") {
      const yes = await confirm({ title: t.folders.confirmStop(job.name), text: t.folders.confirmStopText, action: t.folders.stop, danger: true });
      if (!yes) return;
    }
    if (await act(() => post(`${path}/${verb}`), t.schedules.done(job.name))) reload();
  };
  const deploy = async (file: File) => {
    const zip = file.name.endsWith(".zip");
    const yes = await confirm({ title: t.folders.confirmDeploy(job.name), text: t.folders.confirmDeployText(file.name), action: t.folders.deploy, danger: true });
    if (!yes) return;
    const headers: Record<string, string> = zip
      ? { "Content-Type": "application/zip" }
      : { "Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename=${encodeURIComponent(file.name)}` };
    if (await act(() => request("PUT", path, { body: file, headers }), t.folders.deployed(job.name))) reload();
  };
  const drop = async () => {
    const yes = await confirm({ title: t.folders.confirmRemove(job.name), text: t.folders.confirmRemoveText, action: t.remove, danger: true });
    if (yes && (await act(() => remove(path), t.folders.removed(job.name)))) navigate(link(["folders"]));
  };
  return (
    <Page
      title={job.name}
      note={
        <>
          <StateBadge state={statusOf(job)} /> {job.type} {job.error ?? job.detailed_status}
        </>
      }
      actions={
        <>
          {job.type === "triggered" && (
            <Button kind="primary" needs={["enqueue", name]} onClick={() => setDialog("run")}>
              {t.folders.run}
            </Button>
          )}
          {job.type === "continuous" && <Button needs={["admin", name]} onClick={() => run("start")}>{t.folders.start}</Button>}
          {job.type !== "queue" && <Button needs={["admin", name]} onClick={() => run("stop")}>{t.folders.stop}</Button>}
          <Button needs={["define-exec", name]} onClick={() => setDialog("settings")}>{t.folders.settings}</Button>
          <Button needs={["define-exec", name]} onClick={() => upload.current?.click()}>{t.folders.deploy}</Button>
          <Button kind="danger" needs={["define-exec", name]} onClick={drop}>
            {t.remove}
          </Button>
          <input
            ref={upload}
            type="file"
            class="off-screen"
            tabIndex={-1}
            aria-label={t.folders.deploy}
            onChange={(e) => {
              const file = e.currentTarget.files?.[0];
              e.currentTarget.value = "";
              if (file) void deploy(file);
            }}
          />
        </>
      }
    >
      {job.warnings?.map((warning) => (
        <p class="message warning" key={warning}>
          {warning}
        </p>
      ))}
      <Panel title={t.job.facts}>
        <Facts
          rows={[
            [t.folders.file, job.run_file && <code>{job.run_file}</code>],
            [t.folders.directory, job.directory && <code>{job.directory}</code>],
            [t.folders.runsBy, job.host],
            [t.folders.pool, job.pool],
            [t.folders.port, job.port],
            [t.folders.children, job.children],
            [t.jobs.id, job.job && <a href={link(["jobs", job.job])}>{String(job.job)}</a>],
          ]}
        />
      </Panel>
      {job.type === "triggered" && <Runs job={job} path={path} route={route} />}
      <LogPanel path={path} run={route.query.get("run") ?? job.latest_run?.id} />
      {dialog === "run" && <RunDialog job={job} path={path} onClose={() => setDialog(undefined)} />}
      {dialog === "settings" && <SettingsDialog path={path} onClose={() => setDialog(undefined)} done={reload} />}
    </Page>
  );
}

const ranMs = (run: Run): number | undefined => (run.ended ? Date.parse(run.ended) - Date.parse(run.started) : undefined);

// A folder that has not run has no history.
const history = (path: string, signal: AbortSignal): Promise<Schemas["HostHistory"]> =>
  get<Schemas["HostHistory"]>(`${path}/history`, {}, signal).catch((problem) => {
    if (problem instanceof ApiError && problem.status === 404) return { runs: [] };
    throw problem;
  });

function Runs(props: { job: HostJob; path: string; route: Route }) {
  const { latest_run: latest } = props.job;
  const runs = useData(`runs ${props.path}`, (signal) => history(props.path, signal));
  useEffect(runs.reload, [latest?.id, latest?.status]);
  const columns: Column<Run>[] = [
    { key: "id", title: t.folders.runId, cell: (run) => <a href={withQuery(props.route, { run: run.id })}>{run.id}</a>, sort: (run) => run.id },
    { key: "status", title: t.jobs.state, cell: (run) => <StateBadge state={run.status} />, sort: (run) => run.status },
    { key: "started", title: t.folders.started, cell: (run) => <Ago at={run.started} />, sort: (run) => run.started },
    {
      key: "took",
      title: t.folders.took,
      numeric: true,
      sort: ranMs,
      cell: (run) => (ranMs(run) === undefined ? t.none : duration(ranMs(run)!)),
    },
    { key: "exit", title: t.folders.exit, numeric: true, cell: (run) => run.exit_code ?? t.none, sort: (run) => run.exit_code },
    { key: "memory", title: capital(t.job.memory), numeric: true, cell: (run) => (run.peak_memory ? bytes(run.peak_memory) : t.none), sort: (run) => run.peak_memory },
    { key: "trigger", title: t.folders.trigger, cell: (run) => <span class="cut" title={run.trigger}>{run.trigger}</span>, sort: (run) => run.trigger },
    { key: "job", title: t.jobs.id, numeric: true, cell: (run) => (run.job ? <a href={link(["jobs", run.job])}>{String(run.job)}</a> : t.none), sort: (run) => run.job },
  ];
  return (
    <Panel title={t.folders.runs}>
      <Show of={runs}>
        {(data) =>
          data.runs.length === 0 ? (
            <p class="note">{t.folders.neverRan}</p>
          ) : (
            <Table label={t.folders.runs} columns={columns} rows={data.runs} id={(run) => run.id} />
          )
        }
      </Show>
    </Panel>
  );
}

function RunDialog(props: { job: HostJob; path: string; onClose: () => void }) {
  const [words, setWords] = useState("");
  const submit = async () => {
    const started = await post<Schemas["HostRunStarted"]>(`${props.path}/run`, words.trim() === "" ? {} : { arguments: words });
    notify(t.folders.runStarted(started.run));
    navigate(link(["folders", props.job.type, props.job.name], { run: started.run }));
  };
  return (
    <FormDialog title={t.folders.run} action={t.folders.run} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.folders.arguments}>
        <input value={words} onInput={(e) => setWords(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

function SettingsDialog(props: { path: string; onClose: () => void; done: () => void }) {
  const settings = useData(`settings ${props.path}`, (signal) => get<Schemas["HostSettings"]>(`${props.path}/settings`, {}, signal));
  const [text, setText] = useState<string>();
  const shown = text ?? (settings.data ? formatJson(settings.data) : "");
  const submit = async () => {
    await put(`${props.path}/settings`, typedJson("settings.job", shown));
    notify(t.folders.settingsSaved);
    props.done();
  };
  return (
    <FormDialog title={t.folders.settings} action={t.save} onClose={props.onClose} onSubmit={submit} wide>
      {settings.error && <p class="field-error">{settings.error.message}</p>}
      <JsonField label="settings.job" hint={t.folders.settingsHint} rows={12} value={shown} onInput={setText} />
    </FormDialog>
  );
}

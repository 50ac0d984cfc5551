// The server: version, node, store, settings, job host, and the check of the store's counts.
import { useState } from "preact/hooks";

import { get, type Schemas } from "../../api/client";
import { Ago, Button, Facts, Page, Panel, Show } from "../../components/basics";
import { Table, type Column } from "../../components/table";
import { JsonPanel } from "../../components/values";
import { useData } from "../../data";
import { bytes, count } from "../../format";
import { t } from "../../texts";
import { checkStore, lastCheck } from "./check";
import { HiddenKeysPanel } from "./hidden";
import { parseMetrics } from "./metrics";
import { SettingsPanel, StorePanel } from "./settings";

type Layer = NonNullable<NonNullable<Schemas["Health"]["host"]>["layers"]>[number];

const LAYER_COLUMNS: Column<Layer>[] = [
  { key: "name", title: t.system.layer, cell: (layer) => <code>{layer.name}</code>, sort: (layer) => layer.name },
  { key: "active", title: t.system.active, cell: (layer) => (layer.active ? t.yes : t.no), sort: (layer) => Number(layer.active) },
  { key: "detail", title: t.system.detail, cell: (layer) => <span class="note">{layer.detail}</span>, wide: true },
];

export function SystemPage() {
  const version = useData("version", (signal) => get<Schemas["Version"]>("/v1/version", {}, signal));
  const ready = useData("ready", (signal) => get<Schemas["Ready"]>("/readyz", {}, signal));
  const health = useData("health", (signal) => get<Schemas["Health"]>("/healthz", {}, signal));
  return (
    <Page title={t.pages.system}>
      <Panel title={t.system.server}>
        <Show of={version}>
          {(data) => (
            <Facts
              rows={[
                [t.system.version, data.version],
                [t.system.api, data.api],
                [t.system.ready, ready.data?.status ?? ready.error?.message],
                [t.system.durability, ready.data?.durability],
                [t.system.health, health.data?.status],
              ]}
            />
          )}
        </Show>
      </Panel>
      <Node />
      <StorePanel />
      <SettingsPanel />
      <HiddenKeysPanel />
      <JsonPanel title={t.system.cluster} value={ready.data?.store} />
      {health.data?.host?.layers && (
        <Panel title={t.system.isolation}>
          <Table label={t.system.isolation} columns={LAYER_COLUMNS} rows={health.data.host.layers} id={(layer) => layer.name ?? ""} parameter="layers" />
        </Panel>
      )}
      <Verify />
    </Page>
  );
}

// What a viewer with the scope `metrics` may see of the node that answers.
function Node() {
  const metrics = useData("metrics", (signal) =>
    get<string>("/metrics", {}, signal).then(parseMetrics, () => undefined).then((values) => ({ values })),
  );
  const values = metrics.data?.values;
  if (!values) return null;
  const show = (name: string, format: (n: number) => string) => (values.has(name) ? format(values.get(name)!) : undefined);
  const started = values.get("process_start_time_seconds");
  return (
    <Panel title={t.system.node} actions={<Button onClick={metrics.reload}>{t.refresh}</Button>}>
      <Facts
        rows={[
          [t.system.leader, show("mainspring_leader", (n) => (n > 0 ? t.yes : t.no))],
          [t.system.started, started !== undefined && <Ago at={new Date(started * 1000).toISOString()} />],
          [t.system.memory, show("process_resident_memory_bytes", bytes)],
          [t.system.files, show("process_open_fds", count)],
          [t.system.commits, show("mainspring_store_commits_total", count)],
          [t.system.reads, show("mainspring_store_reads_total", count)],
          [t.system.parked, show("mainspring_parked_claims", count)],
          [t.system.deadRows, show("mainspring_store_dead_rows", count)],
        ]}
      />
    </Panel>
  );
}

function Verify() {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    await checkStore();
    setBusy(false);
  };
  const check = lastCheck();
  return (
    <Panel
      title={t.system.verify}
      actions={
        <Button needs={["admin", "*"]} onClick={run} disabled={busy}>
          {t.system.verifyRun}
        </Button>
      }
    >
      <p class="note">{t.system.verifyText}</p>
      {check && (
        <p>
          {check.text} <Ago at={check.at} />
        </p>
      )}
      {check && check.problems.length > 0 && (
        <ul>
          {check.problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

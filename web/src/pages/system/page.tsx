// The server: version, store, job host, and the check of the store's counts.
import { useState } from "preact/hooks";

import { get, type Schemas } from "../../api/client";
import { Ago, Button, Facts, Page, Panel, Show } from "../../components/basics";
import { JsonPanel } from "../../components/values";
import { useData } from "../../data";
import { t } from "../../texts";
import { checkStore, lastCheck } from "./check";

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
      <JsonPanel title={t.system.store} value={ready.data?.store} />
      {health.data?.host?.layers && (
        <Panel title={t.system.isolation}>
          <ul class="plain-list">
            {health.data.host.layers.map((layer) => (
              <li key={layer.name}>
                <span>{layer.name}</span>
                <span>{layer.active ? t.yes : t.no}</span>
                <span class="note">{layer.detail}</span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <Verify />
    </Page>
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
        <Button onClick={run} disabled={busy}>
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

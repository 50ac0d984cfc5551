// The server: version, store, job host, and the check of the store's counts.
import { useState } from "preact/hooks";

import { get, type Schemas } from "../../api/client";
import { Button, Facts, Page, Panel, Show } from "../../components/basics";
import { messageOf, notify } from "../../components/feedback";
import { JsonPanel } from "../../components/values";
import { useData } from "../../data";
import { count } from "../../format";
import { t } from "../../texts";

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

// The check reads the whole store, so it runs only when asked.
function Verify() {
  const [report, setReport] = useState<Schemas["VerifyReport"] & { at: string }>();
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      setReport({ ...(await get<Schemas["VerifyReport"]>("/v1/verify")), at: new Date().toISOString() });
    } catch (problem) {
      notify(messageOf(problem), true);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel
      title={t.system.verify}
      actions={
        <Button onClick={run} disabled={busy}>
          {t.system.verifyRun}
        </Button>
      }
    >
      {!report && <p class="note">{t.system.verifyText}</p>}
      {report && <p>{report.problems.length === 0 ? t.system.sound(count(report.jobs)) : t.system.problems(count(report.problems.length))}</p>}
      {report && report.problems.length > 0 && (
        <ul>
          {report.problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

// The server's settings with their origin, and the size of its store.
import { useState } from "preact/hooks";

import { ApiError, getIfThere } from "../../api/client";
import type { Setting, SettingList, StoreFacts } from "../../api/shapes";
import { Empty, Facts, Panel, Show } from "../../components/basics";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { bytes, count } from "../../format";
import { t } from "../../texts";

// undefined: the server does not have the route, or the viewer may not read it.
async function getIfAllowed<T>(path: string, signal: AbortSignal): Promise<T | undefined> {
  try {
    return await getIfThere<T>(path, {}, signal);
  } catch (problem) {
    if (problem instanceof ApiError && problem.status === 403) return undefined;
    throw problem;
  }
}

const shown = (value: Setting["value"]): string => (value === undefined || value === null || value === "" ? t.none : String(value));

const isChanged = (one: Setting): boolean => one.source !== "default";

// The server masks secrets.
function Value({ one }: { one: Setting }) {
  return (
    <>
      <span class="long">{shown(one.value)}</span> {one.secret && <span class="note">{t.system.secret}</span>}
    </>
  );
}

const COLUMNS: Column<Setting>[] = [
  { key: "name", title: t.system.setting, cell: (one) => <code>{one.name}</code>, sort: (one) => one.name, wide: true },
  { key: "value", title: t.system.value, cell: (one) => <Value one={one} />, sort: (one) => shown(one.value) },
  { key: "default", title: t.system.default, cell: (one) => <span class="note long">{shown(one.default)}</span> },
  {
    key: "source",
    title: t.system.origin,
    sort: (one) => one.source,
    cell: (one) => (isChanged(one) ? <strong class="long">{one.where ?? one.source}</strong> : one.source),
  },
];

export function SettingsPanel() {
  const [filter, setFilter] = useState("");
  const [changed, setChanged] = useState(true);
  const settings = useData("settings", async (signal) => ({ answer: await getIfAllowed<SettingList>("/v1/settings", signal) }));
  // A server in another program has no settings.
  if (settings.data && !settings.data.answer?.settings.length) return null;
  const word = filter.trim().toLowerCase();
  const fits = (one: Setting) => (!changed || isChanged(one)) && `${one.name} ${shown(one.value)}`.toLowerCase().includes(word);
  return (
    <Panel title={t.system.settings}>
      <Show of={settings}>
        {({ answer }) => {
          const all = answer?.settings ?? [];
          const rows = all.filter(fits);
          return (
            <>
              <div class="filters">
                <label>
                  {t.system.find} <input type="search" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
                </label>
                <label>
                  <input type="checkbox" checked={changed} onChange={() => setChanged(!changed)} /> {t.system.changedOnly}
                </label>
                <span class="note" role="status">
                  {t.system.settingsShown(rows.length, all.length)}
                </span>
              </div>
              {rows.length === 0 ? (
                <Empty title={word === "" ? t.system.allDefaults : t.system.noSetting}>{changed && t.system.noSettingHint}</Empty>
              ) : (
                <Table label={t.system.settings} columns={COLUMNS} rows={rows} id={(one) => one.name} />
              )}
            </>
          );
        }}
      </Show>
    </Panel>
  );
}

export function StorePanel() {
  const store = useData("store", async (signal) => ({ answer: await getIfAllowed<StoreFacts>("/v1/store", signal) }));
  if (store.data && !store.data.answer) return null;
  return (
    <Panel title={t.system.store}>
      <Show of={store}>
        {({ answer }) =>
          answer && (
            <Facts
              rows={[
                [t.system.kind, answer.kind],
                [t.system.size, bytes(answer.bytes)],
                [t.system.free, answer.free_bytes !== undefined && bytes(answer.free_bytes)],
                [t.system.wal, answer.wal_bytes !== undefined && bytes(answer.wal_bytes)],
                [t.system.diskFree, answer.disk_free_bytes !== undefined && bytes(answer.disk_free_bytes)],
                [t.pages.jobs, count(answer.jobs)],
                [t.system.liveJobs, count(answer.live)],
                [t.system.finishedJobs, count(answer.finished)],
                [t.system.schema, answer.schema],
                [t.system.path, answer.path && <code>{answer.path}</code>],
              ]}
            />
          )
        }
      </Show>
    </Panel>
  );
}

// Jobs: search and filter; act on the selected ones or on everything that matches.
import { useEffect, useMemo, useState } from "preact/hooks";

import { get, getQueues, type Query, type Schemas } from "../../api/client";
import { listen } from "../../api/events";
import type { JobPage } from "../../api/shapes";
import { Button, Empty, Page, Show } from "../../components/basics";
import { CopyAs } from "../../components/copy_as";
import { usePageCommands } from "../../components/palette";
import { sortRows, Table } from "../../components/table";
import { Views } from "../../components/views";
import { useData } from "../../data";
import { count } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { t } from "../../texts";
import { copyFilterChoices } from "../job/copy_as";
import { BULK_ACTIONS, BulkDialog, BulkPanel, type BulkAction } from "./bulk";
import { ColumnMenu, useColumns } from "./columns";
import { apiQuery, bulkFilter, countedExactly, filterOf, STATES, toggled, WINDOWS, type Filter } from "./filter";
import { NewJobDialog } from "./new_job";
import { SearchBox } from "./search";

type Job = Schemas["Job"];
const PAGE_SIZE = 50;
// Events that came while rows were read are answered by one further read.
const REFRESH_MS = 60;

export function JobsPage(props: { route: Route }) {
  const { route } = props;
  const filter = filterOf(route);
  const cursor = route.query.get("cursor") ?? "";
  const key = JSON.stringify([filter, cursor]);
  const jobs = useData(key, (signal) => get<JobPage>("/v1/jobs", { ...apiQuery(filter), cursor, limit: PAGE_SIZE }, signal));
  const queues = useData("queues", getQueues, (event) => event.job !== undefined);
  const names = useMemo(() => queues.data?.queues.map((queue) => queue.name) ?? [], [queues.data]);
  const [creating, setCreating] = useState(false);
  const [bulks, setBulks] = useState(0);
  usePageCommands([
    { text: t.jobs.create, run: () => setCreating(true) },
    { text: t.search.label, run: () => document.getElementById("job-search")?.focus() },
  ]);
  return (
    <Page
      title={t.pages.jobs}
      note={t.jobs.note}
      actions={
        <>
          <Views page="jobs" route={route} />
          <ColumnMenu />
          <CopyAs choices={() => copyFilterChoices(queryPairs(apiQuery(filter)))} />
          <Button kind="primary" onClick={() => setCreating(true)}>
            {t.jobs.create}
          </Button>
        </>
      }
    >
      <SearchBox
        value={filter.q}
        rows={jobs.data?.jobs ?? []}
        queues={names}
        onSearch={(q) => navigate(withQuery(route, { q, cursor: undefined }))}
      />
      <Filters filter={filter} route={route} queues={names} />
      <States filter={filter} route={route} queues={queues.data} />
      <BulkPanel version={bulks} ended={jobs.reload} />
      <Show of={jobs}>
        {(page) => (
          <JobRows key={key} page={page} filter={filter} route={route} total={totalOf(filter, queues.data)} first={cursor === ""} reload={jobs.reload} started={() => setBulks((n) => n + 1)} />
        )}
      </Show>
      {jobs.data?.examined !== undefined && (filter.q !== "" || jobs.data.jobs.length < PAGE_SIZE) && jobs.data.next_cursor && (
        <p class="note">{t.search.looked(count(jobs.data.examined), count(jobs.data.of ?? 0))}</p>
      )}
      <nav class="pager" aria-label={t.jobs.note}>
        {cursor !== "" && <a href={withQuery(route, { cursor: undefined })}>{t.newer}</a>}
        {jobs.data?.next_cursor && (
          <a href={withQuery(route, { cursor: jobs.data.next_cursor })}>{jobs.data.jobs.length < PAGE_SIZE ? t.search.continue : t.older}</a>
        )}
      </nav>
      {creating && <NewJobDialog queue={filter.queue} onClose={() => setCreating(false)} />}
    </Page>
  );
}

const queryPairs = (query: Query): [string, string][] =>
  Object.entries(query).filter(([, value]) => value).map(([name, value]) => [name, String(value)]);

function countsOf(list: Schemas["QueueList"] | undefined, queue: string): Record<string, number> | undefined {
  if (!list) return undefined;
  const out: Record<string, number> = { any: 0 };
  for (const one of list.queues) {
    if (queue && one.name !== queue) continue;
    for (const [state, n] of Object.entries(one.counts)) {
      out[state] = (out[state] ?? 0) + n;
      out.any! += n;
    }
  }
  return out;
}

// How many jobs match, where that is known without a search.
function totalOf(filter: Filter, list: Schemas["QueueList"] | undefined): number | undefined {
  const counts = countedExactly(filter) ? countsOf(list, filter.queue) : undefined;
  if (!counts) return undefined;
  return filter.states.length === 0 ? counts.any : filter.states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
}

// One tab per state; the small button adds the state to those that are shown, or takes it away.
function States(props: { filter: Filter; route: Route; queues?: Schemas["QueueList"] }) {
  const { filter, route } = props;
  const counts = countedExactly(filter) ? countsOf(props.queues, filter.queue) : undefined;
  const go = (state: string | undefined) => withQuery(route, { state, cursor: undefined });
  return (
    <nav class="tabs" aria-label={t.jobs.state}>
      <a href={go(undefined)} aria-current={filter.states.length === 0 ? "page" : undefined}>
        {t.jobs.any}
        {counts && <span class="tab-count">{count(counts.any ?? 0)}</span>}
      </a>
      {STATES.map((state) => {
        const on = filter.states.includes(state);
        return (
          <span key={state} class={on ? "tab on" : "tab"}>
            <a href={go(state)} title={t.stateMeaning[state]} aria-current={on ? "page" : undefined}>
              {t.states[state]}
              {counts && <span class="tab-count">{count(counts[state] ?? 0)}</span>}
            </a>
            {filter.states.length > 0 && (filter.states.length > 1 || !on) && (
              <a class="tab-add" href={go(toggled(filter.states, state))} aria-label={on ? t.jobs.without(t.states[state]!) : t.jobs.with(t.states[state]!)}>
                {on ? "×" : "+"}
              </a>
            )}
          </span>
        );
      })}
    </nav>
  );
}

function Filters(props: { filter: Filter; route: Route; queues: string[] }) {
  const { filter, route } = props;
  const [custom, setCustom] = useState(filter.from !== "" || filter.to !== "");
  const set = (changes: Record<string, string | undefined>) => navigate(withQuery(route, { ...changes, cursor: undefined }));
  const chips = (["kind", "tag"] as const).filter((name) => filter[name] !== "");
  const any = chips.length > 0 || filter.queue || filter.q || filter.within || filter.from || filter.to || filter.states.length > 0;
  const clock = (text: string) => (text ? localInput(text) : "");
  return (
    <div class="filters">
      <label>
        {t.jobs.queue}{" "}
        <input key={filter.queue} list="queue-names" value={filter.queue} onChange={(e) => set({ queue: e.currentTarget.value.trim() || undefined })} />
      </label>
      <datalist id="queue-names">
        {props.queues.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <label>
        {t.jobs.createdIn}{" "}
        <select
          value={custom ? "custom" : filter.within}
          onChange={(e) => {
            const value = e.currentTarget.value;
            setCustom(value === "custom");
            if (value !== "custom") set({ within: value || undefined, from: undefined, to: undefined });
          }}
        >
          <option value="">{t.jobs.anyTime}</option>
          {Object.keys(WINDOWS).map((one) => (
            <option key={one} value={one}>
              {t.jobs.last(one)}
            </option>
          ))}
          <option value="custom">{t.jobs.customTime}</option>
        </select>
      </label>
      {custom && (
        <>
          <label>
            {t.jobs.from} <input type="datetime-local" value={clock(filter.from)} onChange={(e) => set({ from: instantOf(e.currentTarget.value), within: undefined })} />
          </label>
          <label>
            {t.jobs.to} <input type="datetime-local" value={clock(filter.to)} onChange={(e) => set({ to: instantOf(e.currentTarget.value), within: undefined })} />
          </label>
        </>
      )}
      {chips.map((name) => (
        <a key={name} class="chip" href={withQuery(route, { [name]: undefined, cursor: undefined })} aria-label={`${t.remove} ${t.jobs[name]} ${filter[name]}`}>
          {t.jobs[name]}: {filter[name]} ×
        </a>
      ))}
      {any && <a href={link(["jobs"])}>{t.jobs.clear}</a>}
    </div>
  );
}

// Of <input type="datetime-local">, in this browser's zone.
const instantOf = (text: string): string | undefined => (text ? new Date(text).toISOString() : undefined);
function localInput(instant: string): string {
  const date = new Date(instant);
  return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function JobRows(props: {
  page: JobPage; filter: Filter; route: Route; total?: number; first: boolean; reload: () => void; started: () => void;
}) {
  const { filter, first, reload, route } = props;
  const [rows, setRows] = useState(props.page.jobs);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [all, setAll] = useState(false);
  const [fresh, setFresh] = useState(0);
  const columns = useColumns();
  const sort = route.query.get("sort") ?? "";
  useEffect(() => {
    setRows(props.page.jobs);
    setFresh(0);
  }, [props.page]);
  useRowRefresh(rows, setRows, first ? (event) => matches(event, filter) : () => false, () => setFresh((n) => n + 1), reload);

  const onSelect = (ids: string[], on: boolean) => {
    const next = new Set(selected);
    for (const id of ids) on ? next.add(id) : next.delete(id);
    setSelected(next);
    if (!on) setAll(false);
  };
  const done = () => {
    setSelected(new Set());
    setAll(false);
    props.started();
    reload();
  };
  const whole = rows.length > 0 && rows.every((job) => selected.has(String(job.id)));
  const more = props.page.next_cursor !== null || !first;
  return (
    <>
      <div aria-live="polite">
        {fresh > 0 && (
          <Button class="announce" onClick={reload}>
            {t.jobs.newJobs(fresh)}
          </Button>
        )}
      </div>
      {selected.size > 0 && (
        <Selection
          text={all ? t.jobs.allSelected(props.total === undefined ? "" : count(props.total)) : t.jobs.selected(selected.size)}
          filter={all ? bulkFilter(filter) : { ids: [...selected].map((id) => BigInt(id)) }}
          extend={whole && more && !all ? () => setAll(true) : undefined}
          extendText={t.jobs.selectMatching(props.total === undefined ? "" : count(props.total))}
          done={done}
        />
      )}
      {rows.length === 0 ? (
        <Empty title={props.page.next_cursor ? t.jobs.emptyYet : t.jobs.empty}>{props.page.next_cursor ? t.jobs.emptyYetHint : t.jobs.emptyHint}</Empty>
      ) : (
        <Table
          label={t.pages.jobs}
          columns={columns}
          rows={sortRows(rows, columns, sort)}
          id={(job) => String(job.id)}
          sort={sort}
          sortHref={(next) => withQuery(route, { sort: next })}
          selected={selected}
          onSelect={onSelect}
          selectAllLabel={t.jobs.selectAll}
          selectLabel={(job) => t.jobs.select(String(job.id))}
        />
      )}
      {sort !== "" && rows.length > 0 && more && <p class="note">{t.jobs.sortedPage}</p>}
    </>
  );
}

// Rows stay where they are: changed ones are read again together, new ones are announced.
function useRowRefresh(
  rows: Job[],
  setRows: (change: (old: Job[]) => Job[]) => void,
  isNew: (event: { queue?: string; kind?: string }) => boolean,
  announce: () => void,
  reload: () => void,
): void {
  const ids = rows.map((job) => String(job.id)).join(",");
  useEffect(() => {
    const shown = new Set(ids.split(","));
    const changed = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = async () => {
      const query: Query = { ids: [...changed].join(","), limit: PAGE_SIZE };
      changed.clear();
      const page = await get<JobPage>("/v1/jobs", query).catch(() => undefined);
      timer = undefined;
      const byId = new Map(page?.jobs.map((job) => [String(job.id), job]));
      setRows((old) => old.map((row) => byId.get(String(row.id)) ?? row));
      if (changed.size > 0) timer = setTimeout(refresh, REFRESH_MS);
    };
    const stop = listen((event) => {
      if (event.type === "gap") return reload();
      const id = event.job === undefined ? "" : String(event.job);
      if (shown.has(id)) {
        changed.add(id);
        timer ??= setTimeout(refresh, REFRESH_MS);
      } else if (event.type === "enqueued" && isNew(event)) {
        announce();
      }
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [ids]);
}

function matches(event: { queue?: string; kind?: string }, filter: Filter): boolean {
  return (
    (!filter.queue || event.queue === filter.queue) &&
    (!filter.kind || event.kind === filter.kind) &&
    !filter.tag && !filter.q && !filter.to &&
    (filter.states.length === 0 || filter.states.includes("available"))
  );
}

function Selection(props: { text: string; filter: Record<string, unknown>; extend?: () => void; extendText: string; done: () => void }) {
  const [action, setAction] = useState<BulkAction>();
  return (
    <div class="selection" role="toolbar" aria-label={props.text}>
      <span>{props.text}</span>
      {props.extend && (
        <button type="button" class="link" onClick={props.extend}>
          {props.extendText}
        </button>
      )}
      {BULK_ACTIONS.map((one) => (
        <Button key={one} kind={one === "cancel" || one === "delete" ? "danger" : "plain"} onClick={() => setAction(one)}>
          {t.bulk.actions[one]}
        </Button>
      ))}
      {action && <BulkDialog action={action} filter={props.filter} onClose={() => setAction(undefined)} done={props.done} />}
    </div>
  );
}

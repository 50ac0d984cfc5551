// Jobs: search and filter; act on the selected ones or on everything that matches.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { get, getJobPage, getQueues, post, type Query, type Schemas } from "../../api/client";
import { changes, listen } from "../../api/events";
import type { BulkPreview, JobPage } from "../../api/shapes";
import { Button, Empty, Page, Show } from "../../components/basics";
import { ColumnMenu, useColumns } from "../../components/columns";
import { CopyAs } from "../../components/copy_as";
import { messageOf, notify } from "../../components/feedback";
import { Pager } from "../../components/pager";
import { PeriodFields } from "../../components/period";
import { usePageCommands } from "../../components/palette";
import { useSelection } from "../../components/selection";
import { sortRows, Table } from "../../components/table";
import { Views } from "../../components/views";
import { queuesCoalesceMs, useData } from "../../data";
import { count } from "../../format";
import { link, navigate, rememberJobList, withQuery, type Route } from "../../router";
import { t } from "../../texts";
import { copyFilterChoices } from "../job/copy_as";
import { BULK_ACTIONS, BulkDialog, BulkPanel, type BulkAction } from "./bulk";
import { ALL_COLUMNS, usualColumns } from "./columns";
import { apiQuery, bulkFilter, countedExactly, filterOf, STATES, toggled, unknownStates, type Filter } from "./filter";
import { NewJobDialog } from "./new_job";
import { SearchBox } from "./search";

type Job = Schemas["Job"];
const PAGE_SIZE = 50;
// A chosen order holds among this many jobs: the server's pages come newest first.
const MAX_SORTED = 1000;
// Events that came while rows were read are answered by one further read.
const REFRESH_MS = 60;
// Jobs that may have come into the list are looked at together.
const NEW_MS = 150;
const NEXT_NEW_MS = 1000; // while more come
const MAX_NEW = 50;
const MAX_FRESH = 1000; // new jobs that are counted

export function JobsPage(props: { route: Route }) {
  const { route } = props;
  const filter = filterOf(route);
  const cursor = route.query.get("cursor") ?? "";
  const sort = route.query.get("sort") ?? "";
  const size = sort === "" ? PAGE_SIZE : MAX_SORTED;
  const key = JSON.stringify([filter, cursor, size]);
  const jobs = useData(key, (signal) => getJobPage({ ...apiQuery(filter), cursor }, size, signal));
  const queues = useData("queues", getQueues, (event) => event.job !== undefined || changes(event, "queue"), queuesCoalesceMs);
  const names = useMemo(() => queues.data?.queues.map((queue) => queue.name) ?? [], [queues.data]);
  const kinds = useMemo(() => [...new Set(jobs.data?.jobs.map((job) => job.kind))].sort(), [jobs.data]);
  const [creating, setCreating] = useState(false);
  const [bulks, setBulks] = useState(0);
  useEffect(() => rememberJobList(withQuery(route, {})), [route]);
  usePageCommands([
    { text: t.jobs.create, run: () => setCreating(true), needs: ["enqueue"] },
    { text: t.search.label, run: () => document.getElementById("job-search")?.focus() },
  ]);
  return (
    <Page
      title={t.pages.jobs}
      note={t.jobs.note}
      actions={
        <>
          <Views page="jobs" route={route} />
          <ColumnMenu page="jobs" all={ALL_COLUMNS} usual={usualColumns(filter.states)} />
          <CopyAs choices={() => copyFilterChoices(queryPairs(apiQuery(filter)))} />
          <Button kind="primary" needs={["enqueue"]} onClick={() => setCreating(true)}>
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
      <Filters filter={filter} route={route} queues={names} kinds={kinds} />
      <States filter={filter} route={route} queues={queues.data} />
      {unknownStates(route).length > 0 && (
        <p class="note" role="status">
          {t.jobs.unknownState(unknownStates(route).join(", "), filter.states.map((state) => t.states[state]).join(", "))}
        </p>
      )}
      {!countedExactly(filter) && <CountMatches key={key} filter={filter} />}
      <BulkPanel version={bulks} ended={jobs.reload} />
      <Show of={jobs}>
        {(page) => (
          <JobRows key={key} page={page} sort={sort} filter={filter} total={totalOf(filter, queues.data)} first={cursor === ""} reload={jobs.reload} started={() => setBulks((n) => n + 1)} />
        )}
      </Show>
      {jobs.data?.examined !== undefined && (filter.q !== "" || jobs.data.jobs.length < size) && jobs.data.next_cursor && (
        <p class="note">{t.search.looked(count(jobs.data.examined), count(jobs.data.of ?? 0))}</p>
      )}
      <Pager
        label={t.jobs.note}
        parameter="cursor"
        next={jobs.data?.next_cursor}
        older={jobs.data && jobs.data.jobs.length < size ? t.search.continue : t.older}
      />
      {creating && <NewJobDialog queue={filter.queue} queues={names} onClose={() => setCreating(false)} />}
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
    // Expired jobs are listed as cancelled, and counted apart.
    const counts = { ...one.counts, cancelled: (one.counts.cancelled ?? 0) + (one.expired ?? 0) };
    for (const [state, n] of Object.entries(counts)) {
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
        const change = on ? t.jobs.without(t.states[state]!) : t.jobs.with(t.states[state]!);
        return (
          <span key={state} class={on ? "tab on" : "tab"}>
            <a href={go(state)} title={t.stateMeaning[state]} aria-current={on ? "page" : undefined}>
              {t.states[state]}
              {counts && <span class="tab-count">{count(counts[state] ?? 0)}</span>}
            </a>
            {filter.states.length > 0 && (filter.states.length > 1 || !on) && (
              <a class="tab-add" href={go(toggled(filter.states, state))} aria-label={change} title={change}>
                {on ? "×" : "+"}
              </a>
            )}
          </span>
        );
      })}
    </nav>
  );
}

const ENDED = new Set(["completed", "cancelled", "dead"]);

// With these filters no count is kept: the server counts when it is asked, as before a bulk action.
function CountMatches({ filter }: { filter: Filter }) {
  const [result, setResult] = useState<string>();
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      // One action takes the jobs that have ended, the other one all others.
      const of = async (action: BulkAction, ended: boolean): Promise<BulkPreview> => {
        const states = filter.states.filter((state) => ENDED.has(state) === ended);
        if (states.length === 0 && filter.states.length > 0) return { matched: 0 };
        return post("/v1/bulk", { action, filter: bulkFilter({ ...filter, states }), dry_run: true });
      };
      const parts = await Promise.all([of("cancel", false), of("delete", true)]);
      const exact = parts.every((part) => part.exact !== false);
      setResult(t.jobs.matching((exact ? "" : t.bulk.atLeast) + count(parts[0].matched + parts[1].matched)));
    } catch (problem) {
      notify(messageOf(problem), true);
    }
    setBusy(false);
  };
  return (
    <p class="note count" role="status">
      {result ?? (
        <Button needs={["admin", filter.queue || "*"]} disabled={busy} onClick={run}>
          {busy ? t.bulk.counting : t.jobs.countMatches}
        </Button>
      )}
    </p>
  );
}

function Filters(props: { filter: Filter; route: Route; queues: string[]; kinds: string[] }) {
  const { filter, route } = props;
  const set = (changes: Record<string, string | undefined>) => navigate(withQuery(route, { ...changes, cursor: undefined }));
  const any = filter.kind || filter.tag || filter.queue || filter.q || filter.within || filter.from || filter.to || filter.states.length > 0;
  return (
    <div class="filters">
      <label>
        {t.jobs.queue}{" "}
        <input key={filter.queue} list="queue-names" defaultValue={filter.queue} onChange={(e) => set({ queue: e.currentTarget.value.trim() || undefined })} />
      </label>
      <datalist id="queue-names">
        {props.queues.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <label>
        {t.jobs.kind}{" "}
        <input key={filter.kind} list="kind-names" defaultValue={filter.kind} onChange={(e) => set({ kind: e.currentTarget.value.trim() || undefined })} />
      </label>
      <datalist id="kind-names">
        {props.kinds.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <PeriodFields
        label={t.jobs.createdIn}
        period={filter}
        onChange={({ within, from, to }) => set({ within: within || undefined, from: from || undefined, to: to || undefined })}
      />
      {filter.tag && (
        <a class="chip" href={withQuery(route, { tag: undefined, cursor: undefined })} aria-label={`${t.remove} ${t.jobs.tag} ${filter.tag}`}>
          {t.jobs.tag}: {filter.tag} ×
        </a>
      )}
      {any && <a href={link(["jobs"])}>{t.jobs.clear}</a>}
    </div>
  );
}

interface Fresh {
  ids: ReadonlySet<string>;
  more: boolean; // there may be more
}
const NO_FRESH: Fresh = { ids: new Set(), more: false };

function withFresh(old: Fresh, ids: string[], more: boolean): Fresh {
  const all = [...new Set([...old.ids, ...ids])];
  return { ids: new Set(all.slice(0, MAX_FRESH)), more: old.more || more || all.length >= MAX_FRESH };
}

function JobRows(props: {
  page: JobPage; sort: string; filter: Filter; total?: number; first: boolean; reload: () => void; started: () => void;
}) {
  const { page, sort, filter, first, reload } = props;
  const [most, setMost] = useState(PAGE_SIZE);
  const sorted = useMemo(() => sortRows(page.jobs, ALL_COLUMNS, sort), [page, sort]);
  const [rows, setRows] = useState(sorted.slice(0, most));
  const present = rows.filter((job) => job.state !== DELETED);
  const { selected, onSelect, clear } = useSelection(new Map(present.map((job) => [String(job.id), job.state])));
  const [every, setEvery] = useState(false);
  const [fresh, setFresh] = useState(NO_FRESH);
  const columns = useColumns("jobs", ALL_COLUMNS, usualColumns(filter.states));
  useEffect(() => {
    setRows(sorted.slice(0, most));
    setFresh(NO_FRESH);
  }, [sorted, most]);
  const announce = (ids: string[], more: boolean) => setFresh((old) => withFresh(old, ids, more));
  useRowRefresh(rows, setRows, first && fresh.ids.size < MAX_FRESH ? filter : undefined, announce, reload);

  const select = (ids: string[], on: boolean) => {
    onSelect(ids, on);
    if (!on) setEvery(false);
  };
  const done = () => {
    clear();
    setEvery(false);
    props.started();
    reload();
  };
  const whole = rows.length > 0 && rows.every((job) => selected.has(String(job.id)));
  const all = every && whole;
  const hidden = Math.max(0, sorted.length - most);
  const more = page.next_cursor !== null || !first || hidden > 0;
  return (
    <>
      <div aria-live="polite">
        {fresh.ids.size > 0 && (
          <Button class="announce" onClick={reload}>
            {t.jobs.newJobs(count(fresh.ids.size) + (fresh.more ? "+" : ""))}
          </Button>
        )}
      </div>
      {selected.size > 0 && (
        <Selection
          text={all ? t.jobs.allSelected(props.total === undefined ? "" : count(props.total)) : t.jobs.selected(selected.size)}
          queue={filter.queue || (all ? undefined : queueOf(rows, selected))}
          filters={all ? [bulkFilter(filter)] : selectedFilters(rows, selected)}
          extend={whole && more && !all ? () => setEvery(true) : undefined}
          extendText={t.jobs.selectMatching(props.total === undefined ? "" : count(props.total))}
          done={done}
        />
      )}
      {rows.length === 0 ? (
        <Empty title={page.next_cursor ? t.jobs.emptyYet : t.jobs.empty}>{page.next_cursor ? t.jobs.emptyYetHint : t.jobs.emptyHint}</Empty>
      ) : (
        <Table
          label={t.pages.jobs}
          columns={columns}
          rows={rows}
          id={(job) => String(job.id)}
          selected={selected}
          onSelect={select}
          selectAllLabel={t.jobs.selectAll}
          selectLabel={(job) => t.jobs.select(String(job.id))}
        />
      )}
      {hidden > 0 && <Button onClick={() => setMost(most + PAGE_SIZE)}>{t.jobs.showMore(count(Math.min(hidden, PAGE_SIZE)), count(sorted.length))}</Button>}
      {sort !== "" && (page.next_cursor !== null || !first) && <p class="note">{t.jobs.sortedAmong(count(sorted.length))}</p>}
    </>
  );
}

// The queue of all selected rows, if it is one: a token may be limited to it.
function queueOf(rows: Job[], selected: ReadonlySet<string>): string | undefined {
  const names = new Set(rows.filter((job) => selected.has(String(job.id))).map((job) => job.queue));
  return names.size === 1 ? [...names][0] : undefined;
}

// One filter for each state that is shown: a job that is in another state by now is left alone.
function selectedFilters(rows: Job[], selected: ReadonlySet<string>): Record<string, unknown>[] {
  const queue = queueOf(rows, selected);
  const byState = new Map<string, bigint[]>();
  for (const job of rows) {
    if (selected.has(String(job.id))) byState.set(job.state, [...(byState.get(job.state) ?? []), BigInt(job.id)]);
  }
  return [...byState].map(([state, ids]) => ({ ids, state: [state], ...(queue ? { queue } : {}) }));
}

const WAITS_FOR_TIME = new Set<string>(["scheduled", "retryable"]);
// Shown for a row whose job was deleted: the row stays where it is.
const DELETED = "deleted" as Job["state"];

// Rows stay where they are: changed ones are read again together, new ones are announced.
function useRowRefresh(
  rows: Job[],
  setRows: (change: (old: Job[]) => Job[]) => void,
  filter: Filter | undefined,
  announce: (ids: string[], more: boolean) => void,
  reload: () => void,
): void {
  const ids = rows.map((job) => String(job.id)).join(",");
  const wanted = filter === undefined ? "" : JSON.stringify(filter);
  const now = useRef(rows); // with their present states, which change while the ids stay
  now.current = rows;
  useEffect(() => {
    const shown = new Set(ids.split(","));
    const changed = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const others = new Set<string>();
    let dropped = false; // more came than are looked at
    let look: ReturnType<typeof setTimeout> | undefined;
    // Only the server knows which jobs match: an enqueued one may wait, and a search may be on.
    const lookAtOthers = async () => {
      const query: Query = { ...apiQuery(filter!), ids: [...others].join(","), limit: MAX_NEW };
      const more = dropped;
      others.clear();
      dropped = false;
      const page = await get<JobPage>("/v1/jobs", query).catch(() => undefined);
      look = others.size > 0 ? setTimeout(lookAtOthers, NEXT_NEW_MS) : undefined;
      if (page && page.jobs.length > 0) announce(page.jobs.map((job) => String(job.id)), more);
    };
    const refresh = async () => {
      const asked = new Set(changed);
      changed.clear();
      const page = await get<JobPage>("/v1/jobs", { ids: [...asked].join(","), limit: MAX_SORTED }).catch(() => undefined);
      timer = undefined;
      const byId = new Map(page?.jobs.map((job) => [String(job.id), job]));
      const gone = (row: Job) => page !== undefined && page.next_cursor === null && asked.has(String(row.id));
      setRows((old) => old.map((row) => byId.get(String(row.id)) ?? (gone(row) ? { ...row, state: DELETED } : row)));
      if (changed.size > 0) timer = setTimeout(refresh, REFRESH_MS);
    };
    const stop = listen((event) => {
      if (event.type === "gap") return reload();
      if (changes(event, "queue")) {
        const due = now.current.filter((job) => job.queue === event.queue && WAITS_FOR_TIME.has(job.state)).map((job) => String(job.id));
        for (const id of due) changed.add(id);
        if (due.length > 0) timer ??= setTimeout(refresh, REFRESH_MS);
        return;
      }
      const id = event.job === undefined ? "" : String(event.job);
      if (shown.has(id)) {
        changed.add(id);
        timer ??= setTimeout(refresh, REFRESH_MS);
      } else if (filter && mayMatch(event, filter)) {
        if (others.size < MAX_NEW) others.add(id);
        else dropped ||= !others.has(id);
        look ??= setTimeout(lookAtOthers, NEW_MS);
      }
    });
    return () => {
      stop();
      clearTimeout(timer);
      clearTimeout(look);
    };
  }, [ids, wanted]);
}

// States in which a job can be after an event.
const STATES_AFTER: Record<string, string[]> = {
  enqueued: ["available", "scheduled", "waiting"],
  started: ["running"],
  retrying: ["retryable", "available"],
  snoozed: ["scheduled", "retryable", "available"],
  deferred: ["scheduled", "retryable", "waiting"],
  completed: ["completed"],
  dead: ["dead"],
  cancelled: ["cancelled"],
};

// Whether the job of an event may have come into the list by it.
function mayMatch(event: { type: string; job?: unknown; queue?: string; kind?: string }, filter: Filter): boolean {
  const states = STATES_AFTER[event.type];
  if (event.job === undefined || states === undefined) return false;
  if (filter.queue && event.queue !== filter.queue) return false;
  if (filter.kind && event.kind !== filter.kind) return false;
  return filter.states.length === 0 ? event.type === "enqueued" : filter.states.some((state) => states.includes(state));
}

function Selection(props: { text: string; queue?: string; filters: Record<string, unknown>[]; extend?: () => void; extendText: string; done: () => void }) {
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
        <Button key={one} kind={one === "cancel" || one === "delete" ? "danger" : "plain"} needs={["admin", props.queue ?? "*"]} onClick={() => setAction(one)}>
          {t.bulk.actions[one]}
        </Button>
      ))}
      {action && <BulkDialog action={action} filters={props.filters} onClose={() => setAction(undefined)} done={props.done} />}
    </div>
  );
}

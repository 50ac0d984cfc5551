// Tables that sort by a column. On a narrow screen each row becomes a block whose cells carry their headings.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

import { navigate, useRoute, withQuery, type Route } from "../router";
import { t } from "../texts";

type SortValue = string | number | bigint | null | undefined;

export interface Column<T> {
  key: string;
  title: string;
  cell: (row: T) => ComponentChildren;
  numeric?: boolean;
  wide?: boolean; // on a narrow screen the cell gets a line of its own
  sort?: (row: T) => SortValue; // the value to sort by; left out: the column does not sort
}

export interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  rowClass?: (row: T) => string | undefined;
  parameter?: string; // of the address, for the order; pages with two tables need two names
  selected?: ReadonlySet<string>;
  onSelect?: (ids: string[], selected: boolean) => void;
  selectLabel?: (row: T) => string;
  selectAllLabel?: string;
}

// Rows without a value come last in both directions. Equal rows keep their order.
export function compareValues(a: SortValue, b: SortValue): number {
  if (typeof a === "string" && typeof b === "string") return a.localeCompare(b, "en", { numeric: true });
  return a! < b! ? -1 : a! > b! ? 1 : 0;
}

const isEmpty = (value: SortValue): boolean => value === undefined || value === null || value === "" || Number.isNaN(value);

// "ran" and "-ran": by that column, ascending and descending; anything else leaves the order as it is.
export function sortRows<T>(rows: T[], columns: Column<T>[], sort: string): T[] {
  const down = sort.startsWith("-");
  const by = columns.find((column) => column.key === sort.replace(/^-/, ""))?.sort;
  if (!by) return rows;
  const full = rows.filter((row) => !isEmpty(by(row)));
  const order = (a: T, b: T) => compareValues(by(a), by(b));
  return [...full.sort((a, b) => (down ? order(b, a) : order(a, b))), ...rows.filter((row) => isEmpty(by(row)))];
}

// Rows keep their places while the pointer or the focus is in them.
function useSteadyOrder<T>(rows: T[], id: (row: T) => string, sort: string) {
  const body = useRef<HTMLTableSectionElement>(null);
  const held = useRef({ sort, places: new Map<string, number>() });
  const { places } = held.current;
  const inUse = held.current.sort === sort && body.current?.matches(":hover, :focus-within");
  if (inUse && rows.every((row) => places.has(id(row)))) {
    return { body, steady: [...rows].sort((a, b) => places.get(id(a))! - places.get(id(b))!) };
  }
  held.current = { sort, places: new Map(rows.map((row, i) => [id(row), i])) };
  return { body, steady: rows };
}

export function Table<T>(props: TableProps<T>) {
  const { columns, id, selected, onSelect, parameter = "sort" } = props;
  const route = useRoute();
  const sort = route.query.get(parameter) ?? "";
  const { body, steady: rows } = useSteadyOrder(sortRows(props.rows, columns, sort), id, sort);
  const all = rows.length > 0 && rows.every((row) => selected?.has(id(row)));
  const selectAll = onSelect && ((label?: string) => <input type="checkbox" aria-label={label} checked={all} onChange={() => onSelect(rows.map(id), !all)} />);
  return (
    <>
      <NarrowTools columns={columns} sort={sort} route={route} parameter={parameter} selectAll={selectAll} />
      <div class="table-frame">
        <table aria-label={props.label}>
          <thead>
            <tr>
              {selectAll && (
                <th class="select" scope="col">
                  {selectAll(props.selectAllLabel)}
                </th>
              )}
              {columns.map((column) => (
                <Heading key={column.key} column={column} sort={sort} href={withQuery(route, { [parameter]: nextSort(sort, column) })} />
              ))}
            </tr>
          </thead>
          <tbody ref={body}>
            {rows.map((row) => (
              <Row key={id(row)} {...props} row={row} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Row<T>(props: TableProps<T> & { row: T }) {
  const { row, selected, onSelect } = props;
  const key = props.id(row);
  const on = selected?.has(key) ?? false;
  return (
    <tr class={on ? "selected" : props.rowClass?.(row)}>
      {onSelect && (
        <td class="select">
          <input type="checkbox" aria-label={props.selectLabel?.(row)} checked={on} onChange={() => onSelect([key], !on)} />
        </td>
      )}
      {props.columns.map((column) => (
        <td key={column.key} data-title={column.title} class={[column.numeric && "numeric", column.wide && "wide"].filter(Boolean).join(" ") || undefined}>
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
}

function Heading<T>(props: { column: Column<T>; sort: string; href: string }) {
  const { column, sort, href } = props;
  const order = sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : undefined;
  return (
    <th scope="col" class={column.numeric ? "numeric" : undefined} aria-sort={order}>
      {column.sort ? (
        <a class="sort" href={href} title={t.table.sortBy(column.title)}>
          {column.title}
          <span class="sort-mark" aria-hidden="true">
            {order === "ascending" ? "↑" : order === "descending" ? "↓" : "↕"}
          </span>
        </a>
      ) : (
        column.title
      )}
    </th>
  );
}

// A narrow screen has no headings: a menu sorts, and a box selects all rows.
function NarrowTools<T>(props: {
  columns: Column<T>[]; sort: string; route: Route; parameter: string; selectAll?: (label?: string) => ComponentChildren;
}) {
  const { sort, route, parameter } = props;
  const sortable = props.columns.filter((column) => column.sort);
  if (sortable.length === 0 && !props.selectAll) return null;
  return (
    <div class="narrow-tools">
      {props.selectAll && (
        <label class="inline">
          {props.selectAll()} {t.table.selectAll}
        </label>
      )}
      {sortable.length > 0 && (
        <select
          aria-label={t.table.sort}
          value={sortable.some((column) => column.key === sort.replace(/^-/, "")) ? sort : ""}
          onChange={(e) => navigate(withQuery(route, { [parameter]: e.currentTarget.value || undefined }))}
        >
          <option value="">{t.table.usualOrder}</option>
          {sortable.flatMap((column) => [
            <option key={column.key} value={column.key}>
              {column.title} ↑
            </option>,
            <option key={`-${column.key}`} value={`-${column.key}`}>
              {column.title} ↓
            </option>,
          ])}
        </select>
      )}
    </div>
  );
}

// Numbers and times begin with the largest, words with the first; the third click restores the usual order.
function nextSort<T>(sort: string, column: Column<T>): string | undefined {
  const [up, down] = [column.key, `-${column.key}`];
  const [first, second] = column.numeric ? [down, up] : [up, down];
  return sort === first ? second : sort === second ? undefined : first;
}

// Tables. On a narrow screen each row becomes a block whose cells carry their headings.
import type { ComponentChildren } from "preact";

export interface Column<T> {
  key: string;
  title: string;
  cell: (row: T) => ComponentChildren;
  numeric?: boolean;
  sort?: (row: T) => string | number; // what the column is sorted by; left out: it is not
}

// "ran" and "-ran": by that column, up and down; anything else leaves the order as it is.
export function sortRows<T>(rows: T[], columns: Column<T>[], sort: string): T[] {
  const down = sort.startsWith("-");
  const by = columns.find((column) => column.key === sort.replace(/^-/, ""))?.sort;
  if (!by) return rows;
  const order = (a: T, b: T) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0);
  return [...rows].sort((a, b) => (down ? -order(a, b) : order(a, b)));
}

export function Table<T>(props: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  selected?: ReadonlySet<string>;
  onSelect?: (ids: string[], selected: boolean) => void;
  selectLabel?: (row: T) => string;
  selectAllLabel?: string;
  sort?: string;
  sortHref?: (sort: string | undefined) => string; // the address of the view in another order
}) {
  const { columns, rows, id, selected, onSelect } = props;
  const all = rows.length > 0 && rows.every((row) => selected?.has(id(row)));
  return (
    <div class="table-frame">
      <table aria-label={props.label}>
        <thead>
          <tr>
            {onSelect && (
              <th class="select" scope="col">
                <input
                  type="checkbox"
                  aria-label={props.selectAllLabel}
                  checked={all}
                  onChange={() => onSelect(rows.map(id), !all)}
                />
              </th>
            )}
            {columns.map((column) => (
              <th
                key={column.key}
                scope="col"
                class={column.numeric ? "numeric" : undefined}
                aria-sort={props.sort === column.key ? "ascending" : props.sort === `-${column.key}` ? "descending" : undefined}
              >
                {column.sort && props.sortHref ? (
                  <a class="sort" href={props.sortHref(nextSort(props.sort, column.key))}>
                    {column.title}
                    {props.sort === column.key ? " ↑" : props.sort === `-${column.key}` ? " ↓" : ""}
                  </a>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const key = id(row);
            return (
              <tr key={key} class={selected?.has(key) ? "selected" : undefined}>
                {onSelect && (
                  <td class="select">
                    <input
                      type="checkbox"
                      aria-label={props.selectLabel?.(row)}
                      checked={selected?.has(key) ?? false}
                      onChange={() => onSelect([key], !selected?.has(key))}
                    />
                  </td>
                )}
                {columns.map((column) => (
                  <td key={column.key} data-title={column.title} class={column.numeric ? "numeric" : undefined}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

const nextSort = (sort: string | undefined, key: string): string | undefined =>
  sort === key ? `-${key}` : sort === `-${key}` ? undefined : key;

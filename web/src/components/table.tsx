// Tables. On a narrow screen each row becomes a block whose cells carry their headings.
import type { ComponentChildren } from "preact";

export interface Column<T> {
  key: string;
  title: string;
  cell: (row: T) => ComponentChildren;
  numeric?: boolean;
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
              <th key={column.key} scope="col" class={column.numeric ? "numeric" : undefined}>
                {column.title}
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

// The menu that chooses the columns of a table. The choice is kept in this browser, per page.
import { change, useSettings } from "../settings";
import { t } from "../texts";
import { usePageMenu } from "./menu";
import type { Column } from "./table";

const fixed = <T,>(column: Column<T>): boolean => column.key === "actions";

// The chosen columns of `all`, else those of `usual`, in the order of `all`.
export function useColumns<T>(page: string, all: Column<T>[], usual: string[]): Column<T>[] {
  const chosen = useSettings().columns[page] ?? usual;
  return all.filter((column) => fixed(column) || chosen.includes(column.key));
}

export function ColumnMenu<T>(props: { page: string; all: Column<T>[]; usual: string[] }) {
  const { page, all, usual } = props;
  const menu = usePageMenu();
  const { columns } = useSettings();
  const shown = new Set(useColumns(page, all, usual).map((column) => column.key));
  const choose = (keys: string[] | undefined) => change({ columns: { ...columns, [page]: keys } });
  const toggle = (key: string) => {
    const next = all.filter((column) => !fixed(column) && (column.key === key) !== shown.has(column.key)).map((column) => column.key);
    if (next.length > 0) choose(next);
  };
  return (
    <details class="menu-box" ref={menu}>
      <summary class="button plain">{t.table.columns}</summary>
      <div class="menu-items">
        {all.filter((column) => !fixed(column)).map((column) => (
          <label key={column.key} class="inline">
            <input type="checkbox" checked={shown.has(column.key)} onChange={() => toggle(column.key)} /> {column.title}
          </label>
        ))}
        {columns[page] && (
          <button type="button" class="link" onClick={() => choose(undefined)}>
            {t.table.usualColumns}
          </button>
        )}
      </div>
    </details>
  );
}

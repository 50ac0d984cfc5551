// The selected rows of a table, and the bar that acts on them.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { t } from "../texts";

export interface SelectedRows {
  selected: ReadonlySet<string>; // ids of rows
  onSelect: (ids: string[], on: boolean) => void; // for Table
  clear: () => void;
}

export function useSelection(): SelectedRows {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  return {
    selected,
    onSelect: (ids, on) => {
      const next = new Set(selected);
      for (const id of ids) on ? next.add(id) : next.delete(id);
      setSelected(next);
    },
    clear: () => setSelected(new Set()),
  };
}

// Nothing while no row is selected. Its children are the buttons.
export function SelectionBar({ rows, children }: { rows: number; children: ComponentChildren }) {
  if (rows === 0) return null;
  return (
    <div class="selection" role="toolbar" aria-label={t.jobs.selected(rows)}>
      <span>{t.jobs.selected(rows)}</span>
      {children}
    </div>
  );
}

// The selected rows of a table, and the bar that acts on them.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { t } from "../texts";

export interface SelectedRows {
  selected: ReadonlySet<string>; // ids of rows
  onSelect: (ids: string[], on: boolean) => void; // for Table
  clear: () => void;
}

// Only rows that are shown are selected, and only as they were shown: `shown` has a text for each id, such as the state.
// A row that goes, or whose text changes, is not selected any more, also not when it comes back.
export function useSelection(shown: ReadonlyMap<string, string>): SelectedRows {
  const [chosen, setChosen] = useState<ReadonlyMap<string, string>>(new Map());
  const kept = new Map([...chosen].filter(([id, text]) => shown.get(id) === text));
  useEffect(() => {
    if (kept.size < chosen.size) setChosen(kept);
  });
  return {
    selected: new Set(kept.keys()),
    onSelect: (ids, on) => {
      const next = new Map(kept);
      for (const id of ids) on && shown.has(id) ? next.set(id, shown.get(id)!) : next.delete(id);
      setChosen(next);
    },
    clear: () => setChosen(new Map()),
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

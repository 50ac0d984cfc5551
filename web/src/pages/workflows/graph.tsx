// The steps as a graph: columns by depth, edges from each step to those that come after it.
import type { Schemas } from "../../api/client";
import { link } from "../../router";
import { t } from "../../texts";

type Step = Schemas["WorkflowStep"];
// A larger graph is shown as a table only.
export const MAX_GRAPH_STEPS = 150;

const WIDTH = 190;
const HEIGHT = 46;
const GAP_X = 56;
const GAP_Y = 16;

// A step runs for the workflow as soon as its job exists; the job may still wait.
export const shownState = (step: Step): string =>
  step.state === "running" && step.job_state && step.job_state !== "running" ? step.job_state : step.state;
const stateText = (step: Step): string => {
  const state = shownState(step);
  return state === "available" ? t.workflows.waitsForWorker : (t.states[state] ?? state);
};

interface Placed {
  step: Step;
  x: number;
  y: number;
}

// Longest path from a start: definitions have no cycles.
function place(steps: Step[]): { placed: Map<string, Placed>; width: number; height: number } {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const depths = new Map<string, number>();
  const depthOf = (step: Step, visiting: Set<string>): number => {
    const known = depths.get(step.name);
    if (known !== undefined) return known;
    if (visiting.has(step.name)) return 0;
    visiting.add(step.name);
    let depth = 0;
    for (const name of step.after ?? []) {
      const before = byName.get(name);
      if (before) depth = Math.max(depth, depthOf(before, visiting) + 1);
    }
    depths.set(step.name, depth);
    return depth;
  };
  const rows: number[] = [];
  const placed = new Map<string, Placed>();
  for (const step of steps) {
    const column = depthOf(step, new Set());
    const row = rows[column] ?? 0;
    rows[column] = row + 1;
    placed.set(step.name, { step, x: column * (WIDTH + GAP_X) + 2, y: row * (HEIGHT + GAP_Y) + 2 });
  }
  return {
    placed,
    width: Math.max(1, rows.length) * (WIDTH + GAP_X) - GAP_X + 4,
    height: Math.max(1, ...rows) * (HEIGHT + GAP_Y) - GAP_Y + 4,
  };
}

export function Graph(props: { steps: Step[] }) {
  const { placed, width, height } = place(props.steps);
  const all = [...placed.values()];
  return (
    <div class="graph" tabIndex={0} role="region" aria-label={t.workflows.graph}>
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={t.workflows.graph}>
        {all.flatMap(({ step, x, y }) =>
          (step.after ?? []).map((name) => {
            const from = placed.get(name);
            if (!from) return null;
            const x1 = from.x + WIDTH;
            const y1 = from.y + HEIGHT / 2;
            const y2 = y + HEIGHT / 2;
            const middle = (x1 + x) / 2;
            return <path key={`${name} ${step.name}`} class="edge" d={`M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x} ${y2}`} />;
          }),
        )}
        {all.map(({ step, x, y }) => {
          const target = step.workflow ? link(["workflows", step.workflow]) : step.job ? link(["jobs", step.job]) : undefined;
          const box = (
            <>
              <rect class={`node step-${shownState(step)}`} x={x} y={y} width={WIDTH} height={HEIGHT} rx={8} />
              <title>{`${step.name} ${stateText(step)}`}</title>
              <text x={x + 10} y={y + 20}>
                {cut(step.name)}
              </text>
              <text class="node-state" x={x + 10} y={y + 36}>
                {stateText(step)}
              </text>
            </>
          );
          return target ? (
            <a key={step.name} href={target}>
              {box}
            </a>
          ) : (
            <g key={step.name}>{box}</g>
          );
        })}
      </svg>
    </div>
  );
}

const cut = (name: string): string => (name.length > 21 ? `${name.slice(0, 20)}…` : name);

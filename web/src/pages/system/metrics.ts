// The gauges of this node that the system page shows, from /metrics.
export type Metrics = Map<string, number>;

// Samples by name; of several with one name, their sum. Labels are left out.
export function parseMetrics(text: string): Metrics {
  const out: Metrics = new Map();
  for (const line of text.split("\n")) {
    const sample = /^([a-zA-Z_:][\w:]*)(?:\{.*\})? (\S+)/.exec(line);
    if (!sample) continue;
    const value = Number(sample[2]);
    if (!Number.isNaN(value)) out.set(sample[1]!, (out.get(sample[1]!) ?? 0) + value);
  }
  return out;
}

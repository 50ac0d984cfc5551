// The workers that queues need: GET /v1/scale.
import { get, type Schemas } from "../../api/client";
import { useData, type Loaded } from "../../data";

const COALESCE_MS = 5_000;

export const useScale = (query: Record<string, string>): Loaded<Schemas["ScaleSignal"]> =>
  useData(
    `scale ${JSON.stringify(query)}`,
    (signal) => get<Schemas["ScaleSignal"]>("/v1/scale", query, signal),
    (event) => event.job !== undefined && (!query.queues || event.queue === query.queues),
    COALESCE_MS,
  );

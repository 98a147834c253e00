import { useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useMemo } from "react";
import {
  type RunDocument,
  type RunsDocument,
  type RunUpdate,
  type ServersDocument,
  type TrialDocument,
  type TrialRow,
  unpackRun,
} from "../../src/report/documents/documents.ts";
import type { DataSource } from "./data.ts";

export const DataSourceContext = createContext<DataSource | undefined>(undefined);

export function useDataSource(): DataSource {
  const source = useContext(DataSourceContext);
  if (source === undefined) throw new Error("there is no DataSourceContext around this component");
  return source;
}

/** The list of runs. Undefined in a report, which has one run. */
export function useRuns({
  isRenewed = false,
}: {
  /** Whether new runs appear by themselves, and soon where one is running. */
  readonly isRenewed?: boolean;
} = {}): UseQueryResult<RunsDocument | undefined> {
  const { runs } = useDataSource();
  return useQuery({
    queryKey: ["runs"],
    queryFn: () => runs?.() ?? Promise.resolve(undefined),
    refetchInterval: ({ state }) => {
      if (!isRenewed) return false;
      return state.data?.runs.some(({ state: each }) => each === "running") === true ? 2000 : 5000;
    },
    enabled: runs !== undefined,
  });
}

/** Live views ask again after a failure, since the dashboard may be started again. */
const again = {
  refetchInterval: ({ state }: { readonly state: { readonly status: string; readonly data: unknown } }) =>
    state.status === "error" && state.data !== undefined ? 5000 : false,
} as const;

/** A run, which changes while it is running. */
export function useRun(id: string): UseQueryResult<RunDocument> {
  const { run, followRun } = useDataSource();
  const client = useQueryClient();
  const query = useQuery({
    ...again,
    queryKey: ["run", id],
    queryFn: () => run(id),
    staleTime: Infinity,
    // Looking for what is the same in all trials takes longer than drawing those in view.
    structuralSharing: false,
  });
  const isFollowed = query.data?.state === "running" && !query.isError;
  useEffect(() => {
    if (!isFollowed || followRun === undefined) return;
    const trials = new Map<string, TrialRow>();
    return followRun(
      id,
      (update) => client.setQueryData(["run", id], updatedRun(trials, update)),
      // The answer to the next request says what is wrong.
      () => void client.invalidateQueries({ queryKey: ["run", id] }),
    );
  }, [client, followRun, id, isFollowed]);
  return query;
}

/** The run after an update; `trials` has all that is known by id. */
function updatedRun(trials: Map<string, TrialRow>, { changed, ...run }: RunUpdate): RunDocument {
  const unpacked = unpackRun({ ...run, trials: changed });
  for (const trial of unpacked.trials) trials.set(trial.id, trial);
  return { ...unpacked, trials: [...trials.values()] };
}

export function useServers(id: string): UseQueryResult<ServersDocument> {
  const { servers } = useDataSource();
  return useQuery({
    queryKey: ["servers", id],
    queryFn: () => servers(id),
    // Each answer has what was read until then.
    refetchInterval: ({ state }) => (state.data?.reading === undefined ? false : 100),
  });
}

/** A trial, which changes while its run is going on. */
export function useTrial(run: string, id: string): UseQueryResult<TrialDocument> {
  const { trial, followTrial } = useDataSource();
  const client = useQueryClient();
  const queryKey = useMemo(() => ["trial", run, id], [run, id]);
  const query = useQuery({
    ...again,
    queryKey,
    queryFn: () => trial(run, id),
    staleTime: Infinity,
    structuralSharing: false,
  });
  const isOver = query.data?.row.state === "ended" || query.data?.run.state !== "running";
  const isFollowed = !isOver && !query.isError;
  useEffect(() => {
    if (!isFollowed || followTrial === undefined) return;
    const items = new Map<number, TrialDocument["items"][number]>();
    const events = new Map<number, TrialDocument["events"][number]>();
    return followTrial(
      run,
      id,
      (update) => {
        for (const item of update.items) items.set(item.seq, item);
        for (const event of update.events) events.set(event.seq, event);
        client.setQueryData<TrialDocument>(queryKey, {
          ...update,
          items: inOrder(items),
          events: inOrder(events),
        });
      },
      // The answer to the next request says what is wrong.
      () => void client.invalidateQueries({ queryKey }),
    );
  }, [client, followTrial, run, id, isFollowed, queryKey]);
  return query;
}

function inOrder<T extends { readonly seq: number }>(entries: ReadonlyMap<number, T>): readonly T[] {
  return [...entries.values()].toSorted((a, b) => a.seq - b.seq);
}

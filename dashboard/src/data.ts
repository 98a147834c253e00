import {
  type ContentPart,
  contentPart,
  contentText,
  type ReportDocument,
  type ReportTrial,
  type RunDocument,
  type RunsDocument,
  type RunUpdate,
  type ServersDocument,
  type TrialDocument,
  type TrialUpdate,
  unpackRun,
  unpackTrial,
} from "../../src/report/documents/documents.ts";
import { setOutage } from "./connection.ts";

/** Where the app gets what it shows: the API of the dashboard, or the data of an HTML report. */
export interface DataSource {
  /** Absent in a report, which has one run. */
  readonly runs?: () => Promise<RunsDocument>;
  readonly run: (run: string) => Promise<RunDocument>;
  readonly servers: (run: string) => Promise<ServersDocument>;
  readonly trial: (run: string, trial: string) => Promise<TrialDocument>;
  /** A part of a text in an event: at `pointer`, from a position, at most so many characters. */
  readonly content: (place: ContentPlace) => Promise<ContentPart>;
  /**
   * Calls back with all that is known, then with each change, until the returned function is called. `onFailure` says why nothing
   * more will come, unless the run has ended. Absent in a report.
   */
  readonly followRun?: (
    run: string,
    onUpdate: (update: RunUpdate) => void,
    onFailure?: (error: Error) => void,
  ) => () => void;
  readonly followTrial?: (
    run: string,
    trial: string,
    onUpdate: (update: TrialUpdate) => void,
    onFailure?: (error: Error) => void,
  ) => () => void;
}

export interface ContentPlace {
  readonly run: string;
  readonly trial: string;
  readonly seq: number;
  /** Empty: the whole event. */
  readonly pointer: string;
  readonly from: number;
  readonly length: number;
}

/** The data of an HTML report, in it. */
const embedded = document.querySelector("script#report")?.textContent;

/** Answers that were asked for before somebody needs them, by path. */
const requested = new Map<string, Promise<Response>>();
if (embedded === undefined) requestFirst(location.hash);

/** The data of this page: of the report that it is, or else of the server that it came from. */
export function createDataSource(): DataSource {
  return embedded === undefined ? serverData() : reportData(JSON.parse(embedded) as ReportDocument);
}

function serverData(): DataSource {
  return {
    runs: () => get("api/runs"),
    run: async (run) => unpackRun(await get(runPath(run))),
    servers: (run) => get(`${runPath(run)}/servers`),
    trial: async (run, trial) => unpackTrial(await get(trialPath(run, trial))),
    content: ({ run, trial, seq, pointer, from, length }) => {
      const query = new URLSearchParams({ pointer, from: String(from), length: String(length) });
      return get(`${trialPath(run, trial)}/events/${seq}?${query}`);
    },
    followRun: (run, onUpdate, onFailure) =>
      follow(`${runPath(run)}/live`, (data) => onUpdate(data as RunUpdate), onFailure),
    followTrial: (run, trial, onUpdate, onFailure) =>
      follow(`${trialPath(run, trial)}/live`, (data) => onUpdate(data as TrialUpdate), onFailure),
  };
}

function runPath(run: string): string {
  return `api/runs/${encodeURIComponent(run)}`;
}

function trialPath(run: string, trial: string): string {
  return `${runPath(run)}/trials/${encodeURIComponent(trial)}`;
}

/** The app's script lies at the root of the dashboard, wherever that is on its server. */
function addressOf(path: string): URL {
  return new URL(path, import.meta.url);
}

/** Asks for the run or the trial that the page's address names: the server reads it while the app starts. */
function requestFirst(hash: string): void {
  const [, run, trial] = /^#\/runs\/([\w-]+)(?:\/trials\/([\w-]+))?/.exec(hash) ?? [];
  if (run === undefined) return;
  const path = trial === undefined ? runPath(run) : trialPath(run, trial);
  const response = fetch(addressOf(path));
  // `get` reports a failure; until then it must not count as unhandled.
  response.catch(() => undefined);
  requested.set(path, response);
}

async function get<T>(path: string): Promise<T> {
  const started = requested.get(path);
  requested.delete(path);
  const response = await (started ?? fetch(addressOf(path))).catch(() => {
    setOutage("requests", "silent");
    throw new Error("The dashboard does not answer. Start it again with: mcpvals dashboard");
  });
  setOutage("requests", response.status === 401 ? "restarted" : undefined);
  const body: unknown = await response.json().catch(() => undefined);
  if (response.ok) return body as T;
  if (response.status === 401)
    throw new Error("The dashboard was started again. Open the address that it printed, with ?token= in it.");
  throw failure(body, `the server answered ${response.status}`);
}

function failure(reported: unknown, otherwise: string): Error {
  const { message = otherwise, hint } = (reported ?? {}) as {
    readonly message?: string;
    readonly hint?: string;
  };
  return new Error(hint === undefined ? message : `${message}. ${hint}`);
}

function follow(
  path: string,
  onUpdate: (update: unknown) => void,
  onFailure?: (error: Error) => void,
): () => void {
  const source = new EventSource(addressOf(path));
  source.addEventListener("message", ({ data }) => onUpdate(JSON.parse(String(data))));
  const close = (): void => {
    source.close();
    setOutage(source, undefined);
  };
  source.addEventListener("open", () => setOutage(source, undefined));
  source.addEventListener("end", close);
  source.addEventListener("failed", ({ data }) => {
    close();
    onFailure?.(failure(JSON.parse(String(data)), "the run cannot be read"));
  });
  // The browser connects again, unless the answer was an error.
  source.addEventListener("error", () => {
    const isRefused = source.readyState === EventSource.CLOSED;
    setOutage(source, isRefused ? undefined : "silent");
    if (isRefused) onFailure?.(new Error("the dashboard refused the live view"));
  });
  return close;
}

function reportData({ run, servers, trials }: ReportDocument): DataSource {
  const trialOf = (id: string): ReportTrial => {
    const trial = Object.hasOwn(trials, id) ? trials[id] : undefined;
    if (trial !== undefined) return trial;
    throw new Error(`This report has no room for trial ${id}. Open the run with: mcpvals dashboard`);
  };
  return {
    run: async () => unpackRun(run),
    servers: () => Promise.resolve(servers),
    trial: async (_, id) => unpackTrial(trialOf(id).document),
    content: async ({ trial, seq, pointer, from, length }) => {
      const event = trialOf(trial).events[String(seq)];
      const text = event === undefined ? undefined : contentText(event, pointer);
      if (text !== undefined) return contentPart(text, from, length);
      throw new Error("This report has no room for it. Open the run with: mcpvals dashboard");
    },
  };
}

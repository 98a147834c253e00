import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { McpvalsError } from "../base/error.ts";
import { withoutUndefined } from "../base/json.ts";
import {
  contentPart,
  packTrial,
  type RunRow,
  type RunsDocument,
  type ServersDocument,
} from "../report/documents/documents.ts";
import type { EarlierDefinitions } from "../report/documents/servers-document.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { hasRunFolder, runFolders, runStamp } from "../store/run-files.ts";
import { type Access, refusal, refuseForeign } from "./access.ts";
import { appFile } from "../report/html.ts";
import { followRun, followTrial, toldError } from "./live.ts";
import { RunRecord, runRow, validationTimeoutMs } from "../report/documents/run-record.ts";

export interface DashboardOptions {
  /** Absolute path of the folder of the runs. */
  readonly runs: string;
  /** The folder that paths are shown relative to. */
  readonly cwd: string;
  /** Path of the dashboard on its server, without a slash at its end; empty: it is at the root. */
  readonly basePath?: string;
  readonly access: Access;
}

/** A web-standard handler of requests. */
export interface Dashboard extends AsyncDisposable {
  readonly fetch: (request: Request) => Promise<Response>;
}

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src data: blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const everyHeader: Readonly<Record<string, string>> = {
  "content-security-policy": policy,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

/** The server side of the dashboard: answers for the app, its files, and the documents that it shows. */
export function createDashboard(options: DashboardOptions): Dashboard {
  const { access, basePath = "" } = options;
  const runs = new Runs(options);
  const answer = async (request: Request): Promise<Response> => {
    const refused = refuseForeign(request) ?? (await access(request));
    if (refused !== undefined) return refused;
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== basePath && !pathname.startsWith(`${basePath}/`))
      return refusal(404, "There is no such page.");
    const path = pathname.slice(basePath.length + 1);
    const file = appFiles.get(path);
    if (file !== undefined) return appAnswer(path, file, basePath);
    return await apiAnswer(path, searchParams, { runs, signal: request.signal });
  };
  return {
    async fetch(request) {
      let response: Response;
      try {
        response = await answer(request);
      } catch (error) {
        response = errorAnswer(error);
      }
      if (response.status >= 400 && isPage(request)) response = await errorPage(response);
      for (const [name, value] of Object.entries(everyHeader)) response.headers.set(name, value);
      return request.method === "HEAD" ? new Response(null, response) : response;
    },
    [Symbol.asyncDispose]: () => runs[Symbol.asyncDispose](),
  };
}

function errorAnswer(error: unknown): Response {
  const status = error instanceof McpvalsError && error.code === "store/not-found" ? 404 : 500;
  return Response.json(toldError(error), { status });
}

/** Whether a person looks at the answer, and not the app. */
function isPage({ headers }: Request): boolean {
  return (headers.get("accept") ?? "").includes("text/html");
}

/** An error as a page. Its text has no markup of its own. */
async function errorPage(response: Response): Promise<Response> {
  const { message, hint = "" } = (await response.json()) as {
    readonly message: string;
    readonly hint?: string;
  };
  const [text, more] = [message, hint].map((part) =>
    part.replaceAll(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`),
  );
  const headers = { ...Object.fromEntries(response.headers), "content-type": "text/html; charset=utf-8" };
  const page = `<!doctype html><html lang="en"><title>mcpvals</title><p>${text}</p><p>${more}</p></html>\n`;
  return new Response(page, { status: response.status, headers });
}

interface AppFile {
  readonly name: Parameters<typeof appFile>[0];
  readonly type: string;
}

/** By path. */
const appFiles: ReadonlyMap<string, AppFile> = new Map([
  ["", { name: "index.html", type: "text/html; charset=utf-8" }],
  ["app.js", { name: "app.js", type: "text/javascript; charset=utf-8" }],
  ["app.css", { name: "app.css", type: "text/css; charset=utf-8" }],
]);

async function appAnswer(path: string, { name, type }: AppFile, basePath: string): Promise<Response> {
  let content: string;
  try {
    content = await appFile(name);
  } catch {
    return refusal(503, "The app of the dashboard is not built. Run: npm run build");
  }
  // The address may or may not end with a slash.
  const text = path === "" ? content.replaceAll('"./', `"${basePath}/`) : content;
  return new Response(text, { headers: { "content-type": type } });
}

interface ApiContext {
  readonly runs: Runs;
  readonly signal: AbortSignal;
}

const maxContentLength = 64 * 1024;

async function apiAnswer(
  path: string,
  query: URLSearchParams,
  { runs, signal }: ApiContext,
): Promise<Response> {
  const [api, all, id, part, trial, inner, seq, ...more] = path.split("/").map(decodeSegment);
  if (api !== "api" || all !== "runs" || more.length > 0) return notFound();
  if (id === undefined) return jsonAnswer(await runs.list());
  const record = await runs.open(id);
  switch (part) {
    case undefined:
      return jsonAnswer(await record.run());
    case "servers":
      return trial === undefined ? jsonAnswer(await runs.servers(record)) : notFound();
    case "live":
      return trial === undefined ? followRun(record, signal) : notFound();
    case "trials":
      break;
    default:
      return notFound();
  }
  if (trial === undefined) return notFound();
  if (inner === undefined) return jsonAnswer(packTrial(await record.trial(trial)));
  if (inner === "live" && seq === undefined) return followTrial(record, trial, signal);
  const number = wholeNumber(seq);
  const from = wholeNumber(query.get("from") ?? "0");
  const length = wholeNumber(query.get("length") ?? String(maxContentLength));
  if (inner !== "events" || number === undefined || from === undefined || length === undefined)
    return notFound();
  return jsonAnswer(contentPart(record.content(trial, number, query.get("pointer") ?? ""), from, length));
}

/** In ASCII: one other character makes a browser decode and parse a large document at half the speed. */
function jsonAnswer(document: object): Response {
  const json = JSON.stringify(document).replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return new Response(Buffer.from(json, "latin1"), { headers: { "content-type": "application/json" } });
}

function decodeSegment(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function notFound(): Response {
  return refusal(404, "There is no such page.");
}

/** Rows of runs between two looks at other work. */
const rowsAtOnce = 50;
/** Records that are kept in memory: that of a large run takes up to a hundred megabytes. */
const maxRecords = 3;
/** Milliseconds in which the servers of a run are answered with what was read until then. */
const maxServersMs = 500;
/** Earlier runs that are looked through for the servers of a run, and trials of each. */
const maxEarlier = 20;
const maxEarlierTrials = 1000;

/** What was read of a run, with the stamp that its files had before. */
interface Stamped<T> {
  readonly stamp: string;
  readonly value: T;
}

/** The runs of a folder. */
class Runs implements AsyncDisposable {
  readonly #options: DashboardOptions;
  readonly #validator = new SchemaValidator(validationTimeoutMs);
  /** The one that was used last stands last. */
  readonly #records = new Map<string, Stamped<RunRecord>>();
  /** Rows of runs that have ended. */
  readonly #ended = new Map<string, Stamped<RunRow>>();

  constructor(options: DashboardOptions) {
    this.#options = options;
  }

  async list(): Promise<RunsDocument> {
    const { runs, cwd } = this.#options;
    return { folder: displayFolder(runs, cwd), runs: await this.#rows() };
  }

  async #rows(): Promise<readonly RunRow[]> {
    const { runs, cwd } = this.#options;
    const rows: RunRow[] = [];
    for (const id of await runFolders(runs)) {
      const stamp = runStamp(join(runs, id));
      const known = this.#ended.get(id);
      const row = known?.stamp === stamp ? known.value : runRow(runs, id, cwd);
      if (row.summary !== undefined) this.#ended.set(id, { stamp, value: row });
      rows.push(row);
      if (rows.length % rowsAtOnce === 0) await nextTurn();
    }
    return rows.toSorted((a, b) => Date.parse(b.startedAt) - Date.parse(a.startedAt));
  }

  /** Throws `store/not-found`, and `store/corrupt`. */
  async open(id: string): Promise<RunRecord> {
    if (!(await hasRunFolder(this.#options.runs, id)))
      throw new McpvalsError("store/not-found", `there is no run ${JSON.stringify(id.slice(0, 100))}`, {
        hint: "It may have been removed. Go back to the list of runs.",
      });
    const { runs, cwd } = this.#options;
    const stamp = runStamp(join(runs, id));
    const known = this.#records.get(id);
    this.#records.delete(id);
    // One that goes on reads what is added by itself.
    const isCurrent = known !== undefined && (!known.value.isOver || known.stamp === stamp);
    const ended = this.#ended.get(id);
    const row = ended?.stamp === stamp ? ended.value : undefined;
    const record = isCurrent
      ? known.value
      : new RunRecord(runs, id, { cwd, validator: this.#validator, row });
    this.#records.set(id, { stamp, value: record });
    const [oldest] = this.#records.keys();
    if (this.#records.size > maxRecords && oldest !== undefined) {
      await this.#records.get(oldest)?.value[Symbol.asyncDispose]();
      this.#records.delete(oldest);
    }
    return record;
  }

  async servers(record: RunRecord): Promise<ServersDocument> {
    const run = await record.run();
    const { totals, reading } = await record.servers({ mostMs: maxServersMs });
    const { id, name, startedAt } = run;
    const servers = totals.rows(run, await this.#earlier(run));
    return withoutUndefined({ run: { id, name, startedAt }, servers, reading });
  }

  /** What the newest earlier run of each server says of it. */
  async #earlier({ id, startedAt, servers }: RunRow): Promise<ReadonlyMap<string, EarlierDefinitions>> {
    const found = new Map<string, EarlierDefinitions>();
    const earlier = (await this.#rows()).filter(
      (row) => row.id !== id && row.state === "ended" && Date.parse(row.startedAt) < Date.parse(startedAt),
    );
    for (const row of earlier.slice(0, maxEarlier)) {
      const wanted = servers.filter((name) => !found.has(name) && row.servers.includes(name));
      if (wanted.length === 0) continue;
      // Its record is not kept: the one that is looked at has to stay in memory.
      const { runs, cwd } = this.#options;
      await using record = new RunRecord(runs, row.id, { cwd, validator: this.#validator });
      const { totals } = await record.servers({ maxTrials: maxEarlierTrials });
      for (const name of wanted) {
        const tools = totals.definitions().get(name);
        if (tools !== undefined && tools.size > 0) found.set(name, { run: row.id, tools });
      }
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { value } of this.#records.values()) await value[Symbol.asyncDispose]();
    await this.#validator[Symbol.asyncDispose]();
  }
}

function displayFolder(runs: string, cwd: string): string {
  return runs.startsWith(join(cwd, "/")) ? runs.slice(cwd.length + 1) : runs;
}

import { writeFileSync } from "node:fs";
import { get, type IncomingHttpHeaders, request } from "node:http";
import { join } from "node:path";
import { expect } from "vitest";
import {
  type PackedRun,
  type PackedTrial,
  type RunDocument,
  type RunsDocument,
  type TrialDocument,
  unpackRun,
  unpackTrial,
} from "../../src/report/documents/documents.ts";
import { type ServedDashboard, serveDashboard } from "../../src/dashboard/server.ts";
import { exampleServer } from "../support/programs.ts";
import { folderOf, runHere, type RunningCli, startCli, type StartOptions } from "../support/cli.ts";

/** What comes to be so, however busy the machine is. */
export const soon = <T>(value: () => T | Promise<T>) => expect.poll(value, { timeout: 60_000 });

/** A config whose tests call the example server: one test passes, one fails, and one has arguments that do not fit. */
export const calcConfig = {
  name: "calc",
  servers: { calc: { transport: "stdio", command: process.execPath, args: [exampleServer] } },
  toolHealthSuites: [
    {
      name: "calc",
      tests: [
        { name: "add", description: "adds", args: { a: 2, b: 3 }, expectedResult: "5" },
        { name: "add", description: "adds wrongly", args: { a: 2, b: 3 }, expectedResult: "6" },
        { name: "add", description: "adds a text", args: { a: "two", b: 3 }, expectedError: "number" },
      ],
    },
  ],
};

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** A request as a program sends it, which may have any headers. */
export function ask(
  port: number,
  path: string,
  {
    headers = {},
    method = "GET",
  }: { readonly headers?: Readonly<Record<string, string>>; readonly method?: string } = {},
): Promise<Answer> {
  return new Promise((done, fail) => {
    const sent = request({ host: "127.0.0.1", port, path, method, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => done({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    sent.on("error", fail);
    sent.end();
  });
}

/** A served dashboard of a folder, with the cookie of a browser that has opened it. */
export interface OpenDashboard extends AsyncDisposable {
  readonly served: ServedDashboard;
  readonly cookie: string;
  /** The document at a path of the API. Throws for an error. */
  json<T>(path: string): Promise<T>;
  run(id: string): Promise<RunDocument>;
  trial(run: string, id: string): Promise<TrialDocument>;
  /** The messages of a live view, until it ends or `isEnough`. */
  live<T>(path: string, isEnough?: (messages: readonly T[]) => boolean): Promise<readonly T[]>;
}

export async function openDashboard(cwd: string): Promise<OpenDashboard> {
  const served = await serveDashboard({ runs: join(cwd, ".mcpvals", "runs"), cwd, port: 0 });
  const { port } = served;
  const entered = await ask(port, new URL(served.address()).search.replace("?", "/?"));
  const cookie = (entered.headers["set-cookie"]?.[0] ?? "").split(";")[0] ?? "";
  const json = async <T>(path: string): Promise<T> => {
    const { status, text } = await ask(port, `/api/${path}`, { headers: { cookie } });
    if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
    return JSON.parse(text) as T;
  };
  return {
    served,
    cookie,
    json,
    run: async (id) => unpackRun(await json<PackedRun>(`runs/${encodeURIComponent(id)}`)),
    trial: async (run, id) =>
      unpackTrial(await json<PackedTrial>(`runs/${encodeURIComponent(run)}/trials/${id}`)),
    live: <T>(path: string, isEnough: (messages: readonly T[]) => boolean = () => false) =>
      new Promise<readonly T[]>((done, fail) => {
        const messages: T[] = [];
        const sent = get(
          { host: "127.0.0.1", port, path: `/api/${path}`, headers: { cookie } },
          (response) => {
            let rest = "";
            response.setEncoding("utf8").on("data", (chunk: string) => {
              const parts = (rest + chunk).split("\n\n");
              rest = parts.pop() ?? "";
              for (const part of parts)
                if (part.startsWith("data: ")) messages.push(JSON.parse(part.slice(6)) as T);
              if (!isEnough(messages)) return;
              done(messages);
              sent.destroy();
            });
            response.on("end", () => done(messages));
          },
        );
        sent.on("error", fail);
      }),
    [Symbol.asyncDispose]: () => served[Symbol.asyncDispose](),
  };
}

interface RunAndOpenOptions {
  readonly files?: Readonly<Record<string, unknown>>;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** A folder in which a config was run, with its dashboard. */
export async function runAndOpen(
  config: object,
  { files = {}, args = ["run"], env = {} }: RunAndOpenOptions = {},
): Promise<OpenDashboard & { readonly path: string; readonly id: string; readonly output: string }> {
  const folder = folderOf({ "mcp-eval.config.json": config, ...files });
  const { stdout, stderr } = await runHere(args, { cwd: folder.path, env });
  const dashboard = await openDashboard(folder.path);
  const { runs } = await dashboard.json<RunsDocument>("runs");
  if (runs.length === 0) throw new Error(`nothing was recorded:\n${stdout}\n${stderr}`);
  return {
    ...dashboard,
    path: folder.path,
    id: runs[0]?.id ?? "",
    output: stdout + stderr,
    async [Symbol.asyncDispose]() {
      await dashboard[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

/** What the API says at a path, an error included. */
export async function askedDocument(
  dashboard: Pick<OpenDashboard, "served" | "cookie">,
  path: string,
): Promise<object> {
  const { cookie, served } = dashboard;
  const { status, text } = await ask(served.port, `/api/${path}`, { headers: { cookie } });
  return { status, ...(JSON.parse(text) as object) };
}

/** Three tasks, each of which waits in its verify phase until a file exists. */
function waitingTasks(folder: string): Readonly<Record<string, object>> {
  const names = ["a", "b", "c"];
  const files = names.map((name) => {
    const run = `echo begun ${name}; until [ -e "${folder}/${name}.go" ]; do sleep 0.02; done; echo passed`;
    const spec = { verify: [{ command: { run, expect: { stdout: { contains: "passed" } } } }] };
    return [`${name}.yaml`, { apiVersion: "mcp-eval/v1", kind: "Task", metadata: { name }, spec }] as const;
  });
  return Object.fromEntries(files);
}

export interface Waiting extends AsyncDisposable {
  readonly cli: RunningCli;
  readonly dashboard: OpenDashboard;
  readonly id: string;
  /** The folder in which it runs. */
  readonly path: string;
  /** Lets a task go on. */
  readonly release: (name: string) => void;
}

/** Starts a run whose tasks wait, and the dashboard of its folder. */
export async function startWaiting(
  flags: readonly string[] = [],
  options: Omit<StartOptions, "cwd"> = {},
): Promise<Waiting> {
  const folder = folderOf({});
  for (const [name, task] of Object.entries(waitingTasks(folder.path)))
    writeFileSync(join(folder.path, name), JSON.stringify(task));
  const cli = startCli(["run", "a.yaml", "b.yaml", "c.yaml", "-j", "1", ...flags], {
    cwd: folder.path,
    ...options,
  });
  const dashboard = await openDashboard(folder.path);
  let runs: RunsDocument["runs"] = [];
  while (runs.length === 0) ({ runs } = await dashboard.json<RunsDocument>("runs"));
  return {
    cli,
    dashboard,
    id: runs[0]?.id ?? "",
    path: folder.path,
    release: (name) => writeFileSync(join(folder.path, `${name}.go`), ""),
    async [Symbol.asyncDispose]() {
      for (const name of ["a", "b", "c"]) writeFileSync(join(folder.path, `${name}.go`), "");
      await cli.finished;
      await dashboard[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

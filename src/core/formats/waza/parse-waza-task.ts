import type { Diagnostic } from "../../errors/error.ts";
import { escapeTemplate } from "../../templates/parse-template.ts";
import { assertionKinds } from "../assertion-kinds.ts";
import { readOverlay, type ServerOverlay } from "../config/server-tables.ts";
import { formatKeyPath, isJsonObject, withoutUndefined } from "../json.ts";
import { LenientReader } from "../lenient-reader.ts";
import type { Json, Task } from "../model.ts";
import type { Locate } from "../problem.ts";
import type { FileStep } from "../step.ts";
import {
  graderNames,
  type PlacedAssertions,
  readExpected,
  readGraders,
  refuseUnsupported,
  saysSomething,
} from "./read-graders.ts";
import type { WazaEval } from "./parse-waza-eval.ts";
import { type ParsedWazaTask, wazaTaskSchema } from "./waza-schema.ts";

/** What a path in `inputs.files` leads to, from the task's context folder. */
export type ContextFile = "file" | "folder" | "nothing" | "outside";

export interface ParseWazaTaskOptions {
  readonly locate: Locate;
  /** Absolute path of the task's file. */
  readonly file: string;
  /** The eval that the task belongs to. */
  readonly eval: Pick<WazaEval, "assertions" | "graderNames" | "concurrency">;
  /** Absolute path of the folder that `inputs.files` start from; `contextDir` is the task's own. */
  readonly contextFolder: (contextDir: string | undefined) => string;
  /** Whether the graders of the eval are all known; a task that has none else can then be refused. */
  readonly isEvalWhole: boolean;
  readonly lookAt: (folder: string, path: string) => ContextFile;
}

/** A task, before its servers are known. */
export interface WazaTask {
  readonly task: Omit<Task, "servers">;
  readonly enabled: boolean;
  /** Absent: the servers of the eval. */
  readonly overlay?: ServerOverlay;
  /** What its own graders and expectations assert. */
  readonly assertions: readonly PlacedAssertions[];
}

export type ParsedWazaTaskFile =
  | { readonly ok: true; readonly read: WazaTask; readonly notes: readonly string[] }
  | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] };

/** Reads a task file of waza, strictly. Its texts are taken as they are: nothing in braces is replaced. */
export function parseWazaTask(document: Json, options: ParseWazaTaskOptions): ParsedWazaTaskFile {
  const reader = new LenientReader(options.locate, { strict: true });
  const overlay = readTaskServers(document, reader);
  const parsed = reader.read(wazaTaskSchema, document);
  if (parsed === undefined) return { ok: false, diagnostics: reader.diagnostics() };
  const names = graderNames(parsed.graders, ["graders"], { taken: options.eval.graderNames, reader });
  const assertions = [
    ...readExpected(parsed.expected),
    ...readGraders(parsed.graders, ["graders"], { names, reader }),
  ];
  noteWithoutEffect(parsed, reader);
  refuseUnsupported(wazaTaskSchema, document, [], reader);
  const task = buildTask(parsed, assertions, { options, reader });
  if (!reader.failed && options.isEvalWhole) checkChecks(task, reader);
  return reader.failed
    ? { ok: false, diagnostics: reader.diagnostics() }
    : {
        ok: true,
        read: withoutUndefined({ task, enabled: parsed.enabled, overlay, assertions }),
        notes: reader.notes,
      };
}

function readTaskServers(document: Json, reader: LenientReader): ServerOverlay | undefined {
  const servers = isJsonObject(document) ? document["mcp_servers"] : undefined;
  if (servers === undefined || servers === null) return undefined;
  const overlay = readOverlay({ mcp_servers: servers }, []);
  for (const problem of overlay?.problems ?? []) reader.problem(problem);
  return overlay;
}

function noteWithoutEffect({ inputs }: ParsedWazaTask, reader: LenientReader): void {
  for (const key of ["context", "environment"] as const)
    if (saysSomething(inputs[key])) reader.note(`inputs.${key} has no effect`, ["inputs", key]);
}

interface Building {
  readonly options: ParseWazaTaskOptions;
  readonly reader: LenientReader;
}

const cleanupTimeoutMs = 60_000;

function buildTask(
  parsed: ParsedWazaTask,
  assertions: readonly PlacedAssertions[],
  { options, reader }: Building,
): WazaTask["task"] {
  const { id, name, description, inputs, timeout_seconds: seconds } = parsed;
  const dir = options.contextFolder(parsed.context_dir);
  const { fixtures, setup } = readFiles(inputs.files, dir, { options, reader });
  const all = [...options.eval.assertions, ...assertions];
  return withoutUndefined({
    name: id,
    form: "task" as const,
    description:
      [name, description].filter((text) => text !== undefined && text !== id).join(": ") || undefined,
    turns: [{ user: escapeTemplate(inputs.prompt) }],
    expectTools: [],
    verify: [],
    parallel: options.eval.concurrency !== undefined,
    location: options.locate({ path: ["id"], at: "value" }),
    portable: withoutUndefined({
      format: "waza" as const,
      file: options.file,
      dir,
      env: {},
      setup,
      cleanup: [],
      fixtures,
      requires: [],
      tags: parsed.tags,
      labels: {},
      timeoutMs: seconds === undefined ? undefined : Math.ceil(seconds * 1000),
      cleanupTimeoutMs,
      stateProbe: [],
      randomPorts: [],
      assertions: all.map(({ set }) => set).filter((set) => assertionKinds(set).length > 0),
      inheritEnv: [],
    }),
  });
}

interface TaskFiles {
  /** Files of the context folder that are copied. */
  readonly fixtures: readonly string[];
  /** Writes the files with contents of their own. */
  readonly setup: readonly FileStep[];
}

function readFiles(
  files: ParsedWazaTask["inputs"]["files"],
  folder: string,
  { options, reader }: Building,
): TaskFiles {
  const fixtures: string[] = [];
  const setup: FileStep[] = [];
  const seen = new Set<string>();
  for (const [index, { path, content }] of files.entries()) {
    const at = ["inputs", "files", index, "path"];
    const plain = path.replace(/^(?:\.\/)+/, "");
    const found = content === undefined ? options.lookAt(folder, plain) : "file";
    const reason =
      reasonAgainst(plain) ??
      (seen.has(plain) ? "is a duplicate" : undefined) ??
      (found === "outside" ? "leads out of its folder, through a link" : undefined);
    seen.add(plain);
    if (reason !== undefined) reader.refuse(`${formatKeyPath(at)} ${reason}`, at);
    else if (content !== undefined) setup.push(writeStep(index, plain, content));
    else if (found === "file") fixtures.push(plain);
    else
      reader.problem({
        code: "config/not-found",
        message: `${formatKeyPath(at)}: there is no file ${JSON.stringify(path)} in ${folder}`,
        path: at,
        at: "value",
        hint: "Files are taken from context_dir, else from the folder fixtures beside the eval; or give content.",
      });
  }
  return { fixtures, setup };
}

function reasonAgainst(path: string): string | undefined {
  const parts = path.split(/[\\/]/);
  const isAbsolute = parts[0] === "" || /^[A-Za-z]:/.test(path);
  if (isAbsolute || parts.includes("..")) return "must stay inside the workspace: relative, and without ..";
  return path.includes("\0") || path.endsWith("/") || path === "" || path === "."
    ? "is no path of a file"
    : undefined;
}

const writeTimeoutMs = 30_000;

function writeStep(index: number, path: string, content: string): FileStep {
  return {
    id: `files[${index}]`,
    type: "file",
    path: `{workspace}/${escapeTemplate(path)}`,
    timeoutMs: writeTimeoutMs,
    action: { kind: "create", content: escapeTemplate(content), mode: 0o644 },
  };
}

function checkChecks({ name, portable }: WazaTask["task"], reader: LenientReader): void {
  if (portable === undefined || portable.assertions.length > 0) return;
  reader.problem({
    code: "config/checks-nothing",
    message: `the task ${JSON.stringify(name)} checks nothing, so it could not fail`,
    path: ["id"],
    at: "value",
    hint: "Give it expected.tool_calls, expected.behavior, or a grader of type behavior, tool_calls or tool_constraint.",
  });
}

import type { Diagnostic } from "../../errors/error.ts";
import { escapeTemplate } from "../../templates/template.ts";
import { assertionKinds, type Json, type Task } from "../model.ts";
import type { ServerOverlay } from "../config/server-tables.ts";
import { formatKeyPath, withoutUndefined } from "../json.ts";
import { LenientReader } from "../lenient-reader.ts";
import type { Locate } from "../problem.ts";
import type { FileStep } from "../step.ts";
import {
  type PlacedAssertions,
  readExpected,
  readGraders,
  refuseUnsupported,
  saysSomething,
} from "./read-graders.ts";
import { overlayOf, type WazaEval } from "./parse-waza-eval.ts";
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
  const overlay = overlayOf(document, []);
  for (const problem of overlay?.problems ?? []) reader.problem(problem);
  const parsed = reader.read(wazaTaskSchema, document);
  if (parsed === undefined) return { ok: false, diagnostics: reader.diagnostics() };
  const graders = readGraders(parsed.graders, options.eval.graderNames, reader);
  const assertions = [...readExpected(parsed.expected), ...graders.assertions];
  for (const key of ["context", "environment"] as const)
    if (saysSomething(parsed.inputs[key])) reader.note(`inputs.${key} has no effect`, ["inputs", key]);
  refuseUnsupported(wazaTaskSchema, document, [], reader);
  const task = buildTask(parsed, assertions, options, reader);
  if (!reader.failed && options.isEvalWhole && task.portable?.assertions.length === 0)
    reader.refuse(`the task ${JSON.stringify(task.name)} checks nothing, so it could not fail`, ["id"], {
      code: "config/checks-nothing",
      hint: "Give it expected.tool_calls, expected.behavior, or a grader of type behavior, tool_calls or tool_constraint.",
    });
  if (reader.failed) return { ok: false, diagnostics: reader.diagnostics() };
  const read = withoutUndefined({ task, enabled: parsed.enabled, overlay, assertions });
  return { ok: true, read, notes: reader.notes };
}

const cleanupTimeoutMs = 60_000;

function buildTask(
  parsed: ParsedWazaTask,
  assertions: readonly PlacedAssertions[],
  options: ParseWazaTaskOptions,
  reader: LenientReader,
): WazaTask["task"] {
  const { id, name, description, inputs, timeout_seconds: timeoutMs, tags } = parsed;
  const dir = options.contextFolder(parsed.context_dir);
  const titles = [name, description].filter((text) => text !== undefined && text !== id);
  return withoutUndefined({
    name: id,
    form: "task" as const,
    description: titles.join(": ") || undefined,
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
      ...readFiles(inputs.files, dir, options, reader),
      cleanup: [],
      requires: [],
      tags,
      labels: {},
      timeoutMs,
      cleanupTimeoutMs,
      stateProbe: [],
      randomPorts: [],
      assertions: [...options.eval.assertions, ...assertions]
        .map(({ set }) => set)
        .filter((set) => assertionKinds(set).length > 0),
      inheritEnv: [],
    }),
  });
}

/** Files of the context folder that are copied (`fixtures`), and steps that write those with contents of their own. */
function readFiles(
  files: ParsedWazaTask["inputs"]["files"],
  folder: string,
  options: ParseWazaTaskOptions,
  reader: LenientReader,
): { readonly fixtures: readonly string[]; readonly setup: readonly FileStep[] } {
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
    else if (content !== undefined)
      setup.push({
        id: `files[${index}]`,
        type: "file",
        path: `{workspace}/${escapeTemplate(plain)}`,
        timeoutMs: 30_000,
        action: { kind: "create", content: escapeTemplate(content), mode: 0o644 },
      });
    else if (found === "file") fixtures.push(plain);
    else {
      const message = `${formatKeyPath(at)}: there is no file ${JSON.stringify(path)} in ${folder}`;
      const hint =
        "Files are taken from context_dir, else from the folder fixtures beside the eval; or give content.";
      reader.refuse(message, at, { code: "config/not-found", hint });
    }
  }
  return { fixtures, setup };
}

function reasonAgainst(path: string): string | undefined {
  const parts = path.split(/[\\/]/);
  if (parts[0] === "" || /^[A-Za-z]:/.test(path) || parts.includes(".."))
    return "must stay inside the workspace: relative, and without ..";
  const isFile = path !== "" && path !== "." && !path.includes("\0") && !path.endsWith("/");
  return isFile ? undefined : "is no path of a file";
}

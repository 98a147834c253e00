import { open, stat } from "node:fs/promises";
import { basename } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { didYouMean, suggestion } from "../../core/formats/did-you-mean.ts";
import { asList, asObject } from "../../core/formats/json.ts";
import { taskApiVersion } from "../../core/formats/task/task-schema.ts";
import { type ConfigDocument, documentKind, memberNamed, rootMembers } from "./document.ts";
import { endingOf, parseData, readDataText } from "./read-document.ts";

/** Whether a document was made by `mcpvals task export`. */
export function isTaskExport(root: ReadonlyMap<string, unknown>): boolean {
  const schema = root.get("schema");
  return typeof schema === "string" && schema.startsWith("mcpvals.task/");
}

/** The error for an exported task in the place of a task; `shown` is the file in messages. */
export function exportedTask(shown: string): McpvalsError {
  return new McpvalsError(
    "config/invalid-value",
    `${shown} is an exported task, made for other tools to read`,
    {
      location: { file: shown },
      hint: "Run the file that it was made from.",
    },
  );
}

/** Keys beside which `mcpServers` is a misspelt key of a config. */
const configKeys = [
  "server",
  "servers",
  "mcp_servers",
  "mocks",
  "mcp_mocks",
  "variants",
  "workflows",
  "toolHealthSuites",
  "tasks",
];

/** Whether a document is a file of an MCP client: servers, and nothing to run. */
export function isMcpConfig(root: ReadonlyMap<string, unknown>): boolean {
  return root.has("mcpServers") && !configKeys.some((key) => root.has(key));
}

/** The error for such a file in the place of what is to be run; `shown` is the file in messages. */
export function mcpConfigAlone({ locate, source }: ConfigDocument, shown: string): McpvalsError {
  const location = locate({ path: ["mcpServers"], at: "key" }) ?? { file: shown };
  const frame = source?.frame(location);
  const message = `${shown} has the servers of an MCP client, and nothing to run`;
  return new McpvalsError("config/nothing-to-run", message, {
    diagnostics: [
      {
        code: "config/nothing-to-run",
        message,
        location,
        hint: `Pass it along with tasks or an Eval: mcpvals run TASKS --mcp-config ${shown}. In a config its table is mcp_servers.`,
        ...(frame === undefined ? {} : { frame }),
      },
    ],
  });
}

/** How the beginning of a task looks, also of one that is broken. */
const saysTask = /\bkind["']?\s*:\s*["']?Task\b|\bapiVersion["']?\s*:\s*["']?mcp-eval\//i;
/** The group of an API of somebody else, such as `tekton.dev/v1`. */
const foreignVersion = /^[^/]*\.[^/]*\//;

/** A group that somebody may have written for ours. */
const nearOurs = /mcp|eval/i;

/** What a file of a folder or glob is. */
export type FoundFile =
  | { readonly kind: "task"; readonly document: ConfigDocument }
  /** No task of ours: a manifest, a table of data. */
  | { readonly kind: "foreign" }
  /** Nothing but blanks, comments and the marks of YAML. */
  | { readonly kind: "empty" }
  /** No task, although its author may think so, or it is no place for it; `note` says why, and names the file. */
  | { readonly kind: "almost" | "other"; readonly note: string };

/**
 * Reads a file that may be a task. Throws McpvalsError `config/unreadable` and `config/syntax` for a task that is broken,
 * and `config/invalid-value` for one whose kind is misspelt.
 */
export async function readTask(file: string, shown: string): Promise<FoundFile> {
  if (basename(file).startsWith("mcp-eval.config."))
    return { kind: "other", note: `${shown} is a config; run it by itself` };
  try {
    const source = readDataText(file, shown);
    if (!something.test(source.text)) return { kind: "empty" };
    if (!mayBeOurs.test(source.text)) return { kind: "foreign" };
    return whatIsIn(await parseData(source, endingOf(file)), shown);
  } catch (error) {
    if (!(error instanceof McpvalsError) || error.code === unknownKindCode) throw error;
    if (await looksLikeTask(file)) throw error;
    return { kind: "foreign" };
  }
}

/** A line that holds more than a blank, a comment, `null` or a mark of YAML. */
const something = /^(?!(?:---)?[ \t\u{feff}]*(?:~|null)?[ \t]*(?:#.*)?$|\.\.\.[ \t]*$|%)/mu;
/** One of the words that a task cannot do without. */
const mayBeOurs = /kind|verify|prompt|metadata|mcp-eval|mcpvals/i;
const unknownKindCode = "config/invalid-value";

function whatIsIn(document: ConfigDocument, shown: string): FoundFile {
  const root = rootMembers(document.value);
  const [, version] = memberNamed(root, "apiVersion");
  const isForeign = typeof version === "string" && foreignVersion.test(version);
  if (isForeign && !nearOurs.test(version)) return { kind: "foreign" };
  const isOurs = version === taskApiVersion;
  const kind = documentKind(root);
  if ((kind === undefined || kind === "config") && hasTasksInList(document.value, root)) {
    const note = `${shown} has tasks in a list, which are not taken; a task is a file of its own`;
    return { kind: "almost", note };
  }
  switch (kind) {
    case "Task":
      return { kind: "task", document };
    case "Eval":
      return { kind: "other", note: `${shown} is an Eval; run it by itself` };
    case "waza":
      return { kind: "other", note: `${shown} is an eval of waza; run it by itself` };
    case "Agent":
      return { kind: "foreign" };
    case "config":
      return withoutKind(root, { shown, isOurs });
    case undefined:
      if (isOurs || isNearTask(memberNamed(root, "kind")[1])) throw unknownKind(document, shown, root);
      return { kind: "foreign" };
  }
}

/** Whether a document is a list with tasks of ours, or has one at its root. */
function hasTasksInList(value: unknown, root: ReadonlyMap<string, unknown>): boolean {
  return [value, ...root.values()].some((list) =>
    asList(list).some((item) => {
      const { kind, apiVersion } = asObject(item);
      return kind === "Task" && !(typeof apiVersion === "string" && foreignVersion.test(apiVersion));
    }),
  );
}

function isNearTask(kind: unknown): boolean {
  return typeof kind === "string" && didYouMean(kind, ["Task"]) !== undefined;
}

interface WithoutKind {
  readonly shown: string;
  /** Whether its version is that of our format. */
  readonly isOurs: boolean;
}

function withoutKind(root: ReadonlyMap<string, unknown>, { shown, isOurs }: WithoutKind): FoundFile {
  if (isTaskExport(root))
    return { kind: "other", note: `${shown} is an exported task; run the file that it was made from` };
  const parts = ["spec", "steps"].map((key) => memberNamed(root, key)[1]);
  const isLikeTask = parts.some((part) =>
    ["verify", "prompt"].some((key) => memberNamed(rootMembers(part), key)[1] !== undefined),
  );
  const hasName = rootMembers(root.get("metadata")).has("name") && !root.has("apiVersion");
  if (!isOurs && !isLikeTask && !hasName) return { kind: "foreign" };
  return { kind: "almost", note: `${shown} has no kind, so it is not taken as a task; add kind: Task` };
}

const headBytes = 64 * 1024;

/** Whether a file that cannot be read as it should begins like a task; what cannot be read at all might be one. */
async function looksLikeTask(file: string): Promise<boolean> {
  try {
    // Opening a pipe could wait without end.
    if (!(await stat(file)).isFile()) return false;
    await using handle = await open(file);
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(headBytes) });
    // Without the zeros of UTF-16, as some editors write it.
    return saysTask.test(buffer.toString("latin1", 0, bytesRead).replaceAll("\0", ""));
  } catch (cause) {
    if (cause instanceof Error && "code" in cause) return true;
    throw cause;
  }
}

/** The error for a document whose kind is none that there is; `shown` is the file in messages. */
export function unknownKind(
  document: ConfigDocument,
  shown: string,
  root: ReadonlyMap<string, unknown>,
): McpvalsError {
  const [key, kind] = memberNamed(root, "kind");
  const location = document.locate({ path: [key], at: "value" });
  const frame = location === undefined ? undefined : document.source?.frame(location);
  const hint = suggestion(String(kind), ["Task", "Eval", "Agent"], "kinds");
  const message = `${shown} is of a kind that is not known`;
  return new McpvalsError("config/invalid-value", message, {
    diagnostics: [
      {
        code: "config/invalid-value",
        message,
        hint: `${hint} A config has no kind.`,
        ...(location === undefined ? {} : { location }),
        ...(frame === undefined ? {} : { frame }),
      },
    ],
  });
}

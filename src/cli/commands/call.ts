import type { Command } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { didYouMean, listNames, suggestion } from "../../base/did-you-mean.ts";
import {
  asList,
  asObject,
  hasMoreLevels,
  isJsonObject,
  type Json,
  type JsonObject,
} from "../../base/json.ts";
import { maxFileDepth } from "../../base/limits.ts";
import { readJsonText } from "../../base/read-json.ts";
import { objectIn, typesOf } from "../../check/schema-walk.ts";
import { visibleLines } from "../../base/visible-text.ts";
import { invalidOption, loadTarget, type Target } from "../../formats/target.ts";
import { followTokens } from "../../run/provisioning.ts";
import { useServer } from "../../run/use-server.ts";
import {
  addTargetFlags,
  duration,
  type SetExitCode,
  type TargetFlags,
  targetHelp,
  targetOf,
  wordsOf,
} from "../flags.ts";
import {
  abortOnInterrupt,
  askAtTerminal,
  workingFolder,
  writeError,
  writeJson,
  writeNotes,
  writeOut,
  hideSecrets,
} from "../terminal.ts";
import { showWaiting } from "../waiting.ts";

interface CallFlags extends TargetFlags {
  readonly json?: boolean;
  readonly timeout?: number;
}

interface Call {
  readonly tool: string;
  readonly args: JsonObject;
  /** Arguments written as `name=value`, whose types the tool's input schema says. */
  readonly texts: Readonly<Record<string, string>>;
}

/** `mcpvals call`: calls one tool. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument("<tool>", "name of the tool")
    .argument(
      "[arguments...]",
      `its arguments, as a JSON object or as name=value; then the target: ${targetHelp}`,
    );
  addTargetFlags(command)
    .option(
      "--timeout <duration>",
      "time limit of the call, such as 5s (default: the file's timeout, or 30s)",
      duration,
    )
    .option("--json", "print the whole result as JSON, or the error that the server answered with")
    .action(async (_tool: unknown, _rest: unknown, flags: CallFlags) => {
      const { call, others } = readCall(wordsOf(command));
      setExitCode(await execute(call, targetOf(command, others), flags));
    });
}

/** Takes the call from the words before `--`. Throws `usage/invalid-option`. */
function readCall([tool, ...words]: readonly string[]): {
  readonly call: Call;
  readonly others: readonly string[];
} {
  if (tool === undefined)
    throw invalidOption("no tool is named", "Write it before --: npx mcpvals call TOOL -- node server.js");
  const texts: Record<string, string> = {};
  const others: string[] = [];
  let args: JsonObject = {};
  for (const word of words) {
    const [, name, text = ""] = /^([\w.-]+)=(.*)$/s.exec(word) ?? [];
    if (/^\s*[{["]/.test(word)) args = { ...args, ...jsonArguments(word) };
    else if (name === undefined) others.push(word);
    else if (Object.hasOwn(texts, name))
      throw invalidOption(
        `${JSON.stringify(name)} is given twice`,
        "Write several values as a list: 'name=[1, 2]'",
      );
    else texts[name] = text;
  }
  return { call: { tool, args, texts }, others };
}

function jsonArguments(text: string): JsonObject {
  const { value, reason } = readJsonText(text);
  if (reason !== undefined)
    throw invalidOption(
      `the arguments are not JSON: ${reason}`,
      `Quote them for the shell: '{"name": "value"}'`,
    );
  if (isJsonObject(value)) return value;
  throw invalidOption(
    "the arguments are not a JSON object",
    `Write them as '{"name": "value"}', or as name=value.`,
  );
}

async function execute(call: Call, target: Target, { json = false, timeout }: CallFlags): Promise<number> {
  using interrupt = abortOnInterrupt();
  const { signal } = interrupt;
  const loaded = await loadTarget(target, { cwd: workingFolder(), signal, ask: askAtTerminal() });
  const { add: hide } = hideSecrets(loaded.secrets);
  writeNotes(loaded);
  const { servers, limits } = loaded.eval;
  using _ = await followTokens(Object.values(servers), hide);
  const [[name, spec] = [], second] = Object.entries(servers);
  if (name === undefined || spec === undefined) throw new Error("a target without a server was loaded");
  if (second !== undefined)
    throw invalidOption(
      `there are several servers: ${listNames(Object.keys(servers))}`,
      "Choose one with --server NAME.",
    );
  const options = { signal, timeoutMs: timeout ?? limits.callMs };
  using waiting = showWaiting(`calling ${call.tool} of ${name}`);
  const outcome = await useServer(name, spec, { signal }, async (session) => {
    const [definition] = await session.toolsNamed(call.tool, options);
    if (definition === undefined) throw unknownTool(call.tool, name, session.tools);
    const args = { ...typedArguments(call.texts, definition.inputSchema), ...call.args };
    if (hasMoreLevels(args, maxFileDepth))
      throw invalidOption(
        `the arguments are nested more than ${maxFileDepth} levels deep`,
        "Write them with fewer arrays and objects inside one another.",
      );
    for (const note of strayArguments(args, definition)) writeError(`note: ${note}`);
    return session.callTool(call.tool, args, options);
  });
  waiting[Symbol.dispose]();
  signal.throwIfAborted();
  switch (outcome.kind) {
    case "timeout":
      throw new McpvalsError("server/call-timeout", outcome.message, {
        hint: "Give it more time with --timeout.",
      });
    case "error": {
      const { message, code, data, unusable } = outcome;
      if (json) writeJson({ error: { code, message, data } }, 2);
      const what =
        unusable === true
          ? "gave no answer that can be used"
          : `answered with the error ${code ?? ""}`.trimEnd();
      writeError(`server "${name}" ${what}: ${message}`);
      return 1;
    }
    case "result": {
      const { result } = outcome;
      if (json) writeJson(result, 2);
      else writeOut(resultText(result));
      if (result["isError"] !== true) return 0;
      writeError(`the tool ${JSON.stringify(call.tool)} says that it failed (isError: true)`);
      return 1;
    }
  }
}

function unknownTool(
  tool: string,
  server: string,
  known: readonly { readonly name: string }[],
): McpvalsError {
  const names = known.map(({ name }) => name);
  return invalidOption(
    `server "${server}" has no tool ${JSON.stringify(tool)}`,
    suggestion(tool, names, "tools"),
  );
}

/** Texts as the values that the schema wants; where it allows a text, or does not say, the text stays unless it is JSON. */
function typedArguments(texts: Readonly<Record<string, string>>, schema: Json): JsonObject {
  const properties = objectIn(schema, "properties");
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => {
      const types = Object.hasOwn(properties, name) ? typesOf(properties[name] ?? {}) : [];
      const { value } = readJsonText(text);
      return [name, types.includes("string") || value === undefined ? text : value];
    }),
  );
}

/** Arguments that the tool does not have and that look like one that it has. */
function strayArguments(
  args: JsonObject,
  { name, inputSchema }: { readonly name: string; readonly inputSchema: Json },
): string[] {
  const known = Object.keys(objectIn(inputSchema, "properties"));
  return Object.keys(args).flatMap((argument) => {
    const near = known.includes(argument) ? undefined : didYouMean(argument, known);
    const what = `${JSON.stringify(argument)} is not a parameter of ${JSON.stringify(name)}`;
    return near === undefined ? [] : [`${what}; did you mean "${near}"?`];
  });
}

/** What a result says, as text; content of other kinds in one line each. */
function resultText({ content, structuredContent }: JsonObject): string {
  const parts = asList(content).map((part) => partText(asObject(part)));
  const shown =
    parts.length === 0 && structuredContent !== undefined
      ? [JSON.stringify(structuredContent, undefined, 2)]
      : parts;
  return visibleLines(shown.join("\n")).join("\n");
}

function partText(part: Readonly<Record<string, unknown>>): string {
  const { type, text, data, mimeType, uri, resource } = part;
  if (type === "text") return String(text);
  if (type === "resource") {
    const { uri: address, text: content, mimeType: kind, blob } = asObject(resource);
    return typeof content === "string" ? content : `[resource ${String(address)}${sizeText(kind, blob)}]`;
  }
  if (type === "resource_link") return `[resource ${String(uri)}]`;
  return `[${String(type)}${sizeText(mimeType, data)}]`;
}

/** The type and size of something in Base64. */
function sizeText(mimeType: unknown, data: unknown): string {
  const bytes = typeof data === "string" ? `, ${Math.floor((data.length * 3) / 4)} bytes` : "";
  return `${typeof mimeType === "string" ? ` ${mimeType}` : ""}${bytes}`;
}

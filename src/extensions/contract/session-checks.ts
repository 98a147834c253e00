import formats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { jsonDifference } from "../../core/checks/json-difference.ts";
import { didYouMean } from "../../core/formats/did-you-mean.ts";
import {
  type ExtensionManifest,
  type ExtensionPhase,
  extensionPhases,
} from "../../core/formats/extension/manifest.ts";
import { readInitializeResult, readOperationResult } from "../../core/formats/extension/protocol.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { fail, type Finding, pass, skip, warn } from "./contract-report.ts";
import type { Conversation, Reply } from "./conversation.ts";

/** An operation that no extension has. */
export const unknownOperation = "mcpvals-there-is-no-such-operation";
/** Most operations whose arguments are tried. */
const mostTried = 8;
/** Longer than the 64 KiB that some readers of lines hold. */
const longText = "long ".repeat(20_000);
const unknownMethodCode = -32_601;
const invalidParamsCode = -32_602;

export interface SessionTools {
  readonly manifest: ExtensionManifest;
  /** Absolute folder for the context. */
  readonly folder: string;
}

/** Something that is asked of a program that has answered `initialize`. */
export interface SessionCheck {
  readonly name: string;
  /** Whether it needs an answer to `execute`. */
  readonly executes: boolean;
  readonly try: (talk: Conversation, tools: SessionTools) => Promise<Finding>;
}

/** In the order in which they are tried, on one process as long as it keeps answering. */
export const sessionChecks: readonly SessionCheck[] = [
  { name: "unknown operation", executes: true, try: tryUnknownOperation },
  { name: "unknown method", executes: false, try: tryUnknownMethod },
  { name: "arguments", executes: true, try: tryArguments },
  { name: "requests in a row", executes: true, try: tryRow },
  { name: "long line", executes: true, try: tryLongLine },
];

async function tryUnknownOperation(talk: Conversation, { folder }: SessionTools): Promise<Finding> {
  return refusal(await talk.request("execute", callOf(unknownOperation, folder)), "an unknown operation");
}

async function tryUnknownMethod(talk: Conversation): Promise<Finding> {
  const reply = await talk.request("mcpvals/thereIsNoSuchMethod", {});
  if (reply.kind === "none") return fail(`an unknown method: ${reply.message}`);
  if (reply.kind === "result") return fail("an unknown method was answered with a result");
  return reply.code === unknownMethodCode
    ? pass(`refused with ${unknownMethodCode}`)
    : fail(`an unknown method was answered with the error ${reply.text}, not with ${unknownMethodCode}`);
}

async function tryArguments(talk: Conversation, { manifest, folder }: SessionTools): Promise<Finding> {
  const names = needArguments(manifest);
  if (names.length === 0) return skip("no operation has required arguments");
  for (const name of names) {
    const phase = manifest.operations[name]?.phases[0];
    const reply = await talk.request("execute", callOf(name, folder, phase === undefined ? {} : { phase }));
    const finding = argumentsRefusal(reply, `${name} without its required arguments`);
    if (finding.outcome !== "pass") return finding;
  }
  return pass(`refused where they are missing: ${names.join(", ")}`);
}

/** Operations that take no call without arguments, so that calling them so does nothing. */
export function needArguments({ operations }: ExtensionManifest): readonly string[] {
  const needy = Object.entries(operations).filter(([, { params }]) => {
    try {
      return !takesNothing(params);
    } catch {
      return false; // a schema that cannot be compiled is told of by the check of the manifest
    }
  });
  return needy.slice(0, mostTried).map(([name]) => name);
}

async function tryRow(talk: Conversation, { folder }: SessionTools): Promise<Finding> {
  const params = callOf(unknownOperation, folder);
  const replies = await Promise.all([talk.request("execute", params), talk.request("execute", params)]);
  const broken = replies.find((reply) => reply.kind === "none");
  return broken === undefined
    ? pass("two requests without a wait between them were both answered")
    : fail(`two requests without a wait between them: ${broken.message}`);
}

async function tryLongLine(talk: Conversation, { folder }: SessionTools): Promise<Finding> {
  const reply = await talk.request("execute", {
    ...callOf(unknownOperation, folder),
    args: { text: longText },
  });
  if (reply.kind !== "none") return pass(`a line of ${longText.length} bytes was read`);
  return warn(`a line of ${longText.length} bytes, more than 64 KiB: ${reply.message}`);
}

interface CallOptions {
  readonly phase?: ExtensionPhase;
}

function callOf(operation: string, folder: string, { phase = "setup" }: CallOptions = {}): JsonObject {
  return { operation, args: {}, context: contextOf(folder, phase) };
}

/** What an operation is told besides its arguments. */
export function contextOf(folder: string, phase: ExtensionPhase): JsonObject {
  return { workdir: folder, workspace: folder, phase, env: {}, timeout: "30s" };
}

/** A call that is wrong in itself is no finding about anybody. */
function argumentsRefusal(reply: Reply, what: string): Finding {
  if (reply.kind === "error") return pass("refused with an error");
  const finding = refusal(reply, what);
  return finding.outcome === "pass"
    ? warn(`${what} should be answered with the error ${invalidParamsCode}: success: false is a finding`)
    : finding;
}

function refusal(reply: Reply, what: string): Finding {
  switch (reply.kind) {
    case "none":
      return fail(`${what}: ${reply.message}`);
    case "error":
      return fail(`${what} was answered with the error ${reply.text}, not with success: false`);
    case "result": {
      const read = readOperationResult(reply.result);
      if (!read.ok) return fail(`${what} was answered with what is no result: ${read.message}`);
      return read.result.success
        ? fail(`${what} was answered with success: true`)
        : pass("refused with success: false");
    }
  }
}

/** Whether what `initialize` gave is a manifest whose schemas can be used. */
export function checkManifest(result: Json): Finding {
  const read = readInitializeResult(result);
  if (!read.ok) return fail(read.message);
  const operations = isJsonObject(result) ? result["operations"] : undefined;
  const problems = Object.entries(isJsonObject(operations) ? operations : {}).flatMap(([name, declared]) =>
    schemaProblem(isJsonObject(declared) ? declared["params"] : undefined).map((text) => `${name}: ${text}`),
  );
  const count = Object.keys(read.manifest.operations).length;
  return problems.length === 0
    ? pass(`${count} operation${count === 1 ? "" : "s"}, each with a usable schema`)
    : fail(problems.join("; "));
}

function schemaProblem(params: Json | undefined): readonly string[] {
  if (!isJsonObject(params)) return ["params is no JSON Schema"];
  if (params["type"] !== "object") return ['its params do not say type: "object"'];
  try {
    compile(params);
    return [];
  } catch (error) {
    return [`its params cannot be compiled: ${error instanceof Error ? error.message : String(error)}`];
  }
}

/** Whether a schema takes arguments without any member. Throws for a schema that cannot be compiled. */
function takesNothing(params: JsonObject): boolean {
  return compile(params)({}) === true;
}

function compile({ $schema: _dialect, ...schema }: JsonObject): (value: Json) => unknown {
  const ajv = new Ajv2020({ strict: false, logger: false, ownProperties: true });
  formats.default(ajv);
  return ajv.compile(schema);
}

/** Whether what the program says of itself is what its `extension.yaml` says. */
export function compareManifests(said: ExtensionManifest, written: ExtensionManifest | undefined): Finding {
  if (written === undefined) return skip("there is no extension.yaml beside the program");
  const problems = [
    ...(["name", "version"] as const).flatMap((key) =>
      said[key] === written[key] ? [] : [`${key} is ${said[key]}, but ${written[key]} in extension.yaml`],
    ),
    ...Object.keys(said.operations)
      .filter((name) => !Object.hasOwn(written.operations, name))
      .map((name) => `operation ${name} is not in extension.yaml${meant(name, written)}`),
    ...Object.entries(written.operations).flatMap(([name, { params, phases }]) => {
      const own = Object.hasOwn(said.operations, name) ? said.operations[name] : undefined;
      if (own === undefined) return [`operation ${name} is in extension.yaml only`];
      const differs = jsonDifference(own.params, params, "equal");
      return [
        ...(differs === undefined ? [] : [differs.tell(`params of ${name}${differs.pointer}`)]),
        ...extensionPhases
          .filter((phase) => own.phases.includes(phase) !== phases.includes(phase))
          .map(
            (phase) =>
              `${name} has the phase ${phase} only ${own.phases.includes(phase) ? "in the program" : "in extension.yaml"}`,
          ),
      ];
    }),
  ];
  return problems.length === 0 ? pass("as extension.yaml says") : fail(problems.join("; "));
}

function meant(name: string, { operations }: ExtensionManifest): string {
  const near = didYouMean(name, Object.keys(operations));
  return near === undefined ? "" : ` (${near} is)`;
}

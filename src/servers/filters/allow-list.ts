import type { RequestId } from "@modelcontextprotocol/client";
import picomatch from "picomatch";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import {
  errorAnswer,
  errorCodes,
  answeredId,
  calledTool,
  requestOf,
  resultOf,
  type WireMessage,
  withResult,
} from "../messages/json-rpc.ts";
import type { Filter, FilterContext } from "./filter-chain.ts";

/**
 * Lists only tools that match one of the names or globs in the server's answer to `tools/list` (`tools.hidden`), and answers
 * calls of others in place of the server (`tool.refused`).
 */
export function allowListFilter(
  patterns: readonly string[],
  { server, client, emit }: FilterContext,
): Filter {
  const matchers = patterns.map((pattern) => ({ pattern, fits: nameMatcher([pattern]) }));
  const isAllowed = (name: string): boolean => matchers.some(({ fits }) => fits(name));
  /** Patterns that no tool has matched, over all pages of the listing. */
  const unmatched = new Set(patterns);
  const who = { server, ...(client === undefined ? {} : { client }) };
  const listings = new Set<RequestId>();

  const show = (wire: WireMessage): WireMessage => {
    const result = resultOf(wire.message);
    const tools = result?.["tools"];
    if (result === undefined || !Array.isArray(tools)) return wire;
    const hidden: string[] = [];
    const shown = (tools as readonly Json[]).filter((tool) => {
      const name = nameOf(tool);
      const isShown = name === undefined || isAllowed(name);
      if (!isShown) hidden.push(name);
      return isShown;
    });
    for (const tool of tools as readonly Json[]) {
      const name = nameOf(tool);
      for (const { pattern, fits } of matchers)
        if (name !== undefined && fits(name)) unmatched.delete(pattern);
    }
    const idle = result["nextCursor"] === undefined ? [...unmatched] : [];
    if (hidden.length === 0 && idle.length === 0) return wire;
    emit({ type: "tools.hidden", ...who, tools: hidden, ...(idle.length === 0 ? {} : { unmatched: idle }) });
    if (hidden.length === 0) return wire;
    return withResult(wire.message, { ...result, tools: shown });
  };

  return {
    fromClient(wire) {
      const request = requestOf(wire.message);
      if (request?.method === "tools/list") listings.add(request.id);
      const tool = calledTool(wire.message);
      if (tool === undefined || isAllowed(tool)) return { kind: "pass", wire };
      // A call that asks for no answer gets none.
      if (request === undefined) return { kind: "drop" };
      emit({ type: "tool.refused", ...who, tool, id: request.id });
      return { kind: "answer", wire: refusal(request.id, tool) };
    },
    fromServer(wire) {
      const id = answeredId(wire.message);
      const isListing = id !== undefined && listings.delete(id);
      return { kind: "pass", wire: isListing ? show(wire) : wire };
    },
  };
}

function refusal(id: RequestId, tool: string): WireMessage {
  const message = `Unknown tool: ${tool} (it is not among the tools that are allowed here)`;
  return errorAnswer(id, errorCodes.invalidParams, message);
}

function nameOf(tool: Json): string | undefined {
  const name = isJsonObject(tool) ? tool["name"] : undefined;
  return typeof name === "string" ? name : undefined;
}

/**
 * Creates a test for names of tools: a name matches when it is one of the patterns, or matches one as a glob. A slash and a
 * leading `!` are ordinary characters.
 */
export function nameMatcher(patterns: readonly string[]): (name: string) => boolean {
  const tests = patterns.map(matcher);
  return (name) => tests.some((test) => test(name));
}

function matcher(pattern: string): (name: string) => boolean {
  if (pattern === "") return (name) => name === "";
  // `bash` lets `*` match slashes; `windows: false` makes the result the same on every system.
  const isMatch = picomatch(pattern, { bash: true, dot: true, nonegate: true, windows: false });
  return (name) => name === pattern || isMatch(name);
}

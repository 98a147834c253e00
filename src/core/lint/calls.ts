import { resultText } from "../checks/tool-result.ts";
import { resultOf } from "./check-view.ts";
import type { RuleTable } from "./rule.ts";

/** Rules about calls of tools with generated arguments. */
export const callRules = {
  "call/no-answer": {
    severity: "error",
    title: "A call got no answer",
    why: "An agent waits until its own time limit, and then does not know whether the tool did its work.",
    fix: "Answer every call; one that fails with isError: true and a text that says why.",
    bad: `→ tools/call search { "query": "" }   (nothing)`,
    good: `→ tools/call search { "query": "" }   ← { "isError": true, "content": [{ "type": "text", "text": "query is empty" }] }`,
    source: "JSON-RPC 2.0, 5",
    *find({ probes }) {
      for (const { call, exchanges } of probes) {
        const exchange = exchanges.find(({ request }) => request.message["method"] === "tools/call");
        if (call === undefined || exchange === undefined || exchange.answer !== undefined) continue;
        const message = `no answer to ${JSON.stringify(call.args)} (${call.why})`;
        yield { place: { tool: call.tool }, message, evidence: [exchange.request.seq] };
      }
    },
  },
  "call/error-without-flag": {
    severity: "warning",
    title: "A result says that the call failed, without isError",
    why: "Agents and clients take it for a success.",
    fix: "Set isError: true in results of calls that failed.",
    bad: `{ "content": [{ "type": "text", "text": "Error: file not found" }] }`,
    good: `{ "isError": true, "content": [{ "type": "text", "text": "file not found" }] }`,
    source: "MCP 2025-11-25, tools: error handling",
    *find({ probes }) {
      for (const { call, exchanges } of probes) {
        for (const exchange of exchanges) {
          const result = resultOf(exchange);
          if (call === undefined || result === undefined || result["isError"] === true) continue;
          const text = resultText(result);
          if (!/^\s*(?:error|exception|traceback)\b/i.test(text)) continue;
          const message = `the text begins with ${JSON.stringify(text.trim().slice(0, 60))}, and isError is not true`;
          const evidence = [exchange.request.seq, exchange.answer?.seq ?? exchange.request.seq];
          yield { place: { tool: call.tool }, message, evidence };
        }
      }
    },
  },
  "call/not-called": {
    severity: "info",
    title: "A tool was not called",
    why: "Nothing is known about how it answers.",
    fix: "Annotate tools that change nothing with readOnlyHint: true, or check with --calls all.",
    bad: `{ name: "list_files", annotations: {} }`,
    good: `{ name: "list_files", annotations: { readOnlyHint: true } }`,
    source: "MCP 2025-11-25, tools: annotations",
    *find({ spec }) {
      for (const { tool, reason } of spec.notCalled ?? [])
        yield { place: { tool }, message: reason, evidence: [] };
    },
  },
} as const satisfies RuleTable;

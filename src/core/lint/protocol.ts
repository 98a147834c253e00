import { errorOf, resultOf } from "./check-view.ts";
import type { RuleTable } from "./rule.ts";

/** Rules about the protocol: handshake, requests, shutdown. */
export const protocolRules = {
  "protocol/unknown-method": {
    severity: "error",
    title: "An unknown method is not answered with an error",
    why: "Clients try optional methods, and take anything but the error -32601 as an answer.",
    fix: "Answer requests of unknown methods with the JSON-RPC error -32601 (method not found).",
    bad: `→ { "id": 1, "method": "no/such" }   ← { "id": 1, "result": {} }`,
    good: `→ { "id": 1, "method": "no/such" }   ← { "id": 1, "error": { "code": -32601, "message": "Method not found" } }`,
    source: "JSON-RPC 2.0, 5.1",
    *find({ probes }) {
      for (const { probe, exchanges } of probes) {
        const [exchange] = exchanges;
        if (probe !== "unknown-method" || exchange === undefined) continue;
        const { request, answer } = exchange;
        const code = errorOf(exchange)?.["code"];
        if (code === -32601) continue;
        const got =
          answer === undefined
            ? "no answer"
            : resultOf(exchange) === undefined
              ? `the error ${JSON.stringify(code)}`
              : "a result";
        const message = `the unknown method ${JSON.stringify(request.message["method"])} got ${got}`;
        yield { message, evidence: [request.seq, ...(answer === undefined ? [] : [answer.seq])] };
      }
    },
  },
} as const satisfies RuleTable;

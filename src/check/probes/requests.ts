import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { Prober } from "../prober.ts";
import { isAnswer, legacyVersion, type RawClient } from "../raw-client.ts";

type Probe = (client: RawClient) => Promise<unknown>;

/** Lists that a server may or may not declare. */
const lists = ["tools/list", "resources/list", "prompts/list"];
/** Requests that are sent before the first of them is answered. */
const concurrent = 10;

/** What is tried, in this order; after each a ping shows whether the server goes on. */
const probes: Readonly<Record<string, Probe>> = {
  ping: (client) => client.request("ping"),
  lists: async (client) => {
    for (const method of lists) await client.request(method);
  },
  "unknown-method": (client) => client.request("mcpvals/no-such-method"),
  "unknown-tool": (client) => client.request("tools/call", { name: "mcpvals-no-such-tool", arguments: {} }),
  "missing-params": (client) => client.request("tools/call", {}),
  "unknown-notification": (client) => client.notify("notifications/mcpvals-no-such-notification"),
  cancellation: (client) =>
    client.notify("notifications/cancelled", { requestId: 987_654, reason: "no such request" }),
  concurrent: async (client) => {
    const started = await Promise.all(Array.from({ length: concurrent }, () => client.start("ping")));
    await Promise.all(started.map(({ answer }) => answer));
  },
  "malformed-json": (client) => client.send(malformed('{"jsonrpc":"2.0","id":1,"method":')),
  "not-json-rpc": (client) => client.send(malformed('{"hello":"world"}')),
};

/** What is tried of capabilities that have no list, where the server declares them. */
const capabilityProbes: Readonly<Record<string, Probe>> = {
  logging: (client) => client.request("logging/setLevel", { level: "error" }),
  completions: (client) =>
    client.request("completion/complete", {
      ref: { type: "ref/prompt", name: "mcpvals-no-such-prompt" },
      argument: { name: "any", value: "" },
    }),
};

/** What is tried besides at an address, each with a client of its own. */
const addressProbes: Readonly<Record<string, Probe>> = {
  "unknown-session": (client) => {
    const headers = { "mcp-session-id": "mcpvals-no-such-session", "mcp-protocol-version": legacyVersion };
    return client.request("tools/list", undefined, { headers });
  },
  "foreign-origin": (client) =>
    client.connect(legacyVersion, { headers: { origin: "http://mcpvals.invalid" } }),
};

/** Sends requests that every server has to withstand; after a loss the server is started again. */
export async function probeRequests(prober: Prober): Promise<void> {
  let session = await prober.probe("handshake", () => prober.connect());
  for (const [name, probe] of Object.entries({ ...probes, ...capabilityProbes })) {
    if (session === undefined) return;
    const { client, host, capabilities } = session;
    if (Object.hasOwn(capabilityProbes, name) && capabilities[name] === undefined) continue;
    const survived = await prober.probe(name, async () => {
      await probe(client);
      return name === "ping" || isAnswer(await client.request("ping"));
    });
    if (survived === true && !client.isLost) continue;
    // A server that ends by itself would do so in all of them.
    if (name === "ping" && client.isLost) return;
    await prober.stop(host);
    session = await prober.probe("handshake", () => prober.connect());
  }
  if (session?.host.transport !== "shttp") return;
  const { host } = session;
  for (const [name, probe] of Object.entries(addressProbes))
    await prober.probe(name, () => probe(prober.open(host)));
}

/** A text that is no message; it is recorded as the notification of what it stands for. */
function malformed(text: string): { readonly message: JSONRPCMessage; readonly text: string } {
  return { message: { jsonrpc: "2.0", method: "mcpvals/malformed" }, text };
}

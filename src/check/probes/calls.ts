import type { Prober } from "../prober.ts";

/** Makes the planned calls, one after the other. After a loss the server is started again; a tool that hung is not called again. */
export async function probeCalls(prober: Prober): Promise<void> {
  const hung = new Set<string>();
  let session = await prober.probe("handshake", () => prober.connect());
  for (const [index, { tool, args }] of (prober.check.calls ?? []).entries()) {
    if (hung.has(tool)) continue;
    if (session === undefined || session.host.lost.aborted)
      session = await prober.probe("handshake", () => prober.connect());
    if (session === undefined) return;
    const { client } = session;
    const call = (): Promise<unknown> => client.request("tools/call", { name: tool, arguments: args });
    const answer = await prober.probe("call", call, { call: index });
    const { kind } = (answer ?? {}) as { readonly kind?: string };
    if (kind === "none") hung.add(tool);
  }
}

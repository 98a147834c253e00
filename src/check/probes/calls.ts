import type { PlannedCall } from "../../core/formats/model.ts";
import type { Prober } from "../prober.ts";
import type { Answer } from "../raw-client.ts";

/** How long a server that has not answered a call may take for a ping, in milliseconds. */
const pingMs = 2000;

/**
 * Makes the planned calls, one after the other, in one session. After a loss the server is started again. A tool that did not answer
 * in time is not called again; a server that then does not answer a ping is started again too.
 */
export async function probeCalls(prober: Prober): Promise<void> {
  const hung = new Set<string>();
  const open = (): ReturnType<Prober["connect"]> | Promise<undefined> =>
    prober.probe("list", async () => {
      const session = await prober.connect();
      await prober.list(session.client, "tools/list");
      return session;
    }) as ReturnType<Prober["connect"]>;
  let session = await open();
  for (const [index, call] of (prober.check.calls ?? []).entries()) {
    if (hung.has(call.tool)) continue;
    if (session === undefined) return;
    const { client, host } = session;
    const outcome = await prober.probe("call", () => makeCall(client, call), { call: index });
    if (outcome?.answer.kind === "none") hung.add(call.tool);
    const isGone = host.lost.aborted || outcome?.answer.kind === "lost" || outcome?.answersPing === false;
    if (!isGone) continue;
    await host.stop();
    session = await open();
  }
}

async function makeCall(
  client: Awaited<ReturnType<Prober["connect"]>>["client"],
  { tool, args }: PlannedCall,
): Promise<{ readonly answer: Answer; readonly answersPing: boolean }> {
  const { id, answer: coming } = await client.start("tools/call", { name: tool, arguments: args });
  const answer = await coming;
  if (answer.kind !== "none") return { answer, answersPing: true };
  await client.notify("notifications/cancelled", { requestId: id, reason: "no answer in time" });
  const ping = await client.request("ping", undefined, pingMs);
  return { answer, answersPing: ping.kind === "result" || ping.kind === "error" };
}

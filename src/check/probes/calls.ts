import type { PlannedCall } from "../../core/formats/model.ts";
import type { Prober, Session } from "../prober.ts";
import { type Answer, isAnswer, type RawClient } from "../raw-client.ts";

/** How long a server that has not answered a call may take for a ping, in milliseconds. */
const pingMs = 2000;
/** Calls that are made before the first of them is answered. */
const concurrent = 5;

/**
 * Makes the planned calls, one after the other, in one session; then one of them again, cancelled at once, and several times at the
 * same time. After a loss the server is started again. A tool that did not answer in time is not called again; a server that then
 * does not answer a ping is started again too.
 */
export async function probeCalls(prober: Prober): Promise<void> {
  const hung = new Set<string>();
  let answered: PlannedCall | undefined;
  const open = (): Promise<Session | undefined> =>
    prober.probe("list", async () => {
      const session = await prober.connect();
      await prober.list(session.client, "tools/list");
      return session;
    });
  let session = await open();
  for (const [index, call] of (prober.check.calls ?? []).entries()) {
    if (hung.has(call.tool)) continue;
    if (session === undefined) return;
    const { client, host } = session;
    const outcome = await prober.probe("call", () => makeCall(client, call), { call: index });
    if (outcome?.answer.kind === "none") hung.add(call.tool);
    if (outcome?.answer.kind === "result" && call.expects === "result") answered ??= call;
    if (!client.isLost && outcome?.answersPing !== false) continue;
    await prober.stop(host);
    session = await open();
  }
  if (session === undefined || answered === undefined) return;
  const { client } = session;
  const { tool: name, args } = answered;
  await prober.probe("cancelled-call", async () => {
    const { id } = await client.start("tools/call", { name, arguments: args });
    await client.notify("notifications/cancelled", { requestId: id, reason: "not needed any more" });
    await client.request("ping");
  });
  if (client.isLost) return;
  await prober.probe("concurrent-calls", async () => {
    const call = { name, arguments: args };
    const started = await Promise.all(
      Array.from({ length: concurrent }, () => client.start("tools/call", call)),
    );
    await Promise.all(started.map(({ answer }) => answer));
  });
}

async function makeCall(
  client: RawClient,
  { tool, args }: PlannedCall,
): Promise<{ readonly answer: Answer; readonly answersPing: boolean }> {
  const { id, answer: coming } = await client.start("tools/call", { name: tool, arguments: args });
  const answer = await coming;
  if (answer.kind !== "none") return { answer, answersPing: true };
  await client.notify("notifications/cancelled", { requestId: id, reason: "no answer in time" });
  const ping = await client.request("ping", undefined, { timeoutMs: pingMs });
  return { answer, answersPing: isAnswer(ping) };
}

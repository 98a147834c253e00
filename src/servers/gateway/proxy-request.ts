import { requestOf } from "../filters/messages.ts";
import { type BodyMessages, wiresOf } from "../http/body-messages.ts";
import type { WireMessage } from "../wire.ts";
import type { AgentLink } from "./agent-link.ts";
import { answerError } from "./answers.ts";
import type { HttpExchange } from "./door.ts";
import { requestProblem } from "./request-problem.ts";

/** What is left of an agent's request, after the filters. */
export interface Outgoing {
  readonly body: Uint8Array;
  /** What filters answered in the server's place. */
  readonly answers: readonly WireMessage[];
  /** Requests that are never answered. */
  readonly dropped: readonly (string | number)[];
}

/**
 * Passes a body's messages through the filters. Gives what goes on to the server: the agent's own bytes, unless a filter
 * has changed something. undefined: nothing does, and the agent has got what it will get.
 */
export async function passAgentBody(
  { request, response, body }: HttpExchange,
  messages: BodyMessages,
  link: AgentLink,
): Promise<Outgoing | undefined> {
  const before = wiresOf(messages);
  const problem = link.isFiltered ? requestProblem({ request, body }, messages) : undefined;
  if (problem !== undefined) {
    for (const wire of before) link.refuses(wire);
    answerError(response, 400, problem);
    return undefined;
  }
  const after: WireMessage[] = [];
  const answers: WireMessage[] = [];
  const dropped: (string | number)[] = [];
  let isCut = false;
  await Promise.all(
    before.map((wire) =>
      link.fromAgent(wire, (passage) => {
        if (passage.kind === "pass") after.push(passage.wire);
        else if (passage.kind === "answer") answers.push(passage.wire);
        else if (passage.kind === "disconnect") isCut = true;
        else dropped.push(...idsOf(wire));
      }),
    ),
  );
  if (isCut) link.cut();
  if (isCut || response.destroyed) return undefined;
  const isSame = after.length === before.length && after.every((wire, index) => wire === before[index]);
  if (isSame) return { body, answers, dropped };
  if (after.length > 0)
    return { body: Buffer.from(written(after, messages.kind === "batch")), answers, dropped };
  answerAlone({ response, link, answers, dropped, isBatch: messages.kind === "batch" });
  return undefined;
}

function idsOf({ message }: WireMessage): readonly (string | number)[] {
  const request = requestOf(message);
  return request === undefined ? [] : [request.id];
}

/** Messages as a body. */
export function written(wires: readonly WireMessage[], isBatch: boolean): string {
  const texts = wires.map(({ text }) => text);
  return isBatch ? `[${texts.join(",")}]` : texts.join("");
}

/** The server hears nothing: what filters answered is the answer; a request that was dropped stays open for ever. */
function answerAlone(from: {
  readonly response: HttpExchange["response"];
  readonly link: AgentLink;
  readonly answers: readonly WireMessage[];
  readonly dropped: readonly (string | number)[];
  readonly isBatch: boolean;
}): void {
  const { response, link, answers } = from;
  if (answers.length > 0) {
    for (const answer of answers) link.delivers(answer);
    response.writeHead(200, { "content-type": "application/json" }).end(written(answers, from.isBatch));
  } else if (from.dropped.length === 0) response.writeHead(202).end();
}

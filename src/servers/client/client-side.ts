import type {
  Client,
  ClientCapabilities,
  CreateMessageResult,
  ElicitResult,
} from "@modelcontextprotocol/client";
import type { JsonObject } from "../../core/formats/model.ts";
import type { ClientSide } from "../session.ts";

/** What a client declares that servers may ask of it: what it answers, and nothing else. */
export function capabilitiesOf({ sampling, elicitation, roots }: ClientSide): ClientCapabilities {
  return {
    ...(sampling === undefined ? {} : { sampling: {} }),
    ...(elicitation === undefined ? {} : { elicitation: { form: {} } }),
    ...(roots === undefined ? {} : { roots: {} }),
  };
}

/**
 * Has a client answer what it declares; to be called before it connects. Before 2026-07-28 servers send requests of
 * their own; since then they answer a call with `input_required`, which the SDK's client fulfils with the same handlers.
 * What a handler throws becomes a JSON-RPC error, and ends the call that asked since 2026-07-28. Questions that lead
 * to an address (`mode: "url"`) are not declared, and the SDK refuses them with -32602, as the specification wants it.
 */
export function answerServer(
  client: Client,
  { sampling, elicitation, roots }: ClientSide,
  server: string,
): void {
  if (sampling !== undefined)
    client.setRequestHandler(
      "sampling/createMessage",
      async ({ params }, { mcpReq }) =>
        // The SDK's client checks what handlers give before it is sent.
        (await sampling(asJson(params), mcpReq.signal)) as unknown as CreateMessageResult,
    );
  if (elicitation !== undefined)
    client.setRequestHandler(
      "elicitation/create",
      async ({ params }) => elicitation(asJson(params), { server }) as unknown as ElicitResult,
    );
  if (roots !== undefined)
    client.setRequestHandler("roots/list", () => ({ roots: roots.map((root) => ({ ...root })) }));
}

function asJson(params: object): JsonObject {
  return params as JsonObject;
}

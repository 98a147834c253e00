import type { JsonObject, ServerSpec } from "../core/formats/model.ts";
import { asList, type Json } from "../core/formats/json.ts";
import { version } from "../core/version.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import type { CallOptions, ServerSession } from "../servers/client/session.ts";
import { startServer } from "../servers/server-pool.ts";

/** What a server is and offers, as it sent it. */
export interface ServerListing {
  /** Its name in the file, or one made from its command or URL. */
  readonly server: string;
  /** The name and version that it gives itself. */
  readonly name: string;
  readonly version: string;
  readonly protocolVersion: string;
  readonly tools: readonly Json[];
  readonly resources: readonly Json[];
  readonly resourceTemplates: readonly Json[];
  readonly prompts: readonly Json[];
  /** Lists that it promises and does not give, with the reason. */
  readonly failures: readonly string[];
}

type Facts = Pick<ServerListing, "name" | "version" | "protocolVersion">;

/** Starts or reaches a server, uses it, and stops it. Throws as `startServer`, and what `use` throws. */
export async function useServer<T>(
  server: string,
  spec: ServerSpec,
  signal: AbortSignal,
  use: (session: ServerSession, facts: Facts) => Promise<T>,
): Promise<T> {
  await using validator = new SchemaValidator();
  let facts: Facts = { name: "", version: "", protocolVersion: "" };
  let events = 0;
  const session = await startServer(server, spec, {
    signal,
    version,
    validateSchema: validator.validate.bind(validator),
    emit(event) {
      if (event.type === "server.ready") facts = event;
      return (events += 1);
    },
  });
  try {
    return await use(session, facts);
  } finally {
    await session.stop();
  }
}

/** Everything that a server lists. Throws as `useServer`. */
export function listServer(
  server: string,
  spec: ServerSpec,
  { signal, timeoutMs }: CallOptions,
): Promise<ServerListing> {
  return useServer(server, spec, signal, async (session, facts) => {
    const failures: string[] = [];
    const list = async (kind: "resources" | "resourceTemplates" | "prompts"): Promise<readonly Json[]> => {
      const isOffered = session.abilities[kind === "prompts" ? "prompts" : "resources"];
      if (!isOffered) return [];
      const outcome = await session.list(kind, { signal, timeoutMs });
      if (outcome.kind === "result") return asList(outcome.result[kind]) as readonly Json[];
      // Templates are optional, and many servers with resources have none.
      const isOptional = kind === "resourceTemplates" && outcome.kind === "error" && outcome.code === -32601;
      if (!isOptional) failures.push(`${kind}: ${outcome.message}`);
      return [];
    };
    const { name, version: own, protocolVersion } = facts;
    return {
      server,
      name,
      version: own,
      protocolVersion,
      tools: session.tools as unknown as readonly JsonObject[],
      resources: await list("resources"),
      resourceTemplates: await list("resourceTemplates"),
      prompts: await list("prompts"),
      failures,
    };
  });
}

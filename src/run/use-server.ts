import type { ServerSpec } from "../model/server.ts";
import { readSurface, type Surface } from "../check/check-view.ts";
import type { EventBody, TraceEvent } from "../model/event.ts";
import { readTrace } from "../trace/trajectory.ts";
import { version } from "../base/version.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import type { CallOptions, ServerSession } from "../servers/client/session.ts";
import { startServer } from "../servers/server-pool.ts";
import { errorCodes } from "../model/error-codes.ts";

export interface ServerListing {
  /** Its name in the file, or a name made from its command or URL. */
  readonly server: string;
  readonly surface: Surface;
  /** Lists that it declares but does not give, with the reason. */
  readonly failures: readonly string[];
}

interface UseOptions {
  readonly signal: AbortSignal;
  readonly onEvent?: (event: EventBody) => void;
}

/** Starts or reaches a server, uses it, and stops it. Throws as `startServer`, and what `use` throws. */
export async function useServer<T>(
  server: string,
  spec: ServerSpec,
  { signal, onEvent }: UseOptions,
  use: (session: ServerSession) => Promise<T>,
): Promise<T> {
  await using validator = new SchemaValidator();
  let events = 0;
  const session = await startServer(server, spec, {
    signal,
    version,
    validateSchema: validator.validate.bind(validator),
    emit(event) {
      onEvent?.(event);
      return (events += 1);
    },
  });
  try {
    return await use(session);
  } finally {
    await session.stop();
  }
}

/** Everything that a server lists. Throws as `useServer`. */
export async function listServer(
  server: string,
  spec: ServerSpec,
  { signal, timeoutMs }: CallOptions,
): Promise<ServerListing> {
  const events: TraceEvent[] = [];
  const onEvent = (event: EventBody): void =>
    void events.push({ ...event, seq: events.length + 1, at: performance.now(), trial: "" });
  const failures = await useServer(server, spec, { signal, onEvent }, async (session) => {
    const failed: string[] = [];
    for (const kind of ["resources", "resourceTemplates", "prompts"] as const) {
      if (!session.abilities[kind === "prompts" ? "prompts" : "resources"]) continue;
      const outcome = await session.list(kind, { signal, timeoutMs });
      // Templates are optional, and many servers with resources have none.
      const isOptional =
        kind === "resourceTemplates" &&
        outcome.kind === "error" &&
        outcome.code === errorCodes.methodNotFound;
      if (outcome.kind !== "result" && !isOptional) failed.push(`${kind}: ${outcome.message}`);
    }
    return failed;
  });
  return { server, surface: readSurface(readTrace(events).exchanges), failures };
}

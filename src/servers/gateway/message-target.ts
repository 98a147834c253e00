import { idAt } from "../hosts/message-parts.ts";
import type { WireMessage } from "../wire.ts";
import type { EventStream } from "./event-stream.ts";
import type { Post } from "./post.ts";

export interface Targets {
  /** Open requests by id. */
  readonly posts: ReadonlyMap<string | number, Post>;
  /** The responses that take events, oldest first. */
  readonly open: readonly Post[];
  /** The stream for what belongs to no request. */
  readonly stream: EventStream | undefined;
}

/**
 * Finds where a request or notification of the server's goes out: on the response of the request that it names, else on the
 * response of the latest request, else on the stream; what tells of changes goes to the stream first. undefined: nowhere
 * yet.
 */
export function belongsTo(
  wire: WireMessage,
  { posts, open, stream }: Targets,
): Post | EventStream | undefined {
  const named = namedBy(wire, { posts, open });
  if (named?.takesEvents === true) return named;
  const latest = open.at(-1);
  return isAboutRequests(wire) ? (latest ?? stream) : (stream ?? latest);
}

/** What a server asks, logs or reports it does in the course of a request. */
function isAboutRequests({ message }: WireMessage): boolean {
  if (!("method" in message)) return false;
  return "id" in message || ["notifications/message", "notifications/progress"].includes(message.method);
}

/** A subscription is named by its request's id, progress by a token that the request has brought. */
function namedBy(wire: WireMessage, { posts, open }: Pick<Targets, "posts" | "open">): Post | undefined {
  const subscription = idAt(wire.message, ["params", "_meta", "io.modelcontextprotocol/subscriptionId"]);
  if (subscription !== undefined) return posts.get(subscription);
  const token = idAt(wire.message, ["params", "progressToken"]);
  return token !== undefined ? open.find(({ tokens }) => tokens.has(token)) : undefined;
}

/** A request to the model, whatever its wire format. */
export interface ModelRequest {
  /** Names of the tools on offer. */
  readonly tools: readonly OfferedTool[];
  /** Results of tools since the user spoke last. */
  readonly results: number;
  readonly model: string;
}

export interface OfferedTool {
  readonly name: string;
  /** Codex puts the tools of a server into a namespace. */
  readonly namespace?: string;
}

/** What the model answers. */
export type ModelReply =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "call"; readonly tool: OfferedTool; readonly args: object };

/** One provider's wire format: streams of server-sent events, and plain JSON for who does not stream. */
export interface Wire {
  readonly handles: (path: string) => boolean;
  read(body: Body): ModelRequest;
  write(reply: ModelReply, request: ModelRequest, streams: boolean): WireAnswer;
}

export type WireAnswer =
  | { readonly events: readonly { readonly event?: string; readonly data: unknown }[]; readonly done?: true }
  | { readonly json: unknown };

/** A JSON body that nobody has looked at. */
export type Body = { readonly [key: string]: unknown };

/** Tokens that every answer claims. */
export const tokens = { input: 100, cached: 10, output: 20 } as const;

export function objects(value: unknown): readonly Body[] {
  return Array.isArray(value)
    ? value.filter((item): item is Body => typeof item === "object" && item !== null)
    : [];
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Items after the last one that is the user's. */
export function sinceUser(items: readonly Body[], isUser: (item: Body) => boolean): readonly Body[] {
  return items.slice(items.findLastIndex(isUser) + 1);
}

import type { Json } from "../formats/model.ts";

/** What the agent asked of servers, in the order of the requests. Times are ISO 8601. */
export interface CallHistory {
  readonly toolCalls: readonly {
    readonly serverName: string;
    readonly toolName: string;
    readonly arguments: Json;
    /** The `CallToolResult`, or `{error: message}` when there was none. */
    readonly result: Json;
    readonly timestamp: string;
  }[];
  readonly resourceReads: readonly {
    readonly serverName: string;
    readonly uri: string;
    readonly result: Json;
    readonly timestamp: string;
  }[];
  readonly promptGets: readonly {
    readonly serverName: string;
    readonly promptName: string;
    readonly arguments: Json;
    readonly result: Json;
    readonly timestamp: string;
  }[];
}

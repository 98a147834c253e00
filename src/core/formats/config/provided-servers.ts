import type { ServerLifetime } from "../model.ts";
import type { BuildServer } from "./build-server.ts";
import type { VariantTable } from "./config-servers.ts";
import type { ServerTable } from "./server-tables.ts";

/** What an eval gives to its tasks, and what their own servers are laid over. */
export interface ProvidedServers {
  readonly base: ServerTable;
  /** Absent when the eval has none. */
  readonly variants?: readonly VariantTable[];
  readonly build: BuildServer;
  /** Lifetime of servers that set none. */
  readonly lifetime?: ServerLifetime;
}

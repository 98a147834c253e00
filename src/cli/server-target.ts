import type { ServerSpec } from "../core/formats/model.ts";

/** Where a server is reached, or what is started for it. */
export function targetOf(server: ServerSpec): string {
  if (server.transport === "mock") return "written answers";
  return server.transport === "stdio" ? [server.command, ...server.args].join(" ") : server.url;
}

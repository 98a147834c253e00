import type { ServerSpec, Task, Variant } from "../model.ts";
import { type BuildServer, buildServers } from "./build-server.ts";
import type { VariantTable } from "./config-servers.ts";

export interface BuildVariantOptions {
  readonly tasks: readonly Task[];
  /** Names of the servers that a task names itself; tasks that are not here have all of them. */
  readonly serversOf: ReadonlyMap<string, readonly string[]>;
  readonly build: BuildServer;
}

/** A variant with the servers of each task: those that the task names and the variant has. */
export function buildVariant(
  { name, servers }: VariantTable,
  { tasks, serversOf, build }: BuildVariantOptions,
): Variant {
  const built = Object.entries(buildServers(servers, build));
  const tables = tasks.map((task): readonly [string, Readonly<Record<string, ServerSpec>>] => {
    const named = serversOf.get(task.name);
    return [task.name, Object.fromEntries(built.filter(([server]) => named?.includes(server) !== false))];
  });
  return { name, servers: Object.fromEntries(tables) };
}

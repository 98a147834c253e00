import type { Eval, ServerSpec, Task } from "../formats/model.ts";

/** The servers that a trial starts, by name, in the order in which they are declared. */
export type ServerTable = Readonly<Record<string, ServerSpec>>;

/** The servers that a trial of a task starts in a variant. Throws when the plan names what the eval lacks, a bug of ours. */
export function effectiveServers(spec: Eval, task: Task, variant: string | undefined): ServerTable {
  if (variant !== undefined) return variantServers(spec, task, variant);
  const own = spec.taskServers?.[task.name];
  return Object.fromEntries(
    task.servers.map((name) => {
      const server = own?.[name] ?? spec.servers[name];
      if (server === undefined) throw new Error(`the plan names a server that the eval lacks: ${name}`);
      return [name, server];
    }),
  );
}

function variantServers({ variants = [] }: Eval, task: Task, name: string): ServerTable {
  const servers = variants.find((variant) => variant.name === name)?.servers[task.name];
  if (servers === undefined) throw new Error(`the plan names a variant that the eval lacks: ${name}`);
  return servers;
}

/** What the lifetime of a server is unless it says. */
export function lifetimeOf(server: ServerSpec): NonNullable<ServerSpec["lifetime"]> {
  const hasAddress = server.transport === "shttp" || server.transport === "sse";
  return server.lifetime ?? (hasAddress ? "per_run" : "per_trial");
}

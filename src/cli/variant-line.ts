import { effectiveServers, lifetimeOf, type ServerTable } from "../core/plan/effective-servers.ts";
import type { Eval, ServerSpec, Task, Variant } from "../core/formats/model.ts";
import { targetOf } from "./server-target.ts";

/** A variant, and what is other in it than without it, in any of the tasks. */
export function variantLine({ name, servers }: Variant, spec: Eval): string {
  const all = Object.values(servers).flatMap((table) => Object.keys(table));
  const changes = spec.tasks.flatMap((task) => differences(withoutVariants(spec, task), servers[task.name]));
  const what = [...new Set(changes)];
  if (what.length > 0) return `${name}  ${what.join("; ")}`;
  return `${name}  ${all.length === 0 ? "no servers" : "the servers as they are"}`;
}

/** A task may name servers that only variants have. */
function withoutVariants(spec: Eval, task: Task): ServerTable {
  const own = spec.taskServers?.[task.name] ?? {};
  const known = task.servers.filter((name) => Object.hasOwn(own, name) || Object.hasOwn(spec.servers, name));
  return effectiveServers(spec, { ...task, servers: known }, undefined);
}

function differences(base: ServerTable, changed: ServerTable = {}): string[] {
  const names = [...new Set([...Object.keys(base), ...Object.keys(changed)])];
  return names.flatMap((name) => {
    const [before, after] = [base[name], changed[name]];
    if (after === undefined) return [`without ${name}`];
    if (before === undefined) return [`${name}: ${targetOf(after)}`];
    const what = difference(before, after);
    return what.length === 0 ? [] : [`${name}: ${what.join(", ")}`];
  });
}

/** What a server is, where that is other; and else what is set otherwise. */
function difference(before: ServerSpec, after: ServerSpec): string[] {
  const target = targetOf(after);
  const [old, set] = [settings(before), settings(after)];
  const isOtherKind = before.transport !== after.transport;
  const keys = [...new Set([...old.keys(), ...set.keys()])].filter(
    (key) => !isOtherKind || !ofOneKind.includes(key),
  );
  const changed = keys.filter((key) => old.get(key) !== set.get(key));
  return [
    ...(isOtherKind || targetOf(before) !== target ? [target] : []),
    ...changed.map((key) => describe(key, after)),
  ];
}

/** What only some kinds of servers have. */
const ofOneKind = ["env", "cwd", "headers", "auth", "mock"];

/** What a target does not show. */
function settings(server: ServerSpec): ReadonlyMap<string, string> {
  const shown = ["transport", "command", "args", "url"];
  const entries = Object.entries(server).filter(([key]) => !shown.includes(key));
  return new Map(entries.map(([key, value]) => [key, JSON.stringify(value)]));
}

function describe(key: string, server: ServerSpec): string {
  return key === "lifetime" ? lifetimeOf(server) : key.replace(/Ms$/, "");
}

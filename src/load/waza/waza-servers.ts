import { resolve } from "node:path";
import type { Diagnostic } from "../../core/errors/error.ts";
import { assertedServers } from "../../core/formats/assertion-kinds.ts";
import { buildServer } from "../../core/formats/config/server.ts";
import { layServers, type ServerTable } from "../../core/formats/config/server-tables.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import type { ServerSpec, Task, Variant } from "../../core/formats/model.ts";
import { placeProblem, type Problem } from "../../core/formats/problem.ts";
import type { PlacedAssertions } from "../../core/formats/waza/read-graders.ts";
import type { WazaVariant } from "../../core/formats/waza/waza-eval.ts";
import { completeStdio } from "../environment.ts";
import type { ConfigDocument } from "../read/document.ts";
import type { ReadWazaTask, WazaContext } from "./waza-tasks.ts";

type Servers = Readonly<Record<string, ServerSpec>>;

/** The servers of an eval and of its tasks, and the tasks with the names of theirs. */
export interface WazaServers {
  /** Those of the eval itself. */
  readonly base: Servers;
  readonly tasks: readonly Task[];
  /** All servers of the tasks that lay some over the eval's. */
  readonly taskServers: Readonly<Record<string, Servers>>;
  readonly variants?: readonly Variant[];
  /** All of them. */
  readonly all: readonly ServerSpec[];
}

/**
 * Lays the servers of tasks over those of the eval, and those of variants over both. What is wrong with them goes to the
 * problems.
 */
export function wazaServers(read: readonly ReadWazaTask[], context: WazaContext): WazaServers {
  const { file } = context;
  const placed = read.map((task) => placeTask(task, context));
  checkAsserted(placed, context);
  const base = build(file.servers, context);
  const variants = file.variants?.map(({ name }): Variant => ({
    name,
    servers: Object.fromEntries(
      placed.map(({ id, variants: tables }) => [id, build(tables.get(name) ?? file.servers, context)]),
    ),
  }));
  const taskServers = Object.fromEntries(
    placed
      .filter((each) => each.read.overlay !== undefined)
      .map((each) => [each.id, build(each.own, context)]),
  );
  const all = [
    base,
    ...Object.values(taskServers),
    ...(variants ?? []).flatMap((each) => Object.values(each.servers)),
  ];
  return {
    base,
    tasks: placed.map((each): Task => ({ ...each.read.task, servers: Object.keys(each.own.servers) })),
    taskServers,
    ...(variants === undefined ? {} : { variants }),
    all: all.flatMap((servers) => Object.values(servers)),
  };
}

/** A task and its servers. */
interface PlacedTask {
  readonly id: string;
  readonly read: ReadWazaTask;
  readonly own: ServerTable;
  /** Its servers in each variant. */
  readonly variants: ReadonlyMap<string, ServerTable>;
}

function placeTask(read: ReadWazaTask, context: WazaContext): PlacedTask {
  const { file, problems } = context;
  const { overlay, templates, document } = read;
  const variants = file.variants ?? [];
  if (overlay === undefined) {
    const tables = variants.map(
      (variant) => [variant.name, layVariant(file.servers, variant).table] as const,
    );
    return { id: read.task.name, read, own: file.servers, variants: new Map(tables) };
  }
  const { problems: found, ...own } = layServers(file.servers, overlay, { templates });
  // Those of the overlay by itself are told with the task.
  const fresh = found.filter((problem) => !overlay.problems.includes(problem));
  problems.add(placeAll(fresh, document), document.source);
  const tables = variants.map(
    (variant) => [variant.name, layChecked(own, variant, { read, context })] as const,
  );
  return { id: read.task.name, read, own, variants: new Map(tables) };
}

interface LaidVariant {
  readonly table: ServerTable;
  readonly problems: readonly Problem[];
}

function layVariant(servers: ServerTable, { overlay }: WazaVariant): LaidVariant {
  if (overlay === undefined) return { table: servers, problems: [] };
  const { problems, ...table } = layServers(servers, overlay);
  return { table, problems };
}

interface TaskInContext {
  readonly read: ReadWazaTask;
  readonly context: WazaContext;
}

/** Lays a variant over the servers of a task; what is wrong only with the two together is a problem of the variant. */
function layChecked(own: ServerTable, variant: WazaVariant, { read, context }: TaskInContext): ServerTable {
  const { file, problems, document } = context;
  const alone = new Set(layVariant(file.servers, variant).problems.map(keyOf));
  const { table, problems: found } = layVariant(own, variant);
  const together = found.filter(
    // A task may have taken away what the variant takes away too.
    (problem) => problem.code !== "config/unknown-reference" && !alone.has(keyOf(problem)),
  );
  const told = together.map((problem): Problem => ({
    ...problem,
    message: `with the servers of the task ${JSON.stringify(read.task.name)}: ${problem.message}`,
  }));
  problems.add(placeAll(told, document), document.source);
  return table;
}

function keyOf({ message, path }: Problem): string {
  return JSON.stringify([message, path]);
}

const startupTimeoutMs = 30_000;
/** `per_benchmark`: servers start once for the whole eval. */
const usualLifetime = "per_run";

/** Folders of servers start from the eval's, in overlays too. */
function build({ servers }: ServerTable, { file, dir, surroundings }: WazaContext): Servers {
  const { environment, overrides } = surroundings;
  const built = Object.entries(servers).map(([name, server]) => {
    const spec = buildServer(name, server, {
      startupTimeoutMs,
      lifetime: file.lifetime ?? usualLifetime,
      resolvePath: (path) => resolve(dir, path),
      completeStdio: (stdio) => completeStdio(stdio, { dir, environment, overrides }),
    });
    return [name, spec] as const;
  });
  return Object.fromEntries(built);
}

/** Servers that graders name must be there in some set, else nothing that they say of them could be seen. */
function checkAsserted(placed: readonly PlacedTask[], { file, document, problems }: WazaContext): void {
  const everywhere = new Set(placed.flatMap((each) => namesOf(each)));
  problems.add(unknownServers(file.assertions, [...everywhere], document), document.source);
  for (const each of placed) {
    const { assertions, document: own } = each.read;
    problems.add(unknownServers(assertions, namesOf(each), own), own.source);
  }
}

function namesOf({ own, variants }: PlacedTask): readonly string[] {
  return [own, ...variants.values()].flatMap(({ written }) => Object.keys(written));
}

function unknownServers(
  assertions: readonly PlacedAssertions[],
  servers: readonly string[],
  document: ConfigDocument,
): readonly Diagnostic[] {
  const found = assertions.flatMap(({ set, path }) =>
    assertedServers(set)
      .filter((server) => !servers.includes(server))
      .map((server): Problem => ({
        code: "config/unknown-reference",
        message: `no server is named ${JSON.stringify(server)}`,
        path,
        at: "value",
        text: server,
        hint: suggestion(server, servers, "servers"),
      })),
  );
  return placeAll(found, document);
}

function placeAll(problems: readonly Problem[], { locate }: ConfigDocument): readonly Diagnostic[] {
  return problems.map((problem) => placeProblem(problem, locate));
}

import type * as z from "zod";
import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, isJsonObject, type KeyPath, withoutUndefined } from "../json.ts";
import type { Json, SolutionAction } from "../model.ts";
import { type Problem, validate } from "../problem.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { mcpRequest } from "./step-forms.ts";
import {
  solutionCallSchema,
  solutionForeachSchema,
  solutionMcpSchema,
  solutionSaySchema,
} from "./solution-schemas.ts";

export interface ReadSolution {
  /** Those that are valid, in order. */
  readonly actions: readonly SolutionAction[];
  readonly problems: readonly Problem[];
}

export interface ReadSolutionOptions {
  /** Of the list. */
  readonly path: KeyPath;
  readonly servers: readonly string[];
  /** The whole document, for messages. */
  readonly document: Json;
}

const actionKinds = ["mcp", "say", "foreach"];

/** Reads the actions of a solution. */
export function readSolution(list: unknown, options: ReadSolutionOptions): ReadSolution {
  const items: readonly Json[] = Array.isArray(list) ? list : [];
  const read = items.map((item, index) => readAction(item, { ...options, path: [...options.path, index] }));
  return {
    actions: read.flatMap(({ actions }) => actions),
    problems: read.flatMap(({ problems }) => problems),
  };
}

function readAction(item: Json, options: ReadSolutionOptions): ReadSolution {
  const { path, servers } = options;
  const [key, ...others] = isJsonObject(item) ? Object.keys(item) : [];
  if (!isJsonObject(item) || key === undefined || others.length > 0) return refused(notOneKey(path));
  const place = { ...options, path: [...path, key] };
  const body = item[key];
  switch (key) {
    case "mcp":
      return readWith(body, place, { schema: solutionMcpSchema, build: mcpAction });
    case "say":
      return readWith(body, place, { schema: solutionSaySchema, build: (text) => ({ kind: "say", text }) });
    case "foreach":
      return readForeach(body, place);
    default: {
      const server = servers
        .filter((name) => key.startsWith(`${name}.`) && key.length > name.length + 1)
        .toSorted((a, b) => b.length - a.length)[0];
      if (server === undefined) return refused(unknownAction(key, options));
      const tool = key.slice(server.length + 1);
      return readWith(body, place, {
        schema: solutionCallSchema,
        build: (call) => mcpAction({ ...call, server, tool }),
      });
    }
  }
}

function readForeach(body: Json | undefined, place: ReadSolutionOptions): ReadSolution {
  const list = isJsonObject(body) ? body["steps"] : undefined;
  const inner = readSolution(list, { ...place, path: [...place.path, "steps"] });
  const outer = readWith(body, place, {
    schema: solutionForeachSchema,
    build: ({ var: variable, in: items }) => ({
      kind: "foreach",
      variable,
      in: items,
      actions: inner.actions,
    }),
  });
  return { actions: outer.actions, problems: [...outer.problems, ...inner.problems] };
}

interface ActionForm<S extends z.ZodType> {
  readonly schema: S;
  readonly build: (body: z.output<S>) => SolutionAction;
}

function readWith<S extends z.ZodType>(
  body: Json | undefined,
  { path, document }: ReadSolutionOptions,
  { schema, build }: ActionForm<S>,
): ReadSolution {
  const { data, issues } = validate(schema, body);
  if (data !== undefined) return { actions: [build(data)], problems: [] };
  const placed = issues.map((issue) => ({ ...issue, path: [...path, ...issue.path] }));
  return { actions: [], problems: problemsOfIssues(placed, document) };
}

type Asked = Parameters<typeof mcpRequest>[0] & {
  readonly server?: string | undefined;
  readonly id?: string | undefined;
  readonly outputs?: Readonly<Record<string, string>> | undefined;
};

function mcpAction(asked: Asked): SolutionAction {
  const { id, server, outputs } = asked;
  return withoutUndefined({ ...mcpRequest(asked), id, server, outputs });
}

function refused(problem: Problem): ReadSolution {
  return { actions: [], problems: [problem] };
}

function notOneKey(path: KeyPath): Problem {
  const message = `${formatKeyPath(path)} must be an action: an object with exactly one key, mcp, SERVER.TOOL, say or foreach`;
  return { code: "config/invalid-value", message, path, at: "value" };
}

function unknownAction(key: string, { path, servers }: ReadSolutionOptions): Problem {
  const place = { path: [...path, key], at: "key" } as const;
  const dot = key.indexOf(".");
  if (dot !== -1) {
    const first = key.slice(0, dot);
    const message = `no server is named ${JSON.stringify(first.slice(0, 80))}`;
    return {
      code: "config/unknown-reference",
      message,
      ...place,
      hint: suggestion(first, servers, "servers"),
    };
  }
  const message = `a solution cannot have the step ${JSON.stringify(key.slice(0, 80))}: it does only what an agent can do`;
  return { code: "config/unknown-key", message, ...place, hint: suggestion(key, actionKinds, "actions") };
}

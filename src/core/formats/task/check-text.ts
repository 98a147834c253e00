import { McpvalsError } from "../../errors/error.ts";
import { filtersHint } from "../../templates/expand.ts";
import { type Expression, parseTemplate, type TemplatePart } from "../../templates/parse-template.ts";
import { isTrustedRoot, taskRoots } from "../../templates/scope.ts";
import { selectJson } from "../../templates/select-json.ts";
import { didYouMean, suggestion } from "../did-you-mean.ts";
import { formatKeyPath, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { Locals } from "./template-names.ts";

/** Outputs that a step declares; `any` when only the step knows them. */
export type DeclaredOutputs = readonly string[] | "any";

/** What templates of a task may refer to, wherever they stand. */
export interface TaskNames {
  /** Variables that the task declares or requires. */
  readonly env: ReadonlySet<string>;
  /** Those of the command line and the shell. */
  readonly variables: Readonly<Record<string, string>>;
  /** Servers that have an address, as far as is known. */
  readonly urls: readonly string[];
  /** Servers of the task that are local programs. */
  readonly local: readonly string[];
  /** Ids of all steps. */
  readonly ids: readonly string[];
  /** Ids of actions of the solution. */
  readonly solutionIds: readonly string[];
  /** Whether a part of the file is no step, so that ids may be missing. */
  readonly idsUnsure: boolean;
}

/** Where a text stands, as far as that says what it may refer to. */
export interface TextScope {
  readonly names: TaskNames;
  readonly locals: Locals;
  /** Outputs of the steps that come before. */
  readonly earlier: ReadonlyMap<string, DeclaredOutputs>;
  /** Roots that do not exist here, with the reason. */
  readonly absent: Readonly<Record<string, string>>;
}

/** The parts of a text of a task, with the roots that exist where it stands. */
export function partsOf(text: string, locals: Locals): readonly TemplatePart[] {
  return parseTemplate(text, (root) => locals.has(root) || taskRoots.some((each) => each === root));
}

/** Whether an expression gives a value from outside. Roots that stand for no value themselves are text: `{agent}`. */
export function isFromOutside({ root, names }: Expression, locals: Locals): boolean {
  const local = locals.get(root);
  return !isTrustedRoot(root, local) && (local !== undefined || names.length > 0);
}

/** What a text without templates says; undefined when it has one. */
export function staticText(text: string, locals: Locals): string | undefined {
  const parts = partsOf(text, locals);
  const texts = parts.filter((part) => typeof part === "string");
  return texts.length === parts.length ? texts.join("") : undefined;
}

/** What is wrong with the templates of a text. */
export function checkText(text: string, path: KeyPath, scope: TextScope): Problem[] {
  return partsOf(text, scope.locals).flatMap((part) => {
    if (typeof part === "string") return [];
    const found = [nameProblem(part, scope), filterProblem(part)].filter((each) => each !== undefined);
    return found.map(({ what, hint, sameAs }): Problem => ({
      code: "config/unknown-reference",
      message: `${formatKeyPath(path)}: ${part.text} ${what}`,
      path,
      at: "value",
      text: part.text,
      ...(hint === undefined ? {} : { hint }),
      ...(sameAs === undefined ? {} : { sameAs }),
    }));
  });
}

/** Names that one that is not known is compared with. */
const mostCompared = 200;

interface Wrong {
  /** Goes on after the expression. */
  readonly what: string;
  readonly hint?: string;
  readonly sameAs?: string;
}

function nameProblem(expression: Expression, scope: TextScope): Wrong | undefined {
  const { root, names, variant } = expression;
  const local = scope.locals.get(root);
  if (variant !== undefined && (root !== "random" || local !== undefined)) {
    return { what: `cannot have a name after ":"`, hint: "Only {random.id:NAME} and {random.port:NAME} do." };
  }
  if (local !== undefined) return local(names) ? undefined : { what: "refers to nothing" };
  const reason = scope.absent[root];
  if (reason !== undefined && names.length > 0) return { what: reason };
  // A root alone in braces is text, except the one that has a value of its own.
  if (names.length === 0 && variant === undefined) return undefined;
  return rootProblem(expression, scope);
}

function rootProblem({ root, names }: Expression, scope: TextScope): Wrong | undefined {
  switch (root) {
    case "env":
      return envProblem(names, scope.names);
    case "steps":
      return stepProblem(names, scope);
    case "servers":
      return serverProblem(names, scope.names);
    case "random":
      return oneOf(names, ["id", "port"]);
    case "task":
      return oneOf(names, ["name"]);
    case "agent":
      return oneOf(names, ["output"]);
    default:
      return { what: "refers to nothing", hint: "{workspace} is a path, and has no names." };
  }
}

function oneOf(names: readonly string[], known: readonly string[]): Wrong | undefined {
  const [name = "", ...rest] = names;
  if (known.includes(name) && rest.length === 0) return undefined;
  return { what: "refers to nothing", hint: suggestion(names.join("."), known, "names") };
}

function envProblem([name = "", ...rest]: readonly string[], names: TaskNames): Wrong | undefined {
  const { env, variables } = names;
  if (rest.length > 0) return { what: "refers to nothing", hint: "A variable is a text, and has no names." };
  if (env.has(name) || Object.hasOwn(variables, name)) return undefined;
  const near = didYouMean(name, [...env, ...Object.keys(variables)].slice(0, mostCompared));
  const meant = near === undefined ? "" : `Did you mean "${near}"? `;
  const hint = `${meant}Declare it in spec.env, pass --env ${name}=VALUE, set it, or add {env: ${name}} to spec.requires.`;
  return { what: "is a variable that is not set", hint, sameAs: `env.${name}` };
}

function serverProblem(names: readonly string[], { urls, local }: TaskNames): Wrong | undefined {
  const [name = "", key, ...rest] = names;
  if (local.includes(name)) return { what: "has no address: that server is a local program" };
  if (!urls.includes(name)) return { what: "names no server", hint: suggestion(name, urls, "servers") };
  const fits = key === "url" && rest.length === 0;
  return fits ? undefined : { what: "refers to nothing", hint: "Of a server there is {servers.NAME.url}." };
}

function stepProblem(names: readonly string[], { names: known, earlier }: TextScope): Wrong | undefined {
  const [id = "", key, name, ...rest] = names;
  const declared = earlier.get(id);
  if (declared === undefined) return missingStep(id, known);
  if (key !== "outputs") return { what: "refers to nothing", hint: "Write {steps.ID.outputs.NAME}." };
  if (declared === "any" || name === undefined) return undefined;
  if (!declared.includes(name)) {
    return { what: `names no output of the step ${id}`, hint: suggestion(name, declared, "outputs") };
  }
  return rest.length === 0
    ? undefined
    : { what: "refers to nothing", hint: "An output is a text; read JSON with {… | json $.path}." };
}

function missingStep(id: string, { ids, solutionIds, idsUnsure }: TaskNames): Wrong | undefined {
  if (ids.includes(id)) return { what: `names the step ${id}, which has not run by then` };
  if (solutionIds.includes(id)) {
    return { what: `names an action of the solution, which only the agent "oracle" plays` };
  }
  return idsUnsure
    ? undefined
    : { what: "names no step", hint: suggestion(id, ids.slice(0, mostCompared), "step ids") };
}

function filterProblem({ filter }: Expression): Wrong | undefined {
  if (filter === undefined || filter.kind === "sh" || filter.kind === "raw") return undefined;
  if (filter.kind === "unknown") {
    return { what: `has no known filter: ${JSON.stringify(filter.text)}`, hint: filtersHint };
  }
  try {
    selectJson(null, filter.path);
    return undefined;
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { hint } = error.details;
    return { what: `has no JSON path: ${error.message}`, ...(hint === undefined ? {} : { hint }) };
  }
}

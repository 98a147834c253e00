import { expandJsonExpectations, expandTextExpectation } from "../core/checks/expectations.ts";
import type { Json } from "../core/formats/model.ts";
import {
  type JsonExpectation,
  kindOf,
  type Step,
  type StepType,
  type TextExpectation,
} from "../core/formats/step.ts";
import { type Expander, loopItems, refuseEmptySearch } from "../core/templates/expand.ts";
import {
  type FindPlace,
  inBody,
  inFilePath,
  inProgramName,
  inProgramText,
  inRubric,
  inUrl,
  inVariable,
} from "../core/templates/places.ts";
import { isShell, scriptProgram } from "../core/templates/shell.ts";

/** Expands one value of a step; `key` is its own key. */
type Rule = (value: never, expander: Expander, step: Step, key: string) => unknown;

const at =
  (place: FindPlace): Rule =>
  (text: string, { placed }) =>
    placed(text, place);
const json: Rule = (value: Json, expander) => expander.json(value);
const wanted: Rule = (text: string, expander) => expander.wanted(text);
const unchanged: Rule = (value) => value;
const variable: Rule = (text: string, { placed }, _, name) => placed(text, inVariable(name));
const textExpectation: Rule = (value: TextExpectation, expander) => expandTextExpectation(value, expander);

/** The values that are not plain text, by their path in the model; `*` is every member. */
const rules: { readonly [T in StepType]?: Readonly<Record<string, Rule>> } = {
  command: {
    shell: at(inProgramName),
    workdir: at(inFilePath),
    "env.*": variable,
    "expect.stdout": textExpectation,
    "expect.stderr": textExpectation,
  },
  script: { "source.file": at(inProgramName), "env.*": variable },
  http: {
    url: at(inUrl),
    "body.json": json,
    "body.text": (text: string, { placed }, step) =>
      placed(text, inBody(text, step.type === "http" ? step.headers : {})),
    "expect.status": unchanged,
    "expect.headers.*": textExpectation,
    "expect.body": textExpectation,
  },
  file: {
    path: at(inFilePath),
    "action.content": (value: string | TextExpectation, expander) =>
      typeof value === "string" ? expander.text(value) : expandTextExpectation(value, expander),
  },
  llm: { contains: wanted, exact: wanted, rubric: at(inRubric) },
  mcp: {
    "request.args": json,
    "expect.result": json,
    "expect.text": textExpectation,
    "expect.json": (value: readonly JsonExpectation[], expander) => expandJsonExpectations(value, expander),
    "expect.schema": json,
    "expect.content": textExpectation,
  },
  extension: { extension: unchanged, operation: unchanged, args: json },
  foreach: {
    variable: unchanged,
    in: (value: Json, expander) =>
      typeof value === "string" ? loopItems(expander.json(value), value) : expander.json(value),
  },
};

/** Replaces the templates in a step's own texts, but not in `id`, `name`, `if`, `outputs` and the steps inside it. */
export function expandStep<S extends Step>(step: S, expander: Expander): S {
  const expand = (value: unknown, path: string, pattern: string, key: string): unknown => {
    const rule = rules[step.type]?.[path] ?? rules[step.type]?.[pattern];
    if (rule !== undefined) return rule(value as never, expander, step, key);
    if (typeof value === "string") return expander.text(value);
    if (Array.isArray(value)) return value.map((item) => expand(item, "", "", key));
    if (typeof value !== "object" || value === null) return value;
    return mapMembers(value, (member, name) => expand(member, `${path}.${name}`, `${path}.*`, name));
  };
  const own = Object.keys(kindOf(step.type).model);
  const shell = shellTexts(step, expander);
  const expanded = mapMembers(step, (value, key) =>
    own.includes(key) && !(key in shell) ? expand(value, key, "", key) : value,
  );
  const { variables = {}, ...texts } = shell;
  const env = "env" in expanded ? { env: { ...(expanded["env"] as object), ...variables } } : {};
  const trusted = step.type === "foreach" ? { trusted: expander.trusts(step.in) } : {};
  return { ...expanded, ...texts, ...env, ...trusted } as S;
}

function mapMembers(object: object, map: (value: unknown, key: string) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value, key)]));
}

/**
 * The text of a shell in a step, in which values from outside become variables. Throws `task/unfit-value` for an empty value
 * from outside in a variable or argument of a program that may search for it.
 */
function shellTexts(
  step: Step,
  expander: Expander,
): {
  readonly run?: string;
  readonly source?: object;
  readonly variables?: Readonly<Record<string, string>>;
} {
  if (step.type === "command") {
    const { text: run, variables } = expander.shell(step.run);
    refuseEmpty(step.run, Object.values(step.env), expander);
    return { run, variables };
  }
  if (step.type !== "script" || "file" in step.source) return {};
  const { inline } = step.source;
  const program = scriptProgram(inline);
  // Only in the text of a shell can values from outside be variables.
  const { text, variables } =
    program === undefined || isShell(program)
      ? expander.shell(inline)
      : { text: expander.placed(inline, inProgramText(program)), variables: {} };
  refuseEmpty(inline, [...step.args, ...Object.values(step.env)], expander);
  return { source: { inline: text }, variables };
}

function refuseEmpty(program: string, given: readonly string[], expander: Expander): void {
  for (const template of given)
    if (!expander.trusts(template)) refuseEmptySearch(program, template, expander.text(template));
}

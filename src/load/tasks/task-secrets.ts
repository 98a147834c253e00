import type { ServerSpec, Task } from "../../core/formats/model.ts";
import { type Step, walkSteps } from "../../core/formats/step.ts";
import { credentialsIn } from "../secrets/secrets.ts";
import { type EnvironmentVariables, variableNamed } from "../environment.ts";

/**
 * Variables of a task that may hold secrets: those that its text names, its own, and those that it inherits. What a
 * template makes only when a trial runs is left out.
 */
export function taskVariables(
  text: string,
  task: Task,
  environment: EnvironmentVariables,
): EnvironmentVariables {
  const { env = {}, inheritEnv = [] } = task.portable ?? {};
  const inherited = inheritEnv === true ? environment : pick(inheritEnv, environment);
  const own = Object.entries(env).filter(([, value]) => !template.test(value));
  return { ...inherited, ...pick(namesIn(text), environment), ...Object.fromEntries(own) };
}

/** What a task's steps have of their own that may be secret, as far as it is known: variables, headers and addresses. */
export function stepVariables(
  { portable, verify }: Task,
  variables: EnvironmentVariables,
): readonly EnvironmentVariables[] {
  const { setup = [], cleanup = [] } = portable ?? {};
  return [...walkSteps([...setup, ...verify, ...cleanup])]
    .flatMap((step) => variablesOf(step))
    .flatMap(([name, text]) => credentialsIn(withKnown(text, variables)).map((value) => ({ [name]: value })));
}

function variablesOf(step: Step): (readonly [name: string, value: string])[] {
  switch (step.type) {
    case "command":
    case "script":
      return Object.entries(step.env);
    case "http":
      return [["url", step.url], ...Object.entries(step.headers)];
    default:
      return [];
  }
}

/**
 * A server as a trial will have it, as far as that can be known: with the variables that its texts name. Texts with other
 * templates are empty: nothing secret can be seen in them yet.
 */
export function withVariables(server: ServerSpec, variables: EnvironmentVariables): ServerSpec {
  const known = (text: string): string => withKnown(text, variables);
  if (server.transport === "mock") return server;
  if (server.transport !== "stdio") {
    const { kind: _, ...texts } = server.auth ?? {};
    const auth = server.auth === undefined ? {} : { auth: { ...server.auth, ...mapValues(texts, known) } };
    return { ...server, url: known(server.url), headers: mapValues(server.headers, known), ...auth };
  }
  return { ...server, args: server.args.map(known), env: mapValues(server.env, known) };
}

/** A text with the variables that it names; empty when other templates are in it: nothing secret can be seen in it yet. */
export function withKnown(text: string, variables: EnvironmentVariables): string {
  const expanded = text.replaceAll(reference, (written: string, name: string) => {
    return variableNamed(name, variables) ?? written;
  });
  return template.test(expanded) ? "" : expanded;
}

const reference = /\{env\.([A-Za-z_]\w*)[^{}]*\}/g;
const template = /\{(?:env|random|task|steps|agent|servers)\.|\{workspace\b/;

/** Names in `{env.NAME}` and `${NAME}`. */
function namesIn(text: string): string[] {
  const matches = text.matchAll(/\{\s*env\.([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)/g);
  return [...new Set([...matches].flatMap(([, env, plain]) => env ?? plain ?? []))];
}

function pick(names: readonly string[], environment: EnvironmentVariables): EnvironmentVariables {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = variableNamed(name, environment);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

function mapValues(
  values: Readonly<Record<string, string>>,
  change: (value: string) => string,
): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value)]));
}

import type { ServerSpec, Task } from "../../core/formats/model.ts";
import { type EnvironmentVariables, variableNamed } from "../environment.ts";

/** Variables of a task that may hold secrets: those that its text names, its own, and those that it inherits. */
export function taskVariables(
  text: string,
  task: Task,
  environment: EnvironmentVariables,
): EnvironmentVariables {
  const { env = {}, inheritEnv = [] } = task.portable ?? {};
  const inherited = inheritEnv === true ? environment : pick(inheritEnv, environment);
  return { ...inherited, ...pick(namesIn(text), environment), ...env };
}

/** A server as a trial will have it, as far as that can be known: with the variables that its strings name. */
export function withVariables(server: ServerSpec, variables: EnvironmentVariables): ServerSpec {
  const written = JSON.stringify(server);
  if (!written.includes("{env.")) return server;
  const expanded = written.replaceAll(reference, (template: string, name: string) => {
    const value = variableNamed(name, variables);
    return value === undefined ? template : JSON.stringify(value).slice(1, -1);
  });
  return JSON.parse(expanded) as ServerSpec;
}

const reference = /\{env\.([A-Za-z_]\w*)[^{}]*\}/g;

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

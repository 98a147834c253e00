import type { OAuthSpec, ServerProgramSpec, ServerSpec } from "../core/formats/model.ts";
import type { Expander } from "../core/templates/expand.ts";

type Variables = Readonly<Record<string, string>>;

/**
 * Replaces the templates in a server's spec, except in variables inherited from the shell. Throws `task/template`.
 */
export function expandServer(
  server: ServerSpec,
  { text }: Pick<Expander, "text">,
  shell: Variables,
): ServerSpec {
  if (server.transport === "mock") return server;
  const expandProgram = ({ command, args, env, cwd }: ServerProgramSpec): ServerProgramSpec => ({
    command: text(command),
    args: args.map(text),
    cwd: text(cwd),
    env: mapValues(env, (value, name) => (shell[name] === value ? value : text(value))),
  });
  if (server.transport !== "stdio") {
    const auth = server.auth === undefined ? {} : { auth: expandAuth(server.auth, text) };
    const program = server.program === undefined ? {} : { program: expandProgram(server.program) };
    return {
      ...server,
      url: text(server.url),
      ...program,
      headers: mapValues(server.headers, text),
      ...auth,
    };
  }
  const { sandbox } = server;
  return {
    ...server,
    ...(sandbox === undefined
      ? {}
      : { sandbox: { ...sandbox, read: sandbox.read.map(text), write: sandbox.write.map(text) } }),
    ...expandProgram(server),
  };
}

function expandAuth(auth: OAuthSpec, text: (template: string) => string): OAuthSpec {
  const { kind: _, ...texts } = auth;
  return { ...auth, ...mapValues(texts, text) };
}

/** The command line and variables of a server's process. */
export function textsOf(server: ServerSpec): readonly string[] {
  if (server.transport === "mock") return [];
  const program = server.transport === "stdio" ? server : server.program;
  return program === undefined ? [] : [program.command, ...program.args, ...Object.values(program.env)];
}

function mapValues(record: Variables, change: (value: string, name: string) => string): Variables {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]));
}

/** Programs that run the program that is meant. */
const runners =
  /^(?:node|nodejs|npx|npm|pnpm|pnpx|yarn|bun|bunx|deno|tsx|ts-node|jiti|python[\d.]*|py|uv|uvx|pipx|poetry|ruby|php|java|docker|podman|sh|bash|cmd|env|sudo|time)$/;
/** Words after a runner that are no program either. */
const subcommands = /^(?:run|exec|x|dlx|tool|start|java)$/;
/** Files and folders that are named alike in every project. */
const commonName =
  /^(?:index|main|server|cli|app|bin|start|stdio|__main__|dist|build|out|lib|src|target|release|debug)$/i;

/**
 * A name for a server from its command line, which starts in the folder `cwd`: that of its package or file, without a scope,
 * version and ending, else that of the folder; `node packages/weather/dist/index.js` gives `weather`.
 */
export function nameOfCommand([command = "", ...args]: readonly string[], cwd: string): string {
  const program = programName(command);
  if (!runners.test(program)) return nameOfPath(command) ?? nameOfPath(cwd) ?? "server";
  const words = args.filter(
    (arg) => /^[^-][^\s;()"']*$/.test(arg) && !subcommands.test(arg) && !runners.test(programName(arg)),
  );
  // An image comes behind flags with values of their own.
  const isImage = /^(?:docker|podman)$/.test(program);
  const named = isImage ? words.find((word) => /^[\w.-]+\/[\w./-]+(?::[\w.-]+)?$/.test(word)) : words[0];
  return (named === undefined ? undefined : nameOfPath(named)) ?? nameOfPath(cwd) ?? program;
}

/**
 * A name for a server from its URL: its host, and what distinguishes it from others there: the port, and the words of the path that
 * not every server has. Other parts of a path may be a token.
 */
export function nameOfUrl(url: string): string {
  const { host, pathname } = new URL(url);
  const words = pathname
    .split("/")
    .filter((part) => /^[a-z-]{2,20}$/.test(part) && !/^(?:mcp|sse)$/.test(part));
  return [host, ...words].join("/");
}

function nameOfPath(path: string): string | undefined {
  const parts = path.split(/[/\\]/).filter((part) => part !== "" && part !== "." && part !== "..");
  const modules = parts.lastIndexOf("node_modules");
  if (modules !== -1 && parts[modules + 1] !== ".bin") {
    const [scope = "", name] = parts.slice(modules + 1);
    return plain(scope.startsWith("@") ? (name ?? scope) : scope);
  }
  return parts.map(plain).findLast((name) => name !== "" && !commonName.test(name));
}

/** Without version, tag and ending. */
function plain(part: string): string {
  return part
    .replace(/^@/, "")
    .replace(/(?<=.)[@:][^@:]*$/, "")
    .replace(/\.(?:[cm]?[jt]sx?|py|rb|php|jar|exe|sh)$/i, "");
}

function programName(path: string): string {
  return (path.split(/[/\\]/).at(-1) ?? path).replace(/\.(?:exe|cmd)$/i, "");
}

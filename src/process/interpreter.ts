import { win32 } from "node:path";

/** A program with the arguments that come before the script. */
export interface Interpreter {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * What the first line of a script names as its interpreter; undefined when it names none. As on Linux, everything after
 * the program is one argument. Windows has none of the usual folders: there the program's bare name is looked for on PATH.
 */
export function interpreterOf(
  script: string,
  platform: NodeJS.Platform = process.platform,
): Interpreter | undefined {
  const [, command, rest = ""] = /^#![ \t]*(\S+)[ \t]*(.*)/.exec(script) ?? [];
  if (command === undefined) return undefined;
  const argument = rest.trim();
  if (platform === "win32") return windowsInterpreter(command, argument);
  return { command, args: argument === "" ? [] : [argument] };
}

function windowsInterpreter(command: string, argument: string): Interpreter {
  const words = argument.split(/\s+/).filter((word) => word !== "");
  const name = win32.basename(command);
  if (name !== "env") return { command: name, args: words };
  const [first = name, ...args] = words[0] === "-S" ? words.slice(1) : words;
  return { command: win32.basename(first), args };
}

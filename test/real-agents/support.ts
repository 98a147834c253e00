import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "../support/cli.ts";

/** The arguments of the server whose tools the agents call. */
export const everything = [
  join(root, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
  "stdio",
];
export const server = { transport: "stdio", command: "node", args: everything };

/** Writes files into a folder, which is created with them. */
export function writeFiles(folder: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
}

/** Processes whose environment names a folder, with their command lines; without the watchdog of mcpvals, which ends just after it. */
export function processesOf(folder: string): readonly string[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    const read = (file: string): string => readFileSync(join("/proc", name, file), "latin1");
    try {
      if (!read("environ").includes(folder)) return [];
      const command = read("cmdline").replaceAll("\0", " ");
      if (command.includes("trap '' INT TERM HUP QUIT")) return [];
      return [`${command.slice(0, 300)} (${read("stat").slice(0, 60)})`];
    } catch {
      return [];
    }
  });
}
